//! `core`'s cell, with access through closures.

/// [`core::cell::UnsafeCell`] with access through closures. Under the explorer and loom, an access
/// that races with another fails the model. (Shuttle does not check cells.)
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Returns a cell around `value`.
    pub const fn new(value: T) -> Self {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer to read through.
    ///
    /// The pointer must not be written through, and must not be used after the call.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer to read and write through.
    ///
    /// The pointer must not be used after the call.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
