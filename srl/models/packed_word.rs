//! The packed word alone. In the packed lock, the gate would hide a wrong memory ordering of the
//! word.

use std::ops::Range;
use std::sync::Arc;

use spanlock_range_lock::{Access, words};
use spanlock_srl::PackedWord;
use spanlock_srl::packed::MAX_READERS;
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;
use spanlock_sync::wait::WaitQueue;
use spanlock_testkit::models::{self, acquire};
use spanlock_testkit::primitive;
use spanlock_verify::{Program, Suite, note_as, perform};

use super::bare::Bare;

/// The number of lanes of a packed word.
const LANES: u32 = <PackedWord as words::Word>::LANES;

/// Every program of the packed word.
pub(crate) fn suite() -> Suite {
    let word = primitive!("packed-word", Bare::new(); wait, downgrade, upgrade);
    let word = word.granular().readers(MAX_READERS as usize);
    let suite = Suite::new("packed-word")
        .step_bound(64)
        .programs(programs())
        .programs(models::words::programs(PackedWord::new));
    models::with_pairs(&Arc::new(word), suite)
}

fn programs() -> Vec<Program> {
    let program = |name, claim, performs: [&[&str]; 2], run: fn()| {
        let performs = performs.map(|ops| ops.iter().copied());
        let program = Program::new(name, claim).performs(performs);
        program.operations(2).run(run)
    };
    let write: &[&str] = &["acquire-exclusive", "release"];
    let read: &[&str] = &["acquire-shared", "release"];
    let upgrade: &[&str] = &["acquire-shared", "try-upgrade", "release"];
    vec![
        program(
            "exclusion",
            "two writers of overlapping lanes exclude each other, and the second sees what the \
             first wrote",
            [write, write],
            || packed_word(0..2, Access::Write),
        ),
        program(
            "exclusion-read-write",
            "a reader and a writer of overlapping lanes exclude each other",
            [write, read],
            || packed_word(0..2, Access::Read),
        ),
        program(
            "exclusion-whole-word",
            "a writer of all lanes, which releases them by a store, excludes a writer of some lanes",
            [write, write],
            || packed_word(0..LANES, Access::Write),
        ),
        program(
            "look",
            "a thread that reads a lane and finds it free sees what was done under the last hold",
            [&[], &["release"]],
            packed_look,
        ),
        program(
            "downgrade",
            "a request that a downgrade admits sees what was done under the hold",
            [
                &["acquire-exclusive", "downgrade"],
                &["acquire-upgradable", "release"],
            ],
            packed_downgrade,
        ),
        program(
            "upgrade",
            "at most one of two readers of a lane upgrades, and that reader sees what the other did",
            [upgrade, upgrade],
            packed_upgrade,
        ),
    ]
}

/// A packed word, its queue, and a cell that lane 1 protects.
struct Packed {
    word: PackedWord,
    queue: WaitQueue,
    cell: UnsafeCell<u32>,
}

// SAFETY: the cell is accessed under a hold of lane 1. Loom checks that this suffices.
unsafe impl Sync for Packed {}
// SAFETY: the cell holds a plain number.
unsafe impl Send for Packed {}

impl Packed {
    fn new() -> Arc<Self> {
        Arc::new(Packed {
            word: PackedWord::new(),
            queue: WaitQueue::new(),
            cell: UnsafeCell::new(0),
        })
    }

    fn run(&self, first: u32, end: u32) -> words::Run<'_, PackedWord> {
        words::Run::new(&self.word, first, end)
    }

    fn add_one(&self) {
        // SAFETY: the caller holds lane 1 exclusively. Loom checks that no other thread accesses
        // it.
        self.cell.with_mut(|cell| unsafe { *cell += 1 });
    }

    fn look(&self, me: usize) {
        // SAFETY: the caller holds lane 1.
        let seen = self.cell.with(|cell| unsafe { *cell });
        note_as(me, format!("{seen}"));
    }

    fn lock(&self, first: u32, end: u32, access: Access) {
        self.run(first, end).lock(access, &self.queue);
        perform(acquire(access));
    }

    /// # Safety
    /// The caller holds these lanes with `access`.
    unsafe fn unlock(&self, first: u32, end: u32, access: Access) {
        // SAFETY: the caller's promise.
        unsafe { self.run(first, end).unlock(access, &self.queue) };
        perform("release");
    }

    /// Acquires lanes, accesses the cell, and releases the lanes.
    fn use_it(&self, me: usize, first: u32, end: u32, access: Access) {
        self.lock(first, end, access);
        if access == Access::Write {
            self.add_one();
        } else {
            self.look(me);
        }
        // SAFETY: the lanes were acquired above.
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
    thread.join().expect("is granted");
    shared.use_it(0, 0, LANES, Access::Read);
}

/// The other thread releases the lane, and no thread acquires it again. So the main thread may
/// access the cell once it sees the lane free.
fn packed_look() {
    let shared = Packed::new();
    shared.lock(1, 2, Access::Write);
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.add_one();
            // SAFETY: the main thread acquired the lane, and does not release it.
            unsafe { shared.unlock(1, 2, Access::Write) };
        })
    };
    let free = shared.run(0, 2).is_free(Access::Write);
    note_as(0, if free { "free" } else { "held" });
    if free {
        shared.add_one();
    }
    thread.join().expect("releases the lane");
}

/// The main thread writes, then downgrades to a reader. This admits the upgradable request of the
/// other thread.
fn packed_downgrade() {
    let shared = Packed::new();
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.lock(1, 2, Access::Upgradable);
            shared.look(1);
            // SAFETY: the lanes were acquired above.
            unsafe { shared.unlock(1, 2, Access::Upgradable) };
        })
    };
    shared.lock(0, 2, Access::Write);
    shared.add_one();
    let run = shared.run(0, 2);
    // SAFETY: the lanes are held with `Write`.
    unsafe { run.downgrade(Access::Write, Access::Read, &shared.queue) };
    perform("downgrade");
    thread.join().expect("is granted beside a reader");
    // SAFETY: the lanes are held with this access.
    unsafe { shared.unlock(0, 2, Access::Read) };
}

fn packed_upgrade() {
    let shared = Packed::new();
    let upgrade = |shared: &Packed, me| {
        shared.lock(1, 2, Access::Read);
        shared.look(me);
        // SAFETY: the lanes are held with this access.
        let upgraded = unsafe { shared.run(1, 2).try_upgrade(Access::Read) };
        perform("try-upgrade");
        if upgraded {
            shared.add_one();
        }
        let access = if upgraded {
            Access::Write
        } else {
            Access::Read
        };
        // SAFETY: the lanes are held with this access.
        unsafe { shared.unlock(1, 2, access) };
    };
    let thread = {
        let shared = shared.clone();
        thread::spawn(move || upgrade(&shared, 1))
    };
    upgrade(&shared, 0);
    thread.join().expect("a thread panicked");
}
