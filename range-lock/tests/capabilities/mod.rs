//! Tests of the capabilities, generic over the lock. A crate with a lock includes this folder.
//!
//! [`capabilities!`] runs the tests of the guards, given a word for each capability of the lock.
//! Each test leaves the lock free.

#![allow(dead_code, unused_macros)]

pub(crate) mod append;
pub(crate) mod batches;
pub(crate) mod deadlines;
pub(crate) mod foreign;
pub(crate) mod futures;
pub(crate) mod owned;
pub(crate) mod parts;
pub(crate) mod upgrades;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use spanlock_range_lock::{
    Access, RangeLockExt, RawRangeLock, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, Span, Token,
};

/// Returns the positions in a unit. Borders of units are multiples of the granularity, except for a
/// whole-range lock.
pub(crate) fn unit<L: RawRangeLock + ?Sized>(lock: &L) -> u64 {
    match lock.granularity() {
        u64::MAX => 16,
        granularity => granularity,
    }
}

/// Converts a range of units to positions.
pub(crate) fn units<L: RawRangeLock + ?Sized>(lock: &L, units: Range<u64>) -> Range<u64> {
    units.start * unit(lock)..units.end * unit(lock)
}

/// A small random number generator, deterministic for a given seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % bound
    }
}

/// Defines a module with the guards' tests for one lock: its name, a function that makes it
/// (covering at least 12 units), and its capabilities.
macro_rules! capabilities {
    ($name:ident: $make:expr; $($capability:ident)*) => {
        mod $name {
            use super::*;
            $(mod $capability {
                use super::*;
                capability!($capability, $make);
            })*
        }
    };
}

macro_rules! capability {
    (deadlines, $make:expr) => {
        capability_tests! { deadlines, &($make)();
            a_deadline_in_the_past_is_a_try
            a_deadline_that_passes_leaves_no_trace
            a_release_grants_before_the_deadline
            a_reader_that_gives_up_admits_no_other
            wrong_and_empty_ranges_with_a_deadline
            deadlines_and_grants_race
        }
    };
    (futures, $make:expr) => {
        capability_tests! { futures, &($make)();
            a_release_completes_the_future
            nothing_is_requested_before_the_first_poll
            a_dropped_future_lets_others_go_on
            polled_a_million_times_it_is_one_waiter
            only_the_last_waker_is_woken
            polling_after_completion_panics
            a_panicking_waker_leaves_no_trace
            a_panicking_waker_does_not_stop_other_requests
            a_woken_future_that_nobody_polls_delays_no_reader
            wakers_may_use_the_lock
            futures_are_send
        }
        capability_tests! { futures, ($make)(); tasks_and_threads }
    };
    (parts, $make:expr) => {
        capability_tests! { parts, &($make)();
            holds_shrink
            an_invalid_part_leaves_the_hold_unchanged
            parts_at_the_first_and_the_last_position
            holds_split
        }
        capability_tests! { owned, &($make)(); guards_shrink_and_split zero_sized_elements_are_split }
    };
    (upgrades, $make:expr) => {
        capability_tests! { upgrades, &($make)();
            an_upgrade_waits_for_the_readers
            no_writer_precedes_an_upgrade
            elements_are_upgraded
            an_upgrade_that_gives_up_leaves_no_trace
            upgrades_are_granted_in_time
        }
    };
    (batches, $make:expr) => {
        capability_tests! { batches, &($make)();
            a_batch_holds_what_was_asked_for
            an_invalid_range_in_a_batch_locks_nothing
            a_failed_batch_leaves_no_trace
            random_batches_agree_with_a_list
            batches_in_any_order_never_deadlock
            a_batch_guard_lends_several_slices
            a_block_lends_its_rows
            threads_write_blocks
            a_request_under_a_hold_waits_behind_a_request_for_both
            requests_without_other_holds_never_deadlock
            a_batch_with_a_deadline_leaves_no_trace
            a_batch_is_a_future
            a_dropped_batch_lets_others_go_on
            batches_as_futures_and_threads_race
        }
        capability_tests! { owned, $make; owned_batches }
    };
    (append, $make:expr) => {
        capability_tests! { append, &($make)();
            appends_get_places_of_their_own
            an_append_follows_a_moving_end
            an_append_past_the_last_position_is_an_error
            an_append_that_gives_up_leaves_no_trace
            appends_as_futures_get_places_of_their_own
        }
    };
    (foreign, $make:expr) => {
        capability_tests! { foreign, &($make)();
            a_panic_in_shrink_keeps_the_hold
            a_panic_in_shrinking_to_nothing_releases
            a_panic_in_split_keeps_the_hold
            a_panic_in_downgrade_releases
            a_panic_in_a_failed_upgrade_releases
            a_panic_in_releasing_a_batch_releases_all
            a_waker_that_blocks_delays_only_its_caller
            a_replaced_waker_that_panics_when_dropped
            a_woken_waker_that_panics_when_dropped
            a_cancelled_waker_that_panics_when_dropped
        }
        capability_tests! { foreign, $make; wakers_may_use_the_lock }
    };
    (owned, $make:expr) => {
        capability_tests! { owned, $make;
            owned_holds_outlive_their_maker
            the_last_guard_drops_the_elements
        }
    };
}

macro_rules! capability_tests {
    ($capability:ident, $lock:expr; $($test:ident)*) => {
        $(#[test]
        fn $test() {
            crate::capabilities::$capability::$test($lock);
        })*
    };
}

/// Readers share a downgraded hold; upgradable readers and writers treat it like a plain read.
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

/// A waiting reader gets in when the writer becomes a reader, and sees what the writer wrote.
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
            // The readers must finish although the hold has not been released.
            readers
                .into_iter()
                .for_each(|reader| reader.join().unwrap());
            drop(reader);
        });
    }
    assert!(lock.try_write(0..4).is_ok());
}

/// An upgrade succeeds if nobody else holds; beside a reader it fails and changes nothing.
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

/// Many threads read a number and want to write its successor. A thread whose upgrade succeeds has
/// read the latest number.
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

/// Shrinking releases the part that is not kept. Each part of a split hold is released separately.
pub(crate) fn shrink_and_split<L: RawRangeLockSplit>(lock: &L) {
    let unit = lock.granularity();
    let span = |range: std::ops::Range<u64>| {
        Span::new(range.start * unit..range.end * unit)
            .unwrap()
            .unwrap()
    };
    let free = |range: std::ops::Range<u64>| lock.try_write(span(range).range()).is_ok();
    for access in [Access::Read, Access::Upgradable, Access::Write] {
        let mut token = lock.lock(span(0..8), access).unwrap();
        let mut above = Token::NONE;
        // SAFETY: each hold is changed and released once, by its latest token.
        unsafe {
            lock.shrink(span(0..8), access, &mut token, span(2..6));
            assert!(free(0..2) && free(6..8) && !free(2..3) && !free(5..6));
            lock.split(span(2..6), access, &mut token, 3 * unit, &mut above)
                .unwrap();
            lock.unlock(span(2..3), access, token);
            assert!(free(0..3) && !free(3..4) && !free(5..6));
            lock.shrink(span(3..6), access, &mut above, span(3..6));
            lock.unlock(span(3..6), access, above);
        }
        assert!(free(0..8));
    }
    // The kept part may be smaller than a unit; the whole unit stays held.
    if unit > 1 {
        let mut token = lock.lock(span(0..3), Access::Write).unwrap();
        let part = Span::new(unit + 1..unit + 2).unwrap().unwrap();
        // SAFETY: as above.
        unsafe {
            lock.shrink(span(0..3), Access::Write, &mut token, part);
            assert!(free(0..1) && !free(1..2) && free(2..3));
            lock.unlock(part, Access::Write, token);
        }
        assert!(free(0..3));
    }
}
