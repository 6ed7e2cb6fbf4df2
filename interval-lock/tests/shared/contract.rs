//! The contract of `spanlock-range-lock`, checked for the interval tree by that crate's own suite.

use crate::suite::Kind;
use spanlock_interval_lock::IntervalLock;

contract!(
    interval_tree,
    IntervalLock,
    Kind {
        make: |_| IntervalLock::new(),
        granule: 1,
    }
);
