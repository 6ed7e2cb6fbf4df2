//! Where a program calls an operation.

use core::cell::Cell;
use core::panic::Location;

pub(crate) type Place = &'static Location<'static>;

std::thread_local! {
    /// Stands for the caller of the next operation.
    static NAMED: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Calls `f`, and reports its first operation at `place` instead of at its caller.
///
/// This is for destructors, which the compiler calls: their caller is a line of `core`.
pub fn at<R>(place: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    // The operation takes it before another thread of the program can run.
    NAMED.set(Some(place));
    let result = f();
    NAMED.set(None);
    result
}

/// Returns the place of the operation that calls this.
#[track_caller]
pub(crate) fn here() -> Place {
    match NAMED.take() {
        Some(place) => place,
        None => Location::caller(),
    }
}
