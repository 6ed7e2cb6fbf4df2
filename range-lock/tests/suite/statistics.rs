//! The feature `statistics`: exact counts, by the same steps for every lock.

use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use spanlock_range_lock::words::PASS_TIME;
use spanlock_range_lock::{
    Access, LockFuture, RangeLockExt, RawRangeLockBatch, RawRangeLockStatistics, RawRangeLockWait,
};

use super::Kind;

/// Waits until no other test runs that calls this. Words of different locks share a part of the
/// waiting table, where an arrival at one uses passes that are counted for a waiter at the other.
/// So tests that run at the same time would change each other's counts.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns (acquisitions, waits, overtakes).
pub(crate) fn numbers<L: RawRangeLockStatistics>(lock: &L) -> (u64, u64, u64) {
    let all = lock.statistics();
    (all.acquisitions, all.waits, all.overtakes)
}

/// Polls once.
fn is_ready<L: RawRangeLockWait, A: spanlock_range_lock::Mode>(
    future: &mut Pin<Box<LockFuture<&L, A>>>,
) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    future.as_mut().poll(&mut context).is_ready()
}

pub(crate) fn acquisitions<L: RawRangeLockStatistics + RawRangeLockWait>(kind: &Kind<L>) {
    let _alone = alone();
    let lock = &kind.lock();
    assert_eq!(numbers(lock), (0, 0, 0));
    let all = || kind.everything();
    drop((
        lock.read(all()).unwrap(),
        lock.read(kind.units(0..1)).unwrap(),
    ));
    assert_eq!(numbers(lock), (2, 0, 0));
    drop(lock.try_write(all()).unwrap());
    drop(lock.upgradable_read(kind.units(0..1)).unwrap());
    drop(lock.try_write_for(all(), Duration::from_secs(9)).unwrap());
    assert!(is_ready(&mut Box::pin(lock.write_async(all()))));
    assert_eq!(numbers(lock), (6, 0, 0));
    // Empty ranges and refused requests do not count.
    drop(lock.write(0..0).unwrap());
    let hold = lock.write(all()).unwrap();
    assert!(lock.try_read(all()).is_err());
    assert!(lock.try_read(kind.units(0..1)).is_err());
    drop(hold);
    assert_eq!(numbers(lock), (7, 0, 0));
    assert_eq!(
        lock.statistics().to_string(),
        "7 acquisitions, 0 waits, 0 overtakes"
    );
}

pub(crate) fn batches<L: RawRangeLockStatistics + RawRangeLockBatch>(kind: &Kind<L>) {
    let _alone = alone();
    let lock = &kind.lock();
    let spans = if kind.is_granular() { 2 } else { 1 };
    let batch = || [2..4, 6..8].map(|units: Range<u64>| (kind.units(units), Access::Write));
    drop(lock.lock_all(batch()).unwrap());
    assert_eq!(numbers(lock), (spans, 0, 0));
    drop(lock.try_lock_all(batch()).unwrap());
    assert_eq!(numbers(lock), (2 * spans, 0, 0));
    // The first range of the batch was free.
    let hold = lock.read(kind.units(7..8)).unwrap();
    assert!(lock.try_lock_all(batch()).is_err());
    assert_eq!(numbers(lock), (2 * spans + 1, 0, 0));
    drop(hold);
}

/// A thread waits once. So does a future that is polled again and again and then gives up.
pub(crate) fn waits<L: RawRangeLockStatistics + RawRangeLockWait>(kind: &Kind<L>) {
    let _alone = alone();
    let lock = &kind.lock();
    let one = || kind.units(0..1);
    let hold = lock.write(one()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.read(one()).unwrap()));
        while lock.statistics().waits == 0 {
            thread::yield_now();
        }
        let mut future = Box::pin(lock.write_async(one()));
        for _ in 0..100 {
            assert!(!is_ready(&mut future));
        }
        assert_eq!(numbers(lock), (1, 2, 0));
        drop(future);
        drop(hold);
    });
    assert_eq!(numbers(lock), (2, 2, 0));
    kind.assert_free(lock);
}

/// A waiting writer stays the head after the hold is released. Until it is polled again, exactly
/// `passes` tries overtake it, if they take long enough.
pub(crate) fn overtakes<L: RawRangeLockStatistics + RawRangeLockWait>(kind: &Kind<L>, passes: u64) {
    let _alone = alone();
    let lock = &kind.lock();
    let one = || kind.units(0..1);
    let hold = lock.write(one()).unwrap();
    let mut future = Box::pin(lock.write_async(one()));
    assert!(!is_ready(&mut future));
    drop(hold);
    // The time in which more requests may overtake it begins with the first that does.
    let first = u64::from(lock.try_write(one()).is_ok());
    std::thread::sleep(2 * PASS_TIME);
    let tries = 100;
    let passed = (0..tries).filter(|_| lock.try_write(one()).is_ok()).count() as u64;
    assert_eq!(first + passed, passes);
    assert_eq!(numbers(lock), (1 + passes, 1, passes));
    assert!(is_ready(&mut future));
    drop(future);
    assert_eq!(numbers(lock), (2 + passes, 1, passes));
    kind.assert_free(lock);
}

/// A pointer to a lock reports the counts of the lock.
pub(crate) fn pointers<L: RawRangeLockStatistics + 'static>(kind: &Kind<L>) {
    let _alone = alone();
    let lock = Arc::new(kind.lock());
    drop(lock.read(kind.units(0..1)).unwrap());
    let erased: Arc<dyn RawRangeLockStatistics> = lock.clone();
    assert_eq!(erased.statistics(), lock.statistics());
    assert_eq!((*lock).statistics().acquisitions, 1);
    let mut sum = lock.statistics();
    sum += erased.statistics();
    assert_eq!(sum.acquisitions, 2);
}
