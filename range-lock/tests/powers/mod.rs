//! The powers beyond taking and giving back, as tests generic over the lock; a crate that has one includes this folder.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use spanlock::{
    Access, RangeLockExt, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, Span,
};

/// Readers share what was downgraded, writers and upgradable readers get in as a plain read lets them.
pub(crate) fn downgrade<L: RawRangeLockDowngrade>(lock: &L) {
    let writer = lock.write(0..4).unwrap();
    assert!(lock.try_read(1..2).is_err());
    let reader = writer.downgrade();
    assert_eq!(reader.span().map(Span::range), Some(0..4));
    drop(lock.try_upgradable_read(0..4).unwrap());
    let second = lock.try_read(1..2).unwrap();
    assert!(lock.try_write(3..4).is_err());
    drop(reader);
    drop(second);

    let upgradable = lock.upgradable_read(0..4).unwrap();
    assert!(lock.try_upgradable_read(0..4).is_err());
    let reader = upgradable.downgrade();
    assert!(lock.try_upgradable_read(0..4).is_ok());
    drop(reader);
    drop(lock.write(0..0).unwrap().downgrade());
    assert!(lock.try_write(0..4).is_ok());
}

/// A reader that waits for a writer gets in when that one becomes a reader, and sees what it wrote.
pub(crate) fn downgrade_wakes<L: RawRangeLockDowngrade>(lock: &L) {
    for _ in 0..50 {
        let written = AtomicU64::new(0);
        let writer = lock.write(0..4).unwrap();
        thread::scope(|scope| {
            let readers = [0..1, 1..4, 0..4].map(|range| {
                let written = &written;
                scope.spawn(move || {
                    let _hold = lock.read(range).unwrap();
                    assert_eq!(written.load(Relaxed), 1);
                })
            });
            thread::yield_now();
            written.store(1, Relaxed);
            let reader = writer.downgrade();
            // Their ends are the assertion: the hold has not been given back.
            readers
                .into_iter()
                .for_each(|reader| reader.join().unwrap());
            drop(reader);
        });
    }
    assert!(lock.try_write(0..4).is_ok());
}

/// An upgrade succeeds alone, fails beside a reader, and then leaves everything as it was.
pub(crate) fn try_upgrade<L: RawRangeLockUpgrade>(lock: &L) {
    let writer = lock.read(0..4).unwrap().try_upgrade().unwrap();
    assert!(lock.try_read(0..1).is_err());
    drop(writer);
    let writer = lock.upgradable_read(0..4).unwrap().try_upgrade().unwrap();
    assert!(lock.try_read(3..4).is_err());
    drop(writer);

    let other = lock.read(3..4).unwrap();
    let reader = lock.read(0..4).unwrap().try_upgrade().unwrap_err();
    drop(lock.try_upgradable_read(0..4).unwrap());
    drop(reader);
    let upgradable = lock
        .upgradable_read(0..4)
        .unwrap()
        .try_upgrade()
        .unwrap_err();
    assert!(lock.try_upgradable_read(0..1).is_err());
    drop(lock.try_read(0..4).unwrap());
    drop(other);
    drop(upgradable.try_upgrade().unwrap());
    assert!(lock.write(2..2).unwrap().span().is_none());
    assert!(lock.read(2..2).unwrap().try_upgrade().is_ok());
    assert!(lock.try_write(0..4).is_ok());
}

/// Of many who read a number and then want to write its successor, each that may has read the last one.
pub(crate) fn nobody_writes_between<L>(lock: &L)
where
    L: RawRangeLockUpgrade + RawRangeLockDowngrade,
{
    let number = AtomicU64::new(0);
    let upgrades = AtomicU64::new(0);
    thread::scope(|scope| {
        for me in 0..8 {
            let (number, upgrades) = (&number, &upgrades);
            scope.spawn(move || {
                for i in 0..500 {
                    let upgraded = if (i + me) % 2 == 0 {
                        let hold = lock.upgradable_read(0..4).unwrap();
                        let before = number.load(Relaxed);
                        hold.try_upgrade().ok().map(|hold| (hold, before))
                    } else {
                        let hold = lock.read(0..4).unwrap();
                        let before = number.load(Relaxed);
                        hold.try_upgrade().ok().map(|hold| (hold, before))
                    };
                    if let Some((hold, before)) = upgraded {
                        assert_eq!(number.load(Relaxed), before, "somebody wrote between");
                        number.store(before + 1, Relaxed);
                        upgrades.fetch_add(1, Relaxed);
                        let reader = hold.downgrade();
                        assert_eq!(number.load(Relaxed), before + 1, "a writer got between");
                        drop(reader);
                    }
                }
            });
        }
    });
    assert_eq!(number.into_inner(), upgrades.into_inner());
    assert!(lock.try_write(0..4).is_ok());
}

/// Shrinking gives back what is not kept; each part of a split hold is given back by itself.
pub(crate) fn shrink_and_split<L: RawRangeLockSplit>(lock: &L) {
    let unit = lock.granularity();
    let span = |range: std::ops::Range<u64>| {
        Span::new(range.start * unit..range.end * unit)
            .unwrap()
            .unwrap()
    };
    let free = |range: std::ops::Range<u64>| lock.try_write(span(range).range()).is_ok();
    for access in [Access::Read, Access::Upgradable, Access::Write] {
        let token = lock.lock(span(0..8), access).unwrap();
        // SAFETY: each hold is changed and given back once, by its last token.
        unsafe {
            let token = lock.shrink(span(0..8), access, token, span(2..6));
            assert!(free(0..2) && free(6..8) && !free(2..3) && !free(5..6));
            let (below, above) = lock.split(span(2..6), access, token, 3 * unit);
            lock.unlock(span(2..3), access, below);
            assert!(free(0..3) && !free(3..4) && !free(5..6));
            let above = lock.shrink(span(3..6), access, above, span(3..6));
            lock.unlock(span(3..6), access, above);
        }
        assert!(free(0..8));
    }
    // What is kept may be less than a unit: its unit stays held.
    if unit > 1 {
        let token = lock.lock(span(0..3), Access::Write).unwrap();
        let part = Span::new(unit + 1..unit + 2).unwrap().unwrap();
        // SAFETY: as above.
        unsafe {
            let token = lock.shrink(span(0..3), Access::Write, token, part);
            assert!(free(0..1) && !free(1..2) && free(2..3));
            lock.unlock(part, Access::Write, token);
        }
        assert!(free(0..3));
    }
}
