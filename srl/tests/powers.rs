//! The powers of the segment array, by the suite of the `spanlock` crate.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

#[path = "../../range-lock/tests/powers/mod.rs"]
mod powers;

use spanlock_srl::SrlArray;

fn locks() -> [SrlArray; 2] {
    [1, 4096].map(|size| SrlArray::with_segment_size(64 * size, size).unwrap())
}

#[test]
fn downgrade() {
    for lock in &locks() {
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
}

#[test]
fn shrink_and_split() {
    for lock in &locks() {
        powers::shrink_and_split(lock);
    }
}
