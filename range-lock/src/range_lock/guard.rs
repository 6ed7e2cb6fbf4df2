//! [`RangeGuard`]: the elements of a held range.

use alloc::sync::Arc;
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use super::RangeLock;
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{PartError, RangeError, TryLockError};
use crate::guard::hold::sealed;
use crate::guard::{Exclusive, Hold, LockRef, Mode, Readable, Shared, Upgradable};
use crate::powers::{
    RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockUpgradeWait,
    RawRangeLockWait,
};
use crate::raw::{RawRangeLock, Span};

/// How a guard reaches its [`RangeLock`] of `T`s: by `&RangeLock<T, L>`, or, owned, by `Arc<RangeLock<T, L>>`. Sealed.
pub trait SliceRef<T>: LockRef {
    /// The first element, and how many there are (R1).
    #[doc(hidden)]
    fn elements(&self) -> (*mut T, usize);
}

macro_rules! slice_ref {
    ($pointer:ty) => {
        impl<T, L: RawRangeLock> sealed::Sealed for $pointer {}
        impl<T, L: RawRangeLock> LockRef for $pointer {
            type Lock = L;
            #[inline]
            fn raw(&self) -> &L {
                &self.lock
            }
        }
        impl<T, L: RawRangeLock> SliceRef<T> for $pointer {
            #[inline]
            fn elements(&self) -> (*mut T, usize) {
                (self.data.as_ptr(), self.len)
            }
        }
    };
}

slice_ref!(&RangeLock<T, L>);
slice_ref!(Arc<RangeLock<T, L>>);

/// A held range of a [`RangeLock`] that is reached by `P`: derefs to `[T]`. [`RangeReadGuard`], [`RangeUpgradableGuard`],
/// [`RangeWriteGuard`], and their owned forms. Dropping it releases the range.
///
/// [`RangeLock`]'s methods are the short way to a borrowed guard. The functions here take any `P`; with an `Arc` they make
/// guards that can be stored, and moved into threads and tasks:
///
/// ```
/// use std::sync::Arc;
/// use spanlock_range_lock::{OwnedRangeWriteGuard, RangeLock, RwCounter};
///
/// let pixels = Arc::new(RangeLock::<_, RwCounter>::new(vec![0_u8; 100]));
/// let mut mine = OwnedRangeWriteGuard::lock(pixels.clone(), 10..20)?;
/// std::thread::spawn(move || mine.fill(7)).join().unwrap();
/// assert_eq!(pixels.read(9..11)?[..], [0, 7]);
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
#[must_use = "dropping the guard at once releases the range"]
pub struct RangeGuard<P: LockRef, T, A: Mode> {
    /// The elements of the hold's span (R2). `*mut`: invariant in `T`, as what can be written through has to be (R3).
    data: *mut [T],
    hold: Hold<P, A>,
}

/// A held range to read.
pub type RangeReadGuard<'a, T, L> = RangeGuard<&'a RangeLock<T, L>, T, Shared>;
/// A held range to read, and to write later.
pub type RangeUpgradableGuard<'a, T, L> = RangeGuard<&'a RangeLock<T, L>, T, Upgradable>;
/// A held range to read and write.
pub type RangeWriteGuard<'a, T, L> = RangeGuard<&'a RangeLock<T, L>, T, Exclusive>;

/// A [`RangeReadGuard`] that shares in the ownership of its lock.
pub type OwnedRangeReadGuard<T, L> = RangeGuard<Arc<RangeLock<T, L>>, T, Shared>;
/// A [`RangeUpgradableGuard`] that shares in the ownership of its lock.
pub type OwnedRangeUpgradableGuard<T, L> = RangeGuard<Arc<RangeLock<T, L>>, T, Upgradable>;
/// A [`RangeWriteGuard`] that shares in the ownership of its lock.
pub type OwnedRangeWriteGuard<T, L> = RangeGuard<Arc<RangeLock<T, L>>, T, Exclusive>;

// SAFETY: a hold may be released by another thread (`RawRangeLock`, 4). The guard is a `&[T]`, and becomes a `&mut [T]` by an upgrade; an
// owned one may be the last to own the elements, and drop them.
unsafe impl<P: LockRef, T: Send + Sync> Send for RangeGuard<P, T, Shared> {}
// SAFETY: as above.
unsafe impl<P: LockRef, T: Send + Sync> Send for RangeGuard<P, T, Upgradable> {}
// SAFETY: a hold may be released by another thread. The guard is a `&mut [T]`; it becomes a `&[T]`, beside those of other threads, by a
// downgrade, which asks for `Sync`. An owned one may be the last to own the elements, and drop them: that asks for `Send`.
unsafe impl<P: LockRef, T: Send> Send for RangeGuard<P, T, Exclusive> {}
// SAFETY: a shared guard gives `&[T]` only.
unsafe impl<P: LockRef, T: Sync, A: Mode> Sync for RangeGuard<P, T, A> {}

/// `range` in the lock's positions.
pub(super) fn checked(range: &Range<usize>, len: usize) -> Result<Range<u64>, RangeError> {
    let (start, end) = (range.start as u64, range.end as u64);
    if range.start > range.end {
        return Err(RangeError::Reversed { start, end });
    }
    if range.end > len {
        return Err(RangeError::PastCapacity {
            start,
            end,
            capacity: len as u64,
        });
    }
    Ok(start..end)
}

impl<T, P: SliceRef<T>, A: Mode> RangeGuard<P, T, A> {
    /// The elements of `range`; blocks while there is a hold that conflicts. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the last element.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock(lock: P, range: Range<usize>) -> Result<Self, RangeError> {
        let hold = Hold::lock(lock.clone(), checked(&range, lock.elements().1)?)?;
        Ok(Self::of(hold, range))
    }

    /// The elements of `range` if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`lock`](Self::lock).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock(lock: P, range: Range<usize>) -> Result<Self, TryLockError> {
        let hold = Hold::try_lock(lock.clone(), checked(&range, lock.elements().1)?)?;
        Ok(Self::of(hold, range))
    }

    /// `range` was checked, and is what is held.
    #[inline]
    fn of(hold: Hold<P, A>, range: Range<usize>) -> Self {
        let (first, _) = hold.lock_ref().elements();
        // A pointer, not a reference: others have references to other elements (R2).
        // SAFETY: `checked` found `range.start <= range.end <= len`: in bounds, or one past the end (R1).
        let first = unsafe { first.add(range.start) };
        let data = core::ptr::slice_from_raw_parts_mut(first, range.end - range.start);
        RangeGuard { data, hold }
    }
}

impl<T, P: SliceRef<T> + LockRef<Lock: RawRangeLockWait>, A: Mode> RangeGuard<P, T, A> {
    /// The elements of `range`; blocks while there is a hold that conflicts, for `timeout` at most. One that is too long for
    /// the clock is for ever. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_for(
        lock: P,
        range: Range<usize>,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        let span = checked(&range, lock.elements().1)?;
        let hold = Hold::try_lock_for(lock, span, timeout)?;
        Ok(Self::of(hold, range))
    }

    /// The elements of `range`; blocks while there is a hold that conflicts, until `deadline` at most. One in the past makes it
    /// a try. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_until(
        lock: P,
        range: Range<usize>,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        let span = checked(&range, lock.elements().1)?;
        let hold = Hold::try_lock_until(lock, span, deadline)?;
        Ok(Self::of(hold, range))
    }

    /// The elements of `range`, when the future is ready. Never blocks; dropping the future gives the request up. As any
    /// `async fn`, it panics when it is polled after it was ready.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub async fn lock_async(lock: P, range: Range<usize>) -> Result<Self, RangeError> {
        let span = checked(&range, lock.elements().1)?;
        let hold = Hold::lock_async(lock, span).await?;
        Ok(Self::of(hold, range))
    }
}

impl<P: LockRef, T, A: Mode> RangeGuard<P, T, A> {
    /// What is held, in the lock's positions; `None` if the range was empty.
    #[inline]
    pub fn span(&self) -> Option<Span> {
        self.hold.span()
    }

    /// The same elements, by the hold that `self`'s has become.
    fn with<B: Mode>(self, change: impl FnOnce(Hold<P, A>) -> Hold<P, B>) -> RangeGuard<P, T, B> {
        let RangeGuard { data, hold } = self;
        let hold = change(hold);
        RangeGuard { data, hold }
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>, T: Sync> RangeGuard<P, T, Exclusive> {
    /// Goes on as a reader; no writer gets in between. Never blocks. Ordering: Release.
    ///
    /// `T: Sync`, since the guard may be in another thread than those that read with it from now on.
    pub fn downgrade(self) -> RangeGuard<P, T, Shared> {
        self.with(Hold::<P, Exclusive>::downgrade)
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>, T> RangeGuard<P, T, Upgradable> {
    /// Goes on as a plain reader. Never blocks.
    pub fn downgrade(self) -> RangeGuard<P, T, Shared> {
        self.with(Hold::<P, Upgradable>::downgrade)
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgrade>, T, A: Readable> RangeGuard<P, T, A> {
    /// Becomes exclusive if nobody else reads any part of it; no writer gets in between. Never blocks.
    /// Ordering: Acquire on success.
    ///
    /// Two plain readers that both try in a loop wait for each other for ever: read upgradably instead.
    ///
    /// # Errors
    /// Somebody else reads part of it: the guard, unchanged.
    pub fn try_upgrade(self) -> Result<RangeGuard<P, T, Exclusive>, Self> {
        let RangeGuard { data, hold } = self;
        match hold.try_upgrade() {
            Ok(hold) => Ok(RangeGuard { data, hold }),
            Err(hold) => Err(RangeGuard { data, hold }),
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>, T> RangeGuard<P, T, Upgradable> {
    /// Becomes exclusive; blocks until the readers of any part of it have left, while new ones are kept out. No
    /// writer gets in between. Ordering: Acquire.
    ///
    /// A thread that reads part of it by another guard waits for itself.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn upgrade(self) -> RangeGuard<P, T, Exclusive> {
        let RangeGuard { data, hold } = self;
        let hold = hold.upgrade();
        RangeGuard { data, hold }
    }
}

impl<P: LockRef<Lock: RawRangeLockSplit>, T, A: Mode> RangeGuard<P, T, A> {
    /// Gives back all elements but `keep`, counted within the guard as an index would be. Never blocks. Ordering: Release.
    ///
    /// # Errors
    /// `keep` is reversed, or ends past the guard's elements. The guard is as before.
    pub fn shrink(&mut self, keep: Range<usize>) -> Result<(), PartError> {
        let base = self.part(keep.clone())?;
        // Gone first: what the lock gives back must not be in reach, not even if a waker panics then.
        self.data = self.elements(keep.clone());
        self.hold
            .shrink(base + keep.start as u64..base + keep.end as u64)
    }

    /// Keeps the elements below `at`, counted within the guard, and returns the others as a guard of their own. Never blocks.
    ///
    /// ```
    /// use spanlock_range_lock::RangeLock;
    /// # fn both(lock: &RangeLock<u32, impl spanlock_range_lock::RawRangeLockSplit>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut low = lock.write(0..8)?;
    /// let mut high = low.split_off(4)?;
    /// low.swap_with_slice(&mut high);
    /// drop(low); // 4..8 stays held
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `at` lies past the guard's elements, or both parts would share a unit of the lock's granularity. The guard is as before.
    pub fn split_off(&mut self, at: usize) -> Result<Self, PartError> {
        let base = self.part(at..at)?;
        let hold = self.hold.split_off(base + at as u64)?;
        let data = self.elements(at..self.data.len());
        self.data = self.elements(0..at);
        Ok(RangeGuard { data, hold })
    }

    /// Cuts it in two, as [`split_off`](Self::split_off).
    ///
    /// # Errors
    /// As [`split_off`](Self::split_off), with the guard, unchanged.
    pub fn split(mut self, at: usize) -> Result<(Self, Self), (Self, PartError)> {
        match self.split_off(at) {
            Ok(above) => Ok((self, above)),
            Err(error) => Err((self, error)),
        }
    }

    /// The lock's position of the guard's first element, if `part` lies within the guard.
    fn part(&self, part: Range<usize>) -> Result<u64, PartError> {
        let (start, end) = (part.start as u64, part.end as u64);
        if start > end {
            return Err(PartError::Reversed { start, end });
        }
        let held_end = self.data.len() as u64;
        if end > held_end {
            return Err(PartError::Outside {
                start,
                end,
                held_start: 0,
                held_end,
            });
        }
        Ok(self.hold.span().map_or(0, Span::start))
    }

    /// `part`, which lies within the guard.
    fn elements(&self, part: Range<usize>) -> *mut [T] {
        // SAFETY: it lies within `data`, so in bounds or one past the end.
        let first = unsafe { self.data.cast::<T>().add(part.start) };
        core::ptr::slice_from_raw_parts_mut(first, part.end - part.start)
    }
}

impl<P: LockRef, T, A: Mode> Deref for RangeGuard<P, T, A> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: R2: the span of `data` is held for as long as `self` lives.
        unsafe { &*self.data }
    }
}

impl<P: LockRef, T> DerefMut for RangeGuard<P, T, Exclusive> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: R2, and `&mut self` makes this the guard's only reference.
        unsafe { &mut *self.data }
    }
}

impl<P: LockRef, T: fmt::Debug, A: Mode> fmt::Debug for RangeGuard<P, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
