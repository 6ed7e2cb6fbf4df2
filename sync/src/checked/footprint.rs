//! Records the **footprint** of each step of an execution: the objects that the step touches. A
//! search need not try both orders of two steps that touch different objects.
//!
//! A *step* is everything that a thread does from one switch point to the next. The checkers switch
//! before each operation of the facade, so a step is an operation and the thread's own code after
//! it. The facade records what an operation touches after the operation, because its effect is
//! known only then. A compare-exchange that failed changes nothing and is recorded as a read.
//! Writing the value that is already there is also recorded as a read, where the facade can tell.
//! Under loom, it cannot tell for a plain store or for a `fetch_…`, and records a write.
//!
//! Under shuttle, the search calls [`take`] when a step has ended. Loom has a scheduler of its own,
//! so under loom the facade reports each touch to the search ([`watch`]).
//!
//! The number of an object consists of the thread that made it and of how many objects that thread
//! had made by then, this one included. So an object has the same number in all executions that
//! begin alike. Addresses would not guarantee that.
//!
//! A checker runs all threads of a model on one system thread. So the state here is kept in plain
//! thread locals of that thread.

use std::cell::{Cell, RefCell};

/// How a step accesses an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reads it without changing it.
    Read,
    /// Changes it.
    Write,
    /// Changes it, and thereby lets a waiting thread continue.
    Wake,
    /// Continues after another thread's [`Wake`](Access::Wake). This thread could take no step
    /// before.
    Wait,
    /// Locks it. The object is a mutex, and the step is possible only while the mutex is unlocked.
    Lock,
    /// Unlocks it.
    Unlock,
}

/// An object that a step touches, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    /// The object's number.
    pub object: u64,
    /// How the step accesses the object.
    pub access: Access,
}

/// The number of an object that stands for all objects. A search assumes that each step reads it; a
/// step whose objects the facade does not know writes it.
pub const EVERYTHING: u64 = u64::MAX;

/// Returns whether the order of two steps matters, given the touches of each. The order matters if
/// both steps touch the same object and at least one of them does more than read it.
pub fn dependent(one: &[Touch], other: &[Touch]) -> bool {
    let clash = |a: &Touch, b: &Touch| {
        a.object == b.object && (a.access != Access::Read || b.access != Access::Read)
    };
    one.iter().any(|a| other.iter().any(|b| clash(a, b)))
}

/// The part of a step in which a touch happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The operation, with which the step begins.
    Operation {
        /// Whether the operation reads a value that loom chooses.
        reads: bool,
    },
    /// The thread's own code after the operation.
    Behind,
    /// The thread's last operation, after which the checker runs its own code until the exit.
    End,
    /// The thread's exit, after the checker's own code.
    Exit,
}

/// A function that the facade calls at each touch, with the thread's index, the touch, and the part
/// of the step.
pub type Watch = fn(usize, Touch, Part);

/// The bit that is set in the numbers of objects that no thread made.
const NO_THREADS: u64 = 1 << 63;
/// The object that stands for the order in which threads are numbered.
const NUMBERING: u64 = NO_THREADS | (1 << 32);
/// The object that stands for the order of sequentially consistent fences.
const ORDER: u64 = NUMBERING + 1;

thread_local! {
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
    /// A hash of the touches of the current execution, in any order.
    static FINGERPRINT: Cell<u64> = const { Cell::new(0) };
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static WATCH: Cell<Option<Watch>> = const { Cell::new(None) };
    static TOUCHED: RefCell<Vec<Touch>> = const { RefCell::new(Vec::new()) };
    static LOCKING: Cell<Option<u64>> = const { Cell::new(None) };
    /// How many objects each thread has made.
    static MADE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Records touches from now on, in executions that this system thread runs.
pub fn record() {
    RECORDING.set(true);
}

/// Starts recording as [`record`] does, but calls `watch` with each touch instead of keeping it.
pub fn watch(watch: Watch) {
    WATCH.set(Some(watch));
    record();
}

/// Returns what was touched since the last call.
pub fn take() -> Vec<Touch> {
    TOUCHED.take()
}

/// Returns the mutex, if any, whose locking a thread has announced since the last call. The thread
/// locks the mutex after its switch.
pub fn take_locking() -> Option<u64> {
    LOCKING.take()
}

/// Returns how often an object of the facade was touched since the process began. 0 at the end
/// means that the code under test does not use the facade.
pub(crate) fn operations() -> u64 {
    OPERATIONS.get()
}

/// Returns a hash of what the current execution has touched so far.
pub(crate) fn fingerprint() -> u64 {
    FINGERPRINT.get()
}

/// Makes the numbers of objects begin anew.
pub(crate) fn begin_execution() {
    FINGERPRINT.set(0);
    MADE.with_borrow_mut(Vec::clear);
}

fn touch(object: u64, access: Access, part: Part) {
    if object & NO_THREADS == 0 {
        OPERATIONS.set(OPERATIONS.get() + 1);
    }
    // A sum, because a thread may drop what is in a hash map in any order.
    let word = object.wrapping_mul(8) + access as u64 + 1;
    let hash = word.wrapping_mul(0x517c_c1b7_2722_0a95).rotate_left(26);
    FINGERPRINT.set(FINGERPRINT.get().wrapping_add(hash.wrapping_mul(word)));
    if !RECORDING.get() {
        return;
    }
    let touch = Touch { object, access };
    match WATCH.get() {
        Some(watch) => watch(crate::thread::index(), touch, part),
        None => TOUCHED.with_borrow_mut(|touched| touched.push(touch)),
    }
}

/// Notes an access to the object that stands for a thread. The thread itself waits for its start,
/// and a joining thread waits for its end.
#[cfg(spanlock_shuttle)]
pub(crate) fn touch_thread(index: usize, access: Access) {
    touch(NO_THREADS | index as u64, access, Part::Behind);
}

/// Notes that a thread begins, or continues after a yield. Under loom this is a separate step,
/// before the step of the next operation.
#[cfg(spanlock_loom)]
pub(crate) fn touch_start(index: usize) {
    let part = Part::Operation { reads: false };
    touch(NO_THREADS | index as u64, Access::Wait, part);
}

/// Notes that a thread ends.
#[cfg(spanlock_loom)]
pub(crate) fn touch_end(index: usize) {
    touch(NO_THREADS | index as u64, Access::Wake, Part::End);
}

/// Notes that the checker has completed the end of a thread, except for the switch to another
/// thread.
#[cfg(spanlock_loom)]
pub(crate) fn touch_exit(index: usize) {
    touch(NO_THREADS | index as u64, Access::Wake, Part::Exit);
}

/// Notes that a thread receives its number. The order in which threads receive numbers matters.
#[cfg(spanlock_shuttle)]
pub(crate) fn touch_numbering() {
    touch(NUMBERING, Access::Write, Part::Behind);
}

/// Notes a sequentially consistent fence. In loom, each such fence synchronizes with all earlier
/// ones, so the order of two fences matters. (Locks and unlocks of different mutexes do not
/// synchronize, as the litmus program `mutex-store-buffering` shows.)
pub(crate) fn touch_order() {
    if cfg!(spanlock_loom) {
        touch(ORDER, Access::Write, Part::Behind);
    }
}

/// Notes an operation whose objects the facade does not distinguish.
pub(crate) fn touch_unknown() {
    touch(EVERYTHING, Access::Write, Part::Behind);
}

/// The number by which the facade knows one of its objects.
pub(crate) struct Object(u64);

impl Object {
    /// Returns the next number of the calling thread.
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

    /// Notes that the operation of the current step touches the object. Call this after the
    /// checker's operation, because that begins with the switch.
    #[inline]
    pub(crate) fn touch(&self, access: Access) {
        touch(self.0, access, Part::Operation { reads: false });
    }

    /// Like [`touch`](Self::touch), for an atomic operation that may have changed the value.
    #[inline]
    #[track_caller]
    pub(crate) fn touch_value(&self, changed: bool, reads: bool) {
        let access = if changed { Access::Write } else { Access::Read };
        touch(self.0, access, Part::Operation { reads });
        super::freed::used(self);
    }

    /// Notes that the code after the operation of the current step touches the object.
    #[inline]
    pub(crate) fn touch_behind(&self, access: Access) {
        touch(self.0, access, Part::Behind);
    }

    /// Announces, before a switch, that the operation after the switch locks the object.
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
