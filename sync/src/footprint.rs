//! What each step of an execution touches, for a search that need not try both orders of steps that touch different things.
//! Only under shuttle: loom has a reduction of its own.
//!
//! A *step* is what a thread does from one switch point to the next: shuttle has one before each operation of the door, so a step is an operation and
//! the thread's own code after it. The door notes what that touches, after the switch, when it is known: a compare-exchange that failed, or a store of the
//! value that is there already, changes nothing, and is noted as a read.
//!
//! Objects are numbered by who made them and how many it had made before: so they have the same numbers in all executions that begin alike,
//! which addresses have not.
//!
//! Plain std state of the system thread on which the checker runs all threads of an execution.

use std::cell::{Cell, RefCell};

/// What a step does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Looks at it, and leaves it as it is.
    Read,
    /// Changes it.
    Write,
    /// Changes it, and so lets a thread go on that waits for it.
    Wake,
    /// Goes on, since another's [`Wake`](Access::Wake) came: no step of this thread was possible before.
    Wait,
    /// Locks it, a mutex: possible while nobody holds it.
    Lock,
    /// Unlocks it.
    Unlock,
}

/// An object that a step touches, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    /// Its number.
    pub object: u64,
    /// What is done to it.
    pub access: Access,
}

/// The number of everything: each step is to be taken to read it, and one of which the door does not know what it touches writes it.
pub const EVERYTHING: u64 = u64::MAX;

/// Bit of the numbers of those that no thread makes.
const NO_THREADS: u64 = 1 << 63;
/// The order in which threads are numbered.
const NUMBERING: u64 = NO_THREADS | (1 << 32);
/// The counts of occasions for faults.
const FAULTS: u64 = NUMBERING + 1;

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static TOUCHED: RefCell<Vec<Touch>> = const { RefCell::new(Vec::new()) };
    static LOCKING: Cell<Option<u64>> = const { Cell::new(None) };
    /// How many objects each thread has made.
    static MADE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Records from now on, in executions that this system thread runs.
pub fn record() {
    RECORDING.set(true);
}

/// What was touched since the last call.
pub fn take() -> Vec<Touch> {
    TOUCHED.take()
}

/// The mutex that the thread which switched last is about to lock, if that is what it will do.
pub fn take_locking() -> Option<u64> {
    LOCKING.take()
}

/// Numbers begin anew.
pub(crate) fn begin_execution() {
    MADE.with_borrow_mut(Vec::clear);
}

fn touch(object: u64, access: Access) {
    if RECORDING.get() {
        TOUCHED.with_borrow_mut(|touched| touched.push(Touch { object, access }));
    }
}

/// The number of a thread by its index, as an object that is waited for: for its start, and for its end.
pub(crate) fn touch_thread(index: usize, access: Access) {
    touch(NO_THREADS | index as u64, access);
}

/// A thread is given its number: another would get another one in its stead.
pub(crate) fn touch_numbering() {
    touch(NUMBERING, Access::Write);
}

/// The step's operation is one whose objects the door does not tell apart.
pub(crate) fn touch_unknown() {
    touch(EVERYTHING, Access::Write);
}

/// An occasion for a fault is counted.
pub(crate) fn touch_faults() {
    touch(FAULTS, Access::Write);
}

/// What the door knows each of its objects by.
pub(crate) struct Object(u64);

impl Object {
    /// The next one that the calling thread makes.
    pub(crate) fn new() -> Self {
        if !RECORDING.get() {
            return Object(0);
        }
        let thread = crate::thread::index();
        MADE.with_borrow_mut(|made| {
            if made.len() <= thread {
                made.resize(thread + 1, 0);
            }
            made[thread] += 1;
            Object((thread as u64) << 32 | made[thread])
        })
    }

    /// Notes it in the step that runs: so after the checker's operation, before which the switch is.
    #[inline]
    pub(crate) fn touch(&self, access: Access) {
        touch(self.0, access);
    }

    /// As [`touch`](Self::touch), by an operation that may have changed the value.
    #[inline]
    pub(crate) fn touch_value(&self, changed: bool) {
        self.touch(if changed { Access::Write } else { Access::Read });
    }

    /// Says, before the switch, that what comes after it is to lock this.
    pub(crate) fn about_to_lock(&self) {
        if RECORDING.get() {
            LOCKING.set(Some(self.0));
        }
    }
}

impl Default for Object {
    fn default() -> Self {
        Object::new()
    }
}

impl core::fmt::Debug for Object {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "#{:x}", self.0)
    }
}
