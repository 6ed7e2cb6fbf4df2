//! [`LockFuture`]: a request that can be given up.

use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use super::hold::{Hold, LockRef, Mode};
use crate::capabilities::RawRangeLockWait;
use crate::detect::{self, Watch};
use crate::error::RangeError;
use crate::raw::Span;

/// A future that resolves to a hold. It requests nothing before its first poll. Dropping it gives
/// up the request and leaves no trace.
///
/// It runs on any executor. It stays one waiter however often it is polled, and the lock wakes the
/// waker of the most recent poll.
///
/// Output: the hold. Errors: a reversed range, or one past the lock's capacity. Ordering: Acquire
/// when ready.
///
/// # Panics
/// Panics when polled after completion.
#[must_use = "futures do nothing unless polled"]
pub struct LockFuture<P: LockRef<Lock: RawRangeLockWait>, A: Mode> {
    /// `None` after completion.
    lock: Option<P>,
    span: Result<Option<Span>, RangeError>,
    /// Invariant: passed to this lock only, with this span and access only.
    request: <P::Lock as RawRangeLockWait>::Request,
    mode: PhantomData<A>,
}

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> LockFuture<P, A> {
    /// Returns a future that has requested nothing yet.
    pub(super) fn new(lock: P, span: Result<Option<Span>, RangeError>) -> Self {
        detect::check_home(lock.raw());
        LockFuture {
            lock: Some(lock),
            span,
            request: Default::default(),
            mode: PhantomData,
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> Future for LockFuture<P, A> {
    type Output = Result<Hold<P, A>, RangeError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the request is pinned with the future, and nothing else in it is.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let request = unsafe { Pin::new_unchecked(&mut this.request) };
        let lock = (this.lock.as_ref()).expect("`LockFuture` polled after completion");
        let taken = match this.span {
            Ok(Some(span)) => {
                let (raw, waker) = (lock.raw(), context.waker());
                // SAFETY: the invariant of `request`. Dropping the future cancels the request.
                let poll = unsafe { raw.poll_lock(span, A::ACCESS, request, waker) };
                ready!(poll).map(|token| Some((span, token)))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let lock = this.lock.take().expect("present at the start of this poll");
        Poll::Ready(taken.map(|taken| match taken {
            Some((span, token)) => Hold::of(lock, span, token, Watch::none()),
            None => Hold::of_nothing(lock),
        }))
    }
}

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> Drop for LockFuture<P, A> {
    fn drop(&mut self) {
        if let (Some(lock), Ok(Some(span))) = (&self.lock, self.span) {
            // SAFETY: a future that was polled is pinned until it is dropped.
            let request = unsafe { Pin::new_unchecked(&mut self.request) };
            // SAFETY: the invariant of `request`.
            unsafe { lock.raw().cancel(span, A::ACCESS, request) }
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
