//! The tree lock: leaves that are allocated on demand and freed while the lock is used.

use std::sync::Arc;

use spanlock_range_lock::RangeLockExt;
use spanlock_range_lock::rw_word::MAX_READERS;
use spanlock_srl::{Shape, SrlTree};
use spanlock_sync::thread;
use spanlock_testkit::models::data::Data;
use spanlock_testkit::models::unwinding::Sleepless;
use spanlock_testkit::{driven, models, primitive};
use spanlock_verify::{Program, Suite, note_as, perform, refuse_barriers};

/// Every program of the tree lock.
pub(crate) fn suite() -> Suite {
    let lock = primitive!(
        "srl-tree", tree();
        wait, downgrade, upgrade, split, batch; reclaim: SrlTree::shrink
    );
    let sleepless = || driven!(tree().with_parking::<Sleepless>(); batch);
    let lock = super::of_segments(lock, MAX_READERS).unwinding(sleepless);
    let lock = lock.unexplored(&["exclusion-3", "overlap-3"]);
    // Operations have more steps than in an array, because of the descent to a leaf.
    models::range_lock(lock, programs()).step_bound(160)
}

fn programs() -> [Program; 3] {
    [
        Program::new(
            "growth",
            "two threads that need the same missing leaf at the same time find the same leaf",
        )
        .performs([["acquire-exclusive", "release"]; 2])
        .operations(2)
        .run(growth),
        Program::new(
            "reclamation",
            "a leaf is freed only while no thread holds it, and no thread holds a freed leaf",
        )
        .performs([vec!["reclaim"], vec!["acquire-exclusive", "release"]])
        .operations(3)
        .run(reclamation),
        Program::new(
            "reclamation-in-doubt",
            "while the system refuses the barrier before a free, no thread holds an unlinked leaf",
        )
        .performs([
            vec!["reclaim", "acquire-exclusive", "release", "reclaim"],
            vec!["acquire-exclusive", "release"],
        ])
        .operations(6)
        .unexplored(
            "one thread shrinks the tree twice while the other waits for words of a leaf that comes \
             and goes: the search has not ended in a minute",
        )
        .run(reclamation_in_doubt),
    ]
}

/// Creates a tree of two leaves of two segments each, below one node.
fn tree() -> SrlTree {
    let shape = Shape::new(1, &[1, 1]).expect("levels of one bit");
    SrlTree::with_shape(4, &shape).expect("covered")
}

/// Adds one to the number at the first position, under a hold of that position.
fn write(lock: &SrlTree, data: &Data) {
    let hold = lock.write(0..1).expect("in range");
    perform("acquire-exclusive");
    data.add_one(&(0..1));
    drop(hold);
    perform("release");
}

fn growth() {
    let shared = Arc::new((tree(), Data::new()));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || write(&shared.0, &shared.1))
    };
    write(&shared.0, &shared.1);
    other.join().expect("finds the leaf");
    assert_eq!(
        shared.1.sum(&(0..1)),
        2,
        "each thread held a leaf of its own"
    );
}

/// When the threads begin, the leaf exists and is not held. The main thread frees the leaf while
/// the other thread acquires a word of it; then the main thread acquires that word too.
fn reclamation() {
    let shared = Arc::new((tree(), Data::new()));
    drop(shared.0.write(0..1).expect("in range"));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || write(&shared.0, &shared.1))
    };
    let freed = shared.0.shrink();
    perform("reclaim");
    note_as(0, if freed > 0 { "freed" } else { "in use" });
    other.join().expect("gets a leaf");
    write(&shared.0, &shared.1);
    assert_eq!(shared.1.sum(&(0..1)), 2, "a write was lost");
}

/// As [`reclamation`], but the main thread unlinks the leaf and then may not free it. It acquires
/// the word of a new leaf before it shrinks the tree again.
fn reclamation_in_doubt() {
    let shared = Arc::new((tree(), Data::new()));
    drop(shared.0.write(0..1).expect("in range"));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || write(&shared.0, &shared.1))
    };
    // The first call only asks whether barriers are granted.
    refuse_barriers(1..2);
    let freed = shared.0.shrink();
    perform("reclaim");
    assert_eq!(freed, 0, "a leaf was freed without a barrier");
    write(&shared.0, &shared.1);
    let freed = shared.0.shrink();
    perform("reclaim");
    note_as(0, if freed > 0 { "freed" } else { "in use" });
    other.join().expect("gets a leaf");
    assert_eq!(shared.1.sum(&(0..1)), 2, "a write was lost");
}
