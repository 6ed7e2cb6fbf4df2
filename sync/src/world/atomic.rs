//! The processor's atomics, or those of the simulated cores.

use alloc::alloc::{Layout, alloc_zeroed};
use alloc::boxed::Box;

#[cfg(not(spanlock_simulated))]
use core::sync::atomic as imp;
#[cfg(spanlock_simulated)]
use spanlock_cores::atomic as imp;

pub use imp::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};

use crate::atomic::{Exclusive, Zeroed};

macro_rules! exclusive {
    ($($name:ident $(<$t:ident>)?: $value:ty,)*) => {
        $(
            impl $(<$t>)? Exclusive for $name $(<$t>)? {
                type Value = $value;

                #[inline]
                fn value(&mut self) -> $value {
                    *self.get_mut()
                }
            }
        )*
    };
}

exclusive!(
    AtomicU32: u32,
    AtomicU64: u64,
    AtomicUsize: usize,
    AtomicPtr<T>: *mut T,
);

pub(crate) fn zeroed_slice<T: Zeroed>(len: usize) -> Option<Box<[T]>> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return Some((0..len).map(|_| T::zeroed()).collect());
    }
    // SAFETY: the layout's size is not 0.
    let first = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if first.is_null() {
        return None;
    }
    let slice = core::ptr::slice_from_raw_parts_mut(first, len);
    // SAFETY: the global allocator returned `first` for the layout of `[T; len]`, as a `Box<[T]>`
    // requires, and zero bytes are valid values of `T` (`Zeroed`).
    Some(unsafe { Box::from_raw(slice) })
}

pub(crate) fn free_slice<T: 'static>(slice: Box<[T]>) {
    drop(slice);
}
