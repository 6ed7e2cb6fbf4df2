//! A million operations against a list of holds, and the cases from the field, by the suite that every lock passes.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use spanlock_srl::packed::MAX_READERS;
use spanlock_srl::{SrlArray, SrlPacked};
use spanlock_testkit::{Driven, Order, driven, suite};

fn array(segment: u64) -> Driven {
    let lock = SrlArray::with_segment_size(64 * segment, segment);
    driven!(lock.expect("a power of two"); wait, downgrade, upgrade, split, batch)
}

fn packed(segment: u64) -> Driven {
    let lock = SrlPacked::with_segment_size(64 * segment, segment);
    driven!(lock.expect("a power of two"); wait, downgrade, upgrade, split, batch)
        .with_readers(MAX_READERS)
}

/// Small requests and wide ones, about as many of each.
fn gate() -> Driven {
    let lock = SrlArray::with_segment_size(64, 1).expect("a power of two");
    driven!(lock.wide_above(8); wait, downgrade, upgrade, split, batch)
}

/// As above, of which many small ones are in one word.
fn packed_gate() -> Driven {
    let lock = SrlPacked::with_segment_size(64, 1).expect("a power of two");
    driven!(lock.wide_above(20); wait, downgrade, upgrade, split, batch).with_readers(MAX_READERS)
}

suite!(srl_array_1, Order::Bounded, array(1));
suite!(srl_array_4096, Order::Bounded, array(4096));
suite!(srl_packed_1, Order::Bounded, packed(1));
suite!(srl_packed_4096, Order::Bounded, packed(4096));
suite!(srl_gate, Order::Bounded, gate());
suite!(srl_packed_gate, Order::Bounded, packed_gate());
