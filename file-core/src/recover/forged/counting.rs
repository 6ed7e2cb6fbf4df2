//! An allocator that counts the bytes in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts the bytes that each thread has in use.
struct Counting;

thread_local! {
    /// The bytes that this thread has allocated and not freed, and the most of them so far.
    static IN_USE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // While a thread ends, its count may be gone.
    let _ = IN_USE.try_with(|it| {
        let (now, most) = it.get();
        it.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the result of `run`, and the most bytes that it had in use.
pub(super) fn most_in_use<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let before = IN_USE.with(|it| {
        let (now, _) = it.get();
        it.set((now, now));
        now
    });
    let result = run();
    let (_, most) = IN_USE.with(Cell::get);
    (result, (most - before).cast_unsigned())
}
