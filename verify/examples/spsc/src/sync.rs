//! The facade of this crate: the checkers' types when it is verified, else those of core.

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub(crate) use shipped::{AtomicUsize, UnsafeCell, injected_bug};
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub(crate) use spanlock_sync::{atomic::AtomicUsize, cell::UnsafeCell, injected_bug};

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
mod shipped {
    pub(crate) use core::sync::atomic::AtomicUsize;

    /// core's `UnsafeCell`, with the checkers' methods.
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            UnsafeCell(core::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// Never injects the bug.
    macro_rules! injected_bug {
        ($name:literal, $what:literal, killed_by = $killed_by:literal $(,)?) => {
            false
        };
    }
    pub(crate) use injected_bug;
}
