//! [`RangeGuard`]: the elements of a held range.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::ops::{Deref, DerefMut, Range};
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use super::{Memory, RangeLock};
use crate::capabilities::{
    RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockUpgradeWait,
    RawRangeLockWait,
};
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{PartError, RangeError, TryLockError};
use crate::guard::hold::sealed;
use crate::guard::{Exclusive, Hold, LockField, LockRef, Mode, Readable, Shared, Upgradable};
use crate::positions::{Bounds, IntoRange, in_hold, in_slice};
use crate::raw::{RawRangeLock, Span};

/// The pointer by which a guard reaches its [`RangeLock`] of `T`s: `&RangeLock<T, L>`, or
/// `Arc<RangeLock<T, L>>` for an owned guard, or a [`LockField`] for one of a lock that is a part
/// of something shared. Sealed.
pub trait SliceRef<T>: LockRef {
    /// Returns the address of the first element, and the number of elements (RL-I1).
    #[doc(hidden)]
    fn elements(&self) -> (*mut T, usize);
}

// The owner of a lock that is a part of something is `Send` and `Sync`: an owned guard may be its
// last one, and drop it in another thread.
macro_rules! slice_ref {
    ($pointer:ty $(, $owner:ident)?) => {
        impl<T, L: RawRangeLock, M: Memory<T> $(, $owner: ?Sized + Send + Sync)?> sealed::Sealed for $pointer {}
        impl<T, L: RawRangeLock, M: Memory<T> $(, $owner: ?Sized + Send + Sync)?> LockRef for $pointer {
            type Lock = L;
            #[inline]
            fn raw(&self) -> &L {
                &self.lock
            }
        }
        impl<T, L: RawRangeLock, M: Memory<T> $(, $owner: ?Sized + Send + Sync)?> SliceRef<T> for $pointer {
            #[inline]
            fn elements(&self) -> (*mut T, usize) {
                (self.data.as_ptr(), self.len)
            }
        }
    };
}

slice_ref!(&RangeLock<T, L, M>);
slice_ref!(Arc<RangeLock<T, L, M>>);
slice_ref!(LockField<O, RangeLock<T, L, M>>, O);

/// A held range of the [`RangeLock`] that `P` points to; derefs to `[T]`. Its aliases are
/// [`RangeReadGuard`], [`RangeUpgradableGuard`], [`RangeWriteGuard`], and their owned forms.
/// Dropping it releases the range.
///
/// The methods of [`RangeLock`] are the short way to a borrowed guard. The functions here take any
/// `P`. With an `Arc` they make guards that can be stored, and moved into threads and tasks:
///
/// ```
/// use std::sync::Arc;
/// use spanlock_range_lock::{OwnedRangeWriteGuard, RangeLock, RwCounter};
///
/// let pixels = Arc::new(RangeLock::with_lock(vec![0_u8; 100], RwCounter::new())?);
/// let mut mine = OwnedRangeWriteGuard::lock(pixels.clone(), 10..20)?;
/// std::thread::spawn(move || mine.fill(7)).join().unwrap();
/// assert_eq!(pixels.read(9..11)?[..], [0, 7]);
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
#[must_use = "dropping the guard at once releases the range"]
pub struct RangeGuard<P: LockRef, T, A: Mode> {
    /// The elements of the held span (RL-I2, RL-I4). `*mut`, because a guard that can write must be
    /// invariant in `T` (RL-I3).
    pub(super) data: *mut [T],
    hold: Hold<P, A>,
}

/// A range held for reading.
pub type RangeReadGuard<'a, T, L, M = Box<[T]>> = RangeGuard<&'a RangeLock<T, L, M>, T, Shared>;
/// A range held for reading, with the right to write later.
pub type RangeUpgradableGuard<'a, T, L, M = Box<[T]>> =
    RangeGuard<&'a RangeLock<T, L, M>, T, Upgradable>;
/// A range held for reading and writing.
pub type RangeWriteGuard<'a, T, L, M = Box<[T]>> = RangeGuard<&'a RangeLock<T, L, M>, T, Exclusive>;

/// A [`RangeReadGuard`] that shares ownership of its lock.
pub type OwnedRangeReadGuard<T, L, M = Box<[T]>> = RangeGuard<Arc<RangeLock<T, L, M>>, T, Shared>;
/// A [`RangeUpgradableGuard`] that shares ownership of its lock.
pub type OwnedRangeUpgradableGuard<T, L, M = Box<[T]>> =
    RangeGuard<Arc<RangeLock<T, L, M>>, T, Upgradable>;
/// A [`RangeWriteGuard`] that shares ownership of its lock.
pub type OwnedRangeWriteGuard<T, L, M = Box<[T]>> =
    RangeGuard<Arc<RangeLock<T, L, M>>, T, Exclusive>;

// SAFETY: a hold may be released by another thread (`RawRangeLock`, 4). The guard is a `&[T]`, and
// an upgrade turns it into a `&mut [T]`. An owned guard may be the last owner of the elements and
// of what the lock is a part of, which is `Send` (`slice_ref`), and drop them.
unsafe impl<P: LockRef, T: Send + Sync> Send for RangeGuard<P, T, Shared> {}
// SAFETY: as above.
unsafe impl<P: LockRef, T: Send + Sync> Send for RangeGuard<P, T, Upgradable> {}
// SAFETY: a hold may be released by another thread. The guard is a `&mut [T]`, which needs `Send`.
// So does dropping the elements as their last owner. A downgrade can put the guard's `&[T]` beside
// those of other threads, so `downgrade` requires `Sync`.
unsafe impl<P: LockRef, T: Send> Send for RangeGuard<P, T, Exclusive> {}
// SAFETY: a shared guard lends only `&[T]`.
unsafe impl<P: LockRef, T: Sync, A: Mode> Sync for RangeGuard<P, T, A> {}

impl<T, P: SliceRef<T>, A: Mode> RangeGuard<P, T, A> {
    /// Locks the elements of `range`; blocks until no conflicting hold is left. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, one past the last element, or no memory.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock(lock: P, range: impl IntoRange) -> Result<Self, RangeError> {
        let range = in_slice(range.bounds()?, lock.elements().1)?;
        let hold = Hold::lock(lock, range.clone())?;
        Ok(Self::of(hold, range))
    }

    /// Locks the elements of `range` if that is possible at once; never blocks. Ordering: Acquire
    /// on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; otherwise as for
    /// [`lock`](Self::lock).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock(lock: P, range: impl IntoRange) -> Result<Self, TryLockError> {
        let range = in_slice(range.bounds()?, lock.elements().1)?;
        let hold = Hold::try_lock(lock, range.clone())?;
        Ok(Self::of(hold, range))
    }

    /// Returns the guard of `range`, which has been checked and is held by `hold`.
    #[inline]
    fn of(hold: Hold<P, A>, range: Range<u64>) -> Self {
        let (first, _) = hold.lock_ref().elements();
        let range = range.start as usize..range.end as usize;
        // A pointer, not a reference: other guards have references to other elements (RL-I2).
        // SAFETY: `in_slice` found `range.start <= range.end <= len`: within bounds (RL-I1).
        let first = unsafe { first.add(range.start) };
        let data = core::ptr::slice_from_raw_parts_mut(first, range.end - range.start);
        RangeGuard { data, hold }
    }
}

impl<T, P: SliceRef<T> + LockRef<Lock: RawRangeLockWait>, A: Mode> RangeGuard<P, T, A> {
    /// Locks the elements of `range`; blocks until no conflicting hold is left, for at most
    /// `timeout`. A timeout too long for the clock never ends. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_for(
        lock: P,
        range: impl IntoRange,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        let range = in_slice(range.bounds()?, lock.elements().1)?;
        let hold = Hold::try_lock_for(lock, range.clone(), timeout)?;
        Ok(Self::of(hold, range))
    }

    /// Locks the elements of `range`; blocks until no conflicting hold is left or `deadline`
    /// has passed. A deadline in the past makes this a try. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_until(
        lock: P,
        range: impl IntoRange,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        let range = in_slice(range.bounds()?, lock.elements().1)?;
        let hold = Hold::try_lock_until(lock, range.clone(), deadline)?;
        Ok(Self::of(hold, range))
    }

    /// Returns a future that locks the elements of `range`. Never blocks. Dropping the future gives
    /// up the request. Like any `async fn`, it panics when polled after completion.
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub fn lock_async(
        lock: P,
        range: impl IntoRange,
    ) -> impl Future<Output = Result<Self, RangeError>> {
        let range = range.bounds();
        let range = range.and_then(|range| in_slice(range, lock.elements().1));
        Self::lock_checked_async(lock, range)
    }

    async fn lock_checked_async(
        lock: P,
        range: Result<Range<u64>, RangeError>,
    ) -> Result<Self, RangeError> {
        let range = range?;
        let hold = Hold::lock_async(lock, range.clone()).await?;
        Ok(Self::of(hold, range))
    }
}

impl<P: LockRef, T, A: Mode> RangeGuard<P, T, A> {
    /// Returns the held span in the lock's positions, or `None` if the range was empty.
    #[inline]
    pub fn span(&self) -> Option<Span> {
        self.hold.span()
    }

    /// Keeps the elements, and changes the hold.
    fn with<B: Mode>(self, change: impl FnOnce(Hold<P, A>) -> Hold<P, B>) -> RangeGuard<P, T, B> {
        let RangeGuard { data, hold } = self;
        let hold = change(hold);
        RangeGuard { data, hold }
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>, T: Sync> RangeGuard<P, T, Exclusive> {
    /// Becomes a reader; no writer gets in between. Never blocks. Ordering: Release.
    ///
    /// Needs `T: Sync`, because from now on other threads may read the elements at the same time.
    pub fn downgrade(self) -> RangeGuard<P, T, Shared> {
        self.with(Hold::<P, Exclusive>::downgrade)
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>, T> RangeGuard<P, T, Upgradable> {
    /// Becomes a plain reader. Never blocks.
    pub fn downgrade(self) -> RangeGuard<P, T, Shared> {
        self.with(Hold::<P, Upgradable>::downgrade)
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgrade>, T, A: Readable> RangeGuard<P, T, A> {
    /// Becomes exclusive if no other request holds any part of the range; no writer gets in
    /// between. Never blocks. Ordering: Acquire on success.
    ///
    /// Two plain readers that both retry in a loop block each other for ever. Use upgradable reads
    /// for that.
    ///
    /// # Errors
    /// Returns the guard, unchanged, if another request holds part of the range: a reader or, for
    /// plain readers of `RwDistributed`, perhaps a waiting writer.
    pub fn try_upgrade(self) -> Result<RangeGuard<P, T, Exclusive>, Self> {
        let RangeGuard { data, hold } = self;
        match hold.try_upgrade() {
            Ok(hold) => Ok(RangeGuard { data, hold }),
            Err(hold) => Err(RangeGuard { data, hold }),
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>, T> RangeGuard<P, T, Upgradable> {
    /// Becomes exclusive. Blocks until the readers of every part of the range have left; meanwhile,
    /// new readers are kept out. No writer gets in between. Ordering: Acquire.
    ///
    /// A thread that reads part of the range through another guard waits for itself, for ever.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn upgrade(self) -> RangeGuard<P, T, Exclusive> {
        let RangeGuard { data, hold } = self;
        let hold = hold.upgrade();
        RangeGuard { data, hold }
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>, T> RangeGuard<P, T, Upgradable> {
    /// Becomes exclusive; blocks like [`upgrade`](Self::upgrade), for at most `timeout`. A timeout
    /// too long for the clock never ends. Ordering: Acquire on success.
    ///
    /// # Errors
    /// Returns the guard, unchanged, if the readers have not left in time.
    #[cfg(feature = "std")]
    pub fn try_upgrade_for(self, timeout: Duration) -> Result<RangeGuard<P, T, Exclusive>, Self> {
        let RangeGuard { data, hold } = self;
        match hold.try_upgrade_for(timeout) {
            Ok(hold) => Ok(RangeGuard { data, hold }),
            Err(hold) => Err(RangeGuard { data, hold }),
        }
    }

    /// Becomes exclusive; blocks like [`upgrade`](Self::upgrade), until `deadline` at the latest. A
    /// deadline in the past makes this a try. Ordering: Acquire on success.
    ///
    /// # Errors
    /// As for [`try_upgrade_for`](Self::try_upgrade_for).
    #[cfg(feature = "std")]
    pub fn try_upgrade_until(self, deadline: Instant) -> Result<RangeGuard<P, T, Exclusive>, Self> {
        let RangeGuard { data, hold } = self;
        match hold.try_upgrade_until(deadline) {
            Ok(hold) => Ok(RangeGuard { data, hold }),
            Err(hold) => Err(RangeGuard { data, hold }),
        }
    }
}

impl<T, P: SliceRef<T> + LockRef<Lock: RawRangeLockUpgradeWait>> RangeGuard<P, T, Upgradable> {
    /// Returns a future that makes the guard exclusive, as [`Hold::upgrade_async`] does. Dropping
    /// it releases the range. Like any `async fn`, it panics when polled after completion.
    pub fn upgrade_async(self) -> impl Future<Output = RangeGuard<P, T, Exclusive>> {
        // Not the guard itself: its pointer would keep the future in one thread.
        let RangeGuard { hold, .. } = self;
        async {
            let hold = hold.upgrade_async().await;
            // The elements are those of the span.
            let range = hold.span().map_or(0..0, Span::range);
            RangeGuard::of(hold, range)
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockSplit>, T, A: Mode> RangeGuard<P, T, A> {
    /// Releases all elements but `keep`, given as indices into the guard. Never blocks. If a waker
    /// panics, the guard keeps the same elements. Ordering: Release.
    ///
    /// # Errors
    /// `keep` is reversed, or ends past the guard's elements. The guard is unchanged.
    pub fn shrink(&mut self, keep: impl IntoRange) -> Result<(), PartError> {
        let (base, keep) = self.part(keep.bounds()?)?;
        // RL-I4: shrink the slice first.
        self.data = self.elements(keep.clone());
        self.hold
            .shrink(base + keep.start as u64..base + keep.end as u64)
    }

    /// Keeps the elements below index `at` of the guard, and returns the others as a guard of their
    /// own. Never blocks. If a waker panics, the guard keeps the lower elements, and the others are
    /// released.
    ///
    /// ```
    /// use spanlock_range_lock::{RangeLock, RawRangeLockSplit};
    /// # type Outcome = Result<(), Box<dyn std::error::Error>>;
    /// # fn both(lock: &RangeLock<u32, impl RawRangeLockSplit>) -> Outcome {
    /// let mut low = lock.write(0..8)?;
    /// let mut high = low.split_off(4)?;
    /// low.swap_with_slice(&mut high);
    /// drop(low); // 4..8 stays held
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `at` lies past the guard's elements, both parts would share a unit of the lock's
    /// granularity, or there is no memory. The guard is unchanged.
    pub fn split_off(&mut self, at: usize) -> Result<Self, PartError> {
        let (base, _) = self.part((at..at).bounds()?)?;
        let (all, data) = (self.data, self.elements(at..self.data.len()));
        // RL-I4: cut the slice first.
        self.data = self.elements(0..at);
        match self.hold.split_off(base + at as u64) {
            Ok(hold) => Ok(RangeGuard { data, hold }),
            Err(error) => {
                self.data = all;
                Err(error)
            }
        }
    }

    /// Cuts the guard in two, like [`split_off`](Self::split_off).
    ///
    /// # Errors
    /// As for [`split_off`](Self::split_off), together with the unchanged guard.
    pub fn split(mut self, at: usize) -> Result<(Self, Self), (Self, PartError)> {
        match self.split_off(at) {
            Ok(above) => Ok((self, above)),
            Err(error) => Err((self, error)),
        }
    }

    /// Returns the lock's position of the guard's first element, and `part`, which must lie within
    /// the guard.
    fn part(&self, part: Bounds) -> Result<(u64, Range<usize>), PartError> {
        let part = in_hold(part, 0..self.data.len() as u64)?;
        let base = self.hold.span().map_or(0, Span::start);
        Ok((base, part.start as usize..part.end as usize))
    }

    /// Returns the elements of `part`, which lies within the guard.
    fn elements(&self, part: Range<usize>) -> *mut [T] {
        // SAFETY: `part` lies within `data`, so this is in bounds or one past the end.
        let first = unsafe { self.data.cast::<T>().add(part.start) };
        core::ptr::slice_from_raw_parts_mut(first, part.end - part.start)
    }
}

impl<P: LockRef, T, A: Mode> Deref for RangeGuard<P, T, A> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: RL-I2: the span of `data` is held for as long as `self` lives.
        unsafe { &*self.data }
    }
}

impl<P: LockRef, T> DerefMut for RangeGuard<P, T, Exclusive> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: RL-I2, and `&mut self` makes this the guard's only reference.
        unsafe { &mut *self.data }
    }
}

impl<P: LockRef, T: fmt::Debug, A: Mode> fmt::Debug for RangeGuard<P, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
