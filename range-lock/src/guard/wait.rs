//! Requests that can be given up: futures.

use core::future::Future;
use core::marker::PhantomData;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use super::hold::{Hold, LockRef, Mode};
use crate::detect::Watch;
use crate::error::RangeError;
use crate::capabilities::RawRangeLockWait;
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
}
