//! The door's sections: memory is freed when nobody can be using it any more.

use std::ptr::NonNull;
use std::sync::Arc;

use spanlock_sync::atomic::{AtomicBool, Ordering, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::rcu::Rcu;
use spanlock_sync::thread;

use crate::pairs::Operation as Op;
use crate::program::{Program, Run};
use crate::trace::{note, perform};

/// Every property of these that two threads show.
pub fn programs() -> Vec<Program> {
    let program = |property, claim, performs: &[&[Op]], operations, run: fn()| Program {
        primitive: "sections",
        property,
        claim,
        threads: performs.len() as u32,
        operations,
        performs: performs.iter().map(|does| does.to_vec()).collect(),
        faults: &[],
        expected: None,
        run: Run::Once(Arc::new(run)),
    };
    vec![
        program(
            "grace",
            "what is unlinked before the wait for all sections is in nobody's hands after it",
            &[&[Op::WaitForAll], &[Op::Enter, Op::Leave]],
            2,
            grace,
        ),
        program(
            "recall",
            "what is recalled in a later section is not in anybody's hands either after the wait",
            &[&[Op::WaitForAll], &[Op::Enter, Op::Recall, Op::Leave]],
            3,
            recall,
        ),
        program(
            "grace-each",
            "two who free what the other walks over wait for each other's sections, and not in a circle",
            &[
                &[Op::Enter, Op::Leave, Op::WaitForAll],
                &[Op::Enter, Op::Leave, Op::WaitForAll],
            ],
            4,
            grace_each,
        ),
        program(
            "recall-each",
            "who frees what it remembers recalls it no more, and another who remembers it has left by then",
            &[
                &[Op::Enter, Op::Recall, Op::Leave, Op::WaitForAll],
                &[Op::Enter, Op::Recall, Op::Leave],
            ],
            5,
            recall_each,
        ),
    ]
}

/// Memory, and whether it is still linked.
pub(super) type Linked = (AtomicBool, Memory);

pub(super) fn linked() -> Linked {
    (AtomicBool::new(true), Memory(UnsafeCell::new(1)))
}

fn shared() -> Arc<(Rcu, Linked)> {
    Arc::new((Rcu::new(), linked()))
}

/// A section in which the memory is used if it is found.
pub(super) fn walk(me: usize, sections: &Rcu, (linked, memory): &Linked) {
    let section = sections.enter();
    perform(Op::Enter);
    let found = linked.load(Acquire);
    if found {
        memory.use_it();
    }
    note(me, if found { "used" } else { "gone" });
    drop(section);
    perform(Op::Leave);
}

/// A section in which the memory is used if it was found in an earlier one, or is found. `step`: how it is noted.
fn walk_again(step: usize, (sections, (linked, memory)): &(Rcu, Linked)) {
    let section = sections.enter();
    perform(Op::Enter);
    let recalled = section.recall(0).is_some();
    perform(Op::Recall);
    // Relaxed: the stamp and the barriers are to do it.
    if recalled || linked.load(Relaxed) {
        section.remember(0, NonNull::dangling());
        memory.use_it();
    }
    note(step, if recalled { "recalled" } else { "walked" });
    drop(section);
    perform(Op::Leave);
}

/// Unlinks the memory, waits until nobody uses it, and frees it.
pub(super) fn free(sections: &Rcu, (linked, memory): &Linked, unlinking: Ordering) {
    linked.store(false, unlinking);
    sections.synchronize();
    perform(Op::WaitForAll);
    // SAFETY: every section has ended that could have found it: that this suffices is what loom checks.
    memory.0.with_mut(|memory| unsafe { *memory = 0 });
}

fn grace() {
    let shared = shared();
    let other = {
        let shared = shared.clone();
        thread::spawn(move || walk(1, &shared.0, &shared.1))
    };
    free(&shared.0, &shared.1, Release);
    other.join().expect("uses what it found");
}

/// As [`grace`], but the walker remembers in a section what it found, and recalls it in the next.
fn recall() {
    let shared = shared();
    let other = {
        let shared = shared.clone();
        thread::spawn(move || {
            [1, 2]
                .into_iter()
                .for_each(|step| walk_again(step, &shared))
        })
    };
    free(&shared.0, &shared.1, Relaxed);
    other.join().expect("uses what it found");
}

/// Each walks over the other's memory, and frees its own.
fn grace_each() {
    let shared = Arc::new((Rcu::new(), [linked(), linked()]));
    let work = |me: usize, (sections, memories): &(Rcu, [Linked; 2])| {
        walk(me, sections, &memories[1 - me]);
        free(sections, &memories[me], Release);
    };
    let other = {
        let shared = shared.clone();
        thread::spawn(move || work(1, &shared))
    };
    work(0, &shared);
    other.join().expect("uses what it found");
}

/// Main remembers too, and must not recall what it has freed since.
fn recall_each() {
    let shared = shared();
    let other = {
        let shared = shared.clone();
        thread::spawn(move || {
            [1, 2]
                .into_iter()
                .for_each(|step| walk_again(step, &shared))
        })
    };
    walk_again(0, &shared);
    free(&shared.0, &shared.1, Relaxed);
    walk_again(3, &shared);
    other.join().expect("uses what it found");
}

/// To read it is to use it, to write it is to free it.
pub(super) struct Memory(pub(super) UnsafeCell<u32>);

// SAFETY: that it is used by one at a time is what loom checks.
unsafe impl Sync for Memory {}
// SAFETY: a cell with a plain number.
unsafe impl Send for Memory {}

impl Memory {
    /// In a section that lasts, where it was found linked or recalled: that this suffices is what loom checks.
    fn use_it(&self) {
        // SAFETY: the caller's section.
        let used = self.0.with(|memory| unsafe { *memory });
        assert_eq!(used, 1, "used after it was freed");
    }
}
