//! Holds and guards that share ownership of their lock, and parts of guards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use spanlock_range_lock::{
    Access, BatchHold, OwnedRangeReadGuard, OwnedRangeWriteGuard, OwnedReadHold, OwnedWriteHold,
    PartError, RangeBatchGuard, RangeLock, RangeLockExt, RawRangeLock, RawRangeLockBatch,
    RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
};

use super::{unit, units};

pub(crate) fn owned_holds_outlive_their_maker<L>(make: fn() -> L)
where
    L: RawRangeLockDowngrade + RawRangeLockUpgrade + RawRangeLockSplit + 'static,
{
    fn make_hold<L: RawRangeLock>(lock: Arc<L>) -> OwnedWriteHold<L> {
        let range = units(&*lock, 0..4);
        OwnedWriteHold::lock(lock, range).unwrap()
    }
    let lock = Arc::new(make());
    let hold = make_hold(lock.clone());
    assert_eq!(Arc::strong_count(&lock), 2);
    assert!(OwnedReadHold::try_lock(lock.clone(), units(&*lock, 1..2)).is_err());
    let watch = Arc::downgrade(&lock);
    thread::spawn(move || {
        let lock = lock;
        let hold = hold.downgrade();
        drop(lock.try_read(units(&*lock, 1..2)).unwrap());
        let mut hold = hold.try_upgrade().unwrap();
        hold.shrink(units(&*lock, 1..4)).unwrap();
        let above = hold.split_off(units(&*lock, 3..4).end).unwrap();
        drop((lock, hold));
        assert!(above.span().is_none());
    })
    .join()
    .unwrap();
    assert_eq!(watch.strong_count(), 0, "a share was kept");

    let erased: Arc<dyn RawRangeLock> = Arc::new(make());
    let hold = OwnedReadHold::lock(erased.clone(), 0..1).unwrap();
    assert!(erased.try_write(0..1).is_err());
    drop(hold);
    assert!(erased.try_write(0..1).is_ok());
}

pub(crate) fn owned_batches<L: RawRangeLockBatch + 'static>(make: fn() -> L) {
    let lock = Arc::new(make());
    let parts = [0..1, 3..4].map(|part| (units(&*lock, part), Access::Write));
    let batch = BatchHold::lock(lock.clone(), parts).unwrap();
    thread::spawn(move || drop(batch)).join().unwrap();
    assert_eq!(Arc::strong_count(&lock), 1);
    assert!(lock.try_write(units(&*lock, 0..4)).is_ok());
    let array = Arc::new(RangeLock::with_lock(vec![1, 2, 3, 4], lock).unwrap());
    let parts = [(0..1, Access::Write), (3..4, Access::Read)];
    let mut batch = RangeBatchGuard::lock(array.clone(), parts).unwrap();
    let writer = thread::spawn(move || batch.get_mut(0..1).unwrap()[0] = 7);
    writer.join().unwrap();
    assert_eq!(array.read(0..4).unwrap()[..], [7, 2, 3, 4]);
}

/// Counts its drops.
#[derive(Clone)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

pub(crate) fn the_last_guard_drops_the_elements<L: RawRangeLock + 'static>(make: fn() -> L) {
    let drops = Arc::new(AtomicUsize::new(0));
    let data = vec![Counted(drops.clone()); 4];
    drops.store(0, Relaxed);
    let array = Arc::new(RangeLock::with_lock(data, make()).unwrap());
    let mut guard = OwnedRangeWriteGuard::lock(array.clone(), 1..3).unwrap();
    assert!(OwnedRangeReadGuard::try_lock(array.clone(), 2..4).is_err());
    assert!(OwnedRangeReadGuard::lock(array.clone(), 2..5).is_err());
    drop(array);
    thread::spawn(move || {
        guard[0] = guard[1].clone();
        assert_eq!(guard[0].0.load(Relaxed), 1);
    })
    .join()
    .unwrap();
    assert_eq!(drops.load(Relaxed), 5);
}

/// A guard splits into two slices, and gives up elements at either end.
pub(crate) fn guards_shrink_and_split<L: RawRangeLockSplit>(lock: &L) {
    let unit = unit(lock) as usize;
    let data = Vec::from_iter(0..8 * unit as u64);
    let array = RangeLock::with_lock(data, lock).unwrap();
    let whole = lock.granularity() == u64::MAX;
    let mut guard = array.write(unit..7 * unit).unwrap();
    guard.shrink(unit..6 * unit).unwrap();
    assert_eq!((guard[0], guard.len()), (2 * unit as u64, 5 * unit));
    assert_eq!(array.try_write(0..2 * unit).is_ok(), !whole);
    let outside = guard.shrink(0..5 * unit + 1);
    assert!(matches!(
        outside,
        Err(PartError::Outside { held_start: 0, .. })
    ));
    if whole {
        assert!(guard.split_off(unit).is_err());
    } else {
        let mut high = guard.split_off(2 * unit).unwrap();
        assert_eq!((guard.len(), high.len()), (2 * unit, 3 * unit));
        guard.swap_with_slice(&mut high[..2 * unit]);
        assert_eq!((guard[0], high[0]), (4 * unit as u64, 2 * unit as u64));
        let (low, mut middle) = guard.split(unit).unwrap();
        drop(low);
        drop(array.try_write(0..3 * unit).unwrap());
        assert!(array.try_read(3 * unit..3 * unit + 1).is_err());
        middle[0] = 77;
        assert!(array.try_read(4 * unit..4 * unit + 1).is_err());
        drop(high);
        drop(array.try_read(4 * unit..8 * unit).unwrap());
        guard = middle;
    }
    // Any lock can cut at the ends of a hold, and any guard can shrink to nothing.
    let len = guard.len();
    let end = guard.split_off(len).unwrap();
    assert!(end.is_empty());
    let mut all = guard.split_off(0).unwrap();
    assert!(guard.is_empty() && all.len() == len);
    guard.shrink(0..0).unwrap();
    all.shrink(len..len).unwrap();
    assert!(all.is_empty() && all.span().is_none());
    assert!(array.try_write(0..8 * unit).is_ok());
    let mut reader = array.read(0..unit).unwrap();
    reader.shrink(0..1).unwrap();
    assert_eq!(reader[..], [0]);
}

/// Zero-sized elements have positions, too.
pub(crate) fn zero_sized_elements_are_split<L: RawRangeLockSplit>(lock: &L) {
    let unit = unit(lock) as usize;
    let array = RangeLock::with_lock(vec![(); 4 * unit], lock).unwrap();
    let mut guard = array.write(0..4 * unit).unwrap();
    guard.shrink(unit..3 * unit).unwrap();
    assert_eq!(guard.len(), 2 * unit);
    if let Ok(high) = guard.split_off(unit) {
        assert_eq!((guard.len(), high.len()), (unit, unit));
    }
}
