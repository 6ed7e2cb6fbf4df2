//! Atomic access to 8 bytes of mapped memory.
//!
//! These functions use the processor's atomics even under a checker, because a checker cannot track
//! mapped memory. So a checker explores only what threads do with locks. A simulated device, in
//! another crate, explores which writes reach a medium, and when.
//!
//! Not reached by models: `tests/facade/mapped.rs` covers it.

#[cfg(not(spanlock_simulated))]
use core::sync::atomic::AtomicU64;
#[cfg(spanlock_simulated)]
use spanlock_cores::atomic::AtomicU64;

use core::sync::atomic::Ordering;

/// Stores `value` at `at`, atomically. Ordering: Release.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for writes. While other threads may access these bytes, all
/// threads access them through this module only.
#[inline]
pub unsafe fn store_release(at: *mut u64, value: u64) {
    // SAFETY: the caller promises what `AtomicU64::from_ptr` asks: aligned, valid, atomic access
    // only.
    let word = unsafe { AtomicU64::from_ptr(at) };
    // Release: earlier writes are visible to a thread whose `load_acquire` reads `value`.
    word.store(value, Ordering::Release);
}

/// Loads 8 bytes at `at`, atomically. Ordering: Acquire.
///
/// # Safety
/// `at` is aligned to 8 bytes and valid for reads and writes. While other threads may access these
/// bytes, all threads access them through this module only.
#[inline]
pub unsafe fn load_acquire(at: *const u64) -> u64 {
    // SAFETY: as above; nothing is written through the pointer.
    let word = unsafe { AtomicU64::from_ptr(at.cast_mut()) };
    // Acquire: pairs with the Release in `store_release`.
    word.load(Ordering::Acquire)
}
