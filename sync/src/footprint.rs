//! What each step of an execution touches, for a search that need not try both orders of steps that touch different things.
//!
//! A *step* is what a thread does from one switch point to the next: the checkers have one before each operation of the door, so a step is an operation and
//! the thread's own code after it. The door notes what that touches, after the switch, when it is known: a compare-exchange that failed, or a store of the
//! value that is there already, changes nothing, and is noted as a read.
//!
//! Under shuttle whoever searches asks when a step has ended ([`take`]); under loom, whose scheduler is its own, it is told of each touch ([`watch`]).
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

/// Whether the order of two steps that touch these matters: whether both touch an object, and one of them does not only look at it.
pub fn dependent(one: &[Touch], other: &[Touch]) -> bool {
    let clash = |a: &Touch, b: &Touch| {
        a.object == b.object && (a.access != Access::Read || b.access != Access::Read)
    };
    one.iter().any(|a| other.iter().any(|b| clash(a, b)))
}

/// What a touch is in its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The operation, with which the step begins.
    Operation {
        /// Whether loom chooses among values to be read.
        reads: bool,
    },
    /// In the code behind it.
    Behind,
    /// The thread's last: until the exit, what it does is the checker's.
    End,
    /// Behind that.
    Exit,
}

/// Who is told: of the thread's index, what it touches, and as what.
pub type Watch = fn(usize, Touch, Part);

/// Bit of the numbers of those that no thread makes.
const NO_THREADS: u64 = 1 << 63;
/// The order in which threads are numbered.
const NUMBERING: u64 = NO_THREADS | (1 << 32);
const ORDER: u64 = NUMBERING + 1;

thread_local! {
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static WATCH: Cell<Option<Watch>> = const { Cell::new(None) };
    static TOUCHED: RefCell<Vec<Touch>> = const { RefCell::new(Vec::new()) };
    static LOCKING: Cell<Option<u64>> = const { Cell::new(None) };
    /// How many objects each thread has made.
    static MADE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Records from now on, in executions that this system thread runs.
pub fn record() {
    RECORDING.set(true);
}

/// As [`record`], and `watch` is told at once.
pub fn watch(watch: Watch) {
    WATCH.set(Some(watch));
    record();
}

/// What was touched since the last call.
pub fn take() -> Vec<Touch> {
    TOUCHED.take()
}

/// The mutex that the thread which switched last is about to lock, if that is what it will do.
pub fn take_locking() -> Option<u64> {
    LOCKING.take()
}

/// Counts the operations on objects of the facade since the process began. 0 at the end means that
/// the code under test does not use the facade.
pub(crate) fn operations() -> u64 {
    OPERATIONS.get()
}

/// Numbers begin anew.
pub(crate) fn begin_execution() {
    MADE.with_borrow_mut(Vec::clear);
}

fn touch(object: u64, access: Access, part: Part) {
    if object & NO_THREADS == 0 {
        OPERATIONS.set(OPERATIONS.get() + 1);
    }
    if !RECORDING.get() {
        return;
    }
    let touch = Touch { object, access };
    match WATCH.get() {
        Some(watch) => watch(crate::thread::index(), touch, part),
        None => TOUCHED.with_borrow_mut(|touched| touched.push(touch)),
    }
}

/// A thread as an object that is waited for, by its index: for its start, and for its end.
#[cfg(spanlock_shuttle)]
pub(crate) fn touch_thread(index: usize, access: Access) {
    touch(NO_THREADS | index as u64, access, Part::Behind);
}

/// A thread begins, or goes on after a yield: a step of its own under loom, before that of the next operation.
#[cfg(spanlock_loom)]
pub(crate) fn touch_start(index: usize) {
    let part = Part::Operation { reads: false };
    touch(NO_THREADS | index as u64, Access::Wait, part);
}

/// A thread ends.
#[cfg(spanlock_loom)]
pub(crate) fn touch_end(index: usize) {
    touch(NO_THREADS | index as u64, Access::Wake, Part::End);
}

/// The checker has done what it does at the end of a thread, but for switching to another.
#[cfg(spanlock_loom)]
pub(crate) fn touch_exit(index: usize) {
    touch(NO_THREADS | index as u64, Access::Wake, Part::Exit);
}

/// A thread is given its number: another would get another one in its stead.
#[cfg(spanlock_shuttle)]
pub(crate) fn touch_numbering() {
    touch(NUMBERING, Access::Write, Part::Behind);
}

/// The order of all fences that are sequentially consistent, of which loom tells each those before. (Of locks and unlocks of different mutexes it tells nothing: the litmus program
/// `mutex-store-buffering` says so.)
pub(crate) fn touch_order() {
    if cfg!(spanlock_loom) {
        touch(ORDER, Access::Write, Part::Behind);
    }
}

/// The step's operation is one whose objects the door does not tell apart.
pub(crate) fn touch_unknown() {
    touch(EVERYTHING, Access::Write, Part::Behind);
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

    /// Notes it in the step that runs, as what its operation is about: so after the checker's operation, before which the switch is.
    #[inline]
    pub(crate) fn touch(&self, access: Access) {
        touch(self.0, access, Part::Operation { reads: false });
    }

    /// As [`touch`](Self::touch), by an atomic operation that may have changed the value.
    #[inline]
    #[track_caller]
    pub(crate) fn touch_value(&self, changed: bool, reads: bool) {
        let access = if changed { Access::Write } else { Access::Read };
        touch(self.0, access, Part::Operation { reads });
        crate::freed::used(self);
    }

    /// Notes it in the step that runs, as touched by the code behind the operation.
    #[inline]
    pub(crate) fn touch_behind(&self, access: Access) {
        touch(self.0, access, Part::Behind);
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
