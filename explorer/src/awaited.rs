//! Locks that wait for other locks.
//!
//! If the write of a lock revisits the read of another one, the other one has to wait. It would be
//! revisited again when the lock is released, and the run in between would be wasted. So the
//! revisit removes the waiting read, too, as if its thread had not come as far, and the write is
//! marked as *awaited*. The thread adds the read again as soon as the lock is released.
//!
//! Each graph is still visited once, because the search goes on as if the read had remained:
//!
//! - **L1** An awaited write is not maximal, as one that is read. So no revisit removes it.
//! - **L2** The read takes its value only from a write that would have revisited it: from one that
//!   the owner of the lock has caused, see [`Graph::is_released`].
//! - **L3** A revisit of a read that is older than the waiting one would have removed that, too,
//!   which must have been maximal for it. Then the wait ends.

use crate::clock::Clock;
use crate::event::{Event, EventId, Location};
use crate::graph::Graph;

/// The read that waits for an awaited write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    read: EventId,
    /// The stamp of the read when it was removed for the first time.
    since: u32,
}

impl Graph {
    /// Returns the wait of a read for a write that makes it wait.
    pub(crate) fn wait_of(&self, read: EventId) -> Wait {
        let waits = self.order().iter().filter_map(|it| self.event(*it).awaited);
        let earlier = waits.into_iter().find(|wait| wait.read == read);
        let since = self.event(read).stamp;
        earlier.unwrap_or(Wait { read, since })
    }

    /// Returns the last write that a read has waited for.
    fn awaited_by(&self, read: EventId, location: Location) -> Option<EventId> {
        let writes = self.accesses(location).writes.iter().copied();
        let is_awaited = |event: &Event| event.awaited.is_some_and(|wait| wait.read == read);
        let awaited = writes.filter(|write| is_awaited(self.event(*write)));
        awaited.max_by_key(|write| self.event(*write).stamp)
    }

    /// Returns whether a read that may have waited can read from a write of the graph: from the
    /// awaited one, which it goes on to wait for, or from one that releases it (L2).
    pub(crate) fn is_released_by(&self, read: EventId, location: Location, write: EventId) -> bool {
        if mutant!("any-write-releases") {
            return true;
        }
        let Some(awaited) = self.awaited_by(read, location) else {
            return true;
        };
        let is_later = || self.event(write).stamp > self.event(awaited).stamp;
        let releases = || self.is_released(read, location, &self.event(write).causes);
        write == awaited || !write.is_initial() && is_later() && releases()
    }

    /// Returns whether a write with these causes would have revisited the read. One of them is the
    /// awaited write, and the read would have been maximal: it has read from the newest write among
    /// the causes, and among those that were there when the wait began.
    pub(crate) fn is_released(&self, read: EventId, location: Location, causes: &Clock) -> bool {
        let Some(awaited) = self.awaited_by(read, location) else {
            return true;
        };
        let began = self.event(awaited).stamp;
        let is_previous =
            |write: &EventId| causes.contains(*write) || self.event(*write).stamp <= began;
        let mut writes = self.accesses(location).writes.iter().rev();
        let newest = writes
            .find(|write| is_previous(write))
            .expect("the awaited write");
        causes.contains(awaited) && self.is_released_by(read, location, *newest)
    }

    /// Returns whether all waiting reads that a revisit of a read with this stamp would have
    /// removed had been added in a maximal way (L3).
    pub(crate) fn are_waits_maximal(&self, stamp: u32, keep: &Clock, causes: &Clock) -> bool {
        let kept = self.order().iter().filter(|it| keep.contains(**it));
        let mut kept = kept.map(|it| self.event(*it));
        kept.all(|event| {
            event.awaited.is_none_or(|Wait { read, since }| {
                let is_back = self.events(read.thread as usize).len() > read.index as usize;
                let is_kept = since <= stamp || mutant!("waits-are-maximal");
                is_kept || is_back || self.is_released(read, event.location, causes)
            })
        })
    }

    /// Ends the waits of reads that are younger than the stamp (L3).
    pub(crate) fn end_waits(&mut self, stamp: u32) {
        if mutant!("waits-do-not-end") {
            return;
        }
        for at in 0..self.order().len() {
            let event = self.event_mut(self.order()[at]);
            event.awaited = event.awaited.filter(|wait| wait.since <= stamp);
        }
    }
}
