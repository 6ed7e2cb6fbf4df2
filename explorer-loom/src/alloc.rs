//! Memory whose leaks fail the model.

use core::panic::Location;
use std::alloc as real;

use crate::execution;

#[doc(no_inline)]
pub use std::alloc::Layout;

/// Allocates memory, which must be freed by [`dealloc`] before the execution ends.
///
/// # Safety
/// As std's: the layout is not empty.
#[track_caller]
pub unsafe fn alloc(layout: Layout) -> *mut u8 {
    // SAFETY: the caller's promise.
    let memory = unsafe { real::alloc(layout) };
    allocated(memory);
    memory
}

/// Allocates memory of zeros, which must be freed by [`dealloc`] before the execution ends.
///
/// # Safety
/// As std's: the layout is not empty.
#[track_caller]
pub unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
    // SAFETY: the caller's promise.
    let memory = unsafe { real::alloc_zeroed(layout) };
    allocated(memory);
    memory
}

#[track_caller]
fn allocated(memory: *mut u8) {
    let at = Location::caller();
    execution::with("alloc::alloc", |it| it.allocated.insert(memory.addr(), at));
}

/// Frees memory.
///
/// # Safety
/// As std's: [`alloc`] or [`alloc_zeroed`] has returned the memory for this layout.
///
/// # Panics
/// If they have not, or the memory has been freed before.
#[track_caller]
pub unsafe fn dealloc(memory: *mut u8, layout: Layout) {
    let known = execution::with("alloc::dealloc", |it| it.allocated.remove(&memory.addr()));
    assert!(
        known.is_some(),
        "`loom::alloc::dealloc` is called with memory that `loom::alloc` has not allocated, or that \
         was freed before"
    );
    // SAFETY: the caller's promise.
    unsafe { real::dealloc(memory, layout) };
}

/// A value that must be dropped before the execution ends.
#[derive(Debug)]
pub struct Track<T> {
    value: T,
    tracked: Tracked,
}

/// The number among what must be freed.
#[derive(Debug)]
struct Tracked(usize);

impl Drop for Tracked {
    fn drop(&mut self) {
        execution::try_with(|it| it.live.remove(&self.0));
    }
}

impl<T> Track<T> {
    /// Tracks the value.
    #[track_caller]
    pub fn new(value: T) -> Track<T> {
        let at = Location::caller();
        let tracked = execution::with("alloc::Track::new", |it| it.made("tracked value", at));
        Track {
            value,
            tracked: Tracked(tracked),
        }
    }

    /// Returns the value.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns the value.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the value, which is no longer tracked.
    pub fn into_inner(self) -> T {
        drop(self.tracked);
        self.value
    }
}
