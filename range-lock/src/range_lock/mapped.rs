//! [`MappedRangeGuard`]: a guard of a part of its elements, or of one element.

use core::fmt;
use core::ops::{Deref, DerefMut};

use super::guard::SliceRef;
use super::{Memory, RangeGuard, RangeLock};
use crate::error::{RangeError, TryLockError};
use crate::guard::{Exclusive, LockRef, Mode, Readable, Shared};
use crate::positions::Position;
use crate::raw::{RawRangeLock, Span};

/// A guard of a `U` that lies within the elements of a [`RangeGuard`], made by its `map`. Derefs to
/// `U`, and holds the range of the guard it was made from.
///
/// It cannot be changed into a guard of another access: the closure of `map` may have had, and used
/// up, more than the new access would admit.
#[must_use = "dropping the guard at once releases the range"]
pub struct MappedRangeGuard<P: LockRef, T, U: ?Sized, A: Mode> {
    /// Lies within the elements of `guard`, or lives for ever. `*mut`, so that the guard is
    /// invariant in `U` (RL-I3).
    data: *mut U,
    guard: RangeGuard<P, T, A>,
}

/// A guard of one element.
pub type ElementGuard<P, T, A> = MappedRangeGuard<P, T, T, A>;

// SAFETY: the hold and the elements as in the guard. A guard that cannot write is a `&U`.
unsafe impl<P: LockRef, T, U: ?Sized + Sync, A: Readable> Send for MappedRangeGuard<P, T, U, A> where
    RangeGuard<P, T, A>: Send
{
}
// SAFETY: as above. The guard is a `&mut U`.
unsafe impl<P: LockRef, T, U: ?Sized + Send> Send for MappedRangeGuard<P, T, U, Exclusive> where
    RangeGuard<P, T, Exclusive>: Send
{
}
// SAFETY: a shared guard lends only `&U`.
unsafe impl<P: LockRef, T, U: ?Sized + Sync, A: Mode> Sync for MappedRangeGuard<P, T, U, A> where
    RangeGuard<P, T, A>: Sync
{
}

impl<P: LockRef, T, A: Readable> RangeGuard<P, T, A> {
    /// Returns a guard of the part of the elements that `part` returns. If `part` panics, the range
    /// is released.
    pub fn map<U: ?Sized>(self, part: impl FnOnce(&[T]) -> &U) -> MappedRangeGuard<P, T, U, A> {
        let data = core::ptr::from_ref(part(&self)).cast_mut();
        MappedRangeGuard { data, guard: self }
    }
}

impl<P: LockRef, T> RangeGuard<P, T, Exclusive> {
    /// Returns a guard of the part of the elements that `part` returns. If `part` panics, the range
    /// is released.
    ///
    /// ```
    /// use spanlock_range_lock::{RangeLock, RwCounter};
    ///
    /// let sectors = RangeLock::with_lock(vec![0_u8; 4096], RwCounter::new())?;
    /// let sector = sectors.write(512..1024)?;
    /// let mut magic = sector.map(|sector| sector.first_chunk_mut::<4>().unwrap());
    /// *magic = *b"SPAN";
    /// drop(magic);
    /// let mut last = sectors.write_at(4095)?;
    /// *last += 1;
    /// # Ok::<(), spanlock_range_lock::RangeError>(())
    /// ```
    pub fn map<U: ?Sized>(
        mut self,
        part: impl FnOnce(&mut [T]) -> &mut U,
    ) -> MappedRangeGuard<P, T, U, Exclusive> {
        let data = core::ptr::from_mut(part(&mut self));
        MappedRangeGuard { data, guard: self }
    }
}

impl<T, P: SliceRef<T>, A: Mode> RangeGuard<P, T, A> {
    /// Returns a guard of its only element.
    fn only(self) -> ElementGuard<P, T, A> {
        debug_assert_eq!(self.data.len(), 1);
        let data = self.data.cast();
        MappedRangeGuard { data, guard: self }
    }
}

impl<T, L: RawRangeLock, M: Memory<T>> RangeLock<T, L, M> {
    /// Locks the element at `index` for reading; blocks while a writer holds it. Ordering: Acquire.
    ///
    /// # Errors
    /// An index past the last element, or no memory.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn read_at(
        &self,
        index: impl Position,
    ) -> Result<ElementGuard<&Self, T, Shared>, RangeError> {
        Ok(self.read(index..=index)?.only())
    }

    /// Like [`read_at`](Self::read_at), but never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; otherwise as
    /// [`read_at`](Self::read_at).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_read_at(
        &self,
        index: impl Position,
    ) -> Result<ElementGuard<&Self, T, Shared>, TryLockError> {
        Ok(self.try_read(index..=index)?.only())
    }

    /// Locks the element at `index` for writing; blocks while anyone holds it. Ordering: Acquire.
    ///
    /// To wait with a deadline or as a future, [`map`](RangeGuard::map) a guard of one element.
    ///
    /// # Errors
    /// An index past the last element, or no memory.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn write_at(
        &self,
        index: impl Position,
    ) -> Result<ElementGuard<&Self, T, Exclusive>, RangeError> {
        Ok(self.write(index..=index)?.only())
    }

    /// Like [`write_at`](Self::write_at), but never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; otherwise as
    /// [`write_at`](Self::write_at).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_write_at(
        &self,
        index: impl Position,
    ) -> Result<ElementGuard<&Self, T, Exclusive>, TryLockError> {
        Ok(self.try_write(index..=index)?.only())
    }
}

impl<P: LockRef, T, U: ?Sized, A: Mode> MappedRangeGuard<P, T, U, A> {
    /// Returns the held span in the lock's positions: that of the guard it was made from. `None` if
    /// that was empty.
    #[inline]
    pub fn span(&self) -> Option<Span> {
        self.guard.span()
    }
}

impl<P: LockRef, T, U: ?Sized, A: Mode> Deref for MappedRangeGuard<P, T, U, A> {
    type Target = U;
    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: RL-I2: `guard` holds the elements of which this is a part for as long as `self`
        // lives, and lends them to nobody else.
        unsafe { &*self.data }
    }
}

impl<P: LockRef, T, U: ?Sized> DerefMut for MappedRangeGuard<P, T, U, Exclusive> {
    #[inline]
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: as above, exclusively; and `&mut self` makes this the guard's only reference.
        unsafe { &mut *self.data }
    }
}

impl<P: LockRef, T, U: ?Sized + fmt::Debug, A: Mode> fmt::Debug for MappedRangeGuard<P, T, U, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
