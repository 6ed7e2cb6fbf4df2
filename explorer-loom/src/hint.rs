//! The functions of [`std::hint`] that loom has.

pub use crate::thread::yield_now as spin_loop;

/// Panics: it was reached.
///
/// # Safety
/// Always safe to call. It is unsafe because std's is.
#[track_caller]
pub unsafe fn unreachable_unchecked() -> ! {
    unreachable!("unreachable_unchecked was reached!");
}
