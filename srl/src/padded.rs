//! Slices of words or slots that share no cache line with other memory.
//!
//! A word changes with each hold of its segment. Other threads read the fields of the lock and the
//! words of other nodes. If one of these lay on the word's line, the line would move between cores
//! whose segments are disjoint.
//!
//! So a slice has lines of its own. If it takes more than a page, it instead begins and ends with
//! elements that nobody uses, one line of each: to align it, the system would clear all pages at
//! once, also those that are never used.
//!
//! A slice of less than a line may share one. The states in it share one anyway, and a line for
//! each leaf would make the packed tree three times as large.
//!
//! Under a checker, a slice has exactly its elements.

use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;
use core::ptr::{NonNull, slice_from_raw_parts_mut};

use spanlock_sync::atomic::{Zeroed, free_slice, zeroed_slice};
use spanlock_sync::hint::scaled;

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// The most bytes of a slice that has lines of its own.
const PAGE: usize = 4096;

/// A line of zeros.
#[repr(align(64))]
struct Line {
    _bytes: [u8; LINE],
}

// SAFETY: zero bytes are bytes, and there is no destructor.
unsafe impl Zeroed for Line {
    fn zeroed() -> Self {
        Line { _bytes: [0; LINE] }
    }
}

/// Where the elements of a slice lie.
#[derive(Clone, Copy)]
enum Form {
    /// In this number of lines.
    Lines(usize),
    /// Between unused elements: this number at each end.
    Between(usize),
}

impl Form {
    fn of<T>(len: usize) -> Self {
        let bytes = len.saturating_mul(size_of::<T>());
        if scaled(1, 0) == 0 || bytes < LINE {
            Form::Between(0)
        } else if bytes <= PAGE {
            Form::Lines(bytes.div_ceil(LINE))
        } else {
            Form::Between(LINE.div_ceil(size_of::<T>()))
        }
    }
}

/// Returns the bytes that a slice of `len` elements takes.
pub(crate) fn bytes_of<T>(len: usize) -> usize {
    match Form::of::<T>(len) {
        Form::Lines(lines) => lines * LINE,
        Form::Between(unused) => (len + 2 * unused) * size_of::<T>(),
    }
}

/// A slice of zeroed elements. It owns its memory. The elements are aligned to at most a line.
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
        const { assert!(align_of::<T>() <= LINE || scaled(1, 0) == 0) };
        let first = match Form::of::<T>(len) {
            // As shipped, zeroed memory is a valid `T` (`Zeroed`).
            Form::Lines(lines) => Box::into_raw(zeroed_slice::<Line>(lines)?).cast::<T>(),
            Form::Between(unused) => {
                let all = zeroed_slice::<T>(len.checked_add(2 * unused)?)?;
                // SAFETY: the slice has more elements than that.
                unsafe { Box::into_raw(all).cast::<T>().add(unused) }
            }
        };
        // SAFETY: a pointer into a slice is not null.
        let first = unsafe { NonNull::new_unchecked(first) };
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
        let first = self.first.as_ptr();
        match Form::of::<T>(self.len) {
            Form::Lines(lines) => {
                let all = slice_from_raw_parts_mut(first.cast::<Line>(), lines);
                // SAFETY: `zeroed` got this slice from a box, and nothing else has it. Its elements
                // have no destructor (`Zeroed`).
                free_slice(unsafe { Box::from_raw(all) });
            }
            Form::Between(unused) => {
                // SAFETY: as above.
                let all = unsafe {
                    let all = slice_from_raw_parts_mut(first.sub(unused), self.len + 2 * unused);
                    Box::from_raw(all)
                };
                free_slice(all);
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Padded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
