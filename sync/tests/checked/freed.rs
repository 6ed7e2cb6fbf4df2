//! Memory of atomics: a use after the free fails the model, also if the memory of other atomics was
//! dropped before, at addresses that are used again.

#![cfg(spanlock_shuttle)]

use std::mem::MaybeUninit;

use crate::model::Model;
use spanlock_sync::atomic::{AtomicU32, Ordering::*, free_slice, zeroed_slice};
use spanlock_sync::{check, epoch};

/// Returns how many objects a load uses.
fn used(atomic: &AtomicU32) -> u64 {
    let before = check::operations();
    atomic.load(Relaxed);
    check::operations() - before
}

fn uses_addresses_again() {
    // A word is used together with its allocation.
    let slice = zeroed_slice::<AtomicU32>(2).expect("there is memory");
    assert_eq!(used(&slice[1]), 2);
    drop(slice);

    let recorded = epoch::owned(Box::new(AtomicU32::new(0)));
    assert_eq!(used(&recorded), 2);
    let place: *mut MaybeUninit<AtomicU32> = Box::into_raw(recorded).cast();
    // SAFETY: it came from `Box::into_raw`, as a value that is valid as this type, too.
    let mut place = unsafe { Box::from_raw(place) };
    // SAFETY: it was initialized above, and is dropped once.
    unsafe { place.assume_init_drop() };
    let another = place.write(AtomicU32::new(0));
    assert_eq!(used(another), 1, "the dropped allocation is used");
    // SAFETY: it was initialized above, and is dropped once.
    unsafe { place.assume_init_drop() };
}

#[test]
fn addresses_that_are_used_again_are_not_used_as_the_old_memory() {
    let name = "freed::addresses_that_are_used_again_are_not_used_as_the_old_memory";
    Model::new(name, file!(), uses_addresses_again).must_pass("");
}

fn uses_freed_memory() {
    let slice = zeroed_slice::<AtomicU32>(2).expect("there is memory");
    let word = &raw const slice[1];
    free_slice(slice);
    // SAFETY: none as shipped. The checker keeps the memory until the next execution.
    unsafe { &*word }.load(Relaxed);
}

#[test]
fn a_use_of_freed_memory_fails() {
    let model = Model::new(
        "freed::a_use_of_freed_memory_fails",
        file!(),
        uses_freed_memory,
    );
    let failed = model.must_fail("");
    let told = "used after its memory was freed";
    assert!(failed.text.contains(told), "{}", failed.text);
}
