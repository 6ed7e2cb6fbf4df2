//! The contract of a range lock as tests, one file for each subject, generic over the lock.
//!
//! [`contract!`] runs them all for one lock. A crate with a lock includes this folder.

use std::ops::Range;

use spanlock_range_lock::{
    Access, RangeLockExt, RawRangeLock, ReadHold, TryLockError, UpgradableHold, WriteHold,
};

pub(crate) mod conflicts;
pub(crate) mod elements;
pub(crate) mod erased;
pub(crate) mod exclusion;
pub(crate) mod fairness;
pub(crate) mod guards;
#[allow(dead_code)]
pub(crate) mod parking;
pub(crate) mod ranges;
#[cfg(feature = "statistics")]
#[allow(dead_code)]
pub(crate) mod statistics;
pub(crate) mod tries;
pub(crate) mod waiting;

/// The minimum number of units that a lock of [`Kind::lock`] covers.
pub(crate) const UNITS: u64 = 64;

/// A lock under test.
pub(crate) struct Kind<L> {
    /// Returns a fresh lock that covers at least `0..capacity`.
    pub(crate) make: fn(capacity: u64) -> L,
    /// The granularity of conflicts: 1 if only overlapping ranges conflict, `u64::MAX` if all
    /// ranges do.
    pub(crate) granule: u64,
}

impl<L: RawRangeLock> Kind<L> {
    /// Returns a fresh lock.
    pub(crate) fn lock(&self) -> L {
        (self.make)(self.units(0..UNITS).end)
    }

    /// Returns the positions in a unit, in which the tests count. Borders of units are borders of
    /// granules.
    pub(crate) fn unit(&self) -> u64 {
        self.granule.min(4096)
    }

    /// Converts a range of units to positions.
    pub(crate) fn units(&self, units: Range<u64>) -> Range<u64> {
        units.start * self.unit()..units.end * self.unit()
    }

    /// Returns whether requests of different granules are independent.
    pub(crate) fn is_granular(&self) -> bool {
        self.granule != u64::MAX
    }

    /// Returns whether holds of the two ranges exclude each other.
    pub(crate) fn conflict(
        &self,
        (a, first): (&Range<u64>, Access),
        (b, second): (&Range<u64>, Access),
    ) -> bool {
        let granules = |range: &Range<u64>| {
            (!range.is_empty())
                .then(|| (range.start / self.granule, (range.end - 1) / self.granule))
        };
        let meet = match (granules(a), granules(b)) {
            (Some((a, a_last)), Some((b, b_last))) => a <= b_last && b <= a_last,
            _ => false,
        };
        meet && first.conflicts_with(second)
    }

    /// Returns a range that [`lock`](Self::lock) always covers.
    pub(crate) fn everything(&self) -> Range<u64> {
        self.units(0..UNITS)
    }

    /// Asserts that nobody holds anything, and nobody waits.
    pub(crate) fn assert_free(&self, lock: &L) {
        let all = lock.try_write(self.everything());
        assert!(all.is_ok(), "nobody holds anything, yet {all:?}");
    }
}

/// A hold of any access.
#[derive(Debug)]
pub(crate) enum Held<'a, L: RawRangeLock + ?Sized> {
    Read(ReadHold<'a, L>),
    Upgradable(UpgradableHold<'a, L>),
    Write(WriteHold<'a, L>),
}

impl<'a, L: RawRangeLock + ?Sized> Held<'a, L> {
    pub(crate) fn take(lock: &'a L, range: Range<u64>, access: Access) -> Self {
        match access {
            Access::Read => Held::Read(lock.read(range).expect("a range of the lock")),
            Access::Upgradable => {
                Held::Upgradable(lock.upgradable_read(range).expect("a range of the lock"))
            }
            Access::Write => Held::Write(lock.write(range).expect("a range of the lock")),
        }
    }

    pub(crate) fn try_take(
        lock: &'a L,
        range: Range<u64>,
        access: Access,
    ) -> Result<Self, TryLockError> {
        match access {
            Access::Read => lock.try_read(range).map(Held::Read),
            Access::Upgradable => lock.try_upgradable_read(range).map(Held::Upgradable),
            Access::Write => lock.try_write(range).map(Held::Write),
        }
    }

    /// Returns the held range, which is empty if the requested range was.
    pub(crate) fn range(&self) -> Range<u64> {
        let span = match self {
            Held::Read(hold) => hold.span(),
            Held::Upgradable(hold) => hold.span(),
            Held::Write(hold) => hold.span(),
        };
        span.map_or(0..0, |span| span.range())
    }
}

pub(crate) const BOTH: [Access; 2] = [Access::Read, Access::Write];
pub(crate) const ALL: [Access; 3] = [Access::Read, Access::Upgradable, Access::Write];

/// Defines a module with all tests for one lock: its name, its type, and its [`Kind`].
macro_rules! contract {
    ($name:ident, $lock:ty, $kind:expr) => {
        mod $name {
            use super::*;

            const KIND: crate::suite::Kind<$lock> = $kind;

            tests! {
                ranges:
                    a_reversed_range_is_an_error
                    past_the_capacity_is_an_error
                    an_empty_range_holds_nothing
                    an_error_holds_nothing
                    a_range_may_end_at_the_last_position
                    a_single_position
                    the_full_range;
                conflicts:
                    every_pair_of_ranges_conflicts_as_defined
                    readers_share
                    disjoint_writers_do_not_wait
                    a_release_frees_its_range_only;
                tries:
                    a_try_in_a_free_gap_succeeds
                    a_failed_try_leaves_no_trace
                    failed_tries_do_not_hold_up_a_waiter
                    tries_of_many_threads_leave_no_trace;
                guards:
                    a_forgotten_guard_keeps_its_range_and_nothing_else
                    a_guard_may_be_dropped_by_another_thread
                    many_guards_may_be_dropped_by_another_thread
                    a_panic_releases_the_range
                    a_hold_knows_its_span
                    guards_are_send_and_sync;
                erased:
                    boxes_arcs_and_references_are_locks
                    a_dyn_lock_owns_elements
                    different_locks_in_one_list;
                elements:
                    guards_are_the_elements
                    ranges_are_checked_against_the_length
                    readers_see_the_same_elements
                    disjoint_writers_hold_at_once
                    elements_are_dropped_once
                    into_inner_returns_the_elements
                    elements_are_dropped_after_a_forgotten_guard
                    zero_sized_elements_are_locked
                    slices_of_one_and_of_no_elements
                    a_panic_leaves_what_was_written;
                waiting:
                    a_release_wakes_all_readers
                    a_release_wakes_the_writer
                    more_waiters_than_cores
                    a_wide_request_gets_all_it_waits_for
                    overlapping_requests_never_wait_in_a_cycle;
                exclusion:
                    eight_threads_find_only_their_own_stamps
                    eight_threads_count_no_conflicting_holds;
                fairness:
                    a_waiting_writer_is_passed_a_bounded_number_of_times
                    a_writer_gets_in_under_a_stream_of_readers
                    a_writer_of_everything_gets_in_under_small_readers
                    writers_are_served_in_order_of_arrival;
            }
        }
    };
}

/// Defines a module with the tests in which threads wait, for a lock with [`parking::Yields`].
#[allow(unused_macros)]
macro_rules! parking {
    ($name:ident, $lock:ty, $make:expr, $granule:expr) => {
        mod $name {
            use super::*;

            const KIND: crate::suite::Kind<$lock> = crate::suite::Kind {
                make: $make,
                granule: $granule,
            };

            tests! {
                parking:
                    a_small_range
                    everything
                    several_ranges;
                waiting:
                    a_release_wakes_all_readers
                    a_release_wakes_the_writer
                    more_waiters_than_cores
                    a_wide_request_gets_all_it_waits_for
                    overlapping_requests_never_wait_in_a_cycle;
                exclusion:
                    eight_threads_count_no_conflicting_holds;
            }
        }
    };
}

/// Defines a module with the tests of a lock's statistics. `$passes` is how often a waiter is
/// overtaken.
#[allow(unused_macros)]
macro_rules! statistics {
    ($name:ident, $lock:ty, $make:expr, $granule:expr, $passes:expr) => {
        mod $name {
            use super::*;

            const KIND: crate::suite::Kind<$lock> = crate::suite::Kind {
                make: $make,
                granule: $granule,
            };

            tests! {
                statistics:
                    acquisitions
                    batches
                    waits
                    pointers;
            }

            #[test]
            fn overtakes() {
                crate::suite::statistics::overtakes(&KIND, $passes);
            }
        }
    };
}

macro_rules! tests {
    ($($subject:ident: $($test:ident)*;)*) => {
        $(mod $subject {
            $(#[test]
            fn $test() {
                crate::suite::$subject::$test(&super::KIND);
            })*
        })*
    };
}
