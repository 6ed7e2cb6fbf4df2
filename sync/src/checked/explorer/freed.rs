//! The drops of atomics and cells.
//!
//! The explorer takes the drop of a location for an access that excludes all others. That is right
//! where the code under test frees memory on purpose, by [`free`]: it must know that no thread uses
//! the memory. Elsewhere, std's `Arc` may decide which thread drops a value, and the explorer does
//! not know the order of its references. So only [`free`] drops a location.

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use spanlock_explorer::current_thread;

thread_local! {
    /// The thread that frees memory.
    static FREEING: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Drops memory that no thread may use any more.
pub(crate) fn free<T>(memory: T) {
    let before = FREEING.replace(Some(current_thread()));
    drop(memory);
    FREEING.set(before);
}

/// A location that is dropped only by [`free`].
#[derive(Debug, Default)]
pub(crate) struct Kept<T>(ManuallyDrop<T>);

impl<T> Kept<T> {
    pub(crate) fn new(location: T) -> Self {
        Kept(ManuallyDrop::new(location))
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if FREEING.get() == Some(current_thread()) {
            // SAFETY: this runs once.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}
