//! The condition variable.

use core::time::Duration;
use std::sync::{LockResult, PoisonError};

use spanlock_explorer::Ordering::Relaxed;
use spanlock_explorer::{Condition, Op, Update, choose, current_thread, fault};

use super::MutexGuard;
use crate::execution::{Kept, kept, known, require};
use crate::thread::times_out;

/// A condition variable. It wakes any of the waiting threads, may wake them spuriously, and a wait
/// may time out.
#[derive(Debug)]
pub struct Condvar {
    /// A bit for each thread, which is set while the thread waits. Relaxed, all: only the mutex
    /// synchronizes.
    waiting: Kept,
}

/// Whether a wait has timed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the wait has timed out.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Returns a condition variable.
    ///
    /// # Panics
    /// Outside a model.
    #[track_caller]
    pub fn new() -> Condvar {
        require("sync::Condvar::new");
        Condvar { waiting: kept(0) }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex.
    ///
    /// # Errors
    /// The mutex is poisoned.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.mutex();
        let me = self.begin(guard);
        match fault(2) {
            0 => {
                let is_notified = Condition::masked(me, 0, true);
                self.waiting.wait_until(is_notified, Relaxed);
            }
            _ => drop(self.end(me)),
        }
        mutex.lock()
    }

    /// Unlocks the mutex, waits for a notification or until the time is over, and locks the mutex.
    ///
    /// # Errors
    /// The mutex is poisoned.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex();
        let me = self.begin(guard);
        let is_late = times_out() && self.end(me);
        if !is_late {
            let is_notified = Condition::masked(me, 0, true).timed();
            self.waiting.wait_until(is_notified, Relaxed);
        }
        let result = WaitTimeoutResult(is_late);
        match mutex.lock() {
            Ok(guard) => Ok((guard, result)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
        }
    }

    /// Wakes one of the threads that wait, if there are any.
    #[track_caller]
    pub fn notify_one(&self) {
        // At most all other threads wait.
        let which = choose(known(|known| known.threads) - 1);
        (self.waiting).update(Update::new(Op::ClearNth, which as u64), Relaxed);
    }

    /// Wakes all threads that wait.
    #[track_caller]
    pub fn notify_all(&self) {
        self.waiting.update(Update::new(Op::Swap, 0), Relaxed);
    }

    /// Begins to wait. Returns the bit of the thread.
    #[track_caller]
    fn begin<T>(&self, guard: MutexGuard<'_, T>) -> u64 {
        let me = 1 << current_thread();
        self.waiting.update(Update::new(Op::Or, me), Relaxed);
        drop(guard);
        me
    }

    /// Stops waiting. Returns whether no notification has ended the wait.
    #[track_caller]
    fn end(&self, me: u64) -> bool {
        let waiting = self.waiting.update(Update::new(Op::And, !me), Relaxed);
        waiting & me != 0
    }
}

impl Default for Condvar {
    #[track_caller]
    fn default() -> Condvar {
        Condvar::new()
    }
}
