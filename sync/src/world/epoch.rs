//! The epochs of crossbeam-epoch. All collectors share those of the process: a collector of one's
//! own would need a registration of each thread, which takes 2 KiB.

use core::marker::PhantomData;

#[derive(Default)]
pub(crate) struct Collector;

pub(crate) struct Guard<'a> {
    guard: crossbeam_epoch::Guard,
    collector: PhantomData<&'a Collector>,
}

impl Collector {
    pub(crate) fn new() -> Self {
        Collector
    }

    #[inline]
    pub(crate) fn pin(&self) -> Guard<'_> {
        Guard {
            guard: crossbeam_epoch::pin(),
            collector: PhantomData,
        }
    }
}

impl Guard<'_> {
    /// # Safety
    /// See [`crate::epoch::Guard::defer_free`].
    #[inline]
    pub(crate) unsafe fn defer_free<T: Send + 'static>(&self, memory: *mut T) {
        // SAFETY: the memory may be freed by another thread (`Send`), at any time (`'static`), once
        // no pinned thread can reference it. It came from `Box::into_raw`, and nothing else frees
        // it.
        unsafe {
            self.guard
                .defer_unchecked(move || drop(Box::from_raw(memory)));
        }
    }

    #[inline]
    pub(crate) fn flush(&self) {
        self.guard.flush();
    }
}

#[inline]
pub(crate) fn owned<T>(memory: Box<T>) -> Box<T> {
    memory
}

#[inline]
pub(crate) fn free<T>(memory: Box<T>) {
    drop(memory);
}
