//! The reader-writer word by itself: deadlines, the bound on overtaking, the full reader count. The
//! programs of `rw-counter`, which consists of one word, cover everything else.

use std::sync::Arc;
use std::time::Instant;

use spanlock_range_lock::rw_word::MAX_READERS;
use spanlock_range_lock::words::MAX_PASSES;
use spanlock_range_lock::{Access, RwWord};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{barrier, thread};
use spanlock_testkit::models::{self, acquire, words};
use spanlock_verify::{
    Fault, FaultKind, Program, Suite, note_as, overtake, perform, refuse_barriers,
};

/// A timeout: the first sleep of the first spawned thread ends at its deadline.
const TIMES_OUT: Fault = Fault::new(FaultKind::TimeOut, 1, 0);

/// The protocol of the word and its queue.
const PROMELA: &str = "models/promela/rw_word.pml";
const BUGS: &[&str] = &[
    "NO_RECHECK",
    "NO_REARM_CHECK",
    "NO_SETTLE",
    "NO_AGING",
    "NO_WAKE",
    "LOOK_FIRST",
];

/// Every program of the word.
pub(crate) fn suite() -> Suite {
    Suite::new("rw-word")
        .part_of("rw-counter")
        .operations([
            "acquire-shared",
            "acquire-upgradable",
            "acquire-exclusive",
            "try",
            "deadline",
            "poll",
            "cancel",
            "release",
            "downgrade",
            "try-upgrade",
        ])
        .programs(programs())
        .programs(words::programs(RwWord::new))
        .program(granted())
        .check("promela", || models::promela::check(PROMELA, BUGS))
}

/// The protocol with threads that go on for ever.
fn granted() -> Program {
    Program::new(
        "granted",
        "every waiting reader and writer is granted, whatever the other threads do for ever, if \
         no thread stops",
    )
    .threads(3)
    .promela(PROMELA, BUGS)
}

fn programs() -> Vec<Program> {
    let program = |name, claim, performs: &[&[&str]], operations, run: fn()| {
        let performs = performs.iter().map(|ops| ops.iter().copied());
        let program = Program::new(name, claim).performs(performs);
        program.operations(operations).run(run)
    };
    vec![
        program(
            "bounded-overtaking",
            "at most MAX_PASSES readers overtake a waiting writer, though a reader holds all the \
             time",
            &[&["try", "release"], &["acquire-exclusive", "release"]],
            5,
            bounded_overtaking,
        ),
        program(
            "refused-barrier",
            "a waiter to which the system refuses the heavy barrier is granted, although nobody \
             may wake it",
            &[
                &["acquire-exclusive", "release"],
                &["acquire-exclusive", "release"],
            ],
            4,
            refused_barrier,
        ),
        program(
            "full-count",
            "a reader waits while the count has no room for it, and is granted when another leaves",
            &[&["release"], &["acquire-shared", "release"]],
            4,
            full_count,
        ),
        program(
            "downgrade",
            "the readers that a downgrade lets in see the writes, and no writer gets between",
            &[&["downgrade", "release"], &["acquire-shared", "release"]],
            2,
            downgrade,
        ),
        program(
            "downgrade-upgradable",
            "an upgradable hold sees what was done under the one before, which goes on as a reader",
            &[
                &["acquire-upgradable", "downgrade", "release"],
                &["acquire-upgradable", "downgrade", "release"],
            ],
            4,
            downgrade_upgradable,
        ),
        program(
            "upgrade",
            "of two readers at most one upgrades, and no write comes between its read and its \
             write",
            &[
                &["acquire-shared", "try-upgrade", "release"],
                &["acquire-upgradable", "try-upgrade", "release"],
            ],
            4,
            upgrade,
        ),
        program(
            "queued-readers-share",
            "of two readers that waited for a writer, neither waits for the other",
            &[
                &["release"],
                &["acquire-shared", "release"],
                &["acquire-shared", "release"],
            ],
            3,
            queued_readers_share,
        ),
        program(
            "give-up",
            "a deadline that passes leaves neither a hold nor a waiter",
            &[&["acquire-exclusive", "release"], &["deadline", "release"]],
            2,
            give_up,
        ),
        program(
            "give-up-reader",
            "a waiting reader that times out lets no other reader in while the writer holds",
            &[
                &["acquire-exclusive", "release"],
                &["deadline", "release"],
                &["acquire-shared", "release"],
            ],
            3,
            give_up_reader,
        )
        .fault(TIMES_OUT),
        // Without the fault the threads rightly wait for each other.
        program(
            "give-up-writer",
            "a waiting writer that times out lets in the readers that only it blocked",
            &[&["release"], &["deadline"], &["acquire-shared", "release"]],
            4,
            give_up_writer,
        )
        .fault(TIMES_OUT),
    ]
}

/// A word, its queue, and a cell that the holds protect.
struct Guarded {
    word: RwWord,
    queue: WaitQueue,
    data: UnsafeCell<u32>,
}

// SAFETY: the cell is accessed under a hold of the word only. Loom checks that this suffices.
unsafe impl Sync for Guarded {}
// SAFETY: the cell holds a plain number.
unsafe impl Send for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Guarded {
            word: RwWord::new(),
            queue: WaitQueue::new(),
            data: UnsafeCell::new(0),
        })
    }

    fn lock(&self, access: Access) {
        self.word.run().lock(access, &self.queue);
        perform(acquire(access));
    }

    /// Under a checker, the deadline passes only as a fault, whatever its value is.
    fn lock_until(&self, access: Access) -> bool {
        let run = self.word.run();
        let taken = run.lock_until(access, &self.queue, Instant::now());
        perform("deadline");
        taken
    }

    /// # Safety
    /// The caller holds the word with `from`, and it is not `Read`.
    unsafe fn downgrade(&self, from: Access) {
        // SAFETY: the caller's promise, word for word.
        unsafe { self.word.run().downgrade(from, Access::Read, &self.queue) }
        perform("downgrade");
    }

    /// Accesses the data and releases the hold.
    fn use_and_unlock(&self, me: usize, access: Access) {
        match access {
            // SAFETY: the caller holds the word as a writer.
            Access::Write => self.data.with_mut(|data| unsafe { *data += 1 }),
            Access::Read | Access::Upgradable => {
                // SAFETY: the caller holds the word as a reader.
                let read = self.data.with(|data| unsafe { *data });
                note_as(me, format!("read={read}"));
            }
        }
        self.unlock(access);
    }

    fn unlock(&self, access: Access) {
        // SAFETY: every caller holds the word with `access`.
        unsafe { self.word.run().unlock(access, &self.queue) }
        perform("release");
    }

    /// Asserts that there is neither a hold nor a waiter.
    fn assert_free(&self) {
        assert!(
            !self.word.run().has_waiters(&self.queue),
            "the queue is still marked, though it is empty"
        );
        assert!(
            self.word.run().try_lock(Access::Write, &self.queue),
            "a hold was not released"
        );
        self.unlock(Access::Write);
    }
}

/// The reader's holds overlap, so the writer is granted only because overtaking is bounded.
fn bounded_overtaking() {
    const ROUNDS: u32 = MAX_PASSES + 1;
    let shared = Guarded::new();
    shared.lock(Access::Read);
    let writer = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.lock(Access::Write);
            shared.use_and_unlock(1, Access::Write);
        })
    };
    let address = std::ptr::from_ref(&shared.word).addr();
    let mut passes = 0;
    for _ in 0..ROUNDS {
        // Loom explores the order of two loads of one atomic only if a fence comes between.
        barrier::light();
        let waited_for = shared.queue.may_be_occupied() && shared.queue.is_this_occupied(address);
        perform("try");
        let passed = shared.word.run().try_lock(Access::Read, &shared.queue);
        if waited_for {
            passes += u32::from(passed);
            overtake(passed, passes, MAX_PASSES);
        }
        if !passed {
            break;
        }
        shared.unlock(Access::Read);
    }
    note_as(0, format!("passes={passes}"));
    shared.use_and_unlock(0, Access::Read);
    writer.join().expect("the writer is granted");
    shared.assert_free();
}

fn full_count() {
    let shared = Guarded::new();
    for _ in 0..MAX_READERS {
        shared.lock(Access::Read);
    }
    let one_more = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.lock(Access::Read);
            shared.use_and_unlock(1, Access::Read);
        })
    };
    shared.unlock(Access::Read);
    one_more.join().expect("is granted beside the others");
    for _ in 1..MAX_READERS {
        shared.unlock(Access::Read);
    }
    shared.assert_free();
}

/// The main thread writes and goes on as a reader, until the other thread has read beside it. The
/// other thread must see the write.
fn downgrade() {
    let shared = Guarded::new();
    shared.lock(Access::Write);
    let reader = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.lock(Access::Read);
            shared.use_and_unlock(1, Access::Read);
        })
    };
    // SAFETY: the main thread holds the word exclusively.
    shared.data.with_mut(|data| unsafe { *data += 1 });
    // SAFETY: as above.
    unsafe { shared.downgrade(Access::Write) };
    reader.join().expect("is granted beside the main thread");
    shared.use_and_unlock(0, Access::Read);
    shared.assert_free();
}

/// Upgradable holds protect the cell from each other.
fn downgrade_upgradable() {
    let shared = Guarded::new();
    let other = {
        let shared = shared.clone();
        thread::spawn(move || add_one_and_read_on(&shared, 1))
    };
    add_one_and_read_on(&shared, 0);
    other.join().expect("a thread panicked");
    shared.assert_free();
}

fn add_one_and_read_on(shared: &Guarded, me: usize) {
    shared.lock(Access::Upgradable);
    // SAFETY: there is no other upgradable hold, and plain readers do not access the cell here.
    let count = shared.data.with_mut(|data| unsafe {
        *data += 1;
        *data
    });
    note_as(me, format!("{count}"));
    // SAFETY: held as an upgradable reader.
    unsafe { shared.downgrade(Access::Upgradable) };
    shared.unlock(Access::Read);
}

fn upgrade() {
    let shared = Guarded::new();
    let other = {
        let shared = shared.clone();
        thread::spawn(move || read_and_upgrade(&shared, 1, Access::Upgradable))
    };
    let mut upgraded = read_and_upgrade(&shared, 0, Access::Read);
    upgraded += other.join().expect("a thread panicked");
    shared.lock(Access::Read);
    // SAFETY: the main thread holds the word as a reader.
    let data = shared.data.with(|data| unsafe { *data });
    assert_eq!(
        data, upgraded,
        "an upgrade that succeeded did not write, or one that failed did"
    );
    shared.unlock(Access::Read);
    shared.assert_free();
}

/// Returns 1 if the upgrade succeeded, otherwise 0.
fn read_and_upgrade(shared: &Guarded, me: usize, from: Access) -> u32 {
    shared.lock(from);
    // SAFETY: held as a reader.
    let before = shared.data.with(|data| unsafe { *data });
    perform("try-upgrade");
    // SAFETY: held with `from`.
    if !unsafe { shared.word.run().try_upgrade(from) } {
        note_as(me, "shared");
        shared.unlock(from);
        return 0;
    }
    // SAFETY: held exclusively.
    let now = shared.data.with(|data| unsafe { *data });
    assert_eq!(
        now, before,
        "another thread wrote between the read and the write"
    );
    note_as(me, format!("upgraded={before}"));
    shared.use_and_unlock(me, Access::Write);
    1
}

/// One reader holds until the other has read. The writer holds from the start, so neither reader
/// can queue behind a waiting writer.
fn queued_readers_share() {
    let shared = Guarded::new();
    shared.lock(Access::Write);
    let first = {
        let shared = shared.clone();
        thread::spawn(move || {
            let second = {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.lock(Access::Read);
                    shared.use_and_unlock(2, Access::Read);
                })
            };
            shared.lock(Access::Read);
            second.join().expect("is granted beside the first");
            shared.use_and_unlock(1, Access::Read);
        })
    };
    shared.use_and_unlock(0, Access::Write);
    first.join().expect("is granted after the writer");
    shared.assert_free();
}

fn give_up() {
    let shared = Guarded::new();
    let other = {
        let shared = shared.clone();
        thread::spawn(move || {
            let taken = shared.lock_until(Access::Write);
            note_as(1, if taken { "taken" } else { "gave up" });
            if taken {
                shared.use_and_unlock(1, Access::Write);
            }
        })
    };
    shared.lock(Access::Write);
    shared.use_and_unlock(0, Access::Write);
    other.join().expect("a thread panicked");
    shared.assert_free();
}

fn refused_barrier() {
    let shared = Guarded::new();
    let refused = {
        let shared = shared.clone();
        thread::spawn(move || {
            refuse_barriers(0..u32::MAX);
            shared.lock(Access::Write);
            shared.use_and_unlock(1, Access::Write);
        })
    };
    shared.lock(Access::Write);
    shared.use_and_unlock(0, Access::Write);
    refused.join().expect("is granted");
    shared.assert_free();
}

fn give_up_reader() {
    let shared = Guarded::new();
    let impatient = {
        let shared = shared.clone();
        thread::spawn(move || {
            if shared.lock_until(Access::Read) {
                shared.use_and_unlock(1, Access::Read);
            }
        })
    };
    let patient = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.lock(Access::Read);
            shared.use_and_unlock(2, Access::Read);
        })
    };
    shared.lock(Access::Write);
    shared.use_and_unlock(0, Access::Write);
    impatient.join().expect("is granted, or times out");
    patient.join().expect("is granted");
    shared.assert_free();
}

fn give_up_writer() {
    let shared = Guarded::new();
    shared.lock(Access::Read);
    let writer = {
        let shared = shared.clone();
        thread::spawn(move || {
            if shared.lock_until(Access::Write) {
                shared.use_and_unlock(1, Access::Write);
            }
        })
    };
    let reader = {
        let shared = shared.clone();
        thread::spawn(move || {
            // The first read may overtake the writer; the second one exceeds the bound.
            for _ in 0..=MAX_PASSES {
                shared.lock(Access::Read);
                shared.use_and_unlock(2, Access::Read);
            }
        })
    };
    // While the main thread reads, the reader is granted only because the writer times out.
    reader.join().expect("is granted beside the main thread");
    shared.use_and_unlock(0, Access::Read);
    writer.join().expect("is granted, or times out");
    shared.assert_free();
}
