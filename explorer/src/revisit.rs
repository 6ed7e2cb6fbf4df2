//! Revisits: a new write makes an earlier read read from it.
//!
//! The events between the two are removed, unless the write depends on them. They will be added
//! anew, so several graphs could lead to the same revisited one. Only one of them may: the one in
//! which every removed event, and the read, had been added in a *maximal* way. This is the idea of
//! TruSt (Kokologiannakis, Marmanis, Gladstein and Vafeiadis, POPL'22, doi 10.1145/3498711), and
//! the reason why the search needs no record of the graphs that it has visited.

use crate::clock::Clock;
use crate::event::{Event, EventId, Kind};
use crate::graph::Graph;
use crate::request::Request;

impl Graph {
    /// Returns the reads that `write`, the next event of `thread`, may revisit, with the events
    /// that each revisit keeps.
    ///
    /// TruSt, Algorithm 1, the loop of case `W` in `Visit`.
    pub(crate) fn revisits(&self, thread: usize, write: &Event) -> Vec<(EventId, Clock)> {
        let reads = self.accesses(write.location).reads.iter().copied();
        // The write cannot be read by its own causes: `po ∪ rf` is acyclic.
        let reads = reads.filter(|read| !write.causes.contains(*read));
        let reads = reads.filter(|read| self.is_released(*read, write.location, &write.causes));
        let reads = reads.map(|read| (read, self.kept(thread, write, read)));
        let mut reads = reads.collect::<Vec<_>>();
        reads.retain(|(read, keep)| self.is_maximal(*read, keep, &write.causes));
        reads
    }

    /// Returns the events that are kept if `write` revisits `read`: all that were added before the
    /// read, and all causes of the write.
    fn kept(&self, thread: usize, write: &Event, read: EventId) -> Clock {
        let mut keep = write.causes;
        keep.set(thread, self.events(thread).len());
        let stamp = self.event(read).stamp;
        for other in 0..self.threads() {
            // The stamps of a thread ascend.
            let earlier = self.events(other).partition_point(|it| it.stamp < stamp);
            keep.set(other, earlier.max(keep.of(other)));
        }
        keep.set(read.thread as usize, read.index as usize + 1);
        keep
    }

    /// Returns whether the read, and all events that the revisit removes, were added in a maximal
    /// way.
    fn is_maximal(&self, read: EventId, keep: &Clock, causes: &Clock) -> bool {
        if mutant!("any-revisit") {
            return true;
        }
        let stamp = self.event(read).stamp;
        let later = self.order().iter().rev();
        let mut later = later.take_while(|it| self.event(**it).stamp > stamp);
        let is_maximal = |event: EventId| self.is_added_maximally(event, causes);
        is_maximal(read)
            && later.all(|it| keep.contains(*it) || is_maximal(*it))
            && self.are_waits_maximal(stamp, keep, causes)
    }

    /// Returns whether the event reads from, or is, the newest write among the *previous* events:
    /// those that were added before it, and the causes of the revisiting write. A write must not
    /// be read by them, either. A choice must be the first alternative.
    ///
    /// TruSt, Algorithm 1, `IsMaximallyAdded`.
    fn is_added_maximally(&self, id: EventId, causes: &Clock) -> bool {
        let event = self.event(id);
        if event.awaited.is_some() {
            return mutant!("awaited-locks-are-maximal");
        }
        if event.is_deviation() {
            return mutant!("choices-are-maximal");
        }
        let is_previous =
            |other: EventId| causes.contains(other) || self.event(other).stamp <= event.stamp;
        let newest = match event.kind {
            Kind::Write => id,
            Kind::Read => event.reads_from,
            _ => return true,
        };
        if !is_previous(newest) {
            return false;
        }
        let accesses = self.accesses(event.location);
        let reads_it = |read: EventId| self.event(read).reads_from == id;
        let is_read = || (accesses.reads.iter()).any(|it| reads_it(*it) && is_previous(*it));
        if event.kind == Kind::Write && !mutant!("read-writes-are-maximal") && is_read() {
            return false;
        }
        let newer = &accesses.writes[accesses.position(newest)..];
        !newer.iter().any(|write| is_previous(*write))
    }

    /// Returns the graph in which the read reads from the write, and the write's name in it. The
    /// write has no position yet.
    ///
    /// If that makes a lock wait for another one, the waiting read is removed, too, and the write
    /// is [awaited](crate::awaited).
    pub(crate) fn revisited(
        &self,
        thread: usize,
        write: &Event,
        read: EventId,
        keep: &Clock,
    ) -> (Graph, EventId) {
        let mut event = *self.event(read);
        let (mut keep, mut write) = (*keep, *write);
        let waits = event.request.effect(write.value).blocks;
        let is_lock = write.exclusive
            && matches!(event.request, Request::ExchangeWhen(..))
            && event.request.is_like(write.request);
        write.awaited = (waits && is_lock).then(|| self.wait_of(read));
        if write.awaited.is_some() {
            keep.set(read.thread as usize, read.index as usize);
        }
        let mut graph = self.restricted(&keep);
        graph.end_waits(event.stamp);
        let id = graph.push(thread, write);
        if write.awaited.is_none() {
            Graph::read_from(&mut event, id, write.value);
            graph.derive(read.thread as usize, read.index as usize, &mut event);
            *graph.event_mut(read) = event;
        }
        (graph, id)
    }
}
