//! Holds that shrink and split, through the guards.

use spanlock_range_lock::{
    Exclusive, Hold, Mode, PartError, RangeLockExt, RawRangeLockSplit, Shared, Upgradable,
};

use super::units;

fn free<L: RawRangeLockSplit>(lock: &L, range: std::ops::Range<u64>) -> bool {
    lock.try_write(units(lock, range)).is_ok()
}

pub(crate) fn holds_shrink<L: RawRangeLockSplit>(lock: &L) {
    fn check<L: RawRangeLockSplit, A: Mode>(lock: &L) {
        let mut hold = Hold::<_, A>::lock(lock, units(lock, 0..8)).unwrap();
        hold.shrink(units(lock, 1..8)).unwrap();
        hold.shrink(units(lock, 1..8)).unwrap();
        hold.shrink(units(lock, 2..6)).unwrap();
        assert_eq!(hold.span().map(|s| s.range()), Some(units(lock, 2..6)));
        let whole = lock.granularity() == u64::MAX;
        assert_eq!(free(lock, 0..2), !whole);
        assert!(!free(lock, 2..3) && !free(lock, 5..6));
        // Shrunk to nothing: everything is released, and nothing twice.
        let at = units(lock, 3..4).start;
        hold.shrink(at..at).unwrap();
        assert_eq!(hold.span(), None);
        assert!(free(lock, 0..8));
        hold.shrink(7..7).unwrap();
        drop(hold);
    }
    check::<L, Shared>(lock);
    check::<L, Upgradable>(lock);
    check::<L, Exclusive>(lock);
    assert!(free(lock, 0..8));
}

#[allow(clippy::reversed_empty_ranges)]
pub(crate) fn an_invalid_part_leaves_the_hold_unchanged<L: RawRangeLockSplit>(lock: &L) {
    let (all, unit) = (units(lock, 1..5), units(lock, 1..2).start);
    let mut hold = lock.write(all.clone()).unwrap();
    for part in [
        0..5 * unit,
        2 * unit..6 * unit,
        6 * unit..7 * unit,
        unit - 1..unit - 1,
    ] {
        let expected = PartError::Outside {
            start: part.start,
            end: part.end,
            held_start: all.start,
            held_end: all.end,
        };
        assert_eq!(hold.shrink(part), Err(expected));
    }
    let (start, end) = (3 * unit, 2 * unit);
    assert_eq!(
        hold.shrink(start..end),
        Err(PartError::Reversed { start, end })
    );
    assert!(matches!(
        hold.split_off(unit - 1),
        Err(PartError::Outside { .. })
    ));
    let (hold, error) = hold.split(5 * unit + 1).unwrap_err();
    assert!(matches!(error, PartError::Outside { .. }));
    assert_eq!(hold.span().map(|s| s.range()), Some(all));
    let granularity = lock.granularity();
    let mut hold = hold;
    if granularity > 1 {
        let at = 2 * unit + 1;
        let expected = PartError::Unaligned { at, granularity };
        assert_eq!(hold.split_off(at).err(), Some(expected));
    }
    assert!(!free(lock, 1..2) && !free(lock, 4..5));
    let mut nothing = lock.write(7..7).unwrap();
    assert!(nothing.shrink(7..8).is_err());
    assert!(nothing.split_off(3).unwrap().span().is_none());
    drop(hold);
    assert!(free(lock, 0..8));
}

/// Holds at both ends of the lock's positions, 0 and `u64::MAX` where the lock goes so far.
pub(crate) fn parts_at_the_first_and_the_last_position<L: RawRangeLockSplit>(lock: &L) {
    let end = lock.capacity();
    let whole = lock.granularity() == u64::MAX;
    let is_free = |range| lock.try_write(range).is_ok();
    for keep in [0..1, end - 1..end] {
        let mut all = lock.write(0..end).unwrap();
        all.shrink(keep.clone()).unwrap();
        assert_eq!(all.span().map(|span| span.range()), Some(keep.clone()));
        assert!(!is_free(keep.clone()));
        assert_eq!(is_free(end / 2..end / 2 + 1), !whole);
        drop(all);
        assert!(is_free(0..end));
    }
    // Cut before the last unit, and behind the first.
    if !whole {
        let unit = lock.granularity();
        for at in [unit, (end - 1) / unit * unit] {
            let (low, high) = lock.read(0..end).unwrap().split(at).unwrap();
            assert!(!is_free(0..1) && !is_free(end - 1..end));
            drop(low);
            assert!(is_free(0..at) && !is_free(at..at + 1) && !is_free(end - 1..end));
            drop(high);
            assert!(is_free(0..end));
        }
    }
    let last = lock.append(1, || end - 1).unwrap();
    assert_eq!(last.span().map(|span| span.range()), Some(end - 1..end));
    assert!(lock.append(2, || end - 1).is_err() && lock.append(1, || end).is_err());
    drop(last);
    assert!(is_free(0..end));
}

/// Each part is released separately. Any lock can cut at the ends of a hold.
pub(crate) fn holds_split<L: RawRangeLockSplit>(lock: &L) {
    let at = |unit| units(lock, unit..unit + 1).start;
    let mut hold = lock.write(units(lock, 1..5)).unwrap();
    let above = hold.split_off(at(5)).unwrap();
    assert!(above.span().is_none());
    drop(above);
    assert!(!free(lock, 4..5));
    let (below, mut hold) = hold.split(at(1)).unwrap();
    assert!(below.span().is_none());
    drop(below);
    assert!(!free(lock, 1..2));
    if lock.granularity() == u64::MAX {
        assert!(matches!(
            hold.split_off(at(3)),
            Err(PartError::Unaligned { .. })
        ));
        drop(hold);
        assert!(free(lock, 0..8));
        return;
    }
    let high = hold.split_off(at(3)).unwrap();
    assert_eq!(hold.span().map(|s| s.range()), Some(units(lock, 1..3)));
    assert_eq!(high.span().map(|s| s.range()), Some(units(lock, 3..5)));
    drop(hold);
    assert!(free(lock, 1..3) && !free(lock, 3..4));
    drop(high);
    let (low, high) = lock.read(units(lock, 0..8)).unwrap().split(at(4)).unwrap();
    drop(high);
    assert!(!free(lock, 3..4) && free(lock, 4..8));
    drop(low);
    assert!(free(lock, 0..8));
}
