//! The properties that need no optional capability. Each is written once and runs for every lock.
//!
//! A program has two to eight threads, including the main thread. Each thread performs a list of
//! steps, records the data that it reads, and asserts that every result is allowed. A deadlock also
//! fails the program, so the checker finds threads that wait for ever.

use std::ops::Range;
use std::sync::Arc;

use spanlock_range_lock::{RangeLockExt, TryLockError};
use spanlock_sync::thread;
use spanlock_verify::{Program, note_as, perform};

use super::data::Data;
use super::{Primitive, acquire};
use crate::Driven;

/// A property, and the steps that the threads perform to check it.
struct Model {
    property: &'static str,
    claim: &'static str,
    /// Whether the property applies only to locks whose disjoint ranges never block each other.
    granular: bool,
    /// The steps of each thread, the main thread first.
    threads: &'static [&'static [Step]],
}

const MODELS: &[Model] = &[
    Model {
        property: "exclusion",
        claim: "two writers of overlapping ranges exclude each other, and the second sees the \
                first one's writes",
        granular: false,
        threads: &[&[Write(0..2)], &[Write(1..2)]],
    },
    Model {
        property: "exclusion-read-write",
        claim: "a reader and a writer of overlapping ranges exclude each other, and the reader \
                never sees a partial write",
        granular: false,
        threads: &[&[Write(0..2)], &[Read(1..2)]],
    },
    Model {
        property: "exclusion-write-read",
        claim: "a reader of two positions and a writer of one of them exclude each other",
        granular: true,
        threads: &[&[Read(0..2)], &[Write(1..2)]],
    },
    Model {
        property: "visibility",
        claim: "each hold sees every write made under earlier conflicting holds",
        granular: false,
        threads: &[&[Write(0..1), TryRead(0..1)], &[Write(0..1)]],
    },
    Model {
        property: "readers-share",
        claim: "a reader never fails or waits because of another reader",
        granular: false,
        threads: &[&[MustTryRead(0..2)], &[MustTryRead(1..2), Read(1..2)]],
    },
    Model {
        property: "disjoint",
        claim: "requests for disjoint ranges never fail or wait because of each other",
        granular: true,
        threads: &[&[Write(0..1)], &[MustTryWrite(1..2), MustTryRead(1..2)]],
    },
    Model {
        property: "wakeup",
        claim: "a release wakes the waiters it unblocked: no thread sleeps for ever",
        granular: false,
        threads: &[&[Write(0..1), TryWrite(0..1)], &[Read(0..1)]],
    },
    Model {
        property: "deadlock",
        claim: "two writers of the same positions never deadlock",
        granular: false,
        threads: &[&[Write(0..2)], &[Write(0..2)]],
    },
    Model {
        property: "deadlock-read-write",
        claim: "a reader and a writer of the same positions never deadlock",
        granular: true,
        threads: &[&[Write(0..2)], &[Read(0..2)]],
    },
    Model {
        property: "try-leaves-no-trace",
        claim: "a try acquires its whole range or nothing, and the lock is free at the end",
        granular: false,
        threads: &[&[TryWrite(0..2)], &[TryRead(1..2), TryWrite(1..2)]],
    },
    Model {
        property: "exclusion-3",
        claim: "two writers and a reader exclude each other, and no thread sleeps for ever",
        granular: false,
        threads: &[&[Write(0..1)], &[Write(0..1)], &[Read(0..1)]],
    },
    Model {
        property: "last-reader-wakes",
        claim: "a waiting writer is woken when the last of two readers releases",
        granular: false,
        threads: &[&[Write(0..1)], &[Read(0..1)], &[Read(0..1)]],
    },
    Model {
        property: "overlap-3",
        claim: "three requests, each overlapping the next, never deadlock",
        granular: true,
        threads: &[&[Write(0..2)], &[Write(1..3)], &[Write(2..4)]],
    },
    Model {
        property: "tries-3",
        claim: "of three overlapping tries, those that succeed exclude each other",
        granular: false,
        threads: &[&[TryWrite(0..1)], &[TryWrite(0..1)], &[TryRead(0..1)]],
    },
    Model {
        property: "crowd-4",
        claim: "four threads with mixed requests all finish, and leave the lock free",
        granular: false,
        threads: CROWD.split_at(4).0,
    },
    Model {
        property: "crowd-6",
        claim: "six threads with mixed requests all finish, and leave the lock free",
        granular: false,
        threads: CROWD.split_at(6).0,
    },
    Model {
        property: "crowd-8",
        claim: "eight threads with mixed requests all finish, and leave the lock free",
        granular: false,
        threads: CROWD,
    },
];

/// The steps of the crowd programs. These have too many threads for a complete search, so they run
/// under random schedules.
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

/// Returns a program for each property of a lock.
pub fn programs(primitive: &Arc<Primitive>) -> Vec<Program> {
    let applies = |model: &&Model| primitive.granular || !model.granular;
    let program = |model: &'static Model| {
        let (make, threads) = (primitive.make, model.threads);
        Program::new(model.property, model.claim)
            .performs(performs(threads))
            .operations(threads.iter().map(|steps| steps.len()).sum())
            .run(move || workers(make, threads))
    };
    MODELS.iter().filter(applies).map(program).collect()
}

use Step::*;

/// A step of a thread: acquires a range, accesses the data of its positions, and releases the
/// range.
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
    /// Tries for a shared hold, and must succeed.
    MustTryRead(Range<u64>),
    /// Tries for an exclusive hold, and must succeed.
    MustTryWrite(Range<u64>),
}

impl Step {
    fn operation(&self) -> &'static str {
        use spanlock_range_lock::Access;
        match self {
            Read(_) => acquire(Access::Read),
            Write(_) => acquire(Access::Write),
            TryRead(_) | TryWrite(_) | MustTryRead(_) | MustTryWrite(_) => "try",
        }
    }
}

/// Returns the operations that each thread performs.
fn performs(threads: &[&[Step]]) -> Vec<Vec<&'static str>> {
    let of = |steps: &&[Step]| {
        let operations = steps.iter().map(Step::operation);
        operations.chain(["release"]).collect()
    };
    threads.iter().map(of).collect()
}

/// Runs each list of steps in its own thread, and the first list in the main thread. Asserts at the
/// end that the whole lock is free and that no write was lost.
fn workers(make: fn() -> Driven, threads: &'static [&'static [Step]]) {
    let lock = make();
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
    let everything = lock
        .raw
        .try_write(0..4)
        .expect("all holds are released, yet a try on the whole lock fails");
    assert_eq!(data.sum(&(0..4)), expected, "a write was lost");
    drop(everything);
}

/// Runs the steps of thread `me`, and returns how much they added to the data.
fn work(me: usize, steps: &[Step], lock: &Driven, data: &Data) -> u32 {
    let mut added = 0;
    for step in steps {
        perform(step.operation());
        let raw = &lock.raw;
        let result = match step {
            Read(range) => {
                let hold = raw.read(range.clone()).map_err(Into::into);
                read(me, data, range, hold)
            }
            Write(range) => {
                let hold = raw.write(range.clone()).map_err(Into::into);
                write(me, data, range, hold)
            }
            TryRead(range) | MustTryRead(range) => {
                read(me, data, range, raw.try_read(range.clone()))
            }
            TryWrite(range) | MustTryWrite(range) => {
                write(me, data, range, raw.try_write(range.clone()))
            }
        };
        match (step, result) {
            (_, Ok(more)) => added += more,
            (TryRead(_) | TryWrite(_), Err(TryLockError::WouldBlock)) => note_as(me, "busy"),
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
    note_as(me, format!("read({range:?})={}", data.sum(range)));
    drop(hold);
    perform("release");
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
    note_as(me, format!("write({range:?})={}", data.sum(range)));
    drop(hold);
    perform("release");
    Ok((range.end - range.start) as u32)
}
