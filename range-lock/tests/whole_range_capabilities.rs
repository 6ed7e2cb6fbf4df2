//! The capabilities of the locks of this crate.

use crate::capabilities;
use spanlock_range_lock::{
    Access, RangeLockExt, RawRangeLock, RawRangeLockSplit, RwCounter, RwDistributed, Span,
};

capabilities!(rw_counter: RwCounter::new; deadlines futures parts batches append owned foreign);
capabilities! {
    rw_distributed: || RwDistributed::with_slots(3);
    deadlines futures parts batches append owned foreign
}

fn all_but_split<L>(make: fn() -> L)
where
    L: spanlock_range_lock::RawRangeLockDowngrade + spanlock_range_lock::RawRangeLockUpgrade,
{
    capabilities::downgrade(&make());
    capabilities::downgrade_wakes(&make());
    capabilities::try_upgrade(&make());
    capabilities::nobody_writes_between(&make());
}

#[test]
fn counter() {
    all_but_split(RwCounter::new);
}

#[test]
fn distributed() {
    all_but_split(|| RwDistributed::with_slots(3));
}

/// A whole-range hold shrinks to itself, and cannot be split.
#[test]
fn a_whole_range_hold_shrinks_to_itself() {
    fn check<L: RawRangeLock + RawRangeLockSplit>(lock: &L) {
        assert_eq!(lock.granularity(), u64::MAX);
        let (all, part) = (Span::FULL, Span::new(3..4).unwrap().unwrap());
        let mut token = lock.lock(all, Access::Write).unwrap();
        // SAFETY: the hold is shrunk and released once.
        unsafe {
            lock.shrink(all, Access::Write, &mut token, part);
            assert!(lock.try_read(7..8).is_err());
            lock.unlock(part, Access::Write, token);
        }
        assert!(lock.try_write(7..8).is_ok());
    }
    check(&RwCounter::new());
    check(&RwDistributed::with_slots(2));
    // Only other crates use the helper for locks that can split; this use prevents a warning.
    let _ = capabilities::shrink_and_split::<RwCounter>;
}

/// A future that is forgotten while it waits disappears with its lock: the next lock at the same
/// address is not affected.
#[test]
fn a_forgotten_future_leaves_no_trace_in_the_next_lock() {
    use std::task::{Context, Waker};

    let mut context = Context::from_waker(Waker::noop());
    // The same address each time.
    let mut place = Box::new(RwCounter::new());
    for _ in 0..3 {
        let hold = place.read(0..1).unwrap();
        let mut future = Box::pin(place.write_async(0..1));
        assert!(future.as_mut().poll(&mut context).is_pending());
        std::mem::forget(future);
        drop(hold);
        *place = RwCounter::new();
        // If the waiter were still there, tries could overtake it for a limited time only.
        drop(place.try_write(0..1).expect("nobody holds, nobody waits"));
        std::thread::sleep(2 * spanlock_range_lock::words::PASS_TIME);
        for _ in 0..2 * spanlock_range_lock::words::MAX_PASSES {
            drop(place.try_write(0..1).expect("nobody holds, nobody waits"));
        }
    }
}
