//! Properties of a lock's optional capabilities: changing a hold, polling a request, and locking
//! several ranges in one call.
//!
//! As in [`super::lock`], each property is written once for every lock that has the capability.
//! `steps.rs` defines the steps.

use std::sync::Arc;

use spanlock_range_lock::Access::{Read, Upgradable, Write};
use spanlock_verify::Program;

use super::steps::{Step, Step::*, performs, workers};
use super::{Capabilities, Primitive};

/// A property of locks with a given capability, and the steps that check it.
struct Model {
    property: &'static str,
    claim: &'static str,
    /// Returns whether a lock has the capability.
    has: fn(&Capabilities) -> bool,
    /// As in [`super::lock`].
    granular: bool,
    /// The steps that the main thread performs before the others begin.
    first: &'static [&'static Step],
    /// The steps of each thread, the main thread first.
    threads: &'static [&'static [Step]],
}

const MODELS: &[Model] = &[
    Model {
        property: "downgrade-writer",
        claim: "no writer is admitted during a downgrade: the thread still reads its own write",
        has: |it| it.downgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..2, Write), Downgrade, Unlock],
            &[Lock(1..3, Write), Unlock],
        ],
    },
    Model {
        property: "downgrade-reader",
        claim: "a downgrade wakes readers: they see the writes while the downgraded hold lasts",
        has: |it| it.downgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..2, Write), Downgrade, Join, Unlock],
            &[Lock(1..3, Read), Unlock],
        ],
    },
    Model {
        property: "downgrade-upgradable",
        claim: "a downgrade from upgradable to shared wakes the next upgradable request",
        has: |it| it.downgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..2, Upgradable), Downgrade, Join, Unlock],
            &[Lock(1..3, Upgradable), Unlock],
        ],
    },
    Model {
        property: "upgrade-readers",
        claim: "of two readers at most one upgrades, and no write comes between its read and its \
                write",
        has: |it| it.upgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..1, Read), TryUpgrade, Unlock],
            &[Lock(0..1, Upgradable), TryUpgrade, Unlock],
        ],
    },
    Model {
        property: "upgrade-writer",
        claim: "no write comes between an upgradable read and the write after its upgrade",
        has: |it| it.upgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..2, Upgradable), TryUpgrade, Unlock],
            &[Try(1..3, Write)],
        ],
    },
    Model {
        property: "upgrade-waits",
        claim: "an upgrade is granted when the readers have released, and excludes later readers",
        has: |it| it.upgrade_wait,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..2, Upgradable), Upgrade, Unlock],
            &[Lock(1..3, Read), Unlock],
        ],
    },
    Model {
        property: "upgrade-poll",
        claim: "a polled upgrade is woken when the readers have released, and excludes later readers",
        has: |it| it.upgrade_wait,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..2, Upgradable), AwaitUpgrade, Unlock],
            &[Lock(1..3, Read), Unlock],
        ],
    },
    Model {
        property: "upgrade-cancel",
        claim: "cancelling a waiting upgrade admits a reader that only the upgrade kept out",
        has: |it| it.upgrade_wait,
        granular: false,
        first: &[&Lock(0..1, Read), &Lock(0..2, Upgradable)],
        threads: &[
            &[CancelUpgrade, Join, Unlock, Unlock],
            &[Lock(1..2, Read), Unlock],
        ],
    },
    Model {
        property: "poll",
        claim: "a polled request is woken when it can be granted",
        has: |it| it.wait,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..2, Write), Unlock],
            &[Request(1..3, Write), Await, Unlock],
        ],
    },
    Model {
        property: "cancel",
        claim: "a cancelled request leaves no trace, even if it was granted beforehand",
        has: |it| it.wait,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(1..2, Write), Unlock],
            &[Request(0..2, Write), Cancel],
        ],
    },
    Model {
        property: "cancel-shared",
        claim: "a cancelled shared request leaves no trace",
        has: |it| it.wait,
        granular: false,
        first: &[],
        threads: &[&[Lock(1..2, Write), Unlock], &[Request(0..2, Read), Cancel]],
    },
    Model {
        property: "cancel-reader",
        claim: "cancelling a waiting reader does not admit another reader while the writer holds",
        has: |it| it.wait,
        granular: false,
        first: &[],
        threads: &[
            &[
                Lock(0..2, Write),
                Request(0..2, Read),
                Cancel,
                WriteAgain,
                Unlock,
            ],
            &[Lock(1..3, Read), Unlock],
        ],
    },
    Model {
        property: "cancel-writer",
        claim: "cancelling a waiting writer admits a reader that only this writer blocked",
        has: |it| it.wait,
        granular: false,
        first: &[],
        threads: &[
            &[Lock(0..2, Read), Request(0..2, Write), Cancel, Join, Unlock],
            &[Lock(1..3, Read), Unlock],
        ],
    },
    Model {
        property: "shrink-wakes",
        claim: "a shrink wakes the waiters for the released part while the kept part stays held",
        has: |it| it.split,
        granular: true,
        first: &[&Lock(0..2, Write)],
        threads: &[&[Shrink(0..1), Join, Unlock], &[Lock(1..2, Write), Unlock]],
    },
    Model {
        property: "shrink-keeps",
        claim: "a shrink holds the kept part throughout: no waiter for that part is granted",
        has: |it| it.split,
        granular: true,
        first: &[&Lock(0..2, Write)],
        threads: &[&[Shrink(1..2), Unlock], &[Lock(1..2, Write), Unlock]],
    },
    Model {
        property: "split-wakes",
        claim: "releasing one part of a split hold wakes its waiters while the other stays held",
        has: |it| it.split,
        granular: true,
        first: &[&Lock(0..2, Write)],
        threads: &[
            &[Split(1), Unlock, Join, Unlock],
            &[Lock(1..2, Write), Unlock],
        ],
    },
    Model {
        property: "split-keeps",
        claim: "releasing one part of a split hold grants no waiter for the other part",
        has: |it| it.split,
        granular: true,
        first: &[&Lock(0..2, Write)],
        threads: &[&[Split(1), Unlock, Unlock], &[Lock(0..1, Write), Unlock]],
    },
    Model {
        property: "batch",
        claim: "a batch waits for those of its ranges that others hold, and then holds all ranges",
        has: |it| it.batch,
        granular: true,
        first: &[&Lock(1..2, Read)],
        threads: &[
            &[Unlock],
            &[LockAll(&[(0..1, Write), (1..2, Write)]), Unlock, Unlock],
        ],
    },
    Model {
        property: "batch-across",
        claim: "a request that spans several ranges of a batch never deadlocks with the batch",
        has: |it| it.batch,
        granular: true,
        // Lets the lock allocate its memory before the threads begin.
        first: &[&Lock(0..2, Write), &Unlock],
        threads: &[
            &[LockAll(&[(0..1, Write), (1..2, Write)]), Unlock, Unlock],
            &[Lock(0..2, Write), Unlock],
        ],
    },
    Model {
        property: "batch-twice",
        claim: "two batches for the same ranges never deadlock",
        has: |it| it.batch,
        granular: true,
        // As above.
        first: &[&Lock(0..3, Write), &Unlock],
        threads: &[
            &[LockAll(&[(0..1, Write), (2..3, Write)]), Unlock, Unlock],
            &[LockAll(&[(0..1, Write), (2..3, Write)]), Unlock, Unlock],
        ],
    },
    Model {
        property: "batch-release",
        claim: "a call that releases several ranges releases each, and wakes the waiters of each",
        has: |it| it.batch,
        granular: true,
        first: &[&LockAll(&[(0..1, Write), (2..3, Write)])],
        threads: &[&[UnlockAll], &[Lock(2..3, Write), Unlock]],
    },
    Model {
        property: "batch-under-hold",
        claim: "a thread that holds a range of a waiting batch, and requests another range of it, \
                may have to wait; it lets the batch go on if it gives the request up",
        has: |it| it.batch && it.wait,
        granular: true,
        first: &[&Lock(0..1, Write)],
        threads: &[
            &[Request(1..2, Write), Cancel, Unlock],
            &[LockAll(&[(0..1, Write), (1..2, Write)]), Unlock, Unlock],
        ],
    },
    Model {
        property: "batch-poll",
        claim: "a polled batch is woken when its ranges can be granted, and then holds all of them",
        has: |it| it.batch && it.wait,
        granular: true,
        // In a segment lock, such a hold may have an entry.
        first: &[&Lock(1..3, Write)],
        threads: &[
            &[Unlock],
            &[AwaitAll(&[(0..1, Write), (1..2, Write)]), Unlock, Unlock],
        ],
    },
    Model {
        property: "batch-cancel",
        claim: "a cancelled batch leaves no trace, even if it was granted beforehand",
        has: |it| it.batch && it.wait,
        granular: true,
        // In a segment lock, such a hold may have an entry.
        first: &[&Lock(1..3, Write)],
        threads: &[&[Unlock], &[CancelAll(&[(0..1, Write), (1..2, Write)])]],
    },
    Model {
        property: "batch-cancel-wakes",
        claim: "cancelling a waiting batch admits a request that only the batch blocked",
        // In locks that take a range piece by piece, the search does not end within 25 seconds.
        has: |it| it.batch && it.wait && it.upgrade_wait,
        granular: true,
        first: &[&Lock(1..2, Write)],
        threads: &[
            &[CancelAll(&[(0..1, Write), (1..2, Write)]), Join, Unlock],
            &[Lock(0..1, Write), Unlock],
        ],
    },
    Model {
        property: "batch-try",
        claim: "a try of several ranges acquires all or none, and leaves no trace",
        has: |it| it.batch,
        granular: true,
        first: &[],
        threads: &[
            &[TryAll(&[(0..1, Write), (2..3, Write)])],
            &[Lock(2..4, Write), Unlock],
        ],
    },
];

/// Returns the model of bounded overtaking. The main thread holds a read and requests a write,
/// which has to wait. Meanwhile the other thread tries to read twice, and at most `bound` of its
/// tries may overtake the writer.
const fn overtaking(bound: u32) -> Model {
    Model {
        property: "bounded-overtaking",
        claim: match bound {
            0 => "no reader overtakes a waiting writer, even while another reader holds",
            _ => {
                "no more readers overtake a waiting writer than the lock's bound allows, even \
                 while another reader holds"
            }
        },
        has: |it| it.wait,
        granular: false,
        first: &[],
        threads: &[
            &[
                Lock(0..1, Read),
                Request(0..1, Write),
                Join,
                Unlock,
                Await,
                Unlock,
            ],
            &[Overtake(0..1), Overtake(0..1)],
        ],
    }
}

/// Returns a program for each property of a lock's capabilities.
pub fn programs(primitive: &Arc<Primitive>) -> Vec<Program> {
    let bounded = primitive.overtakes.map(overtaking);
    let applies = |model: &&Model| {
        (model.has)(&primitive.capabilities) && (primitive.granular || !model.granular)
    };
    let program = |model: &Model| {
        let &Model { first, threads, .. } = model;
        let primitive = primitive.clone();
        Program::new(model.property, model.claim)
            .performs(performs(threads))
            .operations(threads.iter().map(|steps| steps.len()).sum())
            .run(move || workers(&primitive, first, threads))
    };
    let models = MODELS.iter().chain(&bounded);
    models.filter(applies).map(program).collect()
}
