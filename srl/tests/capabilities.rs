//! The capabilities of the segment locks, tested with the suite of the `spanlock-range-lock` crate.

use crate::capabilities;
use spanlock_srl::{Shape, SrlArray, SrlPacked, SrlTree, SrlTreePacked};

/// Returns an array with segments of one position.
fn array() -> SrlArray {
    SrlArray::with_segment_size(1 << 16, 1).unwrap()
}

fn packed() -> SrlPacked {
    SrlPacked::with_segment_size(1 << 16, 1).unwrap()
}

/// Returns a lock in which a request for two segments is already wide, so nearly every request goes
/// through the gate.
fn gate() -> SrlArray {
    array().wide_above(1)
}

/// Returns a tree with two slots in every node and two segments in every leaf.
fn tree() -> SrlTree {
    SrlTree::with_shape(1 << 16, &Shape::new(1, &[1; 16]).unwrap()).unwrap()
}

fn tree_packed() -> SrlTreePacked {
    SrlTreePacked::with_segment_size(1 << 16, 1).unwrap()
}

/// Returns a tree whose segments end at `u64::MAX`.
fn tree_of_all() -> SrlTree {
    SrlTree::with_segment_size(u64::MAX, 1).unwrap()
}

capabilities!(srl_tree_packed: tree_packed; deadlines futures parts batches append owned foreign);
capabilities!(srl_tree_of_all: tree_of_all; parts batches);
capabilities!(srl_tree: tree; deadlines futures parts batches append owned foreign);
capabilities!(srl_array: array; deadlines futures parts batches append owned foreign);
capabilities!(srl_packed: packed; deadlines futures parts batches append owned foreign);
capabilities!(srl_gate: gate; deadlines futures parts batches append owned foreign);

macro_rules! holds {
    ($($name:ident)*) => {
        mod holds {
            use super::*;
            $(#[test]
            fn $name() {
                capabilities::downgrade(&super::$name());
                capabilities::downgrade_wakes(&super::$name());
                capabilities::try_upgrade(&super::$name());
                capabilities::nobody_writes_between(&super::$name());
                capabilities::shrink_and_split(&super::$name());
            })*
        }
    };
}

holds!(array packed gate tree tree_packed tree_of_all);
