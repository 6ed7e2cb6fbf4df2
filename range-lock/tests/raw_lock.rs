//! The tests of every lock, run for the lock of `examples/raw_lock.rs`.

#[allow(dead_code)] // Its `main`.
#[path = "../examples/raw_lock.rs"]
mod raw_lock;

use raw_lock::HoldList;
use spanlock_testkit::{Order, driven, suite};

suite!(
    hold_list,
    Order::Bounded,
    driven!(HoldList::default(); downgrade, split)
);
