//! Point 9 of the contract: forgotten guards; and guards across threads and panics.

use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use spanlock_range_lock::{
    Access, RangeLock, RangeLockExt, RangeReadGuard, RangeWriteGuard, RawRangeLock, ReadHold, Span,
    WriteHold,
};

use super::{BOTH, Held, Kind, UNITS};

pub(crate) fn a_forgotten_guard_keeps_its_range_and_nothing_else<L: RawRangeLock>(kind: &Kind<L>) {
    for access in BOTH {
        let lock = kind.lock();
        forget(Held::take(&lock, kind.units(3..5), access));
        for tried in BOTH {
            for units in [3..4, 4..5, 2..4, 4..6, 0..UNITS] {
                let granted = Held::try_take(&lock, kind.units(units), tried).is_ok();
                assert_eq!(granted, !access.conflicts_with(tried));
            }
        }
        if kind.is_granular() {
            let rest = [0..3, 5..UNITS].map(|units| lock.write(kind.units(units)).unwrap());
            drop(rest);
        }
        // The lock can be dropped whether held or not.
        drop(lock);
    }
}

pub(crate) fn a_guard_may_be_dropped_by_another_thread<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    for access in BOTH {
        let hold = Held::take(&lock, kind.units(1..3), access);
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(lock.try_write(kind.units(2..3)).is_err());
                drop(hold);
            });
        });
        kind.assert_free(&lock);
    }
}

pub(crate) fn many_guards_may_be_dropped_by_another_thread<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let (send, receive) = mpsc::sync_channel::<Held<'_, L>>(16);
    thread::scope(|scope| {
        // Eight threads lock, one unlocks. The channel closes when all lockers are done.
        scope.spawn(move || receive.into_iter().for_each(drop));
        for taker in 0..8_u64 {
            let (lock, send) = (&lock, send.clone());
            scope.spawn(move || {
                for i in 0..250 {
                    // The lockers wait for guards that are still in the channel.
                    let unit = (taker + i) % 4;
                    let access = BOTH[usize::from(i % 5 == 0)];
                    let range = kind.units(unit..unit + 1);
                    send.send(Held::take(lock, range, access)).unwrap();
                }
            });
        }
        drop(send);
    });
    kind.assert_free(&lock);
}

pub(crate) fn a_panic_releases_the_range<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    for access in BOTH {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _hold = Held::take(&lock, kind.units(0..2), access);
            std::panic::resume_unwind(Box::new("with a hold"));
        }));
        assert!(panicked.is_err());
        kind.assert_free(&lock);
    }
}

pub(crate) fn a_hold_knows_its_span<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let end = kind.unit() + 1;
    let span = Span::new(1..end).unwrap();
    let read = lock.read(1..end).unwrap();
    assert_eq!(read.span(), span);
    assert_eq!(format!("{read:?}"), format!("ReadHold(Some(1..{end}))"));
    drop(read);
    let write = lock.try_write(1..end).unwrap();
    assert_eq!(write.span(), span);
    assert_eq!(format!("{write:?}"), format!("WriteHold(Some(1..{end}))"));
    drop(write);
    assert_eq!(lock.read(5..5).unwrap().span(), None);
    let empty = Held::take(&lock, 5..5, Access::Write);
    assert_eq!(empty.range(), 0..0);
}

pub(crate) fn guards_are_send_and_sync<L: RawRangeLock>(kind: &Kind<L>) {
    fn both<T: Send + Sync>(_: &T) {}
    let lock = RangeLock::with_lock(vec![0_u8; 1], kind.lock()).unwrap();
    both(&lock);
    both::<ReadHold<'_, L>>(&lock.raw().read(0..1).unwrap());
    both::<WriteHold<'_, L>>(&lock.raw().write(0..1).unwrap());
    both::<RangeReadGuard<'_, u8, L>>(&lock.read(0..1).unwrap());
    both::<RangeWriteGuard<'_, u8, L>>(&lock.write(0..1).unwrap());
    // Elements that are not `Sync` can still be locked for writing.
    fn send<T: Send>(_: &T) {}
    let lock = RangeLock::with_lock(vec![std::cell::Cell::new(0)], kind.lock()).unwrap();
    send(&lock);
    send(&lock.write(0..1).unwrap());
}
