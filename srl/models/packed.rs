//! The packed lock: lanes (packed segment states) that have no room for another reader.

use std::sync::Arc;

use spanlock_range_lock::RangeLockExt;
use spanlock_srl::SrlPacked;
use spanlock_srl::packed::MAX_READERS;
use spanlock_sync::thread;
use spanlock_testkit::models::unwinding::Sleepless;
use spanlock_testkit::{driven, models, primitive};
use spanlock_verify::{Program, Suite, note_as, perform};

/// Every program of the packed lock.
pub(crate) fn suite() -> Suite {
    let lock = primitive!("srl-packed", packed(); wait, downgrade, upgrade, split, batch);
    let sleepless = || driven!(packed().with_parking::<Sleepless>(); batch);
    let lock = super::of_segments(lock, MAX_READERS).unwinding(sleepless);
    let lock = lock.unexplored(&["overlap-3", "batch-twice"]);
    models::range_lock(lock, programs()).step_bound(super::STEP_BOUND)
}

fn packed() -> SrlPacked {
    SrlPacked::with_segment_size(4, 1).expect("1 is a power of two")
}

fn programs() -> [Program; 2] {
    [
        Program::new(
            "full-lane",
            "a reader waits while a lane has no room for it, and is granted when another reader leaves",
        )
        .performs([vec!["release"], vec!["acquire-shared", "release"]])
        .operations(3)
        .run(full_lane),
        Program::new(
            "full-lane-downgrade",
            "a second upgradable reader waits while a lane is full: a downgrade of the first \
             upgradable reader frees no place; when another reader leaves, the second is granted",
        )
        .performs([["downgrade", "release"], ["acquire-upgradable", "release"]])
        .operations(3)
        .run(full_lane_downgrade),
    ]
}

fn full_lane() {
    let lock = Arc::new(SrlPacked::with_segment_size(1, 1).expect("a power of two"));
    let mut readers: Vec<_> = (0..MAX_READERS)
        .map(|_| lock.try_read(0..1).expect("there is room"))
        .collect();
    let one_more = {
        let lock = lock.clone();
        thread::spawn(move || {
            let hold = lock.read(0..1).expect("in range");
            perform("acquire-shared");
            drop(hold);
            perform("release");
            note_as(1, "read");
        })
    };
    drop(readers.pop());
    perform("release");
    one_more.join().expect("is granted beside the others");
    drop(readers);
    assert!(lock.try_write(0..1).is_ok(), "a hold was not released");
}

fn full_lane_downgrade() {
    let lock = Arc::new(SrlPacked::with_segment_size(1, 1).expect("a power of two"));
    let mut readers: Vec<_> = (1..MAX_READERS)
        .map(|_| lock.try_read(0..1).expect("there is room"))
        .collect();
    let upgradable = lock.try_upgradable_read(0..1).expect("the last place");
    let one_more = {
        let lock = lock.clone();
        thread::spawn(move || {
            let hold = lock.upgradable_read(0..1).expect("in range");
            perform("acquire-upgradable");
            drop(hold);
            perform("release");
            note_as(1, "read");
        })
    };
    let reader = upgradable.downgrade();
    perform("downgrade");
    drop(readers.pop());
    perform("release");
    one_more.join().expect("is granted beside the others");
    drop((readers, reader));
    assert!(lock.try_write(0..1).is_ok(), "a hold was not released");
}
