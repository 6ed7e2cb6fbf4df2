//! Atomics: `core`'s as shipped (built without a checker), the checker's own under a checker.

use alloc::boxed::Box;

pub use core::sync::atomic::Ordering;

use crate::world::atomic as world;
pub use crate::world::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};

/// Access to an atomic that no other thread can use, as `&mut` proves.
pub trait Exclusive {
    /// The type of the value.
    type Value;

    /// Returns the value.
    ///
    /// Under a checker, this is no step of its own. Under the explorer and loom, it fails the model
    /// if an access by another thread does not happen before it.
    fn value(&mut self) -> Self::Value;
}

/// Types for which, as shipped, zeroed memory is a valid value.
///
/// # Safety
/// As shipped, zeroed memory must be a valid value of the type, and dropping a value must do
/// nothing.
pub unsafe trait Zeroed: Sized {
    /// Returns the value that zeroed memory has. Under a checker, returns a value that behaves like
    /// it.
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

/// Allocates `len` zeroed values. As shipped, each page of a large slice takes memory only once the
/// page is used.
///
/// Returns `None` if there is not enough memory, or if no slice can be that long.
pub fn zeroed_slice<T: Zeroed>(len: usize) -> Option<Box<[T]>> {
    world::zeroed_slice(len)
}

/// Frees a slice that [`zeroed_slice`] allocated.
///
/// Under a checker, the model fails if a thread uses an atomic of the slice after the free. Under
/// the explorer and loom, it also fails if an earlier use does not happen-before the free.
pub fn free_slice<T: 'static>(slice: Box<[T]>) {
    world::free_slice(slice);
}
