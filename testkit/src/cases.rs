//! Regression tests for published bugs of other projects. `docs/cases.md` says where the remaining
//! bugs are tested.
//!
//! A case runs for every lock. It returns at once if the lock lacks a capability that the case
//! needs, or if the case needs disjoint ranges and the lock is a whole-range lock.

use core::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use spanlock_range_lock::Access::{Read, Upgradable, Write};
use spanlock_range_lock::words::{MAX_PASSES, PASS_TIME};
use spanlock_range_lock::{
    Access, RangeError, RangeLock, RangeLockExt, RawRangeLock, Span, TryLockError,
};

use crate::Driven;
use crate::owner::{Asked, Hold, span};

/// Converts a range of strides to a span.
fn strides(lock: &Driven, range: Range<u64>) -> Span {
    let stride = lock.stride();
    span(range.start * stride..range.end * stride)
}

fn is_granular(lock: &Driven) -> bool {
    lock.raw.granularity() < u64::MAX
}

fn take(lock: &Driven, range: Range<u64>, access: Access) -> Hold<'_> {
    Hold::try_lock(lock, strides(lock, range), access).expect("no conflicting hold or request")
}

fn granted<'a>(asked: &mut Asked<'a>) -> Hold<'a> {
    assert!(asked.is_woken(), "not woken: {asked:?}");
    let polled = asked.poll().expect("a valid range");
    polled.expect("no conflicting hold or request")
}

fn waits(asked: &mut Asked<'_>) -> bool {
    asked.poll().expect("a valid range").is_none()
}

fn assert_free(lock: &Driven) {
    let everything = span(0..lock.raw.capacity());
    let all = Hold::try_lock(lock, everything, Write);
    all.expect("no hold and no waiter is left").release();
}

/// Linux range lock patches, 2019: each request counted the ranges that blocked it. Cancelling a
/// waiting reader decremented this count in every overlapping request. Another reader was then
/// granted while the writer still held the range.
pub fn case_01_a_cancelled_reader_lets_nobody_in(lock: &Driven) {
    if lock.wait.is_none() {
        return;
    }
    let writer = take(lock, 0..4, Write);
    let first = Asked::waiting(lock, strides(lock, 0..4), Read);
    let mut second = Asked::waiting(lock, strides(lock, 0..4), Read);
    first.cancel();
    assert!(waits(&mut second), "granted while a writer holds");
    let third = Asked::waiting(lock, strides(lock, 1..2), Read);
    third.cancel();
    assert!(waits(&mut second), "granted while a writer holds");
    writer.release();
    granted(&mut second).release();
    assert_free(lock);
}

/// The converse: cancelling a request unblocks only the later requests that waited for it.
pub fn case_01_a_cancelled_waiter_unblocks_later_arrivals_only(lock: &Driven) {
    if lock.wait.is_none() {
        return;
    }
    let reader = take(lock, 0..4, Read);
    let mut before = Asked::waiting(lock, strides(lock, 0..1), Write);
    let given_up = Asked::waiting(lock, strides(lock, 3..4), Write);
    let mut behind = Asked::new(lock, strides(lock, 3..4), Read);
    let passed = behind.poll().expect("a valid range");
    given_up.cancel();
    match passed {
        // A lock with bounded overtaking may let the reader overtake the waiting writer.
        Some(passed) => passed.release(),
        None if is_granular(lock) => granted(&mut behind).release(),
        // In a whole-range lock, the reader waits for the first writer as well.
        None => behind.cancel(),
    }
    assert!(waits(&mut before), "granted while a reader holds");
    reader.release();
    granted(&mut before).release();
    assert_free(lock);
}

/// The same patches: a try in a free gap failed, because it was compared with the hull of all held
/// ranges.
pub fn case_02_a_try_in_a_free_gap_succeeds(lock: &Driven) {
    if !is_granular(lock) {
        return;
    }
    let holds = [
        take(lock, 0..1, Write),
        take(lock, 3..4, Write),
        take(lock, 7..8, Write),
    ];
    for access in [Read, Upgradable, Write] {
        for gap in [1..3, 4..7, 8..9, 5..6] {
            take(lock, gap, access).release();
        }
        // Each of these ranges also covers a held stride.
        for wide in [0..3, 1..4, 3..5, 4..8] {
            let tried = Hold::try_lock(lock, strides(lock, wide), access);
            assert!(matches!(tried, Err(TryLockError::WouldBlock)));
        }
    }
    holds.into_iter().for_each(Hold::release);
    assert_free(lock);
}

/// OpenZFS: shrinking a held range did not wake the waiters that it unblocked. In a second bug, the
/// code read flags without holding the lock and spun for hours.
pub fn case_04_a_shrink_wakes_the_waiters_outside_the_kept_part(lock: &Driven) {
    if lock.split.is_none() || !is_granular(lock) {
        return;
    }
    let mut hold = take(lock, 0..6, Write);
    thread::scope(|scope| {
        let reader = |range| {
            let span = strides(lock, range);
            scope.spawn(move || Hold::lock(lock, span, Read).expect("in range").release())
        };
        let (low, high) = (reader(0..2), reader(4..6));
        hold.shrink(strides(lock, 2..6));
        // The readers must finish while the kept part is still held.
        low.join().expect("a reader of the released part");
        hold.shrink(strides(lock, 2..4));
        high.join().expect("a reader of the released part");
    });
    let inside = Hold::try_lock(lock, strides(lock, 3..4), Read);
    assert!(inside.is_err(), "the kept part is held");
    if lock.wait.is_some() {
        let mut beyond = Asked::waiting(lock, strides(lock, 3..4), Read);
        let mut within = Asked::waiting(lock, strides(lock, 2..3), Read);
        hold.shrink(strides(lock, 2..3));
        granted(&mut beyond).release();
        assert!(waits(&mut within), "granted while a writer holds");
        within.cancel();
    }
    hold.release();
    assert_free(lock);
}

/// RocksDB: a thread that upgraded a hold counted that hold as a conflict, and looped for ever
/// after a timeout.
pub fn case_06_an_upgrade_does_not_wait_for_itself(lock: &Driven) {
    if lock.upgrade.is_none() {
        return;
    }
    for access in [Read, Upgradable] {
        let mut hold = take(lock, 1..3, access);
        assert!(hold.try_upgrade(), "no other hold exists");
        assert!(Hold::try_lock(lock, strides(lock, 2..3), Read).is_err());
        hold.release();
    }
    if lock.upgrade_wait.is_some() {
        let mut hold = take(lock, 1..3, Upgradable);
        hold.upgrade();
        assert!(Hold::try_lock(lock, strides(lock, 2..3), Read).is_err());
        hold.release();
    }
    assert_free(lock);
}

/// RocksDB, continued: an upgrade must not wait for requests that wait for the hold being upgraded.
pub fn case_06_an_upgrade_does_not_wait_for_its_waiters(lock: &Driven) {
    if lock.upgrade.is_none() || lock.wait.is_none() {
        return;
    }
    let mut hold = take(lock, 0..2, Upgradable);
    let mut writer = Asked::waiting(lock, strides(lock, 0..2), Write);
    assert!(hold.try_upgrade(), "no other hold exists");
    assert!(waits(&mut writer), "granted while a writer holds");
    hold.release();
    granted(&mut writer).release();
    if lock.upgrade_wait.is_some() {
        let mut hold = take(lock, 0..2, Upgradable);
        let mut writer = Asked::waiting(lock, strides(lock, 0..2), Write);
        hold.upgrade();
        hold.release();
        granted(&mut writer).release();
    }
    assert_free(lock);
}

/// RocksDB: after a failed upgrade, the lock still recorded the upgrade as pending.
pub fn case_06_a_failed_upgrade_leaves_no_trace(lock: &Driven) {
    if lock.upgrade.is_none() {
        return;
    }
    for access in [Read, Upgradable] {
        let mut hold = take(lock, 0..3, access);
        let other = take(lock, 2..4, Read);
        for _ in 0..1000 {
            assert!(!hold.try_upgrade(), "another reader holds");
            assert_eq!(hold.access(), access);
            // The failed upgrade does not block readers.
            take(lock, 0..4, Read).release();
        }
        other.release();
        assert!(hold.try_upgrade(), "the other reader has released");
        hold.release();
        assert_free(lock);
    }
}

/// The crate `range-lock`: zero-sized elements caused a division by zero. An empty range at the end
/// panicked, and so did a length that overflowed.
pub fn case_09_the_smallest_and_the_largest_ranges(lock: &Driven) {
    let (raw, capacity) = (&lock.raw, lock.raw.capacity());
    let last = raw.write(capacity - 1..capacity).expect("in range");
    let rest = raw.try_write(0..capacity - lock.stride());
    assert_eq!(rest.is_ok(), is_granular(lock));
    assert!(raw.try_read(0..capacity).is_err());
    // Empty ranges hold nothing and conflict with nothing, wherever they are.
    for at in [0, 5, capacity - 1, capacity, u64::MAX] {
        assert_eq!(raw.write(at..at).expect("empty").span(), None);
        assert_eq!(raw.try_read(at..at).expect("empty").span(), None);
    }
    drop((last, rest));
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = raw.write(u64::MAX..0).err();
    let (start, end) = (u64::MAX, 0);
    assert_eq!(reversed, Some(RangeError::Reversed { start, end }));
    if capacity < u64::MAX {
        let (start, end) = (0, capacity + 1);
        let past = RangeError::PastCapacity {
            start,
            end,
            capacity,
        };
        assert_eq!(raw.write(start..end).err(), Some(past));
    }
    drop(raw.try_write(0..capacity).expect("everything is free"));
}

/// The same crate: zero-sized elements in a lock that owns them.
pub fn case_09_zero_sized_elements(lock: &Driven) {
    let length = usize::try_from(lock.raw.capacity()).unwrap_or(usize::MAX);
    let elements: Box<[()]> = vec![(); length].into_boxed_slice();
    let raw: Arc<dyn RawRangeLock> = lock.raw.clone();
    let elements = RangeLock::with_lock(elements, raw).expect("the lock covers them");
    let all = elements.write(0..length).expect("in range");
    assert!(elements.try_read(length - 1..length).is_err());
    assert!(elements.read(length..length).expect("empty").is_empty());
    drop(all);
    assert_eq!(
        elements.read(length - 1..length).expect("in range").len(),
        1
    );
}

/// The crate `range-mutex`: each poll of a future added another waiter.
pub fn case_10_a_request_polled_a_million_times_is_one_waiter(lock: &Driven) {
    if lock.wait.is_none() {
        return;
    }
    let hold = take(lock, 0..2, Write);
    let mut asked = Asked::waiting(lock, strides(lock, 0..2), Write);
    for _ in 0..1_000_000 {
        assert!(waits(&mut asked), "granted while a writer holds");
    }
    assert!(
        asked.wakers() <= 1,
        "the lock keeps {} wakers",
        asked.wakers()
    );
    // After its cancellation, the request must not block the reader behind it in the queue.
    let mut behind = Asked::waiting(lock, strides(lock, 0..2), Read);
    asked.cancel();
    hold.release();
    granted(&mut behind).release();
    assert_free(lock);
}

/// A leaked guard must keep its range locked and affect no other range.
pub fn case_10_leaked_holds_keep_their_ranges_and_nothing_else(lock: &Driven) {
    core::mem::forget(
        lock.raw
            .write(strides(lock, 2..3).range())
            .expect("in range"),
    );
    core::mem::forget(lock.raw.try_read(strides(lock, 6..7).range()));
    assert!(Hold::try_lock(lock, strides(lock, 2..3), Read).is_err());
    if is_granular(lock) {
        take(lock, 0..2, Write).release();
        take(lock, 3..6, Write).release();
        take(lock, 6..7, Read).release();
        assert!(Hold::try_lock(lock, strides(lock, 6..7), Write).is_err());
    }
}

/// The segment range lock as published in [SRL] prefers readers: a writer starves as long as some
/// reader always holds the range.
///
/// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
pub fn case_13_a_writer_gets_in_among_readers_that_overlap(lock: &Driven) {
    if lock.wait.is_none() {
        return;
    }
    for wide in [0..1, 0..4] {
        let mut hold = take(lock, 0..1, Read);
        let mut writer = Asked::waiting(lock, strides(lock, wide), Write);
        let mut passes = 0;
        while let Ok(next) = Hold::try_lock(lock, strides(lock, 0..1), Read) {
            core::mem::replace(&mut hold, next).release();
            passes += 1;
            if passes == 1 {
                // The time in which more readers may overtake the writer begins with the first.
                thread::sleep(2 * PASS_TIME);
            }
            assert!(passes <= MAX_PASSES, "{passes} readers overtook a writer");
        }
        hold.release();
        granted(&mut writer).release();
        assert_free(lock);
    }
}

/// SPDK: code continued although it had failed to acquire the lock. Here a failed request returns
/// an error and no hold, and only a hold gives access to the data. The compiler warns if a caller
/// ignores the hold or the error:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// use spanlock_range_lock::{RangeLockExt, RwCounter};
///
/// RwCounter::new().try_write(0..10);
/// ```
/// ```compile_fail
/// #![deny(unused_must_use)]
/// use spanlock_range_lock::{RangeLockExt, RwCounter};
///
/// RwCounter::new().write(0..10).unwrap();
/// ```
pub fn case_14_a_refused_request_does_nothing(lock: &Driven) {
    let writes = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    // Only a thread with a hold accesses the data.
                    match Hold::try_lock(lock, strides(lock, 0..2), Write) {
                        Ok(hold) => {
                            // Relaxed: the lock must provide the ordering.
                            writes.store(writes.load(Relaxed) + 1, Relaxed);
                            hold.release();
                            done.fetch_add(1, Relaxed);
                        }
                        Err(error) => assert_eq!(error, TryLockError::WouldBlock),
                    }
                }
            });
        }
    });
    assert_eq!(writes.into_inner(), done.into_inner());
    assert_free(lock);
}

/// Defines every case and the random histories as tests of one lock. The arguments are a name for
/// the test module, the lock's [`Order`](crate::Order), and an expression that creates a
/// [`Driven`]. The lock must cover at least 64 [strides](Driven::stride).
///
/// ```
/// mod tests {
///     use spanlock_range_lock::RwCounter;
///     use spanlock_testkit::{Order, driven, suite};
///
///     suite!(rw_counter, Order::Bounded, driven!(RwCounter::new(); downgrade, upgrade));
/// }
/// ```
#[macro_export]
macro_rules! suite {
    ($name:ident, $order:expr, $lock:expr) => {
        mod $name {
            use super::*;

            fn lock() -> $crate::Driven {
                $lock
            }

            #[test]
            fn random_operations_agree_with_a_list_of_holds() {
                $crate::histories::of_one_thread(lock, $order);
            }

            #[test]
            fn random_operations_of_real_threads() {
                $crate::histories::of_real_threads(lock);
            }

            $crate::suite! { @cases
                case_01_a_cancelled_reader_lets_nobody_in
                case_01_a_cancelled_waiter_unblocks_later_arrivals_only
                case_02_a_try_in_a_free_gap_succeeds
                case_04_a_shrink_wakes_the_waiters_outside_the_kept_part
                case_06_an_upgrade_does_not_wait_for_itself
                case_06_an_upgrade_does_not_wait_for_its_waiters
                case_06_a_failed_upgrade_leaves_no_trace
                case_09_the_smallest_and_the_largest_ranges
                case_09_zero_sized_elements
                case_10_a_request_polled_a_million_times_is_one_waiter
                case_10_leaked_holds_keep_their_ranges_and_nothing_else
                case_13_a_writer_gets_in_among_readers_that_overlap
                case_14_a_refused_request_does_nothing
            }
        }
    };
    (@cases $($case:ident)*) => {
        $(#[test]
        fn $case() {
            $crate::cases::$case(&lock());
        })*
    };
}
