//! Who frees memory that another still uses is found, whatever lies between the two: freeing is a step whose order matters.
//! (`RUSTFLAGS="--cfg spanlock_shuttle" cargo test -p spanlock-verify --test freed`, and the same of loom.)

#![cfg(any(spanlock_loom, spanlock_shuttle))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::sync::Arc;

use spanlock_sync::atomic::{AtomicPtr, AtomicU32, Ordering::*, free_slice, zeroed_slice};
use spanlock_sync::{check, thread};

/// One thread looks a word up and uses it, the other unlinks and frees it, and waits for nobody.
fn used_after_unlinking() {
    check::begin_execution();
    let word = zeroed_slice::<AtomicU32>(1).expect("there is memory");
    let link = Arc::new(AtomicPtr::new(Box::into_raw(word).cast::<AtomicU32>()));
    let other = {
        let link = link.clone();
        thread::spawn(move || {
            let word = link.swap(null_mut(), AcqRel);
            // SAFETY: none: that nobody uses it any more is what is not so. It is kept until the execution ends.
            free_slice(unsafe { Box::from_raw(slice_from_raw_parts_mut(word, 1)) });
        })
    };
    let word = link.load(Acquire);
    if !word.is_null() {
        // SAFETY: as above.
        unsafe { &*word }.load(Relaxed);
    }
    other.join().expect("frees");
}

fn fails(search: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(search)).is_err()
}

#[cfg(spanlock_shuttle)]
#[test]
fn the_reduced_search_finds_it_as_the_plain_one_does() {
    use shuttle::scheduler::{DfsScheduler, Scheduler};
    use spanlock_verify::reduce::Reduced;

    fn run(scheduler: impl Scheduler + 'static) {
        let mut config = shuttle::Config::new();
        config.failure_persistence = shuttle::FailurePersistence::None;
        shuttle::Runner::new(scheduler, config).run(used_after_unlinking);
    }
    assert!(fails(|| run(DfsScheduler::new(None, false))), "plain");
    assert!(fails(|| run(Reduced::new())), "reduced");
}

/// In this mode, that is: in the other one it is found by a stale look at the link, which a section's barriers would rule out.
#[cfg(spanlock_loom)]
#[test]
fn loom_finds_it_among_latest_values() {
    let config = check::Config {
        mode: check::Mode::RmwLoad,
        ..check::Config::default()
    };
    check::configure(config).expect("configured once, here");
    assert!(fails(|| loom::model(used_after_unlinking)));
}
