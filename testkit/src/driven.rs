//! A lock and its capabilities as trait objects, so that the same tests run every lock.

use core::any::Any;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Poll, Waker};
use std::sync::Arc;
use std::time::Instant;

use spanlock_range_lock::{
    Access, Exclusive, Hold, Mode, RangeError, RawRangeLock, RawRangeLockBatch,
    RawRangeLockBatchWait, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
    RawRangeLockUpgradeWait, RawRangeLockWait, Shared, Span, TimedLockError, Token, Upgradable,
};

/// A lock under test: one trait object for the lock, and one for each of its capabilities.
///
/// [`driven!`](crate::driven!) creates it. The `Arc`s are std's even under a checker. The checker's
/// own `Arc` would multiply the executions without testing more of the lock.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Driven {
    pub raw: Arc<dyn RawRangeLock>,
    /// The maximum number of readers that hold a unit at once, counting an upgradable one. A
    /// **unit** is the smallest range that the lock distinguishes; its size is the lock's
    /// granularity.
    pub readers: usize,
    pub wait: Option<Arc<dyn ErasedWait>>,
    pub downgrade: Option<Arc<dyn RawRangeLockDowngrade>>,
    pub upgrade: Option<Arc<dyn RawRangeLockUpgrade>>,
    pub upgrade_wait: Option<Arc<dyn RawRangeLockUpgradeWait>>,
    pub split: Option<Arc<dyn RawRangeLockSplit>>,
    pub batch: Option<Arc<dyn ErasedBatch>>,
    /// Frees unused memory and returns the number of bytes freed. [`driven!`](crate::driven!)
    /// cannot set this function, because it belongs to no trait.
    pub reclaim: Option<Arc<dyn Fn() -> usize + Send + Sync>>,
}

impl Driven {
    /// Returns a lock without capabilities.
    pub fn plain(raw: Arc<dyn RawRangeLock>) -> Self {
        Driven {
            raw,
            readers: usize::MAX,
            wait: None,
            downgrade: None,
            upgrade: None,
            upgrade_wait: None,
            split: None,
            batch: None,
            reclaim: None,
        }
    }

    /// Returns the same lock with a maximum number of readers that hold a unit at once, counting an
    /// upgradable one.
    pub fn with_readers(self, readers: u32) -> Self {
        Driven {
            readers: readers as usize,
            ..self
        }
    }

    /// Returns the lock's **stride**, by which the tests lay out their ranges: the size of a unit,
    /// or 4096 positions if a unit is larger, as in a whole-range lock.
    pub fn stride(&self) -> u64 {
        self.raw.granularity().min(4096)
    }

    /// Returns the span that a hold of `span` blocks: `span` rounded outwards to the lock's
    /// granularity.
    pub fn rounded(&self, span: Span) -> Span {
        let unit = self.raw.granularity();
        let start = span.start() / unit * unit;
        let end = span.end().checked_next_multiple_of(unit);
        let rounded = Span::new(start..end.unwrap_or(u64::MAX)).ok().flatten();
        rounded.expect("the rounded span contains `span`")
    }

    /// Returns whether two spans share a unit. Conflicting accesses to such spans block each other.
    pub fn meet(&self, a: Span, b: Span) -> bool {
        self.rounded(a).overlaps(self.rounded(b))
    }

    /// Returns whether the spans form a valid batch: they are in ascending order, and no two of
    /// them share a unit.
    pub fn is_batch(&self, batch: &[(Span, Access)]) -> bool {
        let spans = batch.iter().map(|&(span, _)| self.rounded(span));
        spans.is_sorted_by(|before, next| before.end() <= next.start())
    }

    /// Returns whether holds of these spans and accesses exclude each other.
    pub fn conflict(&self, a: (Span, Access), b: (Span, Access)) -> bool {
        a.1.conflicts_with(b.1) && self.meet(a.0, b.0)
    }
}

/// Creates a [`Driven`] from a lock and a list of its capabilities: any of `wait`, `downgrade`,
/// `upgrade`, `upgrade_wait`, `split`, `batch`.
///
/// ```
/// use spanlock_range_lock::RwCounter;
/// use spanlock_testkit::driven;
///
/// let lock = driven!(RwCounter::new(); downgrade, upgrade);
/// assert!(lock.downgrade.is_some() && lock.batch.is_none());
/// ```
#[macro_export]
macro_rules! driven {
    ($lock:expr; $($capability:ident),* $(,)?) => {{
        let lock = ::std::sync::Arc::new($lock);
        // A lock with every capability needs no default.
        #[allow(clippy::needless_update)]
        $crate::Driven {
            $($capability: ::core::option::Option::Some(lock.clone()),)*
            ..$crate::Driven::plain(lock)
        }
    }};
}

/// [`RawRangeLockWait`] without its associated type, so that it is `dyn`-compatible.
pub trait ErasedWait: Send + Sync {
    /// Returns a new request.
    fn request(&self) -> Pin<Box<dyn Any + Send>>;

    /// Like [`RawRangeLockWait::poll_lock`].
    ///
    /// # Safety
    /// The requirements of [`RawRangeLockWait::poll_lock`]. `request` was created by
    /// [`Self::request`] of this lock.
    unsafe fn poll(
        &self,
        span: Span,
        access: Access,
        request: Pin<&mut dyn Any>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>>;

    /// Like [`RawRangeLockWait::cancel`].
    ///
    /// # Safety
    /// The requirements of [`RawRangeLockWait::cancel`]. `request` was created by [`Self::request`]
    /// of this lock.
    unsafe fn cancel(&self, span: Span, access: Access, request: Pin<&mut dyn Any>);

    /// Locks a span like [`spanlock_range_lock::Hold::try_lock_until`], calls `under` while the
    /// span is held, and unlocks the span. Returns whether the span was locked before the deadline.
    ///
    /// # Errors
    /// As for [`RawRangeLock::lock`].
    fn lock_until(
        &self,
        span: Span,
        access: Access,
        deadline: Instant,
        under: &mut dyn FnMut(),
    ) -> Result<bool, RangeError>;
}

impl<L: RawRangeLockWait<Request: 'static>> ErasedWait for L {
    fn request(&self) -> Pin<Box<dyn Any + Send>> {
        Box::pin(L::Request::default())
    }

    unsafe fn poll(
        &self,
        span: Span,
        access: Access,
        request: Pin<&mut dyn Any>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        let request = downcast(request);
        // SAFETY: the caller guarantees the same requirements.
        unsafe { self.poll_lock(span, access, request, waker) }
    }

    unsafe fn cancel(&self, span: Span, access: Access, request: Pin<&mut dyn Any>) {
        let request = downcast(request);
        // SAFETY: the caller guarantees the same requirements.
        unsafe { RawRangeLockWait::cancel(self, span, access, request) }
    }

    fn lock_until(
        &self,
        span: Span,
        access: Access,
        deadline: Instant,
        under: &mut dyn FnMut(),
    ) -> Result<bool, RangeError> {
        let range = span.range();
        match access {
            Access::Read => under_guard::<L, Shared>(self, range, deadline, under),
            Access::Upgradable => under_guard::<L, Upgradable>(self, range, deadline, under),
            Access::Write => under_guard::<L, Exclusive>(self, range, deadline, under),
        }
    }
}

/// [`RawRangeLockBatchWait`] without its associated type, so that it is `dyn`-compatible.
pub trait ErasedBatch: RawRangeLockBatch {
    /// Returns a new request for several spans.
    fn batch_request(&self) -> Pin<Box<dyn Any + Send>>;

    /// Like [`RawRangeLockBatchWait::poll_batch`].
    ///
    /// # Safety
    /// The requirements of [`RawRangeLockBatchWait::poll_batch`]. `request` was created by
    /// [`Self::batch_request`] of this lock.
    unsafe fn poll_all(
        &self,
        batch: &[(Span, Access)],
        request: Pin<&mut dyn Any>,
        waker: &Waker,
        tokens: &mut [Token],
    ) -> Poll<Result<(), RangeError>>;

    /// Like [`RawRangeLockBatchWait::cancel_batch`].
    ///
    /// # Safety
    /// The requirements of [`RawRangeLockBatchWait::cancel_batch`]. `request` was created by
    /// [`Self::batch_request`] of this lock.
    unsafe fn cancel_all(&self, batch: &[(Span, Access)], request: Pin<&mut dyn Any>);
}

impl<L: RawRangeLockBatchWait<BatchRequest: 'static>> ErasedBatch for L {
    fn batch_request(&self) -> Pin<Box<dyn Any + Send>> {
        Box::pin(L::BatchRequest::default())
    }

    unsafe fn poll_all(
        &self,
        batch: &[(Span, Access)],
        request: Pin<&mut dyn Any>,
        waker: &Waker,
        tokens: &mut [Token],
    ) -> Poll<Result<(), RangeError>> {
        // SAFETY: the caller guarantees the same requirements.
        unsafe { self.poll_batch(batch, downcast(request), waker, tokens) }
    }

    unsafe fn cancel_all(&self, batch: &[(Span, Access)], request: Pin<&mut dyn Any>) {
        // SAFETY: the caller guarantees the same requirements.
        unsafe { self.cancel_batch(batch, downcast(request)) }
    }
}

/// Returns the pinned request that was made by [`ErasedWait::request`] of a lock with this type of
/// requests.
fn downcast<R: 'static>(request: Pin<&mut dyn Any>) -> Pin<&mut R> {
    // SAFETY: the request is not moved, and stays pinned.
    unsafe {
        let request = request.get_unchecked_mut().downcast_mut();
        Pin::new_unchecked(request.expect("a request of this lock"))
    }
}

/// Locks a range before `deadline`, calls `under` while the range is held, and unlocks the range.
/// Returns whether the range was locked in time.
fn under_guard<L: RawRangeLockWait, A: Mode>(
    lock: &L,
    range: Range<u64>,
    deadline: Instant,
    under: &mut dyn FnMut(),
) -> Result<bool, RangeError> {
    match Hold::<&L, A>::try_lock_until(lock, range, deadline) {
        Ok(hold) => {
            under();
            drop(hold);
            Ok(true)
        }
        Err(TimedLockError::Range(error)) => Err(error),
        Err(_) => Ok(false),
    }
}
