//! The powers of the segment locks, by the suite of the `spanlock` crate.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

#[path = "../../range-lock/tests/powers/mod.rs"]
mod powers;

use spanlock_srl::{Shape, SrlArray, SrlTree, SrlTreePacked};

fn locks() -> [SrlArray; 2] {
    [1, 4096].map(|size| SrlArray::with_segment_size(64 * size, size).unwrap())
}

/// The default shape, one of the smallest nodes, and one for which two segments are wide.
fn trees() -> [SrlTree; 3] {
    let shape = Shape::new(1, &[1; 6]).unwrap();
    let small = || SrlTree::with_shape(64, &shape).unwrap();
    [
        SrlTree::new(64 << 12).unwrap(),
        small(),
        small().wide_above(1),
    ]
}

fn packed_trees() -> [SrlTreePacked; 2] {
    [1, 4096].map(|size| SrlTreePacked::with_segment_size(64 * size, size).unwrap())
}

#[test]
fn downgrade() {
    for lock in &locks() {
        powers::downgrade(lock);
        powers::downgrade_wakes(lock);
    }
    for lock in &trees() {
        powers::downgrade(lock);
        powers::downgrade_wakes(lock);
    }
    for lock in &packed_trees() {
        powers::downgrade(lock);
        powers::downgrade_wakes(lock);
    }
}

#[test]
fn upgrade() {
    for lock in &locks() {
        powers::try_upgrade(lock);
        powers::nobody_writes_between(lock);
    }
    for lock in &trees() {
        powers::try_upgrade(lock);
        powers::nobody_writes_between(lock);
    }
    for lock in &packed_trees() {
        powers::try_upgrade(lock);
        powers::nobody_writes_between(lock);
    }
}

#[test]
fn shrink_and_split() {
    for lock in &locks() {
        powers::shrink_and_split(lock);
    }
    for lock in &trees() {
        powers::shrink_and_split(lock);
    }
    for lock in &packed_trees() {
        powers::shrink_and_split(lock);
    }
}
