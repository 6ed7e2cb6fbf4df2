//! Spinning, as shipped.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use spanlock_sync::hint::{Backoff, scaled};

#[test]
fn a_spin_has_a_limited_number_of_rounds() {
    // Rounds that pause and, with std, rounds that yield: one at least, sixteen if no other thread
    // wants the core.
    let (least, most) = if cfg!(feature = "std") {
        (17 + 1, 17 + 16)
    } else {
        (17, 17)
    };
    let mut spin = Backoff::new();
    let rounds = (0..=most).take_while(|_| spin.round()).count();
    assert!((least..=most).contains(&rounds), "{rounds} rounds");
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
