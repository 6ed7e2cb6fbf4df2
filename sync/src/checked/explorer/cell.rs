//! Cells of the explorer, which detect races.

use spanlock_explorer::Plain;

use super::freed::Kept;

/// A cell. An access that races with another fails the execution.
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>, Kept<Memory>);

/// Stands for the memory of a cell. Dropping the cell is a write.
#[derive(Debug, Default)]
struct Memory(Plain);

impl Drop for Memory {
    fn drop(&mut self) {
        // A thread that panicked may drop what it has broken. The panic is what failed.
        if !std::thread::panicking() {
            self.0.write();
        }
    }
}

impl<T> UnsafeCell<T> {
    #[track_caller]
    pub(crate) fn new(value: T) -> Self {
        UnsafeCell(
            core::cell::UnsafeCell::new(value),
            Kept::new(Memory(Plain::new())),
        )
    }

    #[inline]
    #[track_caller]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.1.0.read();
        f(self.0.get())
    }

    #[inline]
    #[track_caller]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.1.0.write();
        f(self.0.get())
    }
}
