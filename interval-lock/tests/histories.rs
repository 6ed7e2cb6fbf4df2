//! Random operations compared with a list of holds, and known bugs of other range locks.
//!
//! `spanlock-testkit` contains this suite; every lock of the project runs it.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use spanlock_interval_lock::IntervalLock;
use spanlock_testkit::{Order, driven, suite};

suite!(
    interval_tree,
    Order::Arrival,
    driven!(IntervalLock::new(); wait, downgrade, upgrade, upgrade_wait, split, batch)
);
