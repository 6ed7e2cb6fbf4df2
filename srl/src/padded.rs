//! Slices of words or slots that share no cache line with other memory.
//!
//! A word changes with each hold of its segment. If it shared a line with something that other
//! threads read, as the fields of a lock or the words of another node, then the line would move
//! between their cores, although their segments are disjoint. So a slice begins and ends with a
//! line of elements that nobody uses. (An alignment would do as well. But then the system could not
//! provide a large slice page by page.)

use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;
use core::ptr::{NonNull, slice_from_raw_parts_mut};

use spanlock_sync::atomic::{Zeroed, free_slice, zeroed_slice};
use spanlock_sync::hint::scaled;

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// The number of unused elements at each end of a slice. Under a checker, there are none.
const fn unused<T>() -> usize {
    LINE.div_ceil(size_of::<T>()) * scaled(1, 0) as usize
}

/// A slice of zeroed elements. It owns its memory.
pub(crate) struct Padded<T: 'static> {
    first: NonNull<T>,
    len: usize,
}

// SAFETY: it is like a `Box<[T]>`.
unsafe impl<T: Send> Send for Padded<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Padded<T> {}

impl<T: Zeroed> Padded<T> {
    /// Creates a slice. Returns `None` if there is no memory for it.
    pub(crate) fn zeroed(len: usize) -> Option<Self> {
        let all = zeroed_slice::<T>(len.checked_add(2 * unused::<T>())?)?;
        let first = Box::into_raw(all).cast::<T>();
        // SAFETY: the slice has at least that many elements, and no pointer to it is null.
        let first = unsafe { NonNull::new_unchecked(first.add(unused::<T>())) };
        Some(Padded { first, len })
    }
}

impl<T> Padded<T> {
    /// Gives the memory up: [`from_raw`](Self::from_raw) takes it back.
    pub(crate) fn into_raw(self) -> NonNull<T> {
        core::mem::ManuallyDrop::new(self).first
    }

    /// Takes back what `into_raw` has given up.
    ///
    /// # Safety
    /// `first` is from `into_raw` of a slice with `len` elements. Nothing else takes it back.
    pub(crate) unsafe fn from_raw(first: NonNull<T>, len: usize) -> Self {
        Padded { first, len }
    }
}

impl<T> Deref for Padded<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the slice has `len` elements, which stay while `self` is borrowed.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for Padded<T> {
    fn drop(&mut self) {
        // SAFETY: this is the slice that `zeroed` got from a box, and nothing else has it.
        unsafe {
            let all = self.first.as_ptr().sub(unused::<T>());
            let all = slice_from_raw_parts_mut(all, self.len + 2 * unused::<T>());
            free_slice(Box::from_raw(all));
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Padded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
