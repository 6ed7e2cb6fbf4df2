//! Requests that can be given up: futures, and deadlines, which are futures that a thread polls whenever it wakes.

use core::future::Future;
use core::marker::PhantomData;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use spanlock_sync::hint::Backoff;
use spanlock_sync::{Park, Parker, Wakeup};

use super::hold::{Hold, LockRef, Mode};
use crate::detect::Watch;
use crate::error::{RangeError, TimedLockError, TryLockError};
use crate::powers::RawRangeLockWait;
use crate::raw::Span;

/// A hold to come. Nothing is asked for before the first poll; dropping it gives the request up and leaves no trace.
///
/// It runs on any executor, stays one waiter however often it is polled, and wakes the waker of the last poll.
///
/// Output: the hold. Errors: a reversed range, or one past the lock's capacity. Ordering: Acquire when ready.
///
/// # Panics
/// When it is polled after it was ready.
#[must_use = "futures do nothing unless polled"]
pub struct LockFuture<P: LockRef<Lock: RawRangeLockWait>, A: Mode> {
    /// `None`: it was ready.
    lock: Option<P>,
    span: Result<Option<Span>, RangeError>,
    /// Given to this lock, with this span and access, only.
    request: <P::Lock as RawRangeLockWait>::Request,
    mode: PhantomData<A>,
}

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> Future for LockFuture<P, A> {
    type Output = Result<Hold<P, A>, RangeError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let lock = (this.lock.as_ref()).expect("`LockFuture` polled after completion");
        let taken = match this.span {
            Ok(Some(span)) => {
                let (raw, waker) = (lock.raw(), context.waker());
                // SAFETY: by the request's invariant.
                let poll = unsafe { raw.poll_lock(span, A::ACCESS, &mut this.request, waker) };
                ready!(poll).map(|token| Some((span, token)))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let lock = this.lock.take().expect("taken by nobody since");
        Poll::Ready(taken.map(|taken| match taken {
            Some((span, token)) => Hold::of(lock, span, token, Watch::none()),
            None => Hold::of_nothing(lock),
        }))
    }
}

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> Drop for LockFuture<P, A> {
    fn drop(&mut self) {
        if let (Some(lock), Ok(Some(span))) = (&self.lock, self.span) {
            // SAFETY: by the request's invariant.
            unsafe { lock.raw().cancel(span, A::ACCESS, &mut self.request) }
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> core::fmt::Debug for LockFuture<P, A> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LockFuture")
            .field("span", &self.span)
            .field("access", &A::ACCESS)
            .finish_non_exhaustive()
    }
}

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> Hold<P, A> {
    /// Holds `range` when the future is ready. Never blocks.
    pub fn lock_async(lock: P, range: Range<u64>) -> LockFuture<P, A> {
        LockFuture {
            lock: Some(lock),
            span: Span::new(range),
            request: Default::default(),
            mode: PhantomData,
        }
    }

    /// Holds `range`; blocks while there is a hold that conflicts, for `timeout` at most. One that is too long for the
    /// clock is for ever. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`lock`](Self::lock).
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_for(
        lock: P,
        range: Range<u64>,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        Self::wait_until(lock, range, || Instant::now().checked_add(timeout))
    }

    /// Holds `range`; blocks while there is a hold that conflicts, until `deadline` at most. One in the past makes it a try.
    /// Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`lock`](Self::lock).
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_until(
        lock: P,
        range: Range<u64>,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        Self::wait_until(lock, range, || Some(deadline))
    }

    /// A try, and then a wait until the deadline, if there is one: nobody looks at the clock who need not wait.
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
        // Dropped when the time is over, which gives the request up.
        let request = Self::lock_async(lock, range);
        let taken = block_on(request, deadline).ok_or(TimedLockError::TimedOut)?;
        Ok(taken?.watched())
    }
}

/// Polls until it is ready, asleep between: `None` when `deadline` has passed.
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

/// Spins for as long as `spin` has rounds, then sleeps.
fn sleep(parker: &Parker, spin: &mut Backoff, deadline: Option<Instant>) -> Wakeup {
    let past = Instant::now();
    while spin.round() {
        // With a deadline that has passed it is a look whether the wake has come, and no sleep.
        if parker.park_until(Some(past)) == Wakeup::Woken {
            return Wakeup::Woken;
        }
    }
    parker.park_until(deadline)
}
