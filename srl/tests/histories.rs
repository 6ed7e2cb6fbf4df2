//! A million operations against a list of holds, and the cases from the field, by the suite that every lock passes.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use spanlock_srl::SrlArray;
use spanlock_testkit::{Driven, Order, driven, suite};

fn array(segment: u64) -> Driven {
    let lock = SrlArray::with_segment_size(64 * segment, segment);
    driven!(lock.expect("a power of two"); downgrade, upgrade, split)
}

suite!(srl_array_1, Order::Bounded, array(1));
suite!(srl_array_4096, Order::Bounded, array(4096));
