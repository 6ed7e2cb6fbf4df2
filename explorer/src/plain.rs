//! Races on plain memory.
//!
//! An access is no event. It takes place at a moment of its thread, and races with another one if
//! neither happens before the other and one of them writes. The program is repeated along
//! `po ∪ rf`, so of two accesses of which one happens before the other, that one is seen first. So
//! it suffices to compare each access with the last write, and a write with the last read of each
//! thread.

use core::cell::Cell;

use crate::MAX_THREADS;
use crate::failure::Reason;
use crate::place::{Place, here};
use crate::program::{foreign_message, knows};
use crate::run::{Runtime, current};

/// An access of a thread to plain memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) thread: usize,
    /// The number of the thread's events until then.
    pub(crate) events: usize,
    pub(crate) is_write: bool,
    pub(crate) place: Place,
}

impl Access {
    fn name(self) -> &'static str {
        match self.is_write {
            true => "a plain write",
            false => "a plain read",
        }
    }
}

/// Stands for memory that threads access by plain reads and writes.
///
/// It holds no data, and belongs to the execution that creates it. Outside an execution, it does
/// nothing.
#[derive(Debug)]
pub struct Plain {
    execution: u64,
    written: Cell<Option<Access>>,
    /// The last read of each thread since then: the number of its events, and the place.
    read: Cell<[Option<(usize, Place)>; MAX_THREADS]>,
}

// SAFETY: only the system's thread whose search runs this execution touches the cells.
unsafe impl Sync for Plain {}

impl Plain {
    /// Creates memory that the calling thread writes.
    #[track_caller]
    pub fn new() -> Plain {
        let plain = Plain::blank();
        if let Some(runtime) = current() {
            let access = now(runtime, true, here());
            plain.written.set(Some(access));
        }
        plain
    }

    /// Creates memory that no thread has written: any thread may be the first.
    pub fn blank() -> Plain {
        Plain {
            execution: current().map_or(0, Runtime::execution),
            written: Cell::new(None),
            read: Cell::new([None; MAX_THREADS]),
        }
    }

    /// Reads the memory.
    #[track_caller]
    #[inline]
    pub fn read(&self) {
        self.access(false, here());
    }

    /// Writes the memory.
    #[track_caller]
    #[inline]
    pub fn write(&self) {
        self.access(true, here());
    }

    fn access(&self, is_write: bool, place: Place) {
        let Some(runtime) = current() else { return };
        if self.execution != runtime.execution() {
            let message = || foreign_message("cell", self.execution, place);
            runtime.fail(Reason::Misuse, message);
        }
        let access = now(runtime, is_write, place);
        let state = runtime.state.borrow();
        let is_race = |other: &Access| !knows(&state, (other.thread, other.events));
        let mut race = self.written.get().filter(is_race);
        let mut read = self.read.get();
        if is_write {
            let reads = read.iter().enumerate().filter_map(|(thread, read)| {
                let (events, place) = (*read)?;
                Some(Access {
                    thread,
                    events,
                    is_write: false,
                    place,
                })
            });
            race = race.or_else(|| { reads }.find(is_race));
            self.written.set(Some(access));
            self.read.set([None; MAX_THREADS]);
        } else {
            read[access.thread] = Some((access.events, place));
            self.read.set(read);
        }
        drop(state);
        if let Some(other) = race {
            runtime.fail_by([other, access], || {
                let (what, other_what) = (access.name(), other.name());
                format!(
                    "Race: {what} of T{}, at {place}, with {other_what} of T{}, at {}.",
                    access.thread, other.thread, other.place
                )
            });
        }
    }
}

/// Returns an access of the current thread.
fn now(runtime: &Runtime, is_write: bool, place: Place) -> Access {
    let state = runtime.state.borrow();
    Access {
        thread: state.current,
        events: state.threads[state.current].at,
        is_write,
        place,
    }
}

impl Default for Plain {
    #[track_caller]
    fn default() -> Self {
        Plain::new()
    }
}
