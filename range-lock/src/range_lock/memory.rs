//! Where a [`RangeLock`] has its elements: in memory of its own, borrowed, or anywhere else.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::NonNull;

use super::RangeLock;
use crate::error::RangeError;
use crate::raw::RawRangeLock;

mod sealed {
    pub trait Sealed {}
}

/// Elements that a [`RangeLock`] can own: a vector, a boxed slice or an array. Sealed.
#[diagnostic::on_unimplemented(
    message = "a `RangeLock` cannot own a `{Self}`",
    note = "to lock elements in place, borrow them mutably: `RangeLock::borrowed(&mut elements, lock)`",
    note = "to lock a copy, make one: `elements.to_vec()`"
)]
pub trait Elements<T>: sealed::Sealed {
    /// Returns the elements in a box. Copies none but those of an array.
    #[doc(hidden)]
    fn into_boxed(self) -> Box<[T]>;
}

impl<T> sealed::Sealed for Vec<T> {}
impl<T> Elements<T> for Vec<T> {
    fn into_boxed(self) -> Box<[T]> {
        self.into()
    }
}

impl<T> sealed::Sealed for Box<[T]> {}
impl<T> Elements<T> for Box<[T]> {
    fn into_boxed(self) -> Box<[T]> {
        self
    }
}

impl<T, const N: usize> sealed::Sealed for [T; N] {}
impl<T, const N: usize> Elements<T> for [T; N] {
    fn into_boxed(self) -> Box<[T]> {
        self.into()
    }
}

/// The memory of a [`RangeLock`] of `T`s: `Box<[T]>` for elements that it owns, `&mut [T]` for
/// those that it borrows, [`Foreign`] for all others. Sealed.
pub trait Memory<T>: Sized + sealed::Sealed {
    /// What the lock keeps beside the address.
    ///
    /// An owned guard may be the last owner, and drop it in another thread: so it is `Send`.
    #[doc(hidden)]
    type Kept: Send;

    /// # Safety
    /// `data` and `kept` are those of a lock (RL-I1), and nobody uses them afterwards.
    #[doc(hidden)]
    unsafe fn give_back(data: NonNull<[T]>, kept: Self::Kept) -> Self;
}

impl<T> Memory<T> for Box<[T]> {
    type Kept = ();

    unsafe fn give_back(data: NonNull<[T]>, (): ()) -> Self {
        // SAFETY: RL-I1: a leaked box; the caller gives it up.
        unsafe { Box::from_raw(data.as_ptr()) }
    }
}

impl<T> sealed::Sealed for &mut [T] {}
impl<'a, T> Memory<T> for &'a mut [T] {
    type Kept = ();

    unsafe fn give_back(data: NonNull<[T]>, (): ()) -> &'a mut [T] {
        // SAFETY: RL-I1: the slice was borrowed for `'a`; the caller gives it up.
        unsafe { &mut *data.as_ptr() }
    }
}

/// Memory that a [`RangeLock`] uses but did not allocate, and whatever keeps it in place. See
/// [`RangeLock::from_raw`].
#[derive(Debug)]
pub struct Foreign<O>(pub O);

impl<O> sealed::Sealed for Foreign<O> {}
impl<T, O: Send> Memory<T> for Foreign<O> {
    type Kept = O;

    unsafe fn give_back(_: NonNull<[T]>, owner: O) -> Self {
        Foreign(owner)
    }
}

impl<'a, T, L: RawRangeLock> RangeLock<T, L, &'a mut [T]> {
    /// Puts elements that someone else owns behind `lock`. They stay where they are, and are
    /// accessible without the lock again when it is gone.
    ///
    /// ```
    /// use spanlock_range_lock::{RangeLock, RwCounter};
    ///
    /// let mut plane = vec![0_u8; 100];
    /// let pixels = RangeLock::borrowed(&mut plane[50..], RwCounter::new())?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| pixels.write(..25).expect("50 elements").fill(1));
    ///     scope.spawn(|| pixels.write(25..).expect("50 elements").fill(2));
    /// });
    /// drop(pixels);
    /// assert_eq!(plane[49..51], [0, 1]);
    /// # Ok::<(), spanlock_range_lock::RangeError>(())
    /// ```
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if the lock covers fewer positions than there are elements.
    pub fn borrowed(data: &'a mut [T], lock: L) -> Result<Self, RangeError> {
        Self::fits(data.len(), &lock)?;
        Ok(Self::from_parts(NonNull::from(data), (), lock))
    }
}

impl<T, L: RawRangeLock, O: Send> RangeLock<T, L, Foreign<O>> {
    /// Puts elements that lie anywhere behind `lock`: in a mapped file, in memory of another
    /// allocator or with a wider alignment, in a buffer of another language.
    ///
    /// The lock keeps `owner` until it is dropped, and then drops it. For memory that outlives
    /// every lock, that is `()`. The lock does not drop the elements.
    ///
    /// ```
    /// use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    /// use std::ptr::NonNull;
    /// use spanlock_range_lock::{RangeLock, RwCounter};
    ///
    /// /// A buffer for direct I/O, which needs pages.
    /// struct Pages(NonNull<u8>, Layout);
    /// // SAFETY: the buffer has no other owner.
    /// unsafe impl Send for Pages {}
    /// impl Drop for Pages {
    ///     fn drop(&mut self) {
    ///         // SAFETY: allocated below with this layout.
    ///         unsafe { dealloc(self.0.as_ptr(), self.1) }
    ///     }
    /// }
    ///
    /// let layout = Layout::from_size_align(1 << 16, 4096)?;
    /// // SAFETY: the size is not zero.
    /// let start = NonNull::new(unsafe { alloc_zeroed(layout) });
    /// let start = start.unwrap_or_else(|| handle_alloc_error(layout));
    /// let data = NonNull::slice_from_raw_parts(start, layout.size());
    /// // SAFETY: 64 KiB of zeros that nobody else uses, freed by their owner, however it moves.
    /// let buffer = unsafe { RangeLock::from_raw(data, Pages(start, layout), RwCounter::new()) }?;
    /// buffer.write(..4096)?.fill(7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if the lock covers fewer positions than there are elements.
    /// Then the owner is dropped.
    ///
    /// # Safety
    /// From this call until the lock has been dropped or taken apart
    /// ([`into_inner`](Self::into_inner)):
    /// - `data` is aligned, is valid for reads and writes, and has initialized elements.
    /// - It stays so while `owner` is alive, even if `owner` moves. So the elements must not lie
    ///   within `owner` itself, nor may it be or contain a `Box` or a `&mut` of them, whose moves
    ///   claim that they have no other user (a `Vec` makes no such claim), and nothing may resize
    ///   or unmap them. (A file that is mapped must not be truncated.)
    /// - Nothing else accesses the elements: no other thread, process or device, and no reference.
    ///   The exception is a device or process for which a guard holds the range meanwhile, through
    ///   pointers.
    pub unsafe fn from_raw(data: NonNull<[T]>, owner: O, lock: L) -> Result<Self, RangeError> {
        debug_assert!(data.cast::<T>().is_aligned(), "{data:?} is not aligned");
        Self::fits(data.len(), &lock)?;
        Ok(Self::from_parts(data, owner, lock))
    }
}
