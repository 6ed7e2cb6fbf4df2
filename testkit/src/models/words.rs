//! Programs of three or more threads on one state word. A word consists of **lanes**, each of which
//! is a reader-writer lock; range locks are built from words.

use std::sync::Arc;

use spanlock_range_lock::Access::{self, Read, Upgradable, Write};
use spanlock_range_lock::words::{Run, Word};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;
use spanlock_sync::wait::WaitQueue;
use spanlock_verify::{Program, note_as, perform};

/// Returns the programs for the words that `make` creates.
pub fn programs<W: Word + Send + Sync + 'static>(make: fn() -> W) -> Vec<Program> {
    let crowd = |name, threads: usize| {
        let claim =
            "threads that lock a word as readers and writers all finish, and leave the word free";
        Program::new(name, claim)
            .threads(threads)
            .operations(2 * threads)
            .run(move || crowd(make(), threads))
    };
    let tries = Program::new(
        "tries-3",
        "of three tries on a word, those that succeed exclude each other",
    )
    .performs([["try", "release"]; 3])
    .operations(3)
    .run(move || tries_3(make()));
    vec![
        tries,
        crowd("crowd-4", 4),
        crowd("crowd-6", 6),
        crowd("crowd-8", 8),
    ]
}

/// A word, its queue, and a cell that lane 0 protects.
struct Guarded<W> {
    word: W,
    queue: WaitQueue,
    cell: UnsafeCell<u32>,
}

// SAFETY: threads access the cell only while they hold lane 0. Loom checks that no accesses race.
unsafe impl<W: Sync> Sync for Guarded<W> {}
// SAFETY: the cell holds a plain number.
unsafe impl<W: Send> Send for Guarded<W> {}

impl<W: Word> Guarded<W> {
    fn lanes(&self, end: u32) -> Run<'_, W> {
        Run::new(&self.word, 0, end)
    }

    /// Accesses the cell, and releases the lanes `0..end`, which the caller holds.
    fn use_and_unlock(&self, me: usize, end: u32, access: Access) {
        if access == Write {
            // SAFETY: lane 0 is held exclusively.
            self.cell.with_mut(|cell| unsafe { *cell += 1 });
        } else {
            // SAFETY: this thread holds lane 0, so no writer holds it.
            let seen = self.cell.with(|cell| unsafe { *cell });
            note_as(me, format!("{seen}"));
        }
        // SAFETY: the caller holds these lanes with `access`.
        unsafe { self.lanes(end).unlock(access, &self.queue) };
        perform("release");
    }
}

/// Runs `work` in `count` threads, including the main thread, and passes each thread its number.
fn threads(count: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let start = |me: usize| {
        let work = work.clone();
        thread::spawn(move || work(me))
    };
    let others: Vec<_> = (1..count).map(start).collect();
    work(0);
    for other in others {
        other.join().expect("a thread panicked");
    }
}

fn on_a_word<W: Word + Send + Sync + 'static>(
    word: W,
    count: usize,
    work: impl Fn(usize, &Guarded<W>) + Send + Sync + 'static,
) {
    let shared = Arc::new(Guarded {
        word,
        queue: WaitQueue::new(),
        cell: UnsafeCell::new(0),
    });
    let others = shared.clone();
    threads(count, move |me| work(me, &others));
    let is_free = shared.lanes(W::LANES).try_lock(Write, &shared.queue);
    assert!(is_free, "a hold was not released");
}

fn tries_3<W: Word + Send + Sync + 'static>(word: W) {
    on_a_word(word, 3, |me, shared| {
        let access = if me == 2 { Read } else { Write };
        perform("try");
        if shared.lanes(1).try_lock(access, &shared.queue) {
            shared.use_and_unlock(me, 1, access);
        } else {
            note_as(me, "busy");
        }
    });
}

fn crowd<W: Word + Send + Sync + 'static>(word: W, count: usize) {
    on_a_word(word, count, |me, shared| {
        for round in 0..2 {
            let access = [Write, Read, Upgradable][(me + round) % 3];
            let end = W::LANES.min(1 + (me as u32 + round as u32) % 3);
            shared.lanes(end).lock(access, &shared.queue);
            shared.use_and_unlock(me, end, access);
        }
    });
}
