//! Random operations, compared with a list of holds, and known bugs of other range locks.
//!
//! This is the suite of `spanlock-testkit` that every lock passes.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use spanlock_srl::packed::MAX_READERS;
use spanlock_srl::{Shape, SrlArray, SrlPacked, SrlTree, SrlTreePacked};
use spanlock_testkit::{Driven, Order, driven, suite};

/// Returns an array whose words are in the head and in a tail, so many ranges span both.
fn array(segment: u64) -> Driven {
    let lock = SrlArray::with_head(64 * segment, segment, 24);
    driven!(lock.expect("a power of two"); wait, downgrade, upgrade, split, batch)
}

fn packed(segment: u64) -> Driven {
    let lock = SrlPacked::with_segment_size(64 * segment, segment);
    driven!(lock.expect("a power of two"); wait, downgrade, upgrade, split, batch)
        .with_readers(MAX_READERS)
}

/// Returns a lock in which about half of the requests are wide, so they go through the gate.
fn gate() -> Driven {
    let lock = SrlArray::with_segment_size(64, 1).expect("a power of two");
    driven!(lock.wide_above(8); wait, downgrade, upgrade, split, batch)
}

/// Returns a packed lock in which many requests are wide, and many small requests need one word
/// only.
fn packed_gate() -> Driven {
    let lock = SrlPacked::with_segment_size(64, 1).expect("a power of two");
    driven!(lock.wide_above(20); wait, downgrade, upgrade, split, batch).with_readers(MAX_READERS)
}

/// Returns a tree with two slots in every node and two segments in every leaf.
fn tree() -> Driven {
    let shape = Shape::new(1, &[1; 6]).expect("levels of one bit");
    let lock = SrlTree::with_shape(64, &shape).expect("64 positions");
    driven!(lock; wait, downgrade, upgrade, split, batch)
}

/// Returns a packed tree in which many ranges are wide.
fn packed_tree() -> Driven {
    let shape = Shape::new(1, &[1, 1, 4]).expect("levels of one bit, leaves of one word");
    let lock = SrlTreePacked::with_shape(64, &shape).expect("64 positions");
    driven!(lock.wide_above(20); wait, downgrade, upgrade, split, batch).with_readers(MAX_READERS)
}

suite!(srl_array_1, Order::Bounded, array(1));
suite!(srl_array_4096, Order::Bounded, array(4096));
suite!(srl_packed_1, Order::Bounded, packed(1));
suite!(srl_packed_4096, Order::Bounded, packed(4096));
suite!(srl_gate, Order::Bounded, gate());
suite!(srl_packed_gate, Order::Bounded, packed_gate());
suite!(srl_tree, Order::Bounded, tree());
suite!(srl_packed_tree, Order::Bounded, packed_tree());
