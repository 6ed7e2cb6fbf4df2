//! Tests of the capabilities. `spanlock-range-lock` contains this suite; every lock of the project
//! runs it.

use crate::capabilities;
use spanlock_interval_lock::IntervalLock;

capabilities! {
    interval: IntervalLock::new;
    deadlines futures parts upgrades batches append owned foreign
}

#[test]
fn downgrade() {
    capabilities::downgrade(&IntervalLock::new());
    capabilities::downgrade_wakes(&IntervalLock::new());
}

#[test]
fn upgrade() {
    capabilities::try_upgrade(&IntervalLock::new());
    capabilities::nobody_writes_between(&IntervalLock::new());
}

#[test]
fn shrink_and_split() {
    capabilities::shrink_and_split(&IntervalLock::new());
}
