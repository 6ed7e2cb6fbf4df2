//! Cells as shipped: `core`'s, with access through closures.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use spanlock_sync::cell::UnsafeCell;

#[test]
fn a_cell_returns_what_was_written() {
    let cell = UnsafeCell::new(vec![1]);
    // SAFETY: only this thread accesses the cell, and the accesses are not nested.
    cell.with_mut(|value| unsafe { (*value).push(2) });
    // SAFETY: as above.
    assert_eq!(cell.with(|value| unsafe { (*value).clone() }), [1, 2]);
}

#[test]
fn a_cell_has_the_size_of_its_value() {
    assert_eq!(size_of::<UnsafeCell<u32>>(), 4);
    let zero = UnsafeCell::<u8>::default();
    // SAFETY: no thread writes.
    assert_eq!(zero.with(|value| unsafe { *value }), 0);
}
