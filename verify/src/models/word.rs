//! The reader-writer word by itself: what only its own face can show, giving up at a deadline and the bound on overtaking.

use std::sync::Arc;
use std::time::Instant;

use spanlock_range_lock::rw_word::MAX_READERS;
use spanlock_range_lock::words::MAX_PASSES;
use spanlock_range_lock::{Access, RwWord};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;
use spanlock_sync::wait::WaitQueue;

use crate::pairs::Operation::{self, *};
use crate::program::{Fault, FaultKind, Program, Run};
use crate::trace::{self, note, perform};

/// The first sleep of the thread that is started first.
const GIVES_UP: &[Fault] = &[Fault::new(FaultKind::TimeOut, 1, 0)];

/// Every property of the word.
pub fn programs() -> Vec<Program> {
    let program = |property, claim, performs: &[&[Operation]], operations, run: fn()| Program {
        primitive: "rw-word",
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
            "bounded-overtaking",
            "a waiting writer is passed by at most MAX_PASSES readers, though a reader holds all the time",
            &[&[Try, Release], &[AcquireExclusive, Release]],
            5,
            bounded_overtaking,
        ),
        program(
            "full-count",
            "a reader for whom the count has no room waits, and gets in when one of the others leaves",
            &[&[Release], &[AcquireShared, Release]],
            4,
            full_count,
        ),
        program(
            "downgrade",
            "what a writer wrote is seen by the readers that its downgrade lets in, and no writer gets between",
            &[&[Downgrade, Release], &[AcquireShared, Release]],
            2,
            downgrade,
        ),
        program(
            "downgrade-upgradable",
            "what was done under an upgradable hold is seen under the next, though the first goes on as a reader",
            &[
                &[AcquireUpgradable, Downgrade, Release],
                &[AcquireUpgradable, Downgrade, Release],
            ],
            4,
            downgrade_upgradable,
        ),
        program(
            "upgrade",
            "of two readers at most one becomes the writer, and nobody writes between its read and its write",
            &[
                &[AcquireShared, TryUpgrade, Release],
                &[AcquireUpgradable, TryUpgrade, Release],
            ],
            4,
            upgrade,
        ),
        program(
            "queued-readers-share",
            "of two readers that waited for a writer, neither waits for the other",
            &[
                &[Release],
                &[AcquireShared, Release],
                &[AcquireShared, Release],
            ],
            3,
            queued_readers_share,
        ),
        program(
            "give-up",
            "a deadline that passes leaves no trace: no hold, no waiter",
            &[&[AcquireExclusive, Release], &[Deadline, Release]],
            2,
            give_up,
        ),
        Program {
            faults: GIVES_UP,
            ..program(
                "give-up-reader",
                "a waiting reader that gives up grants nothing to another while the writer holds",
                &[
                    &[AcquireExclusive, Release],
                    &[Deadline, Release],
                    &[AcquireShared, Release],
                ],
                3,
                give_up_reader,
            )
        },
        Program {
            // Without its giving up they rightly wait for each other.
            faults: GIVES_UP,
            ..program(
                "give-up-writer",
                "a waiting writer that gives up lets in the readers whom only it held back",
                &[&[Release], &[Deadline], &[AcquireShared, Release]],
                4,
                give_up_writer,
            )
        },
    ]
}

/// A word, its queue, and a cell that the holds protect.
struct Guarded {
    word: RwWord,
    queue: WaitQueue,
    data: UnsafeCell<u32>,
}

// SAFETY: the cell is accessed under a hold of the word only; that this suffices is what loom checks.
unsafe impl Sync for Guarded {}
// SAFETY: a cell with a plain number.
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
        perform(Operation::acquire(access));
    }

    /// The deadline's value is of no account under a checker: it passes if the fault plan says so.
    fn lock_until(&self, access: Access) -> bool {
        let run = self.word.run();
        let taken = run.lock_until(access, &self.queue, Instant::now());
        perform(Deadline);
        taken
    }

    /// # Safety
    /// The caller holds the word with `from`, and it is not `Read`.
    unsafe fn downgrade(&self, from: Access) {
        // SAFETY: the caller's promise.
        unsafe { self.word.run().downgrade(from, Access::Read, &self.queue) }
        perform(Downgrade);
    }

    /// Touches the data and gives the hold back.
    fn use_and_unlock(&self, me: usize, access: Access) {
        match access {
            // SAFETY: the caller holds the word as a writer.
            Access::Write => self.data.with_mut(|data| unsafe { *data += 1 }),
            Access::Read | Access::Upgradable => {
                // SAFETY: the caller holds the word as a reader.
                let read = self.data.with(|data| unsafe { *data });
                note(me, format!("read={read}"));
            }
        }
        self.unlock(access);
    }

    fn unlock(&self, access: Access) {
        // SAFETY: every caller holds the word with `access`.
        unsafe { self.word.run().unlock(access, &self.queue) }
        perform(Release);
    }

    /// Nobody holds, nobody waits.
    fn assert_free(&self) {
        assert!(
            !self.word.run().has_waiters(&self.queue),
            "the queue is left marked, though nobody stands in it"
        );
        assert!(
            self.word.run().try_lock(Access::Write, &self.queue),
            "a hold is left behind"
        );
        self.unlock(Access::Write);
    }
}

/// The reader's holds overlap, so the writer gets in only because the door shuts.
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
        let waited_for = shared.queue.is_occupied(address);
        perform(Try);
        let passed = shared.word.run().try_lock(Access::Read, &shared.queue);
        if waited_for {
            passes += u32::from(passed);
            trace::pass(passed, passes, MAX_PASSES);
        }
        if !passed {
            break;
        }
        shared.unlock(Access::Read);
    }
    note(0, format!("passes={passes}"));
    shared.use_and_unlock(0, Access::Read);
    writer.join().expect("the writer gets in");
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
    one_more.join().expect("gets in beside the others");
    for _ in 1..MAX_READERS {
        shared.unlock(Access::Read);
    }
    shared.assert_free();
}

/// Main writes and goes on as a reader. The other, a reader, must see what it wrote, and may be in beside it: main
/// holds on until it was.
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
    // SAFETY: main holds the word exclusively.
    shared.data.with_mut(|data| unsafe { *data += 1 });
    // SAFETY: as above.
    unsafe { shared.downgrade(Access::Write) };
    reader.join().expect("gets in beside main");
    shared.use_and_unlock(0, Access::Read);
    shared.assert_free();
}

/// The cell is what upgradable holds exclude each other from.
fn downgrade_upgradable() {
    let shared = Guarded::new();
    let other = {
        let shared = shared.clone();
        thread::spawn(move || add_one_and_read_on(&shared, 1))
    };
    add_one_and_read_on(&shared, 0);
    other.join().expect("neither waits for ever");
    shared.assert_free();
}

fn add_one_and_read_on(shared: &Guarded, me: usize) {
    shared.lock(Access::Upgradable);
    // SAFETY: no other upgradable hold is there, and plain readers leave the cell alone here.
    let count = shared.data.with_mut(|data| unsafe {
        *data += 1;
        *data
    });
    note(me, format!("{count}"));
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
    upgraded += other.join().expect("neither waits for ever");
    shared.lock(Access::Read);
    // SAFETY: main reads.
    let data = shared.data.with(|data| unsafe { *data });
    assert_eq!(
        data, upgraded,
        "an upgrade that succeeded did not write, or one that failed did"
    );
    shared.unlock(Access::Read);
    shared.assert_free();
}

/// 1 if the upgrade succeeded.
fn read_and_upgrade(shared: &Guarded, me: usize, from: Access) -> u32 {
    shared.lock(from);
    // SAFETY: held as a reader.
    let before = shared.data.with(|data| unsafe { *data });
    perform(TryUpgrade);
    // SAFETY: held with `from`.
    if !unsafe { shared.word.run().try_upgrade(from) } {
        note(me, "shared");
        shared.unlock(from);
        return 0;
    }
    // SAFETY: held exclusively.
    let now = shared.data.with(|data| unsafe { *data });
    assert_eq!(now, before, "somebody wrote between the read and the write");
    note(me, format!("upgraded={before}"));
    shared.use_and_unlock(me, Access::Write);
    1
}

/// One reader holds until the other has been in. The writer holds from the start, so neither can be
/// behind a writer that waits.
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
            second.join().expect("gets in beside the first");
            shared.use_and_unlock(1, Access::Read);
        })
    };
    shared.use_and_unlock(0, Access::Write);
    first.join().expect("gets in after the writer");
    shared.assert_free();
}

fn give_up() {
    let shared = Guarded::new();
    let other = {
        let shared = shared.clone();
        thread::spawn(move || {
            let taken = shared.lock_until(Access::Write);
            note(1, if taken { "taken" } else { "gave up" });
            if taken {
                shared.use_and_unlock(1, Access::Write);
            }
        })
    };
    shared.lock(Access::Write);
    shared.use_and_unlock(0, Access::Write);
    other.join().expect("neither waits for ever");
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
    impatient.join().expect("gets in, or gives up");
    patient.join().expect("gets in");
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
            // The first may go past the writer; the door is shut for the second.
            for _ in 0..=MAX_PASSES {
                shared.lock(Access::Read);
                shared.use_and_unlock(2, Access::Read);
            }
        })
    };
    // While main reads, only the writer's giving up can let the reader in.
    reader.join().expect("gets in beside main");
    shared.use_and_unlock(0, Access::Read);
    writer.join().expect("gets in, or gives up");
    shared.assert_free();
}
