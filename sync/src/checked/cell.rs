//! The checker's cell: the explorer and loom detect races on it.

use super::operations::{Access, note};

#[cfg(spanlock_shuttle)]
type Inner<T> = core::cell::UnsafeCell<T>;
#[cfg(spanlock_explorer)]
type Inner<T> = super::explorer::cell::UnsafeCell<T>;
#[cfg(spanlock_loom)]
type Inner<T> = loom::cell::UnsafeCell<T>;

/// [`core::cell::UnsafeCell`] with access through closures. An access that races with another
/// fails the model. (Shuttle does not check cells.)
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(Inner<T>);

impl<T> UnsafeCell<T> {
    /// Returns a cell around `value`.
    #[track_caller]
    pub fn new(value: T) -> Self {
        UnsafeCell(Inner::new(value))
    }

    /// Calls `f` with a pointer to read through.
    ///
    /// The pointer must not be written through, and must not be used after the call.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        note(Access::Read);
        #[cfg(not(spanlock_shuttle))]
        return self.0.with(f);
        #[cfg(spanlock_shuttle)]
        f(self.0.get())
    }

    /// Calls `f` with a pointer to read and write through.
    ///
    /// The pointer must not be used after the call.
    #[inline]
    #[track_caller]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        note(Access::Write);
        #[cfg(not(spanlock_shuttle))]
        return self.0.with_mut(f);
        #[cfg(spanlock_shuttle)]
        f(self.0.get())
    }
}
