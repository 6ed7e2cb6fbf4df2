//! Several ranges in one call: requests are put in order, and held together.

use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

#[cfg(feature = "std")]
use super::deadline::{Limit, block_on};
use super::hold::LockRef;
use super::parts::{Form, INLINE, List, Parts, Spans};
use crate::capabilities::{RawRangeLockBatch, RawRangeLockBatchWait};
use crate::detect::{self, Call, Watch};
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{NoMemory, RangeError, TryLockError};
use crate::positions::IntoRange;
use crate::raw::{Access, RawRangeLock, Span, Token};
use crate::words::for_each_surely;

/// Several ranges held together. Dropping it releases them all.
///
/// [`RangeLockExt::lock_all`](crate::RangeLockExt::lock_all) makes one. Up to 64 ranges need no
/// memory but the hold's own 2 KiB, unless some of them overlap.
#[must_use = "dropping the hold at once releases the ranges"]
pub struct BatchHold<P: LockRef> {
    lock: P,
    /// What was requested.
    parts: Parts,
    /// The spans that the lock acquires.
    form: Form,
    /// The lock's granularity and capacity at the time of the request, from which the spans follow.
    rounding: (u64, u64),
    /// A token for each span.
    tokens: List<Token>,
    /// A record for each span that belongs to a thread. Allocates only for `deadlock-detection`.
    watches: Vec<Watch>,
    /// Whether the spans are held with these tokens.
    is_held: bool,
}

impl<P: LockRef<Lock: RawRangeLockBatch>> BatchHold<P> {
    /// Locks all the ranges; blocks until no conflicting hold is left. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, one past the lock's capacity, or no memory. Nothing is held then.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock(
        lock: P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> Result<Self, RangeError> {
        let mut hold = Self::new(lock);
        hold.ask_for(requests)?;
        hold.acquire()?;
        Ok(hold)
    }

    /// Locks all the ranges if that is possible at once; never blocks. Ordering: Acquire on
    /// success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait for any of them; otherwise as for
    /// [`lock`](Self::lock). Nothing is held then.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock(
        lock: P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> Result<Self, TryLockError> {
        let mut hold = Self::new(lock);
        hold.ask_for(requests)?;
        hold.try_acquire()?;
        Ok(hold)
    }

    /// Acquires what was asked for; blocks.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub(crate) fn acquire(&mut self) -> Result<(), RangeError> {
        let mut spans = List::new();
        self.prepare(&mut spans)?;
        let batch = self.form.batch(&self.parts).unwrap_or(&spans);
        {
            let _waiting = detect::before(self.lock.raw(), batch, Call::Batch);
            // SAFETY: `prepare` returns the spans in order, apart from each other, and has made a
            // token for each.
            unsafe { self.lock.raw().lock_batch(batch, &mut self.tokens) }?;
        }
        self.is_held = true;
        self.watch();
        Ok(())
    }

    /// Acquires what was asked for, if that is possible at once.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub(crate) fn try_acquire(&mut self) -> Result<(), TryLockError> {
        let mut spans = List::new();
        self.prepare(&mut spans)?;
        let batch = self.form.batch(&self.parts).unwrap_or(&spans);
        detect::check_home(self.lock.raw());
        // SAFETY: as in `acquire`.
        unsafe { self.lock.raw().try_lock_batch(batch, &mut self.tokens) }?;
        self.is_held = true;
        self.watch();
        Ok(())
    }
}

impl<P: LockRef> BatchHold<P> {
    /// Returns a hold of nothing. The lists are filled in place, because they are long to move.
    #[inline]
    pub(crate) fn new(lock: P) -> Self {
        let rounding = (lock.raw().granularity(), lock.raw().capacity());
        BatchHold {
            lock,
            parts: Parts::default(),
            form: Form::Parts,
            rounding,
            tokens: List::new(),
            watches: Vec::new(),
            is_held: false,
        }
    }

    fn ask_for(
        &mut self,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> Result<(), RangeError> {
        let (_, capacity) = self.rounding;
        let requests = requests.into_iter().map(|(range, access)| {
            let range = range.bounds()?.up_to(|| capacity)?;
            Ok((range, access))
        });
        self.ask(requests, false)
    }

    /// Says what to acquire. If `apart` is set, ranges that overlap are an error.
    pub(crate) fn ask(
        &mut self,
        requests: impl Iterator<Item = Result<(Range<u64>, Access), RangeError>>,
        apart: bool,
    ) -> Result<(), RangeError> {
        self.form = self.parts.fill(requests, self.rounding, apart)?;
        Ok(())
    }

    /// Stores the spans to acquire in the empty list `spans`, if they need one
    /// ([`Form::batch`]). Makes room for all that their hold needs, so nothing is allocated once
    /// they are held.
    fn prepare(&mut self, spans: &mut List<(Span, Access)>) -> Result<(), RangeError> {
        let prepared = self.make_room(spans);
        prepared.map_err(|NoMemory| NoMemory.in_batch(self.parts()))
    }

    fn make_room(&mut self, spans: &mut List<(Span, Access)>) -> Result<(), NoMemory> {
        let count = match self.form.batch(&self.parts) {
            Some(batch) => batch.len(),
            None => {
                spans.try_reserve_exact(self.parts().len())?;
                self.held().for_each(|span| spans.push(span));
                spans.len()
            }
        };
        // The tokens may be those of a try that failed.
        self.tokens.clear();
        self.tokens.try_reserve_exact(count)?;
        self.tokens.resize(count, Token::NONE);
        self.watches.try_reserve_exact(count)?;
        Ok(())
    }

    /// Records the holds as acquired by the calling thread.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn watch(&mut self) {
        if cfg!(feature = "deadlock-detection") {
            let (granularity, capacity) = self.rounding;
            let spans = self.parts.spans(granularity, capacity);
            // A loop instead of a closure, because closures do not track their caller.
            for ((span, access), &token) in spans.zip(&self.tokens) {
                let watch = Watch::begin(self.lock.raw(), span, access, token);
                self.watches.push(watch);
            }
        }
    }

    fn held(&self) -> Spans<'_> {
        let (granularity, capacity) = self.rounding;
        self.parts.spans(granularity, capacity)
    }

    /// Returns the held spans: the requested ranges in ascending order, rounded to the lock's
    /// granularity. Each has the strongest access requested in it. Ranges that meet are merged if
    /// their access is the same.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = (Span, Access)> {
        let mut held = self.held();
        let each = self.tokens.iter();
        each.map(move |_| held.next().expect("there is a token for each span"))
    }

    /// Returns the requested ranges.
    #[inline]
    pub(crate) fn parts(&self) -> &[(Span, Access)] {
        self.parts.as_slice()
    }

    pub(crate) fn lock_ref(&self) -> &P {
        &self.lock
    }
}

impl<P: LockRef> Drop for BatchHold<P> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_held {
            return;
        }
        for watch in &mut self.watches {
            watch.end();
        }
        if let Some(batch) = self.form.batch(&self.parts) {
            // SAFETY: the spans are held with these accesses and tokens, and nothing else releases
            // them.
            return unsafe { self.lock.raw().unlock_all(batch, &self.tokens) };
        }
        // In pieces, because a release must not allocate. A waker may panic in any of them.
        let mut held = self.held();
        for_each_surely(self.tokens.chunks(INLINE), |tokens| {
            let mut batch = List::new();
            let spans = held.by_ref().take(tokens.len());
            spans.for_each(|span| batch.push(span));
            // SAFETY: as above, for the spans of the parts.
            unsafe { self.lock.raw().unlock_all(&batch, tokens) }
        });
    }
}

impl<P: LockRef> fmt::Debug for BatchHold<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BatchHold")?;
        f.debug_list().entries(self.spans()).finish()
    }
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> BatchHold<P> {
    /// Returns a future that locks all the ranges. Never blocks.
    pub fn lock_async(
        lock: P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> BatchFuture<P> {
        let mut hold = Self::new(lock);
        let asked = hold.ask_for(requests);
        BatchFuture::new(hold, asked)
    }

    /// Locks all the ranges; blocks until no conflicting hold is left, for at most `timeout`. A
    /// timeout too long for the clock never ends. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_for(
        lock: P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        let mut hold = Self::new(lock);
        hold.ask_for(requests)?;
        hold.wait(Limit::For(timeout))
    }

    /// Locks all the ranges; blocks until no conflicting hold is left or `deadline` has passed. A
    /// deadline in the past makes this a try. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_until(
        lock: P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        let mut hold = Self::new(lock);
        hold.ask_for(requests)?;
        hold.wait(Limit::Until(deadline))
    }

    /// Acquires what was asked for. Tries first, like the requests for one range.
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub(crate) fn wait(mut self, limit: Limit) -> Result<Self, TimedLockError> {
        match self.try_acquire() {
            Ok(()) => return Ok(self),
            Err(TryLockError::WouldBlock) => {}
            Err(error) => return Err(error.into()),
        }
        let deadline = limit.deadline()?;
        let request = BatchFuture::new(self, Ok(()));
        let mut hold = block_on(request, deadline).ok_or(TimedLockError::TimedOut)??;
        hold.watch();
        Ok(hold)
    }
}

/// A future that resolves to a [`BatchHold`]. It requests nothing before its first poll. Dropping
/// it gives up the request and leaves no trace. Otherwise like a [`LockFuture`](super::LockFuture).
///
/// # Panics
/// Panics when polled after completion.
#[must_use = "futures do nothing unless polled"]
pub struct BatchFuture<P: LockRef<Lock: RawRangeLockBatchWait>> {
    /// What to acquire. `None` after completion.
    hold: Option<BatchHold<P>>,
    /// The spans to acquire, if they need a list.
    spans: Result<List<(Span, Access)>, RangeError>,
    /// Invariant: passed to this lock only, with this batch only.
    request: <P::Lock as RawRangeLockBatchWait>::BatchRequest,
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> BatchFuture<P> {
    pub(crate) fn new(mut hold: BatchHold<P>, asked: Result<(), RangeError>) -> Self {
        detect::check_home(hold.lock.raw());
        let mut spans = List::new();
        let prepared = asked.and_then(|()| hold.prepare(&mut spans));
        BatchFuture {
            hold: Some(hold),
            spans: prepared.map(|()| spans),
            request: Default::default(),
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> Future for BatchFuture<P> {
    type Output = Result<BatchHold<P>, RangeError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the request is pinned with the future, and nothing else in it is.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let request = unsafe { Pin::new_unchecked(&mut this.request) };
        let hold = (this.hold.as_mut()).expect("`BatchFuture` polled after completion");
        let taken = match &this.spans {
            Ok(spans) => {
                let batch = hold.form.batch(&hold.parts).unwrap_or(spans);
                let (raw, tokens, waker) = (hold.lock.raw(), &mut hold.tokens, context.waker());
                // SAFETY: the invariant of `request`; `prepare` has returned the spans in order,
                // apart from each other, and has made a token for each. Dropping the future cancels
                // the request.
                ready!(unsafe { raw.poll_batch(batch, request, waker, tokens) })
            }
            Err(error) => Err(*error),
        };
        hold.is_held = taken.is_ok();
        let hold = this.hold.take();
        Poll::Ready(taken.map(|()| hold.expect("it was there above")))
    }
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> Drop for BatchFuture<P> {
    fn drop(&mut self) {
        if let (Some(hold), Ok(spans)) = (&self.hold, &self.spans) {
            let batch = hold.form.batch(&hold.parts).unwrap_or(spans);
            // SAFETY: a future that was polled is pinned until it is dropped.
            let request = unsafe { Pin::new_unchecked(&mut self.request) };
            // SAFETY: the invariant of `request`.
            unsafe { hold.lock.raw().cancel_batch(batch, request) }
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> fmt::Debug for BatchFuture<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.hold.as_ref().map(BatchHold::parts);
        f.debug_struct("BatchFuture")
            .field("asked", &asked)
            .finish_non_exhaustive()
    }
}
