//! Futures.

use core::future::Future;
use core::mem::ManuallyDrop;
use core::pin::pin;
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use crate::sync::{Arc, Mutex, Notify};

/// Polls the future until it is ready. A wake is a [`Notify`], so the future may also be polled
/// spuriously.
#[track_caller]
pub fn block_on<F>(future: F) -> F::Output
where
    F: Future,
{
    let mut future = pin!(future);
    let woken = Arc::new(Notify::new());
    // SAFETY: see `VTABLE`; the pointer is a reference of its own.
    let waker = unsafe { Waker::new(Arc::into_raw(woken.clone()).cast(), &VTABLE) };
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        woken.wait();
    }
}

/// A waker is a reference of loom's `Arc`, so that the explorer sees which one is dropped last.
static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: the waker that is cloned is a reference.
        unsafe { Arc::increment_strong_count(data.cast::<Notify>()) };
        RawWaker::new(data, &VTABLE)
    },
    // SAFETY: each waker is a reference, which is taken here.
    |data| unsafe { Arc::from_raw(data.cast::<Notify>()) }.notify(),
    |data| {
        // SAFETY: as above, but the waker keeps the reference.
        let woken = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Notify>()) });
        woken.notify();
    },
    // SAFETY: as above.
    |data| drop(unsafe { Arc::from_raw(data.cast::<Notify>()) }),
);

/// The place for a task's waker: loom's own, after tokio's.
#[derive(Debug)]
pub struct AtomicWaker(Mutex<Option<Waker>>);

impl AtomicWaker {
    /// Returns an empty place.
    ///
    /// # Panics
    /// Outside a model.
    #[track_caller]
    pub fn new() -> AtomicWaker {
        AtomicWaker(Mutex::new(None))
    }

    /// Stores the waker, or wakes it if another thread wakes just now.
    #[track_caller]
    pub fn register(&self, waker: Waker) {
        match self.0.try_lock() {
            Ok(mut place) => {
                let old = place.replace(waker);
                drop(place);
                drop(old);
            }
            Err(_) => {
                waker.wake();
                // The task is polled again, until the other thread has unlocked.
                crate::thread::yield_now();
            }
        }
    }

    /// Same as [`register`](Self::register), for a clone of the waker.
    #[track_caller]
    pub fn register_by_ref(&self, waker: &Waker) {
        self.register(waker.clone());
    }

    /// Wakes the waker that was stored last.
    #[track_caller]
    pub fn wake(&self) {
        if let Some(waker) = self.take_waker() {
            waker.wake();
        }
    }

    /// Takes the waker that was stored last.
    #[track_caller]
    pub fn take_waker(&self) -> Option<Waker> {
        let mut place = self.0.lock().unwrap_or_else(|it| it.into_inner());
        place.take()
    }
}

impl Default for AtomicWaker {
    #[track_caller]
    fn default() -> AtomicWaker {
        AtomicWaker::new()
    }
}
