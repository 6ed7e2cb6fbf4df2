//! Random operations compared with a list of holds, and known bugs of other range locks.
//!
//! This is the suite of `spanlock-testkit` that every lock passes.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use spanlock_interval_lock::IntervalLock;
use spanlock_testkit::{Order, driven, suite};

suite!(
    interval_tree,
    Order::Arrival,
    driven!(IntervalLock::new(); wait, downgrade, upgrade, upgrade_wait, split, batch)
);
