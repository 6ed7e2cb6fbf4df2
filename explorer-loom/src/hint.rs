//! The functions of [`std::hint`] that loom has.

/// A round of a loop that waits for another thread: same as
/// [`yield_now`](crate::thread::yield_now).
#[track_caller]
pub fn spin_loop() {
    crate::thread::yield_now();
}

/// Panics: it was reached.
///
/// # Safety
/// Always safe to call. It is unsafe because std's is.
#[track_caller]
pub unsafe fn unreachable_unchecked() -> ! {
    unreachable!("unreachable_unchecked was reached!");
}
