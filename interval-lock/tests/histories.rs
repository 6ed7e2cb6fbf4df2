//! Random operations compared with a list of holds, and known bugs of other range locks.
//!
//! `spanlock-testkit` contains this suite; every lock of the project runs it.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use spanlock_interval_lock::IntervalLock;
use spanlock_testkit::{Order, driven, suite};

// In one shard, a request is granted by the operation that unblocks it.
suite!(
    interval_tree,
    Order::Arrival,
    driven!(
        IntervalLock::with_shards(1, 1);
        wait, downgrade, upgrade, upgrade_wait, split, batch
    )
);

// Most requests touch several of these shards, so their owners claim them.
suite!(
    interval_tree_sharded,
    Order::Bounded,
    driven!(
        IntervalLock::with_shards(4, 2);
        wait, downgrade, upgrade, upgrade_wait, split, batch
    )
);
