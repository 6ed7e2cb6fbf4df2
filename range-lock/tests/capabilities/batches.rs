//! Several ranges in one call.

use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_range_lock::{
    Access, BatchHold, Block, DisjointError, RangeError, RangeLock, RangeLockExt, RawRangeLock,
    RawRangeLockBatch, RawRangeLockBatchWait, RawRangeLockWait, TimedLockError, TryLockError,
};

use super::futures::block_on;
use super::{Rng, unit, units};

type Request = (Range<u64>, Access);

/// The number of units that the random batches cover.
const UNITS: u64 = 12;

pub(crate) fn a_batch_holds_what_was_asked_for<L: RawRangeLockBatch>(lock: &L) {
    let (read, write) = (Access::Read, Access::Write);
    let at = |range| units(lock, range);
    // Out of order, repeated, and overlapping.
    let requests = [
        (at(6..7), write),
        (at(0..3), read),
        (at(2..4), write),
        (at(6..7), read),
        (at(9..9), write),
    ];
    let batch = lock.lock_all(requests.clone()).unwrap();
    if lock.granularity() == u64::MAX {
        assert_eq!(batch.spans().len(), 1);
        assert!(lock.try_read(0..1).is_err());
    } else {
        let held = Vec::from_iter(batch.spans().map(|(span, how)| (span.range(), how)));
        assert_eq!(
            held,
            [(at(0..2), read), (at(2..4), write), (at(6..7), write)]
        );
        drop(lock.try_read(at(0..2)).unwrap());
        drop(lock.try_write(at(4..6)).unwrap());
        assert!(lock.try_write(at(0..1)).is_err());
        assert!(lock.try_read(at(3..4)).is_err());
        assert!(lock.try_read(at(6..7)).is_err());
    }
    let again = lock.try_lock_all(requests.clone());
    assert_eq!(again.err(), Some(TryLockError::WouldBlock));
    drop(batch);
    drop(lock.try_lock_all(requests).unwrap());
    assert!(lock.try_write(at(0..UNITS)).is_ok());
}

#[allow(clippy::reversed_empty_ranges)]
pub(crate) fn an_invalid_range_in_a_batch_locks_nothing<L: RawRangeLockBatch>(lock: &L) {
    let good = (units(lock, 0..4), Access::Write);
    let reversed = RangeError::Reversed { start: 4, end: 3 };
    let requests = [good.clone(), (4..3, Access::Read)];
    assert_eq!(lock.lock_all(requests.clone()).err(), Some(reversed));
    assert_eq!(
        lock.try_lock_all(requests).err(),
        Some(TryLockError::Range(reversed))
    );
    if lock.capacity() < u64::MAX {
        let past = (lock.capacity()..lock.capacity() + 1, Access::Read);
        let error = lock.lock_all([good.clone(), past]).err();
        assert!(matches!(error, Some(RangeError::PastCapacity { .. })));
    }
    let nothing = lock.lock_all([(7..7, Access::Write)]).unwrap();
    assert_eq!(
        (nothing.spans().len(), format!("{nothing:?}")),
        (0, "BatchHold[]".into())
    );
    let none: [Request; 0] = [];
    drop(lock.lock_all(none).unwrap());
    assert!(lock.try_write(good.0).is_ok());
}

/// A batch takes all of its ranges or none: if one is busy, the free ones stay free.
pub(crate) fn a_failed_batch_leaves_no_trace<L: RawRangeLockBatch>(lock: &L) {
    let busy = lock.write(units(lock, 5..6)).unwrap();
    for _ in 0..100 {
        let parts = [0..1, 3..4, 5..6, 8..9].map(|part| (units(lock, part), Access::Write));
        assert!(lock.try_lock_all(parts).is_err());
    }
    if lock.granularity() < u64::MAX {
        assert!(lock.try_write(units(lock, 0..5)).is_ok());
        assert!(lock.try_write(units(lock, 6..UNITS)).is_ok());
    }
    drop(busy);
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}

fn random_batch<L: RawRangeLockBatch>(lock: &L, rng: &mut Rng) -> Vec<Request> {
    let request = |rng: &mut Rng| {
        // The ranges need not begin and end at unit borders.
        let (last, unit) = (UNITS * unit(lock), unit(lock));
        let start = rng.below(last);
        let len = rng.below(3 * unit);
        let access = [Access::Read, Access::Upgradable, Access::Write][rng.below(3) as usize];
        (start..(start + len).min(last), access)
    };
    (0..rng.below(5)).map(|_| request(rng)).collect()
}

/// Random batches of one thread agree with a list of what is held.
pub(crate) fn random_batches_agree_with_a_list<L: RawRangeLockBatch>(lock: &L) {
    let granularity = lock.granularity();
    let granules = |range: &Range<u64>| {
        (!range.is_empty()).then(|| (range.start / granularity, (range.end - 1) / granularity))
    };
    let conflict = |(a, how): &Request, (b, other): &Request| {
        let meet = match (granules(a), granules(b)) {
            (Some(a), Some(b)) => a.0 <= b.1 && b.0 <= a.1,
            _ => false,
        };
        meet && how.conflicts_with(*other)
    };
    let mut rng = Rng::new(5);
    let mut held: Vec<(Vec<Request>, BatchHold<&L>)> = Vec::new();
    let mut granted = 0;
    for _ in 0..20_000 {
        if held.len() > 4 || rng.below(3) == 0 && !held.is_empty() {
            let which = rng.below(held.len() as u64) as usize;
            drop(held.swap_remove(which));
            continue;
        }
        let batch = random_batch(lock, &mut rng);
        let free = (held.iter().flat_map(|(requests, _)| requests))
            .all(|taken| !batch.iter().any(|request| conflict(request, taken)));
        match lock.try_lock_all(batch.iter().cloned()) {
            Ok(hold) => {
                assert!(free, "{batch:?} beside {held:?}");
                held.push((batch, hold));
                granted += 1;
            }
            Err(error) => {
                assert!(!free, "{batch:?} beside {held:?}");
                assert_eq!(error, TryLockError::WouldBlock);
            }
        }
    }
    assert!(granted > 1000, "{granted}");
    drop(held);
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}

/// Batches in opposite orders and single requests: no thread hangs, and no writer shares a unit.
pub(crate) fn batches_in_any_order_never_deadlock<L: RawRangeLockBatch>(lock: &L) {
    // The low half of each count is its readers, the high half its writers.
    let users = [const { AtomicU64::new(0) }; UNITS as usize];
    let one = |how| if how == Access::Write { 1 << 32 } else { 1 };
    let enter = |at: u64, how| {
        let before = users[at as usize].fetch_add(one(how), Relaxed);
        assert!(before >> 32 == 0, "with a writer at {at}");
        assert!(
            how != Access::Write || before == 0,
            "a writer beside others at {at}"
        );
    };
    thread::scope(|scope| {
        for me in 0..8_u64 {
            let (enter, users) = (&enter, &users);
            scope.spawn(move || {
                let mut rng = Rng::new(me);
                for _ in 0..400 {
                    let mut wanted = Vec::new();
                    for at in 0..UNITS {
                        if rng.below(4) == 0 {
                            let access = [Access::Read, Access::Write][rng.below(2) as usize];
                            wanted.push((at, access));
                        }
                    }
                    if rng.below(2) == 0 {
                        wanted.reverse();
                    }
                    let single = rng.below(4) == 0;
                    wanted.truncate(if single { 1 } else { usize::MAX });
                    let requests = wanted
                        .iter()
                        .map(|&(at, how)| (units(lock, at..at + 1), how));
                    let hold = match wanted[..] {
                        [(at, Access::Write)] => Ok(lock.write(units(lock, at..at + 1)).unwrap()),
                        _ => Err(lock.lock_all(requests).unwrap()),
                    };
                    wanted.iter().for_each(|&(at, how)| enter(at, how));
                    thread::yield_now();
                    for &(at, how) in &wanted {
                        users[at as usize].fetch_sub(one(how), Relaxed);
                    }
                    drop(hold);
                }
            });
        }
    });
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}

pub(crate) fn a_batch_guard_lends_several_slices<L: RawRangeLockBatch>(lock: &L) {
    let unit = unit(lock) as usize;
    let array = RangeLock::with_lock(vec![0_u8; 8 * unit], lock).unwrap();
    let at = |range: Range<usize>| range.start * unit..range.end * unit;
    let (read, write) = (Access::Read, Access::Write);
    let mut batch = array
        .lock_all([(at(6..7), write), (at(0..2), write), (at(2..3), read)])
        .unwrap();
    let [low, high] = batch.get_disjoint_mut([at(0..1), at(6..7)]).unwrap();
    low.fill(1);
    high.fill(2);
    high[1..].copy_from_slice(&low[1..]);
    assert_eq!(batch.get_mut(at(1..2)).unwrap().len(), unit);
    assert_eq!(batch.get(at(0..3)).unwrap().len(), 3 * unit);
    // Elements that were not requested are out of reach, even if the lock holds them. Elements held
    // for reading cannot be written.
    assert!(batch.get(at(3..4)).is_none() && batch.get(at(2..4)).is_none());
    assert!(batch.get(at(6..9)).is_none() && batch.get(at(0..7)).is_none());
    assert!(batch.get_mut(at(2..3)).is_none() && batch.get_mut(at(1..3)).is_none());
    assert_eq!(batch.get_mut(6 * unit..6 * unit).unwrap().len(), 0);
    let overlap = batch.get_disjoint_mut([at(0..2), at(1..2)]);
    assert_eq!(
        overlap.err(),
        Some(DisjointError::Overlap { index: 0, other: 1 })
    );
    let outside = batch.get_disjoint_mut([at(0..1), at(2..3)]);
    assert_eq!(outside.err(), Some(DisjointError::NotHeld { index: 1 }));
    let parts = Vec::from_iter(batch.parts());
    assert_eq!(
        parts,
        [(at(0..2), write), (at(2..3), read), (at(6..7), write)]
    );
    assert!(array.try_lock_all([(at(1..2), read)]).is_err());
    assert!(array.lock_all([(at(7..9), read)]).is_err());
    drop(batch);
    let array = array.into_inner();
    assert_eq!(array[6 * unit], 2);
    assert!(array[6 * unit + 1..7 * unit].iter().all(|&e| e == 1));
    assert!(lock.try_write(units(lock, 0..8)).is_ok());
}

/// Rows are exact, whatever the lock rounds to, and all can be borrowed at once.
pub(crate) fn a_block_lends_its_rows<L: RawRangeLockBatch>(lock: &L) {
    let unit = unit(lock).max(16) as usize;
    for stride in [5, unit, unit + 1, 2 * unit] {
        let rows = 8 * unit / stride;
        let columns = 1..stride.min(9) - 1;
        let plane = RangeLock::with_lock(vec![0_u32; rows * stride], lock).unwrap();
        let block = Block::new(1..rows - 1, columns.clone(), stride).unwrap();
        let mut guard = plane.lock_all(block.rows(Access::Write)).unwrap();
        let of_row = |y: usize| y * stride + columns.start..y * stride + columns.end;
        let parts = Vec::from_iter(guard.parts());
        let expected = (1..rows - 1).map(|y| (of_row(y), Access::Write));
        assert_eq!(parts, Vec::from_iter(expected));
        let mut lent = Vec::from_iter(guard.parts_mut());
        assert_eq!(lent.len(), rows - 2);
        for (y, row) in lent.iter_mut().enumerate() {
            row.fill(1 + y as u32);
        }
        // A batch that shares one element has to wait.
        let last = of_row(rows - 2).end;
        for (shared, is_free) in [(last - 1..last, false), (0..0, true)] {
            let other = plane.try_lock_all([(shared, Access::Read)]);
            assert_eq!(other.is_ok(), is_free);
        }
        assert!(guard.get_mut(of_row(1)).is_some_and(|row| row[0] == 1));
        assert!(guard.get(of_row(1).start - 1..of_row(1).end).is_none());
        drop(guard);
        for (at, &element) in plane.into_inner().iter().enumerate() {
            let (y, x) = (at / stride, at % stride);
            let inside = (1..rows - 1).contains(&y) && columns.contains(&x);
            assert_eq!(
                element,
                if inside { y as u32 } else { 0 },
                "row {y}, column {x}"
            );
        }
    }
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}

/// Threads add to tiles of one plane, and each addition survives.
pub(crate) fn threads_write_blocks<L: RawRangeLockBatch>(lock: &L) {
    let unit = unit(lock).max(16) as usize;
    let (rows, stride) = (8, unit + 3);
    let lock_of = RangeLock::with_lock(vec![0_u32; rows * stride], lock).unwrap();
    let plane = &lock_of;
    let added = AtomicU64::new(0);
    thread::scope(|scope| {
        for me in 0..3 {
            let added = &added;
            scope.spawn(move || {
                let mut rng = Rng::new(me);
                for _ in 0..100 {
                    let mut below = |most: usize| rng.below(most as u64) as usize;
                    let (y, x) = (below(rows - 2), below(stride - 2));
                    let block = Block::new(y..y + 1 + below(2), x..x + 1 + below(2), stride);
                    let rows = block.unwrap().rows(Access::Write);
                    let mut tile = if below(2) == 0 {
                        plane.lock_all(rows).unwrap()
                    } else {
                        match plane.try_lock_all(rows) {
                            Ok(tile) => tile,
                            Err(_) => continue,
                        }
                    };
                    for row in tile.parts_mut() {
                        row.iter_mut().for_each(|element| *element += 1);
                        // Relaxed: a counter.
                        added.fetch_add(row.len() as u64, Relaxed);
                    }
                }
            });
        }
    });
    let sum = lock_of
        .into_inner()
        .iter()
        .copied()
        .map(u64::from)
        .sum::<u64>();
    assert_eq!(sum, added.into_inner());
}

/// A thread holds one range and requests another, behind a request for both: it is not granted,
/// although nobody holds the other range. Once it releases the first, the request for both is.
pub(crate) fn a_request_under_a_hold_waits_behind_a_request_for_both<L>(lock: &L)
where
    L: RawRangeLockBatch + RawRangeLockWait,
{
    if lock.granularity() == u64::MAX {
        return;
    }
    for ascending in [true, false] {
        let (first, second) = match ascending {
            true => (units(lock, 1..2), units(lock, 10..11)),
            false => (units(lock, 10..11), units(lock, 1..2)),
        };
        let hold = lock.write(first.clone()).unwrap();
        thread::scope(|scope| {
            let batch = [first, second.clone()].map(|range| (range, Access::Write));
            let both = scope.spawn(|| drop(lock.lock_all(batch).unwrap()));
            // Until the batch waits, the second range may be granted.
            let behind = (0..1000).find_map(|_| {
                let behind = lock.try_write_for(second.clone(), Duration::from_millis(5));
                thread::sleep(Duration::from_millis(1));
                behind.err()
            });
            assert_eq!(behind, Some(TimedLockError::TimedOut));
            drop(hold);
            both.join().unwrap();
        });
        assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
    }
}

/// Threads that hold nothing when they request never deadlock: batches, requests for everything,
/// and small requests. Under a hold, only tries and deadlines are used.
pub(crate) fn requests_without_other_holds_never_deadlock<L>(lock: &L)
where
    L: RawRangeLockBatch + RawRangeLockWait,
{
    thread::scope(|scope| {
        for me in 0..6 {
            scope.spawn(move || {
                let mut rng = Rng::new(me);
                for _ in 0..200 {
                    match rng.below(4) {
                        0 => drop(lock.lock_all(random_batch(lock, &mut rng)).unwrap()),
                        1 => drop(lock.write(units(lock, 0..UNITS)).unwrap()),
                        2 => {
                            let start = rng.below(UNITS - 3);
                            drop(lock.read(units(lock, start..start + 3)).unwrap());
                        }
                        _ => {
                            // Tries and deadlines may be used under a hold.
                            let start = rng.below(UNITS - 1);
                            let hold = lock.write(units(lock, start..start + 1)).unwrap();
                            let next = units(lock, start + 1..start + 2);
                            drop(lock.try_write(next.clone()));
                            drop(lock.try_write_for(next, Duration::from_micros(50)));
                            drop(hold);
                        }
                    }
                }
            });
        }
    });
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}

/// Two ranges that a batch wants, and one between them that it does not.
fn parts<L: RawRangeLock>(lock: &L) -> [Request; 2] {
    [
        (units(lock, 0..2), Access::Write),
        (units(lock, 5..6), Access::Write),
    ]
}

pub(crate) fn a_batch_with_a_deadline_leaves_no_trace<L: RawRangeLockBatchWait>(lock: &L) {
    let (soon, hour) = (Duration::from_millis(2), Duration::from_secs(3600));
    let busy = lock.write(units(lock, 5..6)).unwrap();
    let late = lock.try_lock_all_for(parts(lock), soon).err();
    assert_eq!(late, Some(TimedLockError::TimedOut));
    let late = lock.try_lock_all_until(parts(lock), Instant::now()).err();
    assert_eq!(late, Some(TimedLockError::TimedOut));
    if lock.granularity() < u64::MAX {
        drop(lock.try_write(units(lock, 0..5)).unwrap());
    }
    thread::scope(|scope| {
        let batch = scope.spawn(|| {
            lock.try_lock_all_for(parts(lock), hour)
                .map(|it| it.spans().len())
        });
        thread::yield_now();
        drop(busy);
        assert!(batch.join().unwrap().unwrap() > 0);
    });
    drop(lock.try_lock_all_for(parts(lock), soon).unwrap());
    let array = RangeLock::with_lock(vec![0; 4], lock).unwrap();
    let held = array.write(2..3).unwrap();
    let both = [(0..1, Access::Write), (2..3, Access::Write)];
    let late = array.try_lock_all_for(both.clone(), soon).err();
    assert_eq!(late, Some(TimedLockError::TimedOut));
    drop(held);
    let mut guard = array
        .try_lock_all_until(both, Instant::now() + hour)
        .unwrap();
    guard.get_mut(2..3).unwrap()[0] = 1;
    drop(guard);
    drop(array);
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}

pub(crate) fn a_batch_is_a_future<L: RawRangeLockBatchWait>(lock: &L) {
    let none: [Request; 0] = [];
    assert_eq!(
        block_on(lock.lock_all_async(none)).unwrap().spans().len(),
        0
    );
    let reversed = RangeError::Reversed { start: 4, end: 3 };
    #[allow(clippy::reversed_empty_ranges)]
    let requests = [(4..3, Access::Read)];
    assert_eq!(
        block_on(lock.lock_all_async(requests)).err(),
        Some(reversed)
    );
    let spans = lock.lock_all(parts(lock)).unwrap().spans().len();
    let busy = lock.write(units(lock, 5..6)).unwrap();
    let mut waiting = pin!(lock.lock_all_async(parts(lock)));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(waiting.as_mut().poll(&mut context).is_pending());
    }
    // It waits for all its ranges as one request.
    assert!(lock.try_write(units(lock, 5..6)).is_err());
    drop(busy);
    let batch = block_on(waiting).unwrap();
    assert_eq!(batch.spans().len(), spans);
    assert!(lock.try_read(units(lock, 1..2)).is_err());
    assert!(lock.try_read(units(lock, 5..6)).is_err());
    drop(batch);
    let array = RangeLock::with_lock(vec![0; 4], lock).unwrap();
    let mut guard = block_on(array.lock_all_async([(1..3, Access::Write)])).unwrap();
    guard.get_mut(..).unwrap().fill(1);
    drop(guard);
    let block = Block::new(0..2, 0..1, 2).unwrap();
    let mut rows = block_on(array.lock_all_async(block.rows(Access::Write))).unwrap();
    rows.parts_mut().for_each(|row| row.fill(2));
    let hour = Duration::from_secs(3600);
    assert!(
        array
            .try_lock_all_for(block.rows(Access::Read), Duration::ZERO)
            .is_err()
    );
    drop(rows);
    let rows = array
        .try_lock_all_for(block.rows(Access::Read), hour)
        .unwrap();
    assert_eq!(rows.get(2..3), Some(&[2][..]));
    drop(rows);
    let until = Instant::now() + hour;
    drop(
        array
            .try_lock_all_until(block.rows(Access::Write), until)
            .unwrap(),
    );
    assert_eq!(array.read(..).unwrap()[..], [2, 1, 2, 0]);
    drop(array);
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}

pub(crate) fn a_dropped_batch_lets_others_go_on<L: RawRangeLockBatchWait>(lock: &L) {
    let mut context = Context::from_waker(Waker::noop());
    let busy = lock.read(units(lock, 5..6)).unwrap();
    let mut batch = Box::pin(lock.lock_all_async(parts(lock)));
    assert!(batch.as_mut().poll(&mut context).is_pending());
    let mut behind = Box::pin(lock.read_async(units(lock, 0..1)));
    let behind = match behind.as_mut().poll(&mut context) {
        Poll::Ready(hold) => {
            drop(batch);
            hold
        }
        Poll::Pending => {
            drop(batch);
            block_on(behind)
        }
    };
    drop(behind.unwrap());
    drop(lock.try_read(units(lock, 5..6)).unwrap());
    let mut batch = Box::pin(lock.lock_all_async(parts(lock)));
    assert!(batch.as_mut().poll(&mut context).is_pending());
    drop(busy);
    // Granted meanwhile, or to be granted at the next poll.
    drop(batch);
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}

/// Batches that block, wait as futures, or give up, in several threads: no update is lost.
pub(crate) fn batches_as_futures_and_threads_race<L: RawRangeLockBatchWait>(lock: &L) {
    let count = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let add = |done: &AtomicU64| {
        // Not atomic: exclusion makes it so.
        let before = count.load(Relaxed);
        thread::yield_now();
        count.store(before + 1, Relaxed);
        done.fetch_add(1, Relaxed);
    };
    thread::scope(|scope| {
        for me in 0..4 {
            let (add, done) = (&add, &done);
            scope.spawn(move || {
                for round in 0..150 {
                    let shared = (units(lock, 3..4), Access::Write);
                    let own = (units(lock, 2 * (me % 2)..2 * (me % 2) + 1), Access::Write);
                    let batch = [own, shared];
                    match (me + round) % 4 {
                        0 => drop((lock.lock_all(batch).unwrap(), add(done))),
                        1 => drop((block_on(lock.lock_all_async(batch)).unwrap(), add(done))),
                        2 => {
                            let soon = Duration::from_micros(50);
                            if let Ok(hold) = lock.try_lock_all_for(batch, soon) {
                                add(done);
                                drop(hold);
                            }
                        }
                        _ => {
                            let mut waiting = pin!(lock.lock_all_async(batch));
                            let context = &mut Context::from_waker(Waker::noop());
                            if let Poll::Ready(hold) = waiting.as_mut().poll(context) {
                                add(done);
                                drop(hold.unwrap());
                            }
                        }
                    }
                }
            });
        }
    });
    assert_eq!(count.into_inner(), done.into_inner());
    assert!(lock.try_write(units(lock, 0..UNITS)).is_ok());
}
