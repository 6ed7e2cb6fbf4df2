//! An execution graph: the events of every thread, what each read reads from (`rf`), and the order
//! of the writes of each location (`co`).
//!
//! The graph also keeps the order in which the search added its events.

use crate::MAX_THREADS;
use crate::clock::Clock;
use crate::coherence::Accesses;
use crate::event::{Event, EventId, Kind, Location, acquires, releases};
use crate::moment::Moment;
use crate::plain::Access;
use crate::request::Request;

/// An execution graph, complete or not.
#[derive(Clone, Debug)]
pub struct Graph {
    threads: Vec<Thread>,
    order: Vec<EventId>,
    locations: Vec<Accesses>,
    next_stamp: u32,
    /// Pairs of moments of which the first happens before the second, beside what follows from the
    /// events.
    pub(crate) ordered: Vec<(Moment, Moment)>,
    /// The two accesses to plain memory that race, if that is why the execution failed.
    pub(crate) raced: Option<[Access; 2]>,
}

#[derive(Clone, Debug)]
struct Thread {
    /// The event that started the thread; the initial event for the main thread.
    spawned_by: EventId,
    events: Vec<Event>,
}

impl Thread {
    fn unstarted() -> Thread {
        Thread {
            spawned_by: EventId::INITIAL,
            events: Vec::new(),
        }
    }
}

impl Graph {
    pub(crate) fn new() -> Graph {
        Graph {
            threads: vec![Thread::unstarted()],
            order: Vec::new(),
            locations: Vec::new(),
            next_stamp: 1,
            ordered: Vec::new(),
            raced: None,
        }
    }

    /// Returns the number of threads, the main thread included.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Returns the events of a thread, in program order.
    pub fn events(&self, thread: usize) -> &[Event] {
        &self.threads[thread].events
    }

    /// Returns all events, in the order in which the search added them.
    pub fn order(&self) -> &[EventId] {
        &self.order
    }

    /// Returns an event of a thread.
    ///
    /// # Panics
    /// If the graph has no such event.
    #[inline]
    pub fn event(&self, id: EventId) -> &Event {
        &self.threads[id.thread as usize].events[id.index as usize]
    }

    #[inline]
    pub(crate) fn event_mut(&mut self, id: EventId) -> &mut Event {
        &mut self.threads[id.thread as usize].events[id.index as usize]
    }

    /// Returns the number of locations that threads have accessed.
    pub fn locations(&self) -> usize {
        self.locations.len()
    }

    /// Returns the writes of a location, in coherence order, without that of the initial value.
    pub fn coherence(&self, location: Location) -> &[EventId] {
        &self.accesses(location).writes
    }

    #[inline]
    pub(crate) fn accesses(&self, location: Location) -> &Accesses {
        const NONE: &Accesses = &Accesses::NONE;
        self.locations.get(location.0 as usize).unwrap_or(NONE)
    }

    fn accesses_mut(&mut self, location: Location) -> &mut Accesses {
        let at = location.0 as usize;
        if self.locations.len() <= at {
            self.locations.resize_with(at + 1, Accesses::default);
        }
        &mut self.locations[at]
    }

    /// Returns the last event of a thread.
    pub(crate) fn last(&self, thread: usize) -> Option<&Event> {
        self.threads[thread].events.last()
    }

    /// Returns whether a read-modify-write of the thread still lacks its write.
    pub(crate) fn is_half_done(&self, thread: usize) -> bool {
        (self.last(thread)).is_some_and(|last| last.kind == Kind::Read && last.exclusive)
    }

    /// Returns what happens before the event that a thread would add after its first `events`.
    pub fn happened(&self, thread: usize, events: usize) -> Clock {
        self.closed_by(thread, events, &|event| event.before)
    }

    /// Returns the events from which `po ∪ rf` leads to the event that a thread would add after
    /// its first `events`.
    pub(crate) fn causes(&self, thread: usize, events: usize) -> Clock {
        self.closed_by(thread, events, &|event| event.causes)
    }

    #[inline]
    fn closed_by(&self, thread: usize, events: usize, of: &dyn Fn(&Event) -> Clock) -> Clock {
        let last = match events {
            0 => self.threads[thread].spawned_by,
            _ => EventId::new(thread, events - 1),
        };
        let mut clock = Clock::default();
        if !last.is_initial() {
            clock = of(self.event(last));
            clock.add(last);
        }
        let now = Moment { thread, events };
        for (earlier, _) in self.ordered.iter().filter(|(_, later)| *later == now) {
            clock.join(&self.closed_by(earlier.thread, earlier.events, &of));
        }
        clock
    }

    /// Derives the clocks of an event that is, or becomes, the `index`-th of its thread.
    pub(crate) fn derive(&self, thread: usize, index: usize, event: &mut Event) {
        event.before = self.happened(thread, index);
        event.causes = self.causes(thread, index);
        let previous = index
            .checked_sub(1)
            .map(|at| &self.threads[thread].events[at]);
        event.fenced = previous.map_or(Clock::default(), |it| it.fenced);
        event.pending = previous.map_or(Clock::default(), |it| it.pending);
        event.message = Clock::default();
        let me = EventId::new(thread, index);
        match event.kind {
            Kind::Read if !event.reads_from.is_initial() => {
                let write = self.event(event.reads_from);
                event.causes.join(&write.causes);
                event.causes.add(event.reads_from);
                event.pending.join(&write.message);
                // [atomics.order]/2: a release synchronizes with an acquire that reads from its
                // release sequence.
                if acquires(event.ordering) && !mutant!("acquire-reads-do-not-synchronize") {
                    event.before.join(&write.message);
                }
            }
            Kind::Write => {
                event.message = match releases(event.ordering) {
                    true => with(event.before, me),
                    // [atomics.fences]/2 and /3: a release fence before the write releases it.
                    false if mutant!("release-fences-do-not-release") => Clock::default(),
                    false => event.fenced,
                };
                // [intro.races]/5: a read-modify-write continues the release sequence.
                if event.exclusive && !mutant!("release-sequences-end-at-once") {
                    let read = previous.expect("the read half");
                    if !read.reads_from.is_initial() {
                        event.message.join(&self.event(read.reads_from).message);
                    }
                }
            }
            Kind::Fence => {
                // [atomics.fences]/2 and /4: an acquire fence acquires for the reads before it.
                if acquires(event.ordering) && !mutant!("acquire-fences-do-not-acquire") {
                    event.before.join(&event.pending);
                }
                if releases(event.ordering) {
                    event.fenced = with(event.before, me);
                }
            }
            Kind::Join => {
                let joined = event.value as usize;
                let all = self.events(joined).len();
                event.before.join(&self.happened(joined, all));
                event.causes.join(&self.causes(joined, all));
            }
            Kind::Read | Kind::Choice | Kind::Spawn => {}
        }
    }

    /// Makes a read take its value from `write`, and sets what follows for the read alone.
    pub(crate) fn read_from(event: &mut Event, write: EventId, value: u64) {
        let effect = event.request.effect(value);
        event.reads_from = write;
        event.value = value;
        event.ordering = effect.ordering;
        event.exclusive = effect.written.is_some();
        event.blocked = effect.blocks;
    }

    /// Adds an event at the end of its thread. The caller has placed it among the writes.
    pub(crate) fn push(&mut self, thread: usize, mut event: Event) -> EventId {
        let id = EventId::new(thread, self.events(thread).len());
        event.stamp = self.next_stamp;
        self.next_stamp += 1;
        if event.kind == Kind::Read {
            self.accesses_mut(event.location).reads.push(id);
        }
        if event.kind == Kind::Spawn {
            self.start(event.value as usize, id);
        }
        self.order.push(id);
        self.threads[thread].events.push(event);
        id
    }

    fn start(&mut self, thread: usize, spawned_by: EventId) {
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Thread::unstarted);
        }
        self.threads[thread].spawned_by = spawned_by;
    }

    /// Returns whether the number belongs to a thread of this graph. A number below
    /// [`threads`](Self::threads) may not, because a revisit can remove the start of a thread.
    pub(crate) fn is_started(&self, thread: usize) -> bool {
        thread == 0 || !self.threads[thread].spawned_by.is_initial()
    }

    pub(crate) fn spawned_by(&self, thread: usize) -> EventId {
        self.threads[thread].spawned_by
    }

    /// Returns the number for a thread that is started next, or `None` if there are too many.
    pub(crate) fn next_thread(&self) -> Option<usize> {
        let unused = (0..self.threads()).find(|&it| !self.is_started(it));
        let next = unused.unwrap_or(self.threads());
        (next < MAX_THREADS).then_some(next)
    }

    /// Puts a write at a position of the coherence order; 0 is that of the initial value.
    pub(crate) fn place(&mut self, write: EventId, position: usize) {
        let location = self.event(write).location;
        self.accesses_mut(location)
            .writes
            .insert(position - 1, write);
    }

    /// Removes all events but the first `length`, in the order in which they were added.
    pub(crate) fn truncate(&mut self, length: usize) {
        for id in self.order.split_off(length).into_iter().rev() {
            let event = self.threads[id.thread as usize].events.pop();
            let event = event.expect("each event of the order is in its thread");
            match event.kind {
                Kind::Write => self.accesses_mut(event.location).remove(id),
                Kind::Read => drop(self.accesses_mut(event.location).reads.pop()),
                Kind::Spawn => self.threads[event.value as usize] = Thread::unstarted(),
                _ => {}
            }
        }
    }

    /// Returns the graph of the events in `keep`.
    pub(crate) fn restricted(&self, keep: &Clock) -> Graph {
        let kept = |id: &EventId| keep.contains(*id);
        let threads = self.threads.iter().enumerate();
        let threads = threads.map(|(thread, it)| match kept(&it.spawned_by) {
            true => Thread {
                spawned_by: it.spawned_by,
                events: it.events[..keep.of(thread).min(it.events.len())].to_vec(),
            },
            false => Thread::unstarted(),
        });
        Graph {
            threads: threads.collect(),
            order: self.order.iter().copied().filter(kept).collect(),
            locations: self.locations.iter().map(|it| it.filtered(kept)).collect(),
            next_stamp: self.next_stamp,
            ordered: Vec::new(),
            raced: None,
        }
    }

    /// Returns the number of faults in the execution.
    pub(crate) fn faults(&self) -> usize {
        let is_fault = |id: &&EventId| self.event(**id).is_fault();
        self.order.iter().filter(is_fault).count()
    }

    /// Returns whether what a thread does in one moment happens before what is done in another, in
    /// the order of [`with_order`](Self::with_order), if there is one.
    pub fn is_before(&self, earlier: Moment, later: Moment) -> bool {
        let happens_before = match earlier.thread == later.thread {
            true => earlier.events <= later.events,
            false => {
                let known = self.happened(later.thread, later.events);
                self.contains(&known, (earlier.thread, earlier.events))
            }
        };
        // The clocks have the events before an ordered moment, but not the moment itself.
        let leads = |(first, second): &(Moment, Moment)| {
            let is_reached = first.thread == earlier.thread && earlier.events <= first.events;
            is_reached && self.is_before(*second, later)
        };
        happens_before || self.ordered.iter().any(leads)
    }

    /// Returns whether the set contains what a thread does after its first `events` events, and
    /// before the next. After its last event, that is so once another thread has joined it.
    pub(crate) fn contains(&self, set: &Clock, (thread, events): (usize, usize)) -> bool {
        let joins = |event: &Event| event.kind == Kind::Join && event.value == thread as u64;
        let is_joined = |other: usize| self.events(other)[..set.of(other)].iter().any(joins);
        match set.of(thread) == events {
            true => (0..self.threads()).any(is_joined),
            false => set.of(thread) > events,
        }
    }

    /// Sets the value that a replay has computed anew.
    pub(crate) fn set_value(&mut self, id: EventId, value: u64, request: Request) {
        let event = self.event_mut(id);
        event.value = value;
        event.request = request;
    }
}

fn with(mut clock: Clock, event: EventId) -> Clock {
    clock.add(event);
    clock
}
