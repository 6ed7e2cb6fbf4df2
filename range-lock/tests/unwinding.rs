//! Blocking calls that unwind, because foreign code panics: they hold nothing and are in no queue.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Poll, Wake, Waker};
use std::thread;

use spanlock_range_lock::words::{Progress, poll_all};
use spanlock_range_lock::{
    Access, RangeLockExt, RawRangeLock, RwCounter, RwDistributed, RwWord, Span,
};
use spanlock_sync::Park;
use spanlock_sync::wait::WaitQueue;

/// Where a [`Panics`] panics.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Nowhere,
    With,
    Clone,
    Park,
}

thread_local! { static PLACE: Cell<Place> = const { Cell::new(Place::Nowhere) }; }

fn panic_at(place: Place) {
    if PLACE.get() == place {
        PLACE.set(Place::Nowhere);
        panic!("on purpose");
    }
}

/// Never sleeps, and panics where the thread has asked for it.
struct Panics(Waker);

mod waker {
    use std::ptr::null;
    use std::task::{RawWaker, RawWakerVTable, Waker};

    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |_| {
            super::panic_at(super::Place::Clone);
            RawWaker::new(null(), &TABLE)
        },
        |_| {},
        |_| {},
        |_| {},
    );

    pub(super) fn new() -> Waker {
        // SAFETY: none of the functions uses its data.
        unsafe { Waker::from_raw(RawWaker::new(null(), &TABLE)) }
    }
}

impl Park for Panics {
    fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
        panic_at(Place::With);
        f(&Panics(waker::new()))
    }

    fn waker(&self) -> &Waker {
        &self.0
    }

    fn park(&self) {
        panic_at(Place::Park);
        thread::yield_now();
    }

    fn try_park(&self) -> bool {
        false
    }
}

fn unwinds<L: RawRangeLock>(lock: &L, access: Access) {
    for place in [Place::With, Place::Clone, Place::Park] {
        PLACE.set(place);
        let unwound = catch_unwind(AssertUnwindSafe(|| lock.lock(Span::FULL, access)));
        assert!(unwound.is_err());
    }
}

#[test]
fn a_counter_is_as_it_was() {
    let lock = RwCounter::<Panics>::default();
    let hold = lock.write(0..1).unwrap();
    for access in [Access::Read, Access::Upgradable, Access::Write] {
        unwinds(&lock, access);
    }
    drop(hold);
    assert!(
        lock.try_write(0..1).is_ok(),
        "a hold or a waiter was left behind"
    );
}

/// A writer has acquired the words below the one for which it waits.
#[test]
fn a_distributed_lock_is_as_it_was() {
    const SLOTS: usize = 4;
    let lock = RwDistributed::with_slots(SLOTS).with_parking::<Panics>();
    for _ in 0..100 {
        // Consecutive threads read in different slots.
        thread::scope(|scope| {
            scope.spawn(|| {
                let hold = lock.read(0..1).unwrap();
                unwinds(&lock, Access::Write);
                // An upgrade takes every other slot.
                let all = hold.try_upgrade();
                assert!(all.is_ok(), "a hold or a waiter was left behind");
            });
        });
        assert!(lock.try_write(0..1).is_ok());
    }
}

/// A request was woken, but other code has consumed the wake of the thread's parker. The thread
/// does not sleep.
#[test]
fn a_woken_request_does_not_park() {
    /// Must not be used to sleep.
    struct NoSleep(Waker);
    impl Park for NoSleep {
        fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
            f(&NoSleep(Waker::noop().clone()))
        }
        fn waker(&self) -> &Waker {
            &self.0
        }
        fn park(&self) {
            panic!("sleeps, though it was woken");
        }
        fn try_park(&self) -> bool {
            false
        }
    }
    let (queue, word) = (WaitQueue::new(), RwWord::new());
    let run = || std::iter::once(word.run());
    word.run().lock(Access::Write, &queue);
    NoSleep::with(|parker| {
        let mut progress = pin!(Progress::default());
        let mut poll = || {
            // SAFETY: polled until it is ready.
            unsafe {
                poll_all(
                    run(),
                    Access::Write,
                    progress.as_mut(),
                    &queue,
                    parker.waker(),
                )
            }
        };
        assert!(poll().is_pending());
        // SAFETY: acquired above.
        unsafe { word.run().unlock(Access::Write, &queue) };
        assert!(!progress.as_mut().is_asleep());
        progress.as_mut().park(parker);
        // SAFETY: as above.
        let granted = unsafe {
            poll_all(
                run(),
                Access::Write,
                progress.as_mut(),
                &queue,
                parker.waker(),
            )
        };
        assert_eq!(granted, Poll::Ready(()));
    });
}

/// The waker of a waiter blocks until it gets a word that the same call releases later.
#[test]
fn all_words_are_released_before_a_waker_runs() {
    struct Uses(Arc<RwDistributed>, AtomicBool);
    impl Wake for Uses {
        fn wake(self: Arc<Self>) {
            let lock = self.0.clone();
            // In many threads, so in each slot.
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| drop(lock.read(0..1).unwrap()));
                }
            });
            self.1.store(true, SeqCst);
        }
    }
    for way in 0..2 {
        let lock = Arc::new(RwDistributed::with_slots(4));
        let uses = Arc::new(Uses(lock.clone(), AtomicBool::new(false)));
        let hold = lock.write(0..1).unwrap();
        let mut waiting = Box::pin(lock.read_async(0..1));
        let waker = Waker::from(uses.clone());
        let mut context = std::task::Context::from_waker(&waker);
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        match way {
            0 => drop(hold),
            _ => drop(hold.downgrade()),
        }
        assert!(uses.1.load(SeqCst), "the waiter was not woken");
        assert!(waiting.as_mut().poll(&mut context).is_ready());
    }
}
