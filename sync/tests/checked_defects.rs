//! A defect is made if the configuration says so; freed memory that is used is noticed.

#![cfg(any(spanlock_loom, spanlock_shuttle))]

mod checked;

use checked::Model;
use spanlock_sync::atomic::{AtomicU32, Ordering::*, free_slice, zeroed_slice};
use spanlock_sync::{Defect, defect};

fn no_recheck() {
    assert!(!defect(Defect::NoRecheck), "it is made");
}

#[test]
fn a_defect_is_made_if_it_is_asked_for() {
    let model = Model::new("a_defect_is_made_if_it_is_asked_for", file!(), no_recheck);
    assert_eq!(model.must_pass("").seeded, 0);
    let failed = model.must_fail("defect:no-recheck");
    assert!(failed.text.contains("it is made"), "{}", failed.text);
    // Another one is not made here, and that is counted.
    assert_eq!(model.must_pass("defect:no-aging").seeded, 0);
}

fn freed() {
    let words = zeroed_slice::<AtomicU32>(2).expect("there is memory");
    let second = &raw const words[1];
    words[1].store(7, Relaxed);
    let early = defect(Defect::NodeFreedTooEarly);
    if early {
        free_slice(words);
        // SAFETY: none as shipped. Under a checker what is freed is kept until the execution has ended.
        unsafe { &*second }.store(8, Relaxed);
    } else {
        free_slice(words);
    }
    // Its place is nobody else's.
    let others = zeroed_slice::<AtomicU32>(2).expect("there is memory");
    assert_eq!(others[1].load(Relaxed), 0);
}

#[test]
fn freed_memory_that_is_used_is_noticed() {
    let model = Model::new("freed_memory_that_is_used_is_noticed", file!(), freed);
    model.must_pass("");
    let failed = model.must_fail("defect:node-freed-too-early");
    assert!(
        failed.text.contains("memory is used that was freed"),
        "{}",
        failed.text
    );
    // It says where.
    assert!(
        failed.text.contains("checked_defects.rs"),
        "{}",
        failed.text
    );
}
