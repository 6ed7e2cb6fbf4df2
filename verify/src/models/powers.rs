//! The powers of a range lock: what it can do with a hold beyond giving it back, requests that wait without a thread, several ranges at once.
//!
//! As in [`super::lock`], each property is written once for every lock that has the power. What a step is, `steps.rs` says.

use std::sync::Arc;

use spanlock_range_lock::Access::{Read, Upgradable, Write};

use super::steps::{Step, Step::*, performs, workers};
use crate::primitives::{PRIMITIVES, Power};
use crate::program::{Program, Run};

/// A property of locks with some power.
struct Model {
    property: &'static str,
    claim: &'static str,
    power: Power,
    /// As in [`super::lock`].
    granular: bool,
    /// What main does before the others begin.
    first: &'static [&'static Step],
    /// The steps of each thread; main's come first.
    threads: &'static [&'static [Step]],
}

const MODELS: &[Model] = &[
    Model {
        property: "downgrade-writer",
        claim: "a downgrade lets no writer in: what was written is what is read",
        power: Power::downgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..2, Write), Downgrade, Give],
            &[Take(1..3, Write), Give],
        ],
    },
    Model {
        property: "downgrade-reader",
        claim: "a downgrade wakes readers, who see what the writer wrote while it still reads",
        power: Power::downgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..2, Write), Downgrade, Join, Give],
            &[Take(1..3, Read), Give],
        ],
    },
    Model {
        property: "downgrade-upgradable",
        claim: "an upgradable hold that becomes shared wakes the next upgradable one",
        power: Power::downgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..2, Upgradable), Downgrade, Join, Give],
            &[Take(1..3, Upgradable), Give],
        ],
    },
    Model {
        property: "upgrade-readers",
        claim: "of two readers at most one becomes exclusive, and nobody writes between its read and its write",
        power: Power::upgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..1, Read), TryUpgrade, Give],
            &[Take(0..1, Upgradable), TryUpgrade, Give],
        ],
    },
    Model {
        property: "upgrade-writer",
        claim: "nobody writes between an upgradable read and its write",
        power: Power::upgrade,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..2, Upgradable), TryUpgrade, Give],
            &[Try(1..3, Write)],
        ],
    },
    Model {
        property: "upgrade-waits",
        claim: "an upgrade gets in when the readers have left, and excludes those who come",
        power: Power::upgrade_wait,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..2, Upgradable), Upgrade, Give],
            &[Take(1..3, Read), Give],
        ],
    },
    Model {
        property: "poll",
        claim: "a request that is polled is woken when its turn has come",
        power: Power::wait,
        granular: false,
        first: &[],
        threads: &[&[Take(0..2, Write), Give], &[Ask(1..3, Write), Await, Give]],
    },
    Model {
        property: "cancel",
        claim: "a request that is given up leaves no trace, whether it was granted meanwhile or not",
        power: Power::wait,
        granular: false,
        first: &[],
        threads: &[&[Take(1..2, Write), Give], &[Ask(0..2, Write), Cancel]],
    },
    Model {
        property: "cancel-shared",
        claim: "nor does a shared request that is given up",
        power: Power::wait,
        granular: false,
        first: &[],
        threads: &[&[Take(1..2, Write), Give], &[Ask(0..2, Read), Cancel]],
    },
    Model {
        property: "cancel-reader",
        claim: "a waiting reader that gives up grants nothing to another while the writer holds",
        power: Power::wait,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..2, Write), Ask(0..2, Read), Cancel, Again, Give],
            &[Take(1..3, Read), Give],
        ],
    },
    Model {
        property: "cancel-writer",
        claim: "a waiting writer that gives up lets in the reader whom only it held back",
        power: Power::wait,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..2, Read), Ask(0..2, Write), Cancel, Join, Give],
            &[Take(1..3, Read), Give],
        ],
    },
    Model {
        property: "shrink-wakes",
        claim: "what a hold gives back wakes those who wait for it, while the rest is held",
        power: Power::split,
        granular: true,
        first: &[&Take(0..2, Write)],
        threads: &[&[Shrink(0..1), Join, Give], &[Take(1..2, Write), Give]],
    },
    Model {
        property: "shrink-keeps",
        claim: "what a hold keeps is held throughout: nobody who waits for part of it is let in",
        power: Power::split,
        granular: true,
        first: &[&Take(0..2, Write)],
        threads: &[&[Shrink(1..2), Give], &[Take(1..2, Write), Give]],
    },
    Model {
        property: "split-wakes",
        claim: "a part of a hold that is given back wakes those who wait for it, while the other is held",
        power: Power::split,
        granular: true,
        first: &[&Take(0..2, Write)],
        threads: &[&[Split(1), Give, Join, Give], &[Take(1..2, Write), Give]],
    },
    Model {
        property: "split-keeps",
        claim: "who waits for one part of a hold that was cut is not let in when the other is given back",
        power: Power::split,
        granular: true,
        first: &[&Take(0..2, Write)],
        threads: &[&[Split(1), Give, Give], &[Take(0..1, Write), Give]],
    },
    Model {
        property: "batch",
        claim: "a call that takes several ranges waits for each that is held, and holds all at once",
        power: Power::batch,
        granular: true,
        first: &[&Take(1..2, Read)],
        threads: &[
            &[Give],
            &[TakeAll(&[(0..1, Write), (1..2, Write)]), Give, Give],
        ],
    },
    Model {
        property: "batch-across",
        claim: "a range that lies across those of one call never waits with it in a circle",
        power: Power::batch,
        granular: true,
        // So that a lock whose memory grows has grown.
        first: &[&Take(0..2, Write), &Give],
        threads: &[
            &[TakeAll(&[(0..1, Write), (1..2, Write)]), Give, Give],
            &[Take(0..2, Write), Give],
        ],
    },
    Model {
        property: "batch-try",
        claim: "a try of several ranges takes all or none, and leaves no trace",
        power: Power::batch,
        granular: true,
        first: &[],
        threads: &[
            &[TryAll(&[(0..1, Write), (2..3, Write)])],
            &[Take(2..4, Write), Give],
        ],
    },
];

/// Of a writer that waits, while main reads and another reads as often as it is let; by the bound that the lock states.
const fn overtaking(bound: u32) -> Model {
    Model {
        property: "bounded-overtaking",
        claim: match bound {
            0 => "a waiting writer is passed by 0 readers, though a reader holds all the time",
            _ => {
                "a waiting writer is passed by at most 32 readers (1 under a checker), though a reader holds all the time"
            }
        },
        power: Power::wait,
        granular: false,
        first: &[],
        threads: &[
            &[Take(0..1, Read), Ask(0..1, Write), Join, Give, Await, Give],
            &[Pass(0..1), Pass(0..1)],
        ],
    }
}

/// Every property of every lock that has what it is about.
pub fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    for primitive in PRIMITIVES {
        let bound = primitive.overtakes;
        let bounded = (bound < u32::MAX).then(|| overtaking(bound));
        let has = |model: &&Model| {
            primitive.powers.contains(&model.power) && (primitive.granular || !model.granular)
        };
        for model in MODELS.iter().chain(&bounded).filter(has) {
            let &Model { first, threads, .. } = model;
            programs.push(Program {
                primitive: primitive.name,
                property: model.property,
                claim: model.claim,
                threads: threads.len() as u32,
                operations: threads.iter().map(|steps| steps.len() as u32).sum(),
                faults: &[],
                expected: None,
                performs: performs(threads),
                run: Run::Once(Arc::new(move || workers(primitive, first, threads))),
            });
        }
    }
    programs
}
