//! A yield outside of a loop that looks for another thread's change is told, and not taken for one.
//! (`RUSTFLAGS="--cfg spanlock_shuttle" cargo test -p spanlock-verify --test yields`)

#![cfg(spanlock_shuttle)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::{check, thread};
use spanlock_verify::reduce::Reduced;

/// Searches executions of two threads on two words; what the first panics with, if one does.
fn search(one: fn(&[AtomicU32; 2]), other: fn(&[AtomicU32; 2])) -> Result<(), String> {
    let mut config = shuttle::Config::new();
    config.failure_persistence = shuttle::FailurePersistence::None;
    let body = move || {
        check::begin_execution();
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let its = words.clone();
        let thread = thread::spawn(move || one(&its));
        other(&words);
        thread.join().expect("it does not panic");
    };
    let run = || shuttle::Runner::new(Reduced::new(), config).run(body);
    catch_unwind(AssertUnwindSafe(run))
        .map(drop)
        .map_err(|panic| {
            let told = panic.downcast::<String>();
            told.map_or_else(|_| "no text".to_owned(), |text| *text)
        })
}

fn fails(one: fn(&[AtomicU32; 2]), other: fn(&[AtomicU32; 2])) {
    let told = search(one, other).expect_err("the yield is in no loop");
    assert!(told.contains("T1 has yielded"), "{told}");
    assert!(told.contains("Leave the yield out"), "{told}");
}

#[test]
fn a_loop_may_yield() {
    static SEEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    let wait = |words: &[AtomicU32; 2]| {
        while words[0].load(Acquire) == 0 {
            thread::yield_now();
        }
        words[1].store(1, Release);
    };
    let change = |words: &[AtomicU32; 2]| {
        words[0].store(1, Release);
        let seen = words[1].load(Acquire);
        SEEN.lock().expect("nobody panics").push(seen);
    };
    search(wait, change).expect("waits");
    let mut seen = SEEN.lock().expect("nobody panics").clone();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [0, 1]);
}

#[test]
fn a_yield_before_a_store_is_told() {
    let change = |words: &[AtomicU32; 2]| {
        words[0].load(Acquire);
    };
    // Having looked at nothing, at what is changed later, and at what nobody changes.
    fails(
        |words| {
            thread::yield_now();
            words[0].store(1, Release);
        },
        change,
    );
    fails(
        |words| {
            words[1].load(Acquire);
            thread::yield_now();
            words[0].store(1, Release);
        },
        |words| words[1].store(1, Release),
    );
    fails(
        |words| {
            words[1].load(Acquire);
            thread::yield_now();
            words[0].store(1, Release);
        },
        change,
    );
}

#[test]
fn a_yield_at_the_end_is_told() {
    fails(
        |words| {
            words[1].load(Acquire);
            thread::yield_now();
        },
        |words| words[0].store(1, Release),
    );
}
