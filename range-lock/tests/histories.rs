//! Random operations compared with a list of holds, and the published bugs: the suite of every
//! lock.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use spanlock_range_lock::{RwCounter, RwDistributed};
use spanlock_testkit::{Order, driven, suite};

suite!(
    rw_counter,
    Order::Bounded,
    driven!(RwCounter::new(); wait, downgrade, upgrade, split, batch)
);

suite!(
    rw_distributed,
    Order::Bounded,
    driven!(RwDistributed::with_slots(3); wait, downgrade, upgrade, split, batch)
);
