//! Atomics: the processor's own as shipped, the checker's under a checker.

use alloc::alloc::{Layout, alloc_zeroed};
use alloc::boxed::Box;
use alloc::vec::Vec;

pub use core::sync::atomic::Ordering;

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};

#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub use checked::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};

#[cfg(any(spanlock_loom, spanlock_shuttle))]
#[path = "checked.rs"]
mod checked;

/// Types for which all-zero bytes are the value that [`zeroed`](Zeroed::zeroed) returns, outside of
/// checkers.
///
/// # Safety
/// As shipped (not under a checker), memory of all zero bytes is a valid value of the type, and dropping
/// the type does nothing.
pub unsafe trait Zeroed: Sized {
    /// The value.
    fn zeroed() -> Self;
}

// SAFETY: an `AtomicU32` has the layout of a `u32`, and no destructor.
unsafe impl Zeroed for AtomicU32 {
    fn zeroed() -> Self {
        AtomicU32::new(0)
    }
}

// SAFETY: an `AtomicU64` has the layout of a `u64`, and no destructor.
unsafe impl Zeroed for AtomicU64 {
    fn zeroed() -> Self {
        AtomicU64::new(0)
    }
}

/// `len` zeroed values. Large slices come from the system untouched: a page of them costs memory only
/// once it is used.
///
/// `None` if there is not enough memory, or if no slice can be that long.
pub fn zeroed_slice<T: Zeroed>(len: usize) -> Option<Box<[T]>> {
    let layout = Layout::array::<T>(len).ok()?;
    if cfg!(any(spanlock_loom, spanlock_shuttle)) || layout.size() == 0 {
        // A checker's atomics are objects of its own and have no zero bytes.
        let mut values = Vec::new();
        values.try_reserve_exact(len).ok()?;
        values.extend((0..len).map(|_| T::zeroed()));
        let values: Box<[T]> = values.into();
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        crate::freed::made(&values);
        return Some(values);
    }
    // SAFETY: the layout's size is not 0.
    let first = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if first.is_null() {
        return None;
    }
    // SAFETY: `first` was allocated by the global allocator with the layout of `[T; len]`, as `Box<[T]>` wants it, and
    // zero bytes are valid values of `T` (`Zeroed`).
    Some(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(first, len)) })
}

/// Frees a slice that [`zeroed_slice`] made. Under a checker who uses an atomic in it later, or before and not ordered before the freeing, fails the model.
pub fn free_slice<T: 'static>(slice: Box<[T]>) {
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    crate::freed::free(slice);
    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    drop(slice);
}
