//! Atomics as shipped, and slices of zeros.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::any::TypeId;

use spanlock_sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, Zeroed, fence,
    free_slice, zeroed_slice,
};

#[test]
fn the_atomics_are_those_of_core() {
    fn same<A: 'static, B: 'static>() -> bool {
        TypeId::of::<A>() == TypeId::of::<B>()
    }
    use std::sync::atomic as std_atomic;
    assert!(same::<AtomicBool, std_atomic::AtomicBool>());
    assert!(same::<AtomicU32, std_atomic::AtomicU32>());
    assert!(same::<AtomicU64, std_atomic::AtomicU64>());
    assert!(same::<AtomicUsize, std_atomic::AtomicUsize>());
    assert!(same::<AtomicPtr<u8>, std_atomic::AtomicPtr<u8>>());
    fence(SeqCst);
    // They can be statics.
    static COUNT: AtomicU64 = AtomicU64::new(1);
    assert_eq!(COUNT.fetch_add(1, Relaxed), 1);
}

#[test]
fn slices_are_zero_and_writable() {
    for len in [0, 1, 7, 4096, 100_000] {
        let words = zeroed_slice::<AtomicU32>(len).unwrap();
        assert_eq!(words.len(), len);
        for (i, word) in words.iter().enumerate() {
            assert_eq!(word.swap(i as u32, Relaxed), 0);
        }
        assert!(
            words
                .iter()
                .enumerate()
                .all(|(i, w)| w.load(Relaxed) == i as u32)
        );
        free_slice(words);
    }
    assert_eq!(zeroed_slice::<AtomicU64>(3).unwrap()[2].load(Relaxed), 0);
}

#[test]
fn a_slice_that_is_too_long_is_none() {
    // These lengths need more bytes than fit into a `usize`, than a slice may have, or, with 64
    // bits, than there are addresses.
    for len in [
        usize::MAX,
        usize::MAX / 4,
        usize::MAX / 8 + 1,
        usize::MAX / if usize::BITS == 64 { 16 } else { 4 },
    ] {
        assert!(zeroed_slice::<AtomicU32>(len).is_none(), "{len}");
    }
}

#[test]
fn zero_sized_types_need_no_memory() {
    struct Nothing;
    // SAFETY: no bytes, and no destructor.
    unsafe impl Zeroed for Nothing {
        fn zeroed() -> Self {
            Nothing
        }
    }
    assert_eq!(zeroed_slice::<Nothing>(1000).unwrap().len(), 1000);
}
