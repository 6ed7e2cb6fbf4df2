//! Points 2 and 3 of the contract: eight real threads on fewer cores, with data that shows
//! violations.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use fastrand::Rng;
use spanlock_range_lock::{Access, RangeLock, RangeLockExt, RawRangeLock};

use super::{ALL, Held, Kind, UNITS};

const THREADS: u64 = 8;

/// An element that records its last writer, and how often it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamped {
    stamp: u64,
    writes: u64,
}

/// Returns a range in quarters of units: mostly short, sometimes wide, rarely the full range.
fn some_range(rng: &mut Rng, quarters: u64) -> (u64, u64) {
    if rng.u64(..64) == 0 {
        return (0, quarters);
    }
    let start = rng.u64(..quarters);
    let longest = if rng.u64(..8) == 0 { quarters } else { 6 };
    (start, (start + 1 + rng.u64(..longest)).min(quarters))
}

/// Writers stamp all elements of their range, and a moment later still find their own stamp on all
/// of them. Readers find that nothing changes. In the end no write was lost. The elements are plain
/// memory, so a data race also shows a failure of visibility.
pub(crate) fn eight_threads_find_only_their_own_stamps<L: RawRangeLock>(kind: &Kind<L>) {
    // Quarters, so that ranges also end within a granule. Only the first element of each quarter is
    // used.
    let quarter = (kind.unit() / 4).max(1);
    let quarters = kind.everything().end / quarter;
    let data = vec![Stamped::default(); kind.everything().end as usize];
    let lock = RangeLock::with_lock(data, kind.lock()).unwrap();
    let written: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|me| {
                let lock = &lock;
                scope.spawn(move || work(lock, me, quarter, quarters))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    let found: u64 = lock.into_inner().iter().map(|e| e.writes).sum();
    assert_eq!(found, written, "writes were lost");
}

fn work<L: RawRangeLock>(
    lock: &RangeLock<Stamped, L>,
    me: u64,
    quarter: u64,
    quarters: u64,
) -> u64 {
    let mut rng = Rng::with_seed(me);
    let mut written = 0;
    for round in 0..1500 {
        let (start, end) = some_range(&mut rng, quarters);
        let range = (start * quarter) as usize..(end * quarter) as usize;
        let step = quarter as usize;
        let (tried, pause) = (rng.u64(..4) == 0, rng.u64(..16) == 0);
        if rng.u64(..2) == 0 {
            let guard = match tried {
                false => lock.write(range).ok(),
                true => lock.try_write(range).ok(),
            };
            let Some(mut guard) = guard else { continue };
            let stamp = me << 32 | round;
            for element in guard.iter_mut().step_by(step) {
                element.stamp = stamp;
                element.writes += 1;
                written += 1;
            }
            if pause {
                thread::yield_now();
            }
            let mut seen = black_box(&guard[..]).iter().step_by(step);
            assert!(seen.all(|e| e.stamp == stamp), "another wrote meanwhile");
        } else {
            let guard = match tried {
                false => lock.read(range).ok(),
                true => lock.try_read(range).ok(),
            };
            let Some(guard) = guard else { continue };
            let before: Vec<_> = black_box(&guard[..])
                .iter()
                .step_by(step)
                .copied()
                .collect();
            if pause {
                thread::yield_now();
            }
            let now = black_box(&guard[..]).iter().step_by(step).copied();
            assert!(now.eq(before), "somebody wrote meanwhile");
        }
    }
    written
}

/// Each thread counts itself in an atomic word for every unit it holds. A writer must be alone, and
/// at most one of the readers upgradable. This detects a violation even where the data would not
/// show it.
pub(crate) fn eight_threads_count_no_conflicting_holds<L: RawRangeLock>(kind: &Kind<L>) {
    const UPGRADER: u64 = 1 << 16;
    const WRITER: u64 = 1 << 32;
    let lock = kind.lock();
    // The holders of each unit: readers, `UPGRADER`s and `WRITER`s. Relaxed: the lock must order
    // them.
    let inside: Vec<_> = (0..UNITS).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for me in 0..THREADS {
            let (lock, inside) = (&lock, &inside);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(100 + me);
                for _ in 0..1500 {
                    let (start, end) = some_range(&mut rng, UNITS);
                    let access = ALL[rng.u64(..3) as usize];
                    let hold = Held::take(lock, kind.units(start..end), access);
                    let units = &inside[start as usize..end as usize];
                    for unit in units {
                        match access {
                            Access::Read => {
                                assert!(unit.fetch_add(1, Relaxed) < WRITER, "with a writer");
                            }
                            Access::Upgradable => {
                                let before = unit.fetch_add(UPGRADER, Relaxed);
                                assert!(before < UPGRADER, "with another, or a writer");
                            }
                            Access::Write => {
                                assert_eq!(unit.fetch_add(WRITER, Relaxed), 0, "not alone");
                            }
                        }
                    }
                    if rng.u64(..8) == 0 {
                        thread::yield_now();
                    }
                    for unit in units {
                        match access {
                            Access::Read => unit.fetch_sub(1, Relaxed),
                            Access::Upgradable => unit.fetch_sub(UPGRADER, Relaxed),
                            Access::Write => unit.fetch_sub(WRITER, Relaxed),
                        };
                    }
                    drop(hold);
                }
            });
        }
    });
    drop(lock.try_write(kind.everything()).unwrap());
}
