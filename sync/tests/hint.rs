//! Spinning, as shipped.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use spanlock_sync::hint::{Backoff, scaled};

#[test]
fn a_spin_has_a_limited_number_of_rounds() {
    // Rounds that pause and, with std, rounds that yield.
    let rounds = if cfg!(feature = "std") { 17 + 4 } else { 17 };
    let mut spin = Backoff::new();
    for round in 0..rounds {
        assert!(spin.round(), "round {round}");
    }
    for _ in 0..3 {
        assert!(!spin.round());
    }
    assert!(Backoff::default().round());
}

#[test]
fn bounds_are_the_shipped_ones() {
    const BOUND: u32 = scaled(32, 1);
    assert_eq!(BOUND, 32);
}
