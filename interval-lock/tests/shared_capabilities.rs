//! The capabilities, by the suite of the `spanlock-range-lock` crate that every lock passes.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

#[path = "../../range-lock/tests/powers/mod.rs"]
#[macro_use]
mod powers;

use spanlock_interval_lock::IntervalLock;

powers!(interval: IntervalLock::new; deadlines futures parts upgrades batches append owned);

#[test]
fn downgrade() {
    powers::downgrade(&IntervalLock::new());
    powers::downgrade_wakes(&IntervalLock::new());
}

#[test]
fn upgrade() {
    powers::try_upgrade(&IntervalLock::new());
    powers::nobody_writes_between(&IntervalLock::new());
}

#[test]
fn shrink_and_split() {
    powers::shrink_and_split(&IntervalLock::new());
}
