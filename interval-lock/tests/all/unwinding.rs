//! Blocking calls that unwind, because foreign code panics: they hold nothing, and no request of
//! theirs is left in the tree.

use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{Access, RangeLockExt};
use spanlock_sync::Park;

thread_local! {
    /// After how many sleeps the thread's next sleep panics.
    static SLEEPS: Cell<u32> = const { Cell::new(0) };
}

/// Does not sleep, and panics instead after a while.
struct Panics;

impl Park for Panics {
    fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
        f(&Panics)
    }

    fn waker(&self) -> &Waker {
        Waker::noop()
    }

    fn park(&self) {
        let left = SLEEPS.get().checked_sub(1);
        SLEEPS.set(left.expect("on purpose"));
    }

    fn try_park(&self) -> bool {
        false
    }
}

/// Returns a lock with stripes of 16 positions.
fn lock() -> IntervalLock<Panics> {
    IntervalLock::with_shards(4, 16).with_parking()
}

fn unwinds<R>(call: impl Fn() -> R) {
    for sleeps in 0..3 {
        SLEEPS.set(sleeps);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(call()))).is_err());
    }
}

/// In one stripe, and in all.
const RANGES: [Range<u64>; 2] = [0..8, 0..u64::MAX];

#[test]
fn a_request_leaves_nothing() {
    let lock = lock();
    let hold = lock.write(4..5).unwrap();
    for range in RANGES {
        unwinds(|| lock.read(range.clone()).is_ok());
        unwinds(|| lock.write(range.clone()).is_ok());
    }
    assert_eq!((lock.len(), lock.waiting()), (1, 0));
    drop(hold);
    assert!(lock.try_write(0..u64::MAX).is_ok());
}

#[test]
fn a_batch_leaves_nothing() {
    let lock = lock();
    let hold = lock.write(4..5).unwrap();
    for range in RANGES {
        unwinds(|| {
            let batch = [range.clone(), u64::MAX - 1..u64::MAX];
            lock.lock_all(batch.map(|range| (range, Access::Write)))
                .is_ok()
        });
    }
    assert_eq!((lock.len(), lock.waiting()), (1, 0));
    drop(hold);
    assert!(lock.try_write(0..u64::MAX).is_ok());
}

#[test]
fn an_upgrade_releases_its_hold() {
    let lock = lock();
    let reader = lock.read(4..5).unwrap();
    for range in RANGES {
        unwinds(|| drop(lock.upgradable_read(range.clone()).unwrap().upgrade()));
    }
    assert_eq!((lock.len(), lock.waiting()), (1, 0));
    drop(reader);
    assert!(lock.try_write(0..u64::MAX).is_ok());
}

/// The waiters behind a request that unwinds are woken.
#[test]
fn later_waiters_go_on() {
    let lock = lock();
    let hold = lock.read(4..5).unwrap();
    unwinds(|| lock.write(0..8).is_ok());
    assert!(lock.try_read(0..8).is_ok(), "a waiter was left behind");
    drop(hold);
}

/// A writer passes a reader that was granted its range but has not run yet. That lets an upgrade
/// go on, whose waker panics: the writer's call unwinds, and holds nothing.
#[test]
fn a_request_that_passes_holds_nothing() {
    /// Never sleeps. Its waker panics.
    struct Yields(Waker);
    struct Wakes;
    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    impl Park for Yields {
        fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
            f(&Yields(Waker::from(Arc::new(Wakes))))
        }
        fn waker(&self) -> &Waker {
            &self.0
        }
        fn park(&self) {
            thread::yield_now();
        }
        fn try_park(&self) -> bool {
            false
        }
    }
    let lock = IntervalLock::new().with_parking::<Yields>();
    let upgradable = lock.upgradable_read(0..10).unwrap();
    let writer = lock.write(11..12).unwrap();
    let mut reader = pin!(lock.read_async(8..12));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(reader.as_mut().poll(context).is_pending());
    drop(writer);
    thread::scope(|scope| {
        scope.spawn(|| drop(upgradable.upgrade()));
        while lock.waiting() == 0 {
            thread::yield_now();
        }
        let unwound = catch_unwind(AssertUnwindSafe(|| lock.write(11..12).is_ok()));
        assert!(unwound.is_err());
    });
    assert!(
        reader.as_mut().poll(context).is_ready(),
        "a hold was left behind"
    );
    assert!(lock.is_empty());
}
