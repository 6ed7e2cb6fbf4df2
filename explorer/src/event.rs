//! The events of an execution graph.

use core::fmt;
use core::panic;
use core::sync::atomic::Ordering;

use crate::awaited::Wait;
use crate::clock::Clock;
use crate::request::{Ask, Request};

/// An event: the `index`-th of its thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId {
    /// The thread, 0 for the main thread.
    pub thread: u16,
    /// The number of events of the thread before this one.
    pub index: u16,
}

impl EventId {
    /// The write of a location's initial value, which is before all other writes in `co`.
    pub const INITIAL: EventId = EventId {
        thread: u16::MAX,
        index: 0,
    };

    pub(crate) fn new(thread: usize, index: usize) -> EventId {
        let (thread, index) = (thread as u16, index as u16);
        EventId { thread, index }
    }

    /// Returns whether this is the write of an initial value.
    #[inline]
    pub fn is_initial(self) -> bool {
        self == EventId::INITIAL
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_initial() {
            true => f.write_str("the initial value"),
            false => write!(f, "T{}.{}", self.thread, self.index),
        }
    }
}

/// A memory location, numbered in the order in which the search met them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location(pub(crate) u32);

impl Location {
    /// Stands in events that concern no location.
    pub(crate) const NONE: Location = Location(u32::MAX);

    /// Returns the number of the location; lower ones were met earlier.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A read, or the first half of a read-modify-write.
    Read,
    /// A write, or the second half of a read-modify-write.
    Write,
    /// A fence.
    Fence,
    /// A choice among alternatives; its value is the alternative.
    Choice,
    /// The start of a thread; its value is the thread's number.
    Spawn,
    /// The return from waiting for a thread's end; its value is the thread's number.
    Join,
}

/// An event, with what follows from the graph for it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its kind.
    pub kind: Kind,
    /// The location of a read or write.
    pub location: Location,
    /// The ordering of a read, write or fence.
    pub ordering: Ordering,
    /// What is read, written or chosen.
    pub value: u64,
    /// The write from which a read takes its value.
    pub reads_from: EventId,
    /// Whether the event is half of a read-modify-write. The other half is its neighbour.
    pub exclusive: bool,
    /// Whether the thread cannot go on with the value that it reads.
    pub blocked: bool,
    /// Where the program has the operation.
    pub place: &'static panic::Location<'static>,
    /// The lock that waits for this one to be released.
    pub(crate) awaited: Option<Wait>,
    /// The number of the event in the order in which the search added them.
    pub(crate) stamp: u32,
    pub(crate) request: Request,
    /// The events that happen before this one.
    pub(crate) before: Clock,
    /// The events from which `po ∪ rf` leads to this one.
    pub(crate) causes: Clock,
    /// The events that happen before an acquire which reads from this write: those before its
    /// release, and the release itself.
    pub(crate) message: Clock,
    /// The events that the last release fence of the thread releases with later writes.
    pub(crate) fenced: Clock,
    /// The messages of relaxed reads before the event: an acquire fence acquires them.
    pub(crate) pending: Clock,
}

impl Event {
    /// Returns an event that answers a request. What the request does not say is still to be set.
    pub(crate) fn new(kind: Kind, ask: &Ask) -> Event {
        Event {
            kind,
            location: ask.location,
            ordering: Ordering::Relaxed,
            value: 0,
            reads_from: EventId::INITIAL,
            exclusive: false,
            blocked: false,
            awaited: None,
            place: ask.place,
            stamp: 0,
            request: ask.request,
            before: Clock::default(),
            causes: Clock::default(),
            message: Clock::default(),
            fenced: Clock::default(),
            pending: Clock::default(),
        }
    }

    pub(crate) fn with_value(self, value: u64) -> Event {
        Event { value, ..self }
    }

    pub(crate) fn with_ordering(self, ordering: Ordering) -> Event {
        Event { ordering, ..self }
    }

    /// Returns the events that happen before this one, which is not included.
    pub fn happens_after(&self) -> &Clock {
        &self.before
    }

    /// Returns whether the event takes part in the order of SeqCst operations.
    pub(crate) fn is_seq_cst(&self) -> bool {
        let takes_part = matches!(self.kind, Kind::Read | Kind::Write | Kind::Fence);
        takes_part && self.ordering == Ordering::SeqCst
    }

    /// Returns whether the event is a choice of another alternative than the first.
    pub(crate) fn is_deviation(&self) -> bool {
        self.kind == Kind::Choice && self.value != 0
    }

    pub(crate) fn is_fault(&self) -> bool {
        self.is_deviation() && matches!(self.request, Request::Choose(_, true))
    }
}

/// Returns whether the ordering acquires.
pub(crate) fn acquires(ordering: Ordering) -> bool {
    use Ordering::*;
    matches!(ordering, Acquire | AcqRel | SeqCst)
}

/// Returns whether the ordering releases.
pub(crate) fn releases(ordering: Ordering) -> bool {
    use Ordering::*;
    matches!(ordering, Release | AcqRel | SeqCst)
}
