//! Atomic access to 8 bytes of mapped memory.
//!
//! These are the processor's own atomics in every world: memory that a file is mapped into is no checker's
//! object. A checker explores what threads do with *locks*; what reaches a medium, and when, is
//! explored by a simulated device above this crate.

use core::sync::atomic::{AtomicU64, Ordering};

/// Stores `value` at `at`, atomically. Ordering: Release.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for writes; other threads touch these bytes through this module
/// alone for as long as both may.
#[inline]
pub unsafe fn store_release(at: *mut u64, value: u64) {
    // SAFETY: the caller's promise is `AtomicU64::from_ptr`'s list: aligned, valid, only atomic access.
    let word = unsafe { AtomicU64::from_ptr(at) };
    // Release: what was written before is visible to the thread whose `load_acquire` reads `value`.
    word.store(value, Ordering::Release);
}

/// Loads 8 bytes at `at`, atomically. Ordering: Acquire.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for reads and writes; other threads touch these bytes through this
/// module alone for as long as both may.
#[inline]
pub unsafe fn load_acquire(at: *const u64) -> u64 {
    // SAFETY: as above; nothing is written through the pointer.
    let word = unsafe { AtomicU64::from_ptr(at.cast_mut()) };
    // Acquire: pairs with the Release in `store_release`.
    word.load(Ordering::Acquire)
}
