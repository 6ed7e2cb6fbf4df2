//! The checker's cell: the explorer and loom detect races on it, and
//! [footprints](crate::footprint) record its accesses.

use crate::footprint::{Access, Object};

#[cfg(spanlock_shuttle)]
type Inner<T> = core::cell::UnsafeCell<T>;
#[cfg(spanlock_explorer)]
type Inner<T> = super::explorer::cell::UnsafeCell<T>;
#[cfg(spanlock_loom)]
type Inner<T> = loom::cell::UnsafeCell<T>;

/// [`core::cell::UnsafeCell`] with access through closures. An access that races with another
/// fails the model. (Shuttle does not check cells.)
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(Inner<T>, Object);

impl<T> UnsafeCell<T> {
    /// Returns a cell around `value`.
    #[track_caller]
    pub fn new(value: T) -> Self {
        UnsafeCell(Inner::new(value), Object::new())
    }

    /// Calls `f` with a pointer to read through.
    ///
    /// The pointer must not be written through, and must not be used after the call.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.1.touch_behind(Access::Read);
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
        self.1.touch_behind(Access::Write);
        #[cfg(not(spanlock_shuttle))]
        return self.0.with_mut(f);
        #[cfg(spanlock_shuttle)]
        f(self.0.get())
    }
}
