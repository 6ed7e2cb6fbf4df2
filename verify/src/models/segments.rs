//! What only segment locks have: sections, leaves that come and go, lanes that are full.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use spanlock::{Access, RangeLockExt, words};
use spanlock_srl::packed::MAX_READERS;
use spanlock_srl::{PackedWord, Shape, SrlPacked, SrlTree};
use spanlock_sync::atomic::{AtomicBool, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::section::Sections;
use spanlock_sync::thread;
use spanlock_sync::wait::WaitQueue;

use super::lock::Data;
use crate::program::{Program, Run};
use crate::trace::{self, note};

/// Lanes of a packed word.
const LANES: u32 = <PackedWord as words::Word>::LANES;

/// Every property of these.
pub fn programs() -> Vec<Program> {
    let program = |primitive, property, claim, threads, operations, run: fn()| Program {
        primitive,
        property,
        claim,
        threads,
        operations,
        faults: &[],
        expected: None,
        run: Run::Once(Arc::new(run)),
    };
    vec![
        program(
            "sections",
            "grace",
            "what is unlinked before the wait for all sections is in nobody's hands after it",
            2,
            2,
            grace,
        ),
        program(
            "sections",
            "recall",
            "what is recalled in a later section is not in anybody's hands either after the wait",
            2,
            3,
            recall,
        ),
        program(
            "srl-tree",
            "growth",
            "two threads that need the same leaf at once find one",
            2,
            2,
            growth,
        ),
        program(
            "srl-tree",
            "reclamation",
            "a leaf is given back under nobody's hold, and nobody holds a leaf that was given back",
            2,
            3,
            reclamation,
        ),
        program(
            "packed-word",
            "exclusion",
            "two writers of overlapping lanes exclude each other, and the second sees the first's write",
            2,
            2,
            || packed_word(0..2, Access::Write),
        ),
        program(
            "packed-word",
            "exclusion-read-write",
            "a reader and a writer of overlapping lanes exclude each other",
            2,
            2,
            || packed_word(0..2, Access::Read),
        ),
        program(
            "packed-word",
            "exclusion-whole-word",
            "who writes every lane, and gives them back by a store, excludes a writer of some",
            2,
            2,
            || packed_word(0..LANES, Access::Write),
        ),
        program(
            "packed-word",
            "look",
            "who looks, and finds a lane free, sees what was done under the hold before",
            2,
            2,
            packed_look,
        ),
        program(
            "packed-word",
            "downgrade",
            "what was done under a hold of lanes is seen by those whom its downgrade lets in",
            2,
            2,
            packed_downgrade,
        ),
        program(
            "packed-word",
            "upgrade",
            "of two readers of a lane at most one becomes the writer, and sees what the other did",
            2,
            2,
            packed_upgrade,
        ),
        program(
            "srl-packed",
            "full-lane",
            "a reader for whom a lane has no room waits, and gets in when one of the others leaves",
            2,
            3,
            full_lane,
        ),
        program(
            "srl-packed",
            "full-lane-downgrade",
            "an upgradable reader for whom a lane has no room gets in when the one before goes on as a plain reader, which makes none, and another leaves",
            2,
            3,
            full_lane_downgrade,
        ),
    ]
}

/// The cell is memory: to read it is to use it, to write it is to free it.
fn grace() {
    let shared = Arc::new((
        Sections::new(),
        AtomicBool::new(true),
        Memory(UnsafeCell::new(1)),
    ));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (sections, linked, memory) = &*shared;
            let section = sections.enter();
            let found = linked.load(Acquire);
            if found {
                // SAFETY: found linked, in a section that lasts: that this suffices is what loom checks.
                let used = memory.0.with(|memory| unsafe { *memory });
                assert_eq!(used, 1, "used after it was freed");
            }
            note(1, if found { "used" } else { "gone" });
            drop(section);
            trace::finished();
        })
    };
    let (sections, linked, memory) = &*shared;
    linked.store(false, Release);
    sections.wait_for_all();
    trace::finished();
    // SAFETY: every section has ended that could have found it.
    memory.0.with_mut(|memory| unsafe { *memory = 0 });
    other.join().expect("uses what it found");
}

/// As [`grace`], but the walker remembers in a section what it found, and recalls it in the next.
fn recall() {
    let shared = Arc::new((
        Sections::new(),
        AtomicBool::new(true),
        Memory(UnsafeCell::new(1)),
    ));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (sections, linked, memory) = &*shared;
            for step in [1, 2] {
                let section = sections.enter();
                let recalled = section.recall(0).is_some();
                if recalled || linked.load(Relaxed) {
                    section.remember(0, NonNull::dangling());
                    // SAFETY: found linked or recalled, in a section that lasts: that this suffices is what loom checks.
                    let used = memory.0.with(|memory| unsafe { *memory });
                    assert_eq!(used, 1, "used after it was freed");
                }
                note(step, if recalled { "recalled" } else { "walked" });
                drop(section);
                trace::finished();
            }
        })
    };
    let (sections, linked, memory) = &*shared;
    // Relaxed: the stamp and the barriers are to do it.
    linked.store(false, Relaxed);
    sections.wait_for_all();
    trace::finished();
    // SAFETY: every section has ended that could have found it.
    memory.0.with_mut(|memory| unsafe { *memory = 0 });
    other.join().expect("uses what it found");
}

struct Memory(UnsafeCell<u32>);

// SAFETY: that it is used by one at a time is what loom checks.
unsafe impl Sync for Memory {}
// SAFETY: a cell with a plain number.
unsafe impl Send for Memory {}

/// Two leaves of one segment, below one node.
fn tree() -> SrlTree {
    let shape = Shape::new(1, &[1, 1]).expect("levels of one bit");
    SrlTree::with_shape(4, &shape).expect("covered")
}

/// Adds one to the first position, under a hold of it.
fn write(lock: &SrlTree, data: &Data) {
    let hold = lock.write(0..1).expect("in range");
    data.add_one(&(0..1));
    drop(hold);
    trace::finished();
}

fn growth() {
    let shared = Arc::new((tree(), Data::new()));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || write(&shared.0, &shared.1))
    };
    write(&shared.0, &shared.1);
    other.join().expect("finds the leaf");
    assert_eq!(shared.1.sum(&(0..1)), 2, "each held a leaf of its own");
}

/// The leaf is there, and free, when both begin: main gives it back while the other takes it, then takes it too.
fn reclamation() {
    let shared = Arc::new((tree(), Data::new()));
    drop(shared.0.write(0..1).expect("in range"));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || write(&shared.0, &shared.1))
    };
    let freed = shared.0.shrink();
    trace::finished();
    note(0, if freed > 0 { "freed" } else { "in use" });
    write(&shared.0, &shared.1);
    other.join().expect("gets a leaf");
    assert_eq!(shared.1.sum(&(0..1)), 2, "a write was lost");
}

fn full_lane() {
    let lock = Arc::new(SrlPacked::with_segment_size(1, 1).expect("a power of two"));
    let mut readers: Vec<_> = (0..MAX_READERS)
        .map(|_| lock.try_read(0..1).expect("there is room"))
        .collect();
    let one_more = {
        let lock = lock.clone();
        thread::spawn(move || {
            drop(lock.read(0..1).expect("in range"));
            trace::finished();
            note(1, "read");
        })
    };
    drop(readers.pop());
    one_more.join().expect("gets in beside the others");
    drop(readers);
    assert!(lock.try_write(0..1).is_ok(), "a hold is left behind");
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
            drop(lock.upgradable_read(0..1).expect("in range"));
            trace::finished();
            note(1, "read");
        })
    };
    let reader = upgradable.downgrade();
    drop(readers.pop());
    one_more.join().expect("gets in beside the others");
    drop((readers, reader));
    assert!(lock.try_write(0..1).is_ok(), "a hold is left behind");
}

/// A packed word without the lock around it, whose gate would order as much as the word does. The cell belongs to lane 1.
struct Packed {
    word: PackedWord,
    queue: WaitQueue,
    cell: Memory,
}

impl Packed {
    fn new() -> Arc<Self> {
        Arc::new(Packed {
            word: PackedWord::new(),
            queue: WaitQueue::new(),
            cell: Memory(UnsafeCell::new(0)),
        })
    }

    fn run(&self, first: u32, end: u32) -> words::Run<'_, PackedWord> {
        words::Run::new(&self.word, first, end)
    }

    fn add_one(&self) {
        // SAFETY: the caller's hold of lane 1 excludes all others: that it does is what loom checks.
        self.cell.0.with_mut(|cell| unsafe { *cell += 1 });
    }

    fn look(&self, me: usize) {
        // SAFETY: as above, but for readers.
        let seen = self.cell.0.with(|cell| unsafe { *cell });
        note(me, format!("{seen}"));
    }

    /// Holds lanes and uses the cell.
    fn use_it(&self, me: usize, first: u32, end: u32, access: Access) {
        let run = self.run(first, end);
        run.lock(access, &self.queue);
        if access == Access::Write {
            self.add_one();
        } else {
            self.look(me);
        }
        // SAFETY: held just now.
        unsafe { run.unlock(access, &self.queue) };
        trace::finished();
    }
}

fn packed_word(main: Range<u32>, other: Access) {
    let shared = Packed::new();
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || shared.use_it(1, 1, 3, other))
    };
    shared.use_it(0, main.start, main.end, Access::Write);
    thread.join().expect("gets in");
    shared.use_it(0, 0, LANES, Access::Read);
}

/// Nobody takes the lane again, so that main may use the cell when it was given back.
fn packed_look() {
    let shared = Packed::new();
    shared.run(1, 2).lock(Access::Write, &shared.queue);
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.add_one();
            // SAFETY: held by main until now, and not given back there.
            unsafe { shared.run(1, 2).unlock(Access::Write, &shared.queue) };
        })
    };
    let free = shared.run(0, 2).is_free(Access::Write);
    note(0, if free { "free" } else { "held" });
    if free {
        shared.add_one();
    }
    thread.join().expect("gives back");
}

/// Main writes, goes on as an upgradable reader, then as a reader; the other upgradable one may come in between.
fn packed_downgrade() {
    let shared = Packed::new();
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || {
            let run = shared.run(1, 2);
            run.lock(Access::Upgradable, &shared.queue);
            shared.look(1);
            // SAFETY: held just now.
            unsafe { run.unlock(Access::Upgradable, &shared.queue) };
        })
    };
    let run = shared.run(0, 2);
    run.lock(Access::Write, &shared.queue);
    shared.add_one();
    // SAFETY: held with the first of each two.
    unsafe { run.downgrade(Access::Write, Access::Read, &shared.queue) };
    thread.join().expect("gets in beside a reader");
    // SAFETY: held so.
    unsafe { run.unlock(Access::Read, &shared.queue) };
}

fn packed_upgrade() {
    let shared = Packed::new();
    let upgrade = |shared: &Packed, me| {
        let run = shared.run(1, 2);
        run.lock(Access::Read, &shared.queue);
        shared.look(me);
        // SAFETY: held so.
        let upgraded = unsafe { run.try_upgrade(Access::Read) };
        if upgraded {
            shared.add_one();
        }
        let access = if upgraded {
            Access::Write
        } else {
            Access::Read
        };
        // SAFETY: held so.
        unsafe { run.unlock(access, &shared.queue) };
    };
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || upgrade(&shared, 1))
    };
    upgrade(&shared, 0);
    thread.join().expect("neither waits");
}
