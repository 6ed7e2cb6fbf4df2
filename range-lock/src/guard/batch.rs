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
use crate::capabilities::{RawRangeLockBatch, RawRangeLockBatchWait};
use crate::detect::{self, Call, Watch};
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{NoMemory, RangeError, TryLockError};
use crate::positions::IntoRange;
use crate::raw::{Access, RawRangeLock, Span, Token};

/// Returns the spans that a lock of this granularity acquires for `requests`, as
/// [`Borders::into_parts`] does.
///
/// # Errors
/// The error of the first range that is invalid, ends past `capacity`, or for which there is no
/// memory.
pub(crate) fn normalised(
    requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    granularity: u64,
    capacity: u64,
) -> Result<Vec<(Span, Access)>, RangeError> {
    let mut borders = Borders::default();
    for (range, access) in requests {
        let range = range.bounds()?.up_to(|| capacity)?;
        borders.add(range, access, granularity, capacity)?;
    }
    borders.into_parts()
}

/// Where the requested spans begin (+1) and end (-1), each with its access.
#[derive(Default)]
pub(crate) struct Borders(Vec<(u64, Access, isize)>);

impl Borders {
    /// Adds a request, rounded outwards to `granularity`, but not past `capacity`.
    pub(crate) fn add(
        &mut self,
        range: Range<u64>,
        access: Access,
        granularity: u64,
        capacity: u64,
    ) -> Result<(), RangeError> {
        let Range { start, end } = range;
        let Some(span) = Span::new(range)? else {
            return Ok(());
        };
        if end > capacity {
            return Err(RangeError::PastCapacity {
                start,
                end,
                capacity,
            });
        }
        let span = span.rounded(granularity, capacity);
        self.0.try_reserve(2).map_err(|_| NoMemory.at(span))?;
        self.0.push((span.start(), access, 1));
        self.0.push((span.end(), access, -1));
        Ok(())
    }

    /// Returns the spans to acquire: in ascending order, with no unit in two of them. Each unit has
    /// the strongest access requested for it, and adjacent units of equal access form one span.
    pub(crate) fn into_parts(self) -> Result<Vec<(Span, Access)>, RangeError> {
        let Borders(mut borders) = self;
        borders.sort_unstable_by_key(|&(at, ..)| at);
        let mut parts = Vec::new();
        // Each part ends at a border. So adding the parts allocates nothing.
        if let (Some(first), Some(last)) = (borders.first(), borders.last()) {
            let memory = parts.try_reserve_exact(borders.len());
            let (start, end) = (first.0, last.0);
            memory.map_err(|_| RangeError::Memory { start, end })?;
        }
        let mut depth = [0; 3];
        let mut from = 0;
        for (at, access, step) in borders {
            let strongest = [Access::Write, Access::Upgradable, Access::Read];
            if let Some(&access) = strongest.iter().find(|&&how| depth[how as usize] > 0) {
                extend(&mut parts, from..at, access);
            }
            depth[access as usize] += step;
            from = at;
        }
        Ok(parts)
    }
}

/// Appends `range`. Merges it into the last part if that ends at `range.start` and has the same
/// access.
fn extend(parts: &mut Vec<(Span, Access)>, range: Range<u64>, access: Access) {
    let mut start = range.start;
    if range.is_empty() {
        return;
    }
    if let Some(&(last, how)) = parts.last()
        && (last.end(), how) == (start, access)
    {
        start = last.start();
        parts.pop();
    }
    if let Ok(Some(span)) = Span::new(start..range.end) {
        parts.push((span, access));
    }
}

/// Several ranges held together. Dropping it releases them all.
///
/// [`RangeLockExt::lock_all`](crate::RangeLockExt::lock_all) makes one.
#[must_use = "dropping the hold at once releases the ranges"]
pub struct BatchHold<P: LockRef> {
    /// Each part releases itself, so a panic in one release (from a foreign waker) does not stop
    /// the others.
    parts: Vec<Part<P>>,
}

/// One of the ranges: like a [`Hold`](super::Hold), but its access is known at run time only.
struct Part<P: LockRef> {
    lock: P,
    span: Span,
    access: Access,
    token: Token,
    watch: Watch,
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
        let batch = Self::wanted(&lock, requests)?;
        let (mut tokens, parts) = Self::room_for(&batch)?;
        {
            let _waiting = detect::before(lock.raw(), &batch, Call::Batch);
            // SAFETY: `normalised` has put the spans in order, rounded and disjoint.
            unsafe { lock.raw().lock_batch(&batch, &mut tokens) }?;
        }
        Ok(Self::of(lock, &batch, tokens, parts))
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
        let batch = Self::wanted(&lock, requests)?;
        Self::try_wanted(&lock, &batch)
    }

    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_wanted(lock: &P, batch: &[(Span, Access)]) -> Result<Self, TryLockError> {
        let (mut tokens, parts) = Self::room_for(batch)?;
        detect::check_home(lock.raw());
        // SAFETY: `normalised` has put the spans in order, rounded and disjoint.
        unsafe { lock.raw().try_lock_batch(batch, &mut tokens) }?;
        Ok(Self::of(lock.clone(), batch, tokens, parts))
    }

    /// Returns what to hold for `requests`.
    fn wanted(
        lock: &P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> Result<Vec<(Span, Access)>, RangeError> {
        normalised(requests, lock.raw().granularity(), lock.raw().capacity())
    }

    /// Returns room for the tokens and the parts of a batch. So nothing is allocated once the batch
    /// is held.
    fn room_for(batch: &[(Span, Access)]) -> Result<(Vec<Token>, Vec<Part<P>>), RangeError> {
        let (mut tokens, mut parts) = (Vec::new(), Vec::new());
        let memory = tokens.try_reserve_exact(batch.len());
        let memory = memory.and_then(|()| parts.try_reserve_exact(batch.len()));
        memory.map_err(|_| NoMemory.in_batch(batch))?;
        Ok((tokens, parts))
    }

    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn of(lock: P, batch: &[(Span, Access)], tokens: Vec<Token>, mut parts: Vec<Part<P>>) -> Self {
        // A loop instead of a closure, because closures do not track their caller.
        for (&(span, access), token) in batch.iter().zip(tokens) {
            let watch = Watch::begin(lock.raw(), span, access, token);
            let lock = lock.clone();
            parts.push(Part {
                lock,
                span,
                access,
                token,
                watch,
            });
        }
        BatchHold { parts }
    }

    /// Like [`of`](Self::of), but the holds belong to no thread.
    fn of_future(
        lock: &P,
        batch: &[(Span, Access)],
        tokens: Vec<Token>,
        mut parts: Vec<Part<P>>,
    ) -> Self {
        for (&(span, access), token) in batch.iter().zip(tokens) {
            parts.push(Part {
                lock: lock.clone(),
                span,
                access,
                token,
                watch: Watch::none(),
            });
        }
        BatchHold { parts }
    }
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> BatchHold<P> {
    /// Returns a future that locks all the ranges. Never blocks.
    pub fn lock_async(
        lock: P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> BatchFuture<P> {
        let batch = Self::wanted(&lock, requests);
        BatchFuture::new(lock, batch)
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
        let batch = Self::wanted(&lock, requests)?;
        Self::wait(lock, batch, Limit::For(timeout))
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
        let batch = Self::wanted(&lock, requests)?;
        Self::wait(lock, batch, Limit::Until(deadline))
    }

    /// Tries first, like the requests for one range.
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn wait(lock: P, batch: Vec<(Span, Access)>, limit: Limit) -> Result<Self, TimedLockError> {
        match Self::try_wanted(&lock, &batch) {
            Err(TryLockError::WouldBlock) => {}
            done => return Ok(done?),
        }
        let deadline = limit.deadline()?;
        let request = BatchFuture::new(lock, Ok(batch));
        let taken = block_on(request, deadline).ok_or(TimedLockError::TimedOut)?;
        Ok(taken?.watched())
    }

    /// Records the holds as acquired by the calling thread.
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn watched(mut self) -> Self {
        for part in &mut self.parts {
            part.watch = Watch::begin(part.lock.raw(), part.span, part.access, part.token);
        }
        self
    }
}

/// A future that resolves to a [`BatchHold`]. It requests nothing before its first poll. Dropping
/// it gives up the request and leaves no trace. Otherwise like a [`LockFuture`](super::LockFuture).
///
/// # Panics
/// Panics when polled after completion.
#[must_use = "futures do nothing unless polled"]
pub struct BatchFuture<P: LockRef<Lock: RawRangeLockBatchWait>> {
    /// `None` after completion.
    lock: Option<P>,
    batch: Result<Vec<(Span, Access)>, RangeError>,
    /// Invariant: passed to this lock only, with this batch only.
    request: <P::Lock as RawRangeLockBatchWait>::BatchRequest,
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> BatchFuture<P> {
    fn new(lock: P, batch: Result<Vec<(Span, Access)>, RangeError>) -> Self {
        detect::check_home(lock.raw());
        BatchFuture {
            lock: Some(lock),
            batch,
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
        let lock = (this.lock.as_ref()).expect("`BatchFuture` polled after completion");
        let taken = match &this.batch {
            Ok(batch) => match BatchHold::room_for(batch) {
                Ok((mut tokens, parts)) => {
                    let (raw, waker) = (lock.raw(), context.waker());
                    // SAFETY: the invariant of `request`; `normalised` has put the spans in order,
                    // rounded and disjoint. Dropping the future cancels the request.
                    let poll = unsafe { raw.poll_batch(batch, request, waker, &mut tokens) };
                    ready!(poll).map(|()| BatchHold::of_future(lock, batch, tokens, parts))
                }
                Err(error) => {
                    // SAFETY: as above.
                    unsafe { lock.raw().cancel_batch(batch, request) };
                    Err(error)
                }
            },
            Err(error) => Err(*error),
        };
        this.lock = None;
        Poll::Ready(taken)
    }
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> Drop for BatchFuture<P> {
    fn drop(&mut self) {
        if let (Some(lock), Ok(batch)) = (&self.lock, &self.batch) {
            // SAFETY: a future that was polled is pinned until it is dropped.
            let request = unsafe { Pin::new_unchecked(&mut self.request) };
            // SAFETY: the invariant of `request`.
            unsafe { lock.raw().cancel_batch(batch, request) }
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockBatchWait>> fmt::Debug for BatchFuture<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchFuture")
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}

impl<P: LockRef> BatchHold<P> {
    /// Returns the held spans: the requested ranges in ascending order, rounded to the lock's
    /// granularity and merged. Each has the strongest access requested in it.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = (Span, Access)> {
        self.parts.iter().map(|part| (part.span, part.access))
    }
}

impl<P: LockRef> Drop for Part<P> {
    fn drop(&mut self) {
        self.watch.end();
        // SAFETY: the span is held with this access and token, and nothing else releases it.
        unsafe { (self.lock.raw()).unlock(self.span, self.access, self.token) }
    }
}

impl<P: LockRef> fmt::Debug for BatchHold<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BatchHold")?;
        f.debug_list().entries(self.spans()).finish()
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;
