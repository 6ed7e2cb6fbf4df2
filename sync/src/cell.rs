//! A cell whose accesses loom can see.

/// [`core::cell::UnsafeCell`] with access through closures: under loom an access that races with another
/// fails the model. (Shuttle does not look at cells.)
#[derive(Debug, Default)]
#[cfg_attr(not(any(spanlock_loom, spanlock_shuttle)), repr(transparent))]
pub struct UnsafeCell<T>(
    Inner<T>,
    #[cfg(any(spanlock_loom, spanlock_shuttle))] crate::footprint::Object,
);

#[cfg(spanlock_loom)]
type Inner<T> = loom::cell::UnsafeCell<T>;
#[cfg(not(spanlock_loom))]
type Inner<T> = core::cell::UnsafeCell<T>;

impl<T> UnsafeCell<T> {
    /// A cell around `value`.
    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    pub const fn new(value: T) -> Self {
        UnsafeCell(Inner::new(value))
    }

    /// A cell around `value`.
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    pub fn new(value: T) -> Self {
        UnsafeCell(Inner::new(value), crate::footprint::Object::new())
    }

    /// Calls `f` with a pointer to read through.
    ///
    /// The pointer must not be written through, and not be used after the call.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        self.1.touch_behind(crate::footprint::Access::Read);
        #[cfg(spanlock_loom)]
        {
            self.0.with(f)
        }
        #[cfg(not(spanlock_loom))]
        {
            f(self.0.get())
        }
    }

    /// Calls `f` with a pointer to read and write through.
    ///
    /// The pointer must not be used after the call.
    #[inline]
    #[track_caller]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        self.1.touch_behind(crate::footprint::Access::Write);
        #[cfg(spanlock_loom)]
        {
            self.0.with_mut(f)
        }
        #[cfg(not(spanlock_loom))]
        {
            f(self.0.get())
        }
    }
}
