//! Three threads and more at the parts that locks are made of: words, and sections.

use std::sync::Arc;

use spanlock_range_lock::Access::{self, Read, Upgradable, Write};
use spanlock_range_lock::RwWord;
use spanlock_range_lock::words::{Run as Lanes, Word};
use spanlock_srl::PackedWord;
use spanlock_sync::atomic::Ordering::Release;
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::rcu::Rcu;
use spanlock_sync::thread;
use spanlock_sync::wait::WaitQueue;

use super::sections::{free, linked, walk};
use crate::pairs::Operation as Op;
use crate::program::{Program, Run};
use crate::trace::{note, perform};

/// Every program of these.
pub fn programs() -> Vec<Program> {
    let word = "threads that take a word as readers and writers exclude, share, see what was written, and end";
    let tries = "of three tries of a word, those that succeed exclude each other";
    let grace = "what is unlinked before the wait for all sections is in nobody's hands after it";
    let rw = RwWord::new;
    let packed = PackedWord::new;
    vec![
        program("rw-word", "tries-3", tries, (3, 3), move || tries_3(rw())).performs([&TRY; 3]),
        program("rw-word", "crowd-4", word, (4, 8), move || crowd(rw(), 4)),
        program("rw-word", "crowd-6", word, (6, 12), move || crowd(rw(), 6)),
        program("rw-word", "crowd-8", word, (8, 16), move || crowd(rw(), 8)),
        program("packed-word", "tries-3", tries, (3, 3), move || {
            tries_3(packed())
        })
        .performs([&TRY; 3]),
        program("packed-word", "crowd-4", word, (4, 8), move || {
            crowd(packed(), 4)
        }),
        program("packed-word", "crowd-6", word, (6, 12), move || {
            crowd(packed(), 6)
        }),
        program("packed-word", "crowd-8", word, (8, 16), move || {
            crowd(packed(), 8)
        }),
        program("sections", "grace-3", grace, (3, 3), || walks(3)).performs([
            &[Op::WaitForAll],
            &WALK,
            &WALK,
        ]),
        program("sections", "crowd-4", grace, (4, 4), || walks(4)),
        program("sections", "crowd-6", grace, (6, 6), || walks(6)),
        program("sections", "crowd-8", grace, (8, 8), || walks(8)),
    ]
}

const TRY: [Op; 2] = [Op::Try, Op::Release];
const WALK: [Op; 2] = [Op::Enter, Op::Leave];

fn program(
    primitive: &'static str,
    property: &'static str,
    claim: &'static str,
    (threads, operations): (u32, u32),
    run: impl Fn() + Send + Sync + 'static,
) -> Program {
    Program {
        primitive,
        property,
        claim,
        threads,
        operations,
        performs: Vec::new(),
        faults: &[],
        expected: None,
        run: Run::Once(Arc::new(run)),
    }
}

/// A word, its queue, and a cell that holds of lane 0 protect.
struct Guarded<W> {
    word: W,
    queue: WaitQueue,
    cell: UnsafeCell<u32>,
}

// SAFETY: the cell is used under a hold of lane 0; that this suffices is what the models find out.
unsafe impl<W: Sync> Sync for Guarded<W> {}
// SAFETY: a cell with a plain number.
unsafe impl<W: Send> Send for Guarded<W> {}

impl<W: Word> Guarded<W> {
    fn lanes(&self, end: u32) -> Lanes<'_, W> {
        Lanes::new(&self.word, 0, end)
    }

    /// Uses the cell and gives the hold back.
    fn use_it(&self, me: usize, end: u32, access: Access) {
        if access == Write {
            // SAFETY: held exclusively.
            self.cell.with_mut(|cell| unsafe { *cell += 1 });
        } else {
            // SAFETY: held, and no writer beside.
            let seen = self.cell.with(|cell| unsafe { *cell });
            note(me, format!("{seen}"));
        }
        // SAFETY: the caller holds these lanes so.
        unsafe { self.lanes(end).unlock(access, &self.queue) };
        perform(Op::Release);
    }
}

/// Runs `work` in so many threads, main being the first, each with its number.
fn threads(count: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let start = |me: usize| {
        let work = work.clone();
        thread::spawn(move || work(me))
    };
    let others: Vec<_> = (1..count).map(start).collect();
    work(0);
    for other in others {
        other.join().expect("none fails, or waits for ever");
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
    let free = shared.lanes(W::LANES).try_lock(Write, &shared.queue);
    assert!(free, "a hold is left behind");
}

fn tries_3<W: Word + Send + Sync + 'static>(word: W) {
    on_a_word(word, 3, |me, shared| {
        let access = if me == 2 { Read } else { Write };
        perform(Op::Try);
        if shared.lanes(1).try_lock(access, &shared.queue) {
            shared.use_it(me, 1, access);
        } else {
            note(me, "busy");
        }
    });
}

fn crowd<W: Word + Send + Sync + 'static>(word: W, count: usize) {
    on_a_word(word, count, |me, shared| {
        for round in 0..2 {
            let access = [Write, Read, Upgradable][(me + round) % 3];
            let end = W::LANES.min(1 + (me as u32 + round as u32) % 3);
            shared.lanes(end).lock(access, &shared.queue);
            shared.use_it(me, end, access);
        }
    });
}

/// Main frees what the others walk over.
fn walks(count: usize) {
    let (sections, memory) = (Rcu::new(), linked());
    threads(count, move |me| match me {
        // Release: as in `sections/grace`.
        0 => free(&sections, &memory, Release),
        _ => walk(me, &sections, &memory),
    });
}
