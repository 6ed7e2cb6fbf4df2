//! [`RangeLock`]: a range lock that owns the slice it protects.

mod batch;
mod guard;
mod verbs;

use alloc::boxed::Box;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

pub use batch::RangeBatchGuard;
pub use guard::{
    OwnedRangeReadGuard, OwnedRangeUpgradableGuard, OwnedRangeWriteGuard, RangeGuard,
    RangeReadGuard, RangeUpgradableGuard, RangeWriteGuard, SliceRef,
};

use crate::error::RangeError;
use crate::raw::RawRangeLock;

/// A slice of `T` behind a range lock. A guard is the `&[T]` or `&mut [T]` of the range that it
/// holds.
///
/// Ranges are in elements. The lock may make disjoint ranges conflict, too:
/// [`RwCounter`](crate::RwCounter) treats every range as the whole slice, and a segment lock rounds
/// to its segments.
///
/// ```
/// use spanlock_range_lock::{RangeLock, RwCounter};
///
/// let pixels = RangeLock::with_lock(vec![0u8; 100], RwCounter::new())?;
/// pixels.write(10..20)?.fill(7);
/// assert_eq!(pixels.read(9..11)?[..], [0, 7]);
/// assert_eq!(pixels.into_inner()[19], 7);
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
///
/// # Invariants
/// - **RL-I1** `data` and `len` are those of a `Box<[T]>` that this lock owns.
/// - **RL-I2** A reference into `data` exists only inside a guard, for the span that the guard
///   holds. It is `&mut` only in an exclusive guard, or for a part that a [`RangeBatchGuard`] holds
///   exclusively. So by the exclusion of [`RawRangeLock`] no `&mut [T]` overlaps another reference,
///   and by its visibility each guard sees what earlier guards wrote.
/// - **RL-I3** A `RangeLock<T>` is never used as a `RangeLock<U>`, not even for a `U` with a
///   shorter lifetime. A shared reference to the lock can write elements, so it is invariant in
///   `T`, like a `Mutex`.
/// - **RL-I4** The elements of a guard lie within its hold, at every moment at which foreign code
///   can run. A method that shrinks both shrinks the elements first: a release wakes waiters, and a
///   waker that panics ends the method early.
pub struct RangeLock<T, L: RawRangeLock> {
    lock: L,
    data: NonNull<T>,
    len: usize,
    /// Makes the lock invariant in `T` (RL-I3), and says that it drops `T`s.
    owns: PhantomData<Cell<T>>,
}

// SAFETY: the lock owns the elements, and lends them to one thread at a time or shares them.
unsafe impl<T: Send, L: RawRangeLock> Send for RangeLock<T, L> {}
// SAFETY: `&RangeLock` lends `&mut T` (needs `Send`) and `&T` to several threads (needs `Sync`).
unsafe impl<T: Send + Sync, L: RawRangeLock> Sync for RangeLock<T, L> {}

impl<T, L: RawRangeLock + Default> RangeLock<T, L> {
    /// Puts `data` behind the lock that `L::default` makes.
    ///
    /// `L` decides which ranges block each other, so it has no default here. In the crate
    /// [`spanlock`](https://docs.rs/spanlock), `RangeLock` is this type with a lock of exact
    /// ranges.
    ///
    /// # Panics
    /// Panics if that lock covers fewer positions than `data` has elements.
    pub fn new(data: impl Into<Box<[T]>>) -> Self {
        match Self::with_lock(data, L::default()) {
            Ok(lock) => lock,
            Err(error) => panic!("the default lock is too small for the elements: {error}"),
        }
    }
}

impl<T, L: RawRangeLock> RangeLock<T, L> {
    /// Puts `data` behind `lock`.
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if the lock covers fewer positions than `data` has elements.
    pub fn with_lock(data: impl Into<Box<[T]>>, lock: L) -> Result<Self, RangeError> {
        let data = data.into();
        let (end, capacity) = (data.len() as u64, lock.capacity());
        if end > capacity {
            return Err(RangeError::PastCapacity {
                start: 0,
                end,
                capacity,
            });
        }
        Ok(Self::from_parts(data, lock))
    }

    fn from_parts(data: Box<[T]>, lock: L) -> Self {
        let len = data.len();
        let data = NonNull::from(Box::leak(data)).cast();
        RangeLock {
            lock,
            data,
            len,
            owns: PhantomData,
        }
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the lock.
    #[inline]
    pub fn raw(&self) -> &L {
        &self.lock
    }

    /// Returns the elements without locking: `&mut` proves that nobody holds any.
    pub fn get_mut(&mut self) -> &mut [T] {
        // SAFETY: RL-I1; `&mut self` excludes every guard, so by RL-I2 no other reference exists.
        unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }

    /// Consumes the lock and returns the elements.
    pub fn into_inner(self) -> Box<[T]> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the lock is moved out once.
        drop(unsafe { core::ptr::read(&this.lock) });
        // SAFETY: RL-I1, and `this` is never dropped, so the box is taken once.
        unsafe { Self::take_box(this.data, this.len) }
    }

    /// # Safety
    /// `data` and `len` are those of a lock (RL-I1), and nobody uses them afterwards.
    unsafe fn take_box(data: NonNull<T>, len: usize) -> Box<[T]> {
        let slice = core::ptr::slice_from_raw_parts_mut(data.as_ptr(), len);
        // SAFETY: RL-I1: these are the parts of a leaked `Box<[T]>`; the caller gives them up.
        unsafe { Box::from_raw(slice) }
    }
}

impl<T, L: RawRangeLock> Drop for RangeLock<T, L> {
    fn drop(&mut self) {
        // SAFETY: RL-I1; `&mut self` excludes every guard, and nothing uses the parts after this.
        drop(unsafe { Self::take_box(self.data, self.len) });
    }
}

impl<T, L: RawRangeLock> fmt::Debug for RangeLock<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeLock")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
