//! Races on plain memory.
//!
//! An access is no event. It takes place at a moment of its thread, and races with another one if
//! neither happens before the other and one of them writes. The program is repeated along
//! `po ∪ rf`, so of two accesses of which one happens before the other, that one is seen first. So
//! it suffices to compare each access with the last write, and a write with the last read of each
//! thread.

use core::cell::Cell;
use core::panic;

use crate::MAX_THREADS;
use crate::failure::Reason;
use crate::program::{foreign_message, knows, race_message};
use crate::run::{Runtime, current};

/// Stands for memory that threads access by plain reads and writes.
///
/// It holds no data, and belongs to the execution that creates it. Outside an execution, it does
/// nothing.
#[derive(Debug)]
pub struct Plain {
    execution: u64,
    /// The thread that wrote last, and the number of its events until then.
    written: Cell<Option<(usize, usize)>>,
    /// The same for the last read of each thread since then.
    read: Cell<[Option<usize>; MAX_THREADS]>,
}

// SAFETY: only the system's thread whose search runs this execution touches the cells.
unsafe impl Sync for Plain {}

impl Plain {
    /// Creates memory that the calling thread writes.
    pub fn new() -> Plain {
        let plain = Plain::blank();
        if let Some(runtime) = current() {
            let state = runtime.state.borrow();
            let now = (state.current, state.threads[state.current].at);
            plain.written.set(Some(now));
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
        self.access(false, panic::Location::caller());
    }

    /// Writes the memory.
    #[track_caller]
    #[inline]
    pub fn write(&self) {
        self.access(true, panic::Location::caller());
    }

    fn access(&self, is_write: bool, place: &'static panic::Location<'static>) {
        let Some(runtime) = current() else { return };
        if self.execution != runtime.execution() {
            let message = || foreign_message("cell", self.execution, place);
            runtime.fail(Reason::Misuse, message);
        }
        let state = runtime.state.borrow();
        let (me, at) = (state.current, state.threads[state.current].at);
        let other = |access: (usize, usize)| (!knows(&state, access)).then_some(access.0);
        let mut race = self.written.get().and_then(other);
        let mut read = self.read.get();
        if is_write {
            let reads = read.iter().enumerate();
            let mut reads = reads.filter_map(|(thread, at)| other((thread, (*at)?)));
            race = race.or_else(|| reads.next());
            self.written.set(Some((me, at)));
            self.read.set([None; MAX_THREADS]);
        } else {
            read[me] = Some(at);
            self.read.set(read);
        }
        drop(state);
        if let Some(other) = race {
            let what = match is_write {
                true => "a plain write",
                false => "a plain read",
            };
            runtime.fail(Reason::Race, || race_message(what, place, other));
        }
    }
}

impl Default for Plain {
    fn default() -> Self {
        Plain::new()
    }
}
