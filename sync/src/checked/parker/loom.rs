//! A parker for loom: a flag, and a mutex that is locked while the flag is not set. A thread sleeps
//! by locking the mutex once more, until a wake sets the flag and unlocks the mutex.
//!
//! (A flag under a mutex, with a condition variable, would take five steps instead of three, with
//! the sleep in the middle.)

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::task::{Wake, Waker};

use loom::sync::atomic::AtomicBool;

use crate::world::operations::{Access, note};
use crate::{Mutex, MutexGuard};

#[derive(Debug)]
pub(crate) struct Flag {
    woken: AtomicBool,
    /// The guard of `gate` while the flag is not set. It lies in std's mutex, so that an access is
    /// not a step of the search.
    shut: StdMutex<Option<MutexGuard<'static, ()>>>,
    // Dropped after `shut`, and never moved.
    gate: Box<Mutex<()>>,
}

// SAFETY: loom runs its threads on one system thread, so the guard never leaves it.
unsafe impl Send for Flag {}
// SAFETY: as above.
unsafe impl Sync for Flag {}

pub(crate) type Inner = Arc<Flag>;

impl Flag {
    /// Waits until the gate is open, and shuts it.
    fn shut(&self) {
        let gate: *const Mutex<()> = &*self.gate;
        // SAFETY: the gate is dropped after the guard, and its box keeps its address.
        let guard = unsafe { &*gate }.lock();
        *self.shut.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    }

    fn set(&self, woken: bool) -> bool {
        // AcqRel: a wake also publishes what happened before earlier wakes. The shipped parker and
        // shuttle's do the same.
        let before = self.woken.swap(woken, AcqRel);
        note(Access::Write);
        before
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.set(true) {
            let mut shut = self.shut.lock().unwrap_or_else(PoisonError::into_inner);
            let guard = shut.take();
            drop(shut);
            drop(guard);
        }
    }
}

pub(crate) fn pair() -> (Inner, Waker) {
    let flag = Arc::new(Flag {
        woken: AtomicBool::new(false),
        shut: StdMutex::new(None),
        gate: Box::new(Mutex::new(())),
    });
    flag.shut();
    (flag.clone(), flag.into())
}

pub(crate) fn try_park(parker: &Inner) -> bool {
    // Relaxed: the swap in `set` synchronizes.
    let woken = parker.woken.load(Relaxed);
    note(Access::Read);
    if woken {
        parker.shut();
        parker.set(false);
    }
    woken
}

pub(super) fn park(parker: &Inner) {
    parker.shut();
    // Only after the gate is shut: a wake that comes in between finds the flag set, and leaves the
    // gate shut.
    parker.set(false);
}
