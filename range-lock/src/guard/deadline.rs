//! Deadlines: futures that a thread polls whenever it wakes.

use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::time::{Duration, Instant};

use spanlock_sync::hint::Backoff;
use spanlock_sync::{Park, Parker, Wakeup};

use super::hold::{Hold, LockRef, Mode};
use crate::capabilities::RawRangeLockWait;
use crate::error::{TimedLockError, TryLockError};

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> Hold<P, A> {
    /// Locks `range`; blocks until no conflicting hold is left, for at most `timeout`. A timeout
    /// too long for the clock never ends. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_for(
        lock: P,
        range: Range<u64>,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        Self::wait_until(lock, range, || Instant::now().checked_add(timeout))
    }

    /// Locks `range`; blocks until no conflicting hold is left, until `deadline` at most. A
    /// deadline in the past makes this a try. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_until(
        lock: P,
        range: Range<u64>,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        Self::wait_until(lock, range, || Some(deadline))
    }

    /// Tries first, and waits until the deadline, if any, only if the try fails. So an uncontended
    /// request does not read the clock.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn wait_until(
        lock: P,
        range: Range<u64>,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<Self, TimedLockError> {
        match Self::try_lock(lock.clone(), range.clone()) {
            Ok(hold) => return Ok(hold),
            Err(TryLockError::Range(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) => {}
        }
        let deadline = deadline();
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(TimedLockError::TimedOut);
        }
        // Dropped at the deadline, which gives up the request.
        let request = Self::lock_async(lock, range);
        let taken = block_on(request, deadline).ok_or(TimedLockError::TimedOut)?;
        Ok(taken?.watched())
    }
}

/// Polls until the future is ready, and sleeps in between. Returns `None` once `deadline` has
/// passed.
fn block_on<F: Future + Unpin>(mut future: F, deadline: Option<Instant>) -> Option<F::Output> {
    Parker::with(|parker| {
        let mut context = Context::from_waker(parker.waker());
        let mut spin = Backoff::new();
        let mut wakeup = Wakeup::Woken;
        loop {
            if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut context) {
                return Some(output);
            }
            if wakeup == Wakeup::TimedOut {
                return None;
            }
            wakeup = sleep(parker, &mut spin, deadline);
        }
    })
}

/// Spins for as long as `spin` has rounds left, then sleeps.
fn sleep(parker: &Parker, spin: &mut Backoff, deadline: Option<Instant>) -> Wakeup {
    while spin.round() {
        if parker.try_park() {
            return Wakeup::Woken;
        }
    }
    parker.park_until(deadline)
}
