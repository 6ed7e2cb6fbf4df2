//! What only segment locks have: leaves that come and go, lanes that are full.

use std::ops::Range;
use std::sync::Arc;

use spanlock_range_lock::{Access, RangeLockExt, words};
use spanlock_srl::packed::MAX_READERS;
use spanlock_srl::{PackedWord, Shape, SrlPacked, SrlTree};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;
use spanlock_sync::wait::WaitQueue;

use super::lock::Data;
use super::sections::Memory;
use crate::pairs::Operation as Op;
use crate::program::{Program, Run};
use crate::trace::{note, perform};

/// Lanes of a packed word.
const LANES: u32 = <PackedWord as words::Word>::LANES;

/// Every property of these.
pub fn programs() -> Vec<Program> {
    let program = |primitive, property, claim, performs: &[&[Op]], operations, run: fn()| Program {
        primitive,
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
            "srl-tree",
            "growth",
            "two threads that need the same leaf at once find one",
            &[
                &[Op::AcquireExclusive, Op::Release],
                &[Op::AcquireExclusive, Op::Release],
            ],
            2,
            growth,
        ),
        program(
            "srl-tree",
            "reclamation",
            "a leaf is given back under nobody's hold, and nobody holds a leaf that was given back",
            &[&[Op::Reclaim], &[Op::AcquireExclusive, Op::Release]],
            3,
            reclamation,
        ),
        program(
            "packed-word",
            "exclusion",
            "two writers of overlapping lanes exclude each other, and the second sees the first's write",
            &[
                &[Op::AcquireExclusive, Op::Release],
                &[Op::AcquireExclusive, Op::Release],
            ],
            2,
            || packed_word(0..2, Access::Write),
        ),
        program(
            "packed-word",
            "exclusion-read-write",
            "a reader and a writer of overlapping lanes exclude each other",
            &[
                &[Op::AcquireExclusive, Op::Release],
                &[Op::AcquireShared, Op::Release],
            ],
            2,
            || packed_word(0..2, Access::Read),
        ),
        program(
            "packed-word",
            "exclusion-whole-word",
            "who writes every lane, and gives them back by a store, excludes a writer of some",
            &[
                &[Op::AcquireExclusive, Op::Release],
                &[Op::AcquireExclusive, Op::Release],
            ],
            2,
            || packed_word(0..LANES, Access::Write),
        ),
        program(
            "packed-word",
            "look",
            "who looks, and finds a lane free, sees what was done under the hold before",
            &[&[], &[Op::Release]],
            2,
            packed_look,
        ),
        program(
            "packed-word",
            "downgrade",
            "what was done under a hold of lanes is seen by those whom its downgrade lets in",
            &[
                &[Op::AcquireExclusive, Op::Downgrade],
                &[Op::AcquireUpgradable, Op::Release],
            ],
            2,
            packed_downgrade,
        ),
        program(
            "packed-word",
            "upgrade",
            "of two readers of a lane at most one becomes the writer, and sees what the other did",
            &[
                &[Op::AcquireShared, Op::TryUpgrade, Op::Release],
                &[Op::AcquireShared, Op::TryUpgrade, Op::Release],
            ],
            2,
            packed_upgrade,
        ),
        program(
            "srl-packed",
            "full-lane",
            "a reader for whom a lane has no room waits, and gets in when one of the others leaves",
            &[&[Op::Release], &[Op::AcquireShared, Op::Release]],
            3,
            full_lane,
        ),
        program(
            "srl-packed",
            "full-lane-downgrade",
            "an upgradable reader for whom a lane has no room gets in when the one before goes on as a plain reader, which makes none, and another leaves",
            &[
                &[Op::Downgrade, Op::Release],
                &[Op::AcquireUpgradable, Op::Release],
            ],
            3,
            full_lane_downgrade,
        ),
    ]
}

/// Two leaves of one segment, below one node.
fn tree() -> SrlTree {
    let shape = Shape::new(1, &[1, 1]).expect("levels of one bit");
    SrlTree::with_shape(4, &shape).expect("covered")
}

/// Adds one to the first position, under a hold of it.
fn write(lock: &SrlTree, data: &Data) {
    let hold = lock.write(0..1).expect("in range");
    perform(Op::AcquireExclusive);
    data.add_one(&(0..1));
    drop(hold);
    perform(Op::Release);
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

/// The leaf is there, and free, when both begin: main gives it back while the other takes it; afterwards it takes it too.
fn reclamation() {
    let shared = Arc::new((tree(), Data::new()));
    drop(shared.0.write(0..1).expect("in range"));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || write(&shared.0, &shared.1))
    };
    let freed = shared.0.shrink();
    perform(Op::Reclaim);
    note(0, if freed > 0 { "freed" } else { "in use" });
    other.join().expect("gets a leaf");
    write(&shared.0, &shared.1);
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
            let hold = lock.read(0..1).expect("in range");
            perform(Op::AcquireShared);
            drop(hold);
            perform(Op::Release);
            note(1, "read");
        })
    };
    drop(readers.pop());
    perform(Op::Release);
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
            let hold = lock.upgradable_read(0..1).expect("in range");
            perform(Op::AcquireUpgradable);
            drop(hold);
            perform(Op::Release);
            note(1, "read");
        })
    };
    let reader = upgradable.downgrade();
    perform(Op::Downgrade);
    drop(readers.pop());
    perform(Op::Release);
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

    fn lock(&self, first: u32, end: u32, access: Access) {
        self.run(first, end).lock(access, &self.queue);
        perform(Op::acquire(access));
    }

    /// # Safety
    /// These lanes are held so.
    unsafe fn unlock(&self, first: u32, end: u32, access: Access) {
        // SAFETY: the caller's promise.
        unsafe { self.run(first, end).unlock(access, &self.queue) };
        perform(Op::Release);
    }

    /// Holds lanes and uses the cell.
    fn use_it(&self, me: usize, first: u32, end: u32, access: Access) {
        self.lock(first, end, access);
        if access == Access::Write {
            self.add_one();
        } else {
            self.look(me);
        }
        // SAFETY: held just now.
        unsafe { self.unlock(first, end, access) };
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
    shared.lock(1, 2, Access::Write);
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.add_one();
            // SAFETY: held by main until now, and not given back there.
            unsafe { shared.unlock(1, 2, Access::Write) };
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
            shared.lock(1, 2, Access::Upgradable);
            shared.look(1);
            // SAFETY: held just now.
            unsafe { shared.unlock(1, 2, Access::Upgradable) };
        })
    };
    shared.lock(0, 2, Access::Write);
    shared.add_one();
    let run = shared.run(0, 2);
    // SAFETY: held with the first of each two.
    unsafe { run.downgrade(Access::Write, Access::Read, &shared.queue) };
    perform(Op::Downgrade);
    thread.join().expect("gets in beside a reader");
    // SAFETY: held so.
    unsafe { shared.unlock(0, 2, Access::Read) };
}

fn packed_upgrade() {
    let shared = Packed::new();
    let upgrade = |shared: &Packed, me| {
        shared.lock(1, 2, Access::Read);
        shared.look(me);
        // SAFETY: held so.
        let upgraded = unsafe { shared.run(1, 2).try_upgrade(Access::Read) };
        perform(Op::TryUpgrade);
        if upgraded {
            shared.add_one();
        }
        let access = if upgraded {
            Access::Write
        } else {
            Access::Read
        };
        // SAFETY: held so.
        unsafe { shared.unlock(1, 2, access) };
    };
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || upgrade(&shared, 1))
    };
    upgrade(&shared, 0);
    thread.join().expect("neither waits");
}
