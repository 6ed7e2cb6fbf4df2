//! Coherence: which writes a read may read from, and where a write may stand in the coherence
//! order (`co`) of its location.
//!
//! The *position* of a write is its place in the coherence order; that of the initial value is 0.
//! The four clauses of coherence ([intro.races]/10 to /13 in C++20) say together: what happens
//! before an access has written or read some writes of its location, and the access must neither
//! read from, nor stand before, an earlier write than these.

use crate::clock::Clock;
use crate::event::{EventId, Location};
use crate::graph::Graph;

/// The accesses of a location.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    /// In coherence order, without the initial value.
    pub(crate) writes: Vec<EventId>,
    /// In the order in which the search added them.
    pub(crate) reads: Vec<EventId>,
}

impl Accesses {
    pub(crate) const NONE: Accesses = Accesses {
        writes: Vec::new(),
        reads: Vec::new(),
    };

    /// Returns the write at a position.
    pub(crate) fn write(&self, position: usize) -> EventId {
        match position {
            0 => EventId::INITIAL,
            _ => self.writes[position - 1],
        }
    }

    /// Returns the position of a write, which is among the accesses.
    pub(crate) fn position(&self, write: EventId) -> usize {
        if write.is_initial() {
            return 0;
        }
        let at = self.writes.iter().rposition(|it| *it == write);
        at.expect("a write has a position") + 1
    }

    /// Returns the position of the newest write.
    pub(crate) fn newest(&self) -> usize {
        self.writes.len()
    }

    pub(crate) fn remove(&mut self, write: EventId) {
        let at = self.position(write) - 1;
        self.writes.remove(at);
    }

    pub(crate) fn filtered(&self, kept: impl Fn(&EventId) -> bool + Copy) -> Accesses {
        Accesses {
            writes: self.writes.iter().copied().filter(kept).collect(),
            reads: self.reads.iter().copied().filter(kept).collect(),
        }
    }
}

impl Graph {
    /// Returns the least position that a read may read from if `before` happens before it. A write
    /// may take any later position.
    pub(crate) fn floor(&self, location: Location, before: &Clock) -> usize {
        let accesses = self.accesses(location);
        // [intro.races]/10 and /12: a write that happens before is not overtaken.
        let known = |write: &EventId| before.contains(*write);
        let written = accesses
            .writes
            .iter()
            .rposition(known)
            .map_or(0, |at| at + 1);
        if written == accesses.newest() || mutant!("reads-may-go-back") {
            return written;
        }
        // [intro.races]/11 and /13: nor is one that a read has seen which happens before.
        let reads = accesses.reads.iter().filter(|read| before.contains(**read));
        let seen = reads.map(|&read| accesses.position(self.event(read).reads_from));
        seen.fold(written, usize::max)
    }

    /// Returns the read-modify-write, other than `except`, that modifies the value of `write`.
    /// [atomics.order]/10: no write may stand between the two.
    pub(crate) fn modifier(
        &self,
        location: Location,
        write: EventId,
        except: EventId,
    ) -> Option<EventId> {
        let reads = self.accesses(location).reads.iter().copied();
        let modifies = |event: EventId| {
            let event = self.event(event);
            event.exclusive && event.reads_from == write
        };
        reads
            .filter(|read| *read != except)
            .find(|read| modifies(*read))
    }
}
