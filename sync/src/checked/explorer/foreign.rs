//! A concurrent object of another crate, under the explorer.
//!
//! Each change copies the object, so an execution has a state for each number of changes. A read
//! learns the number of changes from an atomic, and takes place in that state. So what it finds
//! depends on the execution graph alone, and reads are not ordered among themselves.

use core::cell::RefCell;
use std::any::Any;

use spanlock_explorer::{Atomic, Op, Update};

use crate::atomic::Ordering::{AcqRel, Acquire};
use crate::check::outside;

thread_local! {
    /// The states of all objects. Their memory is not that of an execution: an object may give
    /// memory back later, as epochs do. So they are dropped when the next execution begins, even
    /// if the thread that owned them never ended.
    static STATES: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Drops the states of the last execution.
pub(crate) fn begin_execution() {
    outside(|| drop(STATES.take()));
}

/// A linearizable object of another crate.
pub struct Foreign<T> {
    copy: fn(&T) -> T,
    changes: Atomic,
    /// The state after each number of changes, in [`STATES`].
    states: RefCell<Vec<*const T>>,
}

// SAFETY: the explorer runs all threads on one system thread.
unsafe impl<T: Send + Sync> Send for Foreign<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Foreign<T> {}

impl<T: 'static> Foreign<T> {
    /// Returns an object, and how to copy its state.
    #[track_caller]
    pub fn new(object: T, copy: fn(&T) -> T) -> Self {
        Foreign {
            copy,
            changes: Atomic::new(0),
            states: RefCell::new(vec![kept(object)]),
        }
    }

    /// Calls `f` for an operation that changes nothing.
    #[track_caller]
    pub fn read<'a, R>(&'a self, f: impl FnOnce(&'a T) -> R) -> R {
        // Acquire [→ `change`]: what happened before a change happens before a read that finds it.
        let state = self.state(self.changes.load(Acquire));
        outside(|| f(state))
    }

    /// Calls `f` for an operation that may change the object.
    #[track_caller]
    pub fn change<'a, R>(&'a self, f: impl FnOnce(&'a T) -> R) -> R {
        // AcqRel: as in `read`.
        let changes = self.changes.update(Update::new(Op::Add, 1), AcqRel);
        let state = self.state(changes);
        let changed = outside(|| kept((self.copy)(state)));
        self.states.borrow_mut().push(changed);
        outside(|| f(self.state(changes + 1)))
    }

    fn state(&self, changes: u64) -> &T {
        let state = self.states.borrow()[changes as usize];
        // SAFETY: the state lives until the next execution begins, and is shared only.
        unsafe { &*state }
    }
}

/// Keeps a state until the next execution begins.
fn kept<T: 'static>(state: T) -> *const T {
    outside(|| {
        let state = Box::new(state);
        let at: *const T = &*state;
        STATES.with_borrow_mut(|states| states.push(state));
        at
    })
}
