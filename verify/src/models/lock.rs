//! The properties of a range lock, each written once for every lock.
//!
//! A program has two or three threads, main being one of them. Each works off a list of steps; it notes what it saw
//! ([`crate::trace`]), and asserts. That nobody waits for ever is the checker's to find: a deadlock fails
//! the program.

use std::ops::Range;
use std::sync::Arc;

use spanlock_range_lock::{RangeLockExt, TryLockError};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;
use spanlock_testkit::Driven;

use crate::pairs::Operation;
use crate::primitives::{PRIMITIVES, Primitive};
use crate::program::{Program, Run};
use crate::trace::{note, perform};

/// A property: what each thread does, and what that shows.
struct Model {
    property: &'static str,
    claim: &'static str,
    /// Whether it makes sense only for locks under which disjoint ranges do not block.
    granular: bool,
    /// The steps of each thread; main's come first.
    threads: &'static [&'static [Step]],
}

const MODELS: &[Model] = &[
    Model {
        property: "exclusion",
        claim: "two writers of overlapping ranges exclude each other, and the second sees the first's writes",
        granular: false,
        threads: &[&[Write(0..2)], &[Write(1..2)]],
    },
    Model {
        property: "exclusion-read-write",
        claim: "a reader and a writer of overlapping ranges exclude each other; the reader sees no half-done write",
        granular: false,
        threads: &[&[Write(0..2)], &[Read(1..2)]],
    },
    Model {
        property: "exclusion-write-read",
        claim: "a reader of several segments and a writer of one of them exclude each other",
        granular: true,
        threads: &[&[Read(0..2)], &[Write(1..2)]],
    },
    Model {
        property: "visibility",
        claim: "what was done under a hold is seen under every later conflicting one, in both directions",
        granular: false,
        threads: &[&[Write(0..1), TryRead(0..1)], &[Write(0..1)]],
    },
    Model {
        property: "readers-share",
        claim: "readers never fail or wait for readers",
        granular: false,
        threads: &[&[MustTryRead(0..2)], &[MustTryRead(1..2), Read(1..2)]],
    },
    Model {
        property: "disjoint",
        claim: "requests of disjoint ranges never fail or wait, whatever they are",
        granular: true,
        threads: &[&[Write(0..1)], &[MustTryWrite(1..2), MustTryRead(1..2)]],
    },
    Model {
        property: "wakeup",
        claim: "a release wakes those it unblocked: nobody sleeps for ever",
        granular: false,
        threads: &[&[Write(0..1), TryWrite(0..1)], &[Read(0..1)]],
    },
    Model {
        property: "deadlock",
        claim: "requests of several segments that overlap never wait for each other in a circle",
        granular: false,
        threads: &[&[Write(0..2)], &[Write(0..2)]],
    },
    Model {
        property: "deadlock-read-write",
        claim: "readers take several segments in the same order as writers",
        granular: true,
        threads: &[&[Write(0..2)], &[Read(0..2)]],
    },
    Model {
        property: "try-leaves-no-trace",
        claim: "a try takes all or nothing, and afterwards everything can be taken at once",
        granular: false,
        threads: &[&[TryWrite(0..2)], &[TryRead(1..2), TryWrite(1..2)]],
    },
    Model {
        property: "exclusion-3",
        claim: "two writers and a reader exclude each other, and nobody sleeps for ever",
        granular: false,
        threads: &[&[Write(0..1)], &[Write(0..1)], &[Read(0..1)]],
    },
    Model {
        property: "last-reader-wakes",
        claim: "a writer gets in after two readers",
        granular: false,
        threads: &[&[Write(0..1)], &[Read(0..1)], &[Read(0..1)]],
    },
    Model {
        property: "overlap-3",
        claim: "three requests, each overlapping the next, never wait in a circle",
        granular: true,
        threads: &[&[Write(0..2)], &[Write(1..3)], &[Write(2..4)]],
    },
    Model {
        property: "tries-3",
        claim: "of three tries that overlap, those that succeed exclude each other",
        granular: false,
        threads: &[&[TryWrite(0..1)], &[TryWrite(0..1)], &[TryRead(0..1)]],
    },
    Model {
        property: "crowd-4",
        claim: "four threads with requests of all kinds exclude, share, see what was written, and end",
        granular: false,
        threads: CROWD.split_at(4).0,
    },
    Model {
        property: "crowd-6",
        claim: "six threads with requests of all kinds exclude, share, see what was written, and end",
        granular: false,
        threads: CROWD.split_at(6).0,
    },
    Model {
        property: "crowd-8",
        claim: "eight threads with requests of all kinds exclude, share, see what was written, and end",
        granular: false,
        threads: CROWD,
    },
];

/// More threads than a search could end with: for random schedules.
const CROWD: &[&[Step]] = &[
    &[Write(0..2), Read(1..4)],
    &[Read(1..3), Write(2..3)],
    &[Write(1..4)],
    &[Read(0..4), TryWrite(3..4)],
    &[Write(0..1), TryRead(0..2)],
    &[Read(0..1), Read(2..4)],
    &[TryWrite(0..4), Write(2..4)],
    &[Read(3..4)],
];

/// Every property of every lock.
pub fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    for primitive in PRIMITIVES {
        for model in MODELS
            .iter()
            .filter(|model| primitive.granular || !model.granular)
        {
            programs.push(Program {
                primitive: primitive.name,
                property: model.property,
                claim: model.claim,
                threads: model.threads.len() as u32,
                operations: model.threads.iter().map(|steps| steps.len() as u32).sum(),
                faults: &[],
                expected: None,
                performs: performs(model.threads),
                run: Run::Once(Arc::new(|| workers(primitive, model.threads))),
            });
        }
    }
    programs
}

use Step::*;

/// What a thread does: takes a range, touches the data of every position, gives it back.
#[derive(Debug)]
enum Step {
    /// Blocks for a shared hold.
    Read(Range<u64>),
    /// Blocks for an exclusive hold.
    Write(Range<u64>),
    /// Tries for a shared hold.
    TryRead(Range<u64>),
    /// Tries for an exclusive hold.
    TryWrite(Range<u64>),
    /// As `TryRead`, and it must succeed.
    MustTryRead(Range<u64>),
    /// As `TryWrite`, and it must succeed.
    MustTryWrite(Range<u64>),
}

impl Step {
    fn operation(&self) -> Operation {
        match self {
            Read(_) => Operation::AcquireShared,
            Write(_) => Operation::AcquireExclusive,
            TryRead(_) | TryWrite(_) | MustTryRead(_) | MustTryWrite(_) => Operation::Try,
        }
    }
}

/// What each thread does.
fn performs(threads: &[&[Step]]) -> Vec<Vec<Operation>> {
    let of = |steps: &&[Step]| {
        let operations = steps.iter().map(Step::operation);
        operations.chain([Operation::Release]).collect()
    };
    threads.iter().map(of).collect()
}

/// Data of each position, in cells that loom watches: two accesses that race fail the model.
pub(super) struct Data([UnsafeCell<u32>; 4]);

// SAFETY: a cell is accessed under a hold of its position only; that the holds suffice is what loom checks.
unsafe impl Sync for Data {}
// SAFETY: the cells hold plain numbers.
unsafe impl Send for Data {}

impl Data {
    pub(super) fn new() -> Self {
        Data([0; 4].map(UnsafeCell::new))
    }

    pub(super) fn add_one(&self, range: &Range<u64>) {
        for at in range.clone() {
            // SAFETY: the caller holds `range` exclusively.
            self.0[at as usize].with_mut(|value| unsafe { *value += 1 });
        }
    }

    pub(super) fn sum(&self, range: &Range<u64>) -> u32 {
        // SAFETY: the caller holds `range`, shared or exclusively.
        range
            .clone()
            .map(|at| self.0[at as usize].with(|value| unsafe { *value }))
            .sum()
    }
}

/// Runs each worker's steps in a thread of its own, main being the first; then nobody holds anything, nobody
/// waits, and the data is what the writes add up to.
fn workers(primitive: &Primitive, threads: &'static [&'static [Step]]) {
    let lock = (primitive.make)();
    let data = Arc::new(Data::new());
    let mut expected = 0;
    let others: Vec<_> = threads[1..]
        .iter()
        .enumerate()
        .map(|(i, &steps)| {
            let (lock, data) = (lock.clone(), data.clone());
            thread::spawn(move || work(i + 1, steps, &lock, &data))
        })
        .collect();
    expected += work(0, threads[0], &lock, &data);
    for other in others {
        expected += other.join().expect("a worker panicked");
    }
    // Nothing is left behind: neither a hold nor a request.
    let everything = lock
        .raw
        .try_write(0..4)
        .expect("all holds are gone, yet a try on everything fails");
    assert_eq!(data.sum(&(0..4)), expected, "a write was lost");
    drop(everything);
}

/// Runs one worker's steps; returns how much it added to the data.
fn work(me: usize, steps: &[Step], lock: &Driven, data: &Data) -> u32 {
    let mut added = 0;
    for step in steps {
        perform(step.operation());
        let result = match step {
            Read(range) => read(
                me,
                data,
                range,
                lock.raw.read(range.clone()).map_err(Into::into),
            ),
            Write(range) => write(
                me,
                data,
                range,
                lock.raw.write(range.clone()).map_err(Into::into),
            ),
            TryRead(range) | MustTryRead(range) => {
                read(me, data, range, lock.raw.try_read(range.clone()))
            }
            TryWrite(range) | MustTryWrite(range) => {
                write(me, data, range, lock.raw.try_write(range.clone()))
            }
        };
        match (step, result) {
            (_, Ok(more)) => added += more,
            (TryRead(_) | TryWrite(_), Err(TryLockError::WouldBlock)) => note(me, "busy"),
            (_, Err(error)) => panic!("T{me}: {step:?} must be granted: {error}"),
        }
    }
    added
}

fn read<H>(
    me: usize,
    data: &Data,
    range: &Range<u64>,
    hold: Result<H, TryLockError>,
) -> Result<u32, TryLockError> {
    let hold = hold?;
    note(me, format!("read({range:?})={}", data.sum(range)));
    drop(hold);
    perform(Operation::Release);
    Ok(0)
}

fn write<H>(
    me: usize,
    data: &Data,
    range: &Range<u64>,
    hold: Result<H, TryLockError>,
) -> Result<u32, TryLockError> {
    let hold = hold?;
    data.add_one(range);
    note(me, format!("write({range:?})={}", data.sum(range)));
    drop(hold);
    perform(Operation::Release);
    Ok((range.end - range.start) as u32)
}
