//! The properties, each written once for every lock.
//!
//! A model is a small program of two or three threads, main being one of them. It notes when it enters and leaves a hold
//! ([`crate::trace`]), and asserts. That nobody waits for ever is the checker's to find: a deadlock fails the model.

use std::ops::Range;
use std::sync::Arc;

use spanlock::{RangeLockExt, TryLockError};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;

use crate::primitives::{Lock, Primitive};
use crate::trace::note;

/// A property, and the program that shows it.
pub struct Model {
    /// Its name: `exclusion`.
    pub property: &'static str,
    /// What it says, in a line.
    pub claim: &'static str,
    /// Threads, main included.
    pub threads: u32,
    /// Whether it makes sense only for locks under which disjoint ranges do not block.
    pub granular: bool,
    /// One execution.
    pub run: fn(&Primitive),
}

/// Every property.
pub const MODELS: &[Model] = &[
    Model {
        property: "exclusion",
        claim: "two writers of overlapping ranges exclude each other, and the second sees the first's writes",
        threads: 2,
        granular: false,
        run: |lock| workers(lock, [&[Write(0..2)], &[Write(1..3)]]),
    },
    Model {
        property: "exclusion-read-write",
        claim: "a reader and a writer of overlapping ranges exclude each other; the reader sees no half-done write",
        threads: 2,
        granular: false,
        run: |lock| workers(lock, [&[Write(0..2)], &[Read(1..3)]]),
    },
    Model {
        property: "visibility",
        claim: "what was done under a hold is seen under every later conflicting one, in both directions",
        threads: 2,
        granular: false,
        run: |lock| workers(lock, [&[Write(0..1), TryRead(0..1)], &[Write(0..1)]]),
    },
    Model {
        property: "readers-share",
        claim: "readers never fail or wait for readers",
        threads: 2,
        granular: false,
        run: |lock| {
            workers(
                lock,
                [&[MustTryRead(0..2)], &[MustTryRead(1..3), Read(0..3)]],
            )
        },
    },
    Model {
        property: "disjoint",
        claim: "requests of disjoint ranges never fail or wait, whatever they are",
        threads: 2,
        granular: true,
        run: |lock| {
            workers(
                lock,
                [&[Write(0..2)], &[MustTryWrite(2..4), MustTryRead(2..3)]],
            )
        },
    },
    Model {
        property: "wakeup",
        claim: "a release wakes those it unblocked: nobody sleeps for ever",
        threads: 2,
        granular: false,
        run: |lock| workers(lock, [&[Write(0..1), TryWrite(0..1)], &[Read(0..1)]]),
    },
    Model {
        property: "deadlock",
        claim: "requests of several segments that overlap never wait for each other in a circle",
        threads: 2,
        granular: false,
        run: |lock| workers(lock, [&[Write(0..2)], &[Write(0..2)]]),
    },
    Model {
        property: "try-leaves-no-trace",
        claim: "a try takes all or nothing, and afterwards everything can be taken at once",
        threads: 2,
        granular: false,
        run: |lock| workers(lock, [&[TryWrite(0..2)], &[TryRead(1..3), TryWrite(1..2)]]),
    },
    Model {
        property: "exclusion-3",
        claim: "two writers and a reader exclude each other, and nobody sleeps for ever",
        threads: 3,
        granular: false,
        run: |lock| workers(lock, [&[Write(0..1)], &[Write(0..1)], &[Read(0..1)]]),
    },
    Model {
        property: "last-reader-wakes",
        claim: "a writer gets in after two readers",
        threads: 3,
        granular: false,
        run: |lock| workers(lock, [&[Write(0..1)], &[Read(0..1)], &[Read(0..1)]]),
    },
    Model {
        property: "overlap-3",
        claim: "three requests, each overlapping the next, never wait in a circle",
        threads: 3,
        granular: true,
        run: |lock| workers(lock, [&[Write(0..2)], &[Write(1..3)], &[Write(2..4)]]),
    },
];

use Step::*;

/// What a thread does: takes a range, touches the data of every position, gives it back.
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

/// Data of each position, in cells that loom watches: two accesses that race fail the model.
struct Data([UnsafeCell<u32>; 4]);

// SAFETY: a cell is accessed under a hold of its position only; that the holds suffice is what loom checks.
unsafe impl Sync for Data {}
// SAFETY: the cells hold plain numbers.
unsafe impl Send for Data {}

impl Data {
    fn add_one(&self, range: &Range<u64>) {
        for at in range.clone() {
            // SAFETY: the caller holds `range` exclusively.
            self.0[at as usize].with_mut(|value| unsafe { *value += 1 });
        }
    }

    fn sum(&self, range: &Range<u64>) -> u32 {
        // SAFETY: the caller holds `range`, shared or exclusively.
        range
            .clone()
            .map(|at| self.0[at as usize].with(|value| unsafe { *value }))
            .sum()
    }
}

/// Runs each worker's steps in a thread of its own, main being the first; then nobody holds anything, nobody
/// waits, and the data is what the writes add up to.
fn workers<const N: usize>(primitive: &Primitive, programs: [&'static [Step]; N]) {
    let lock: Lock = (primitive.make)();
    let data = Arc::new(Data([0; 4].map(UnsafeCell::new)));
    let mut expected = 0;
    let others: Vec<_> = programs[1..]
        .iter()
        .enumerate()
        .map(|(i, &program)| {
            let (lock, data) = (lock.clone(), data.clone());
            thread::spawn(move || work(i + 1, program, &lock, &data))
        })
        .collect();
    expected += work(0, programs[0], &lock, &data);
    for other in others {
        expected += other.join().expect("a worker panicked");
    }
    // Nothing is left behind: neither a hold nor a request.
    let everything = lock
        .try_write(0..4)
        .expect("all holds are gone, yet a try on everything fails");
    assert_eq!(data.sum(&(0..4)), expected, "a write was lost");
    drop(everything);
}

/// Runs one worker's steps; returns how much it added to the data.
fn work(me: usize, program: &[Step], lock: &Lock, data: &Data) -> u32 {
    let mut added = 0;
    for step in program {
        let (range, result) = match step {
            Read(range) => (
                range,
                read(
                    me,
                    lock,
                    data,
                    range,
                    lock.read(range.clone()).map_err(Into::into),
                ),
            ),
            Write(range) => (
                range,
                write(
                    me,
                    lock,
                    data,
                    range,
                    lock.write(range.clone()).map_err(Into::into),
                ),
            ),
            TryRead(range) | MustTryRead(range) => (
                range,
                read(me, lock, data, range, lock.try_read(range.clone())),
            ),
            TryWrite(range) | MustTryWrite(range) => (
                range,
                write(me, lock, data, range, lock.try_write(range.clone())),
            ),
        };
        match (step, result) {
            (_, Ok(more)) => added += more,
            (TryRead(_) | TryWrite(_), Err(TryLockError::WouldBlock)) => note(me, "busy"),
            (_, Err(error)) => panic!("T{me}: {range:?} must be granted: {error}"),
        }
    }
    added
}

type Taken<H> = Result<H, TryLockError>;

fn read<H>(
    me: usize,
    _: &Lock,
    data: &Data,
    range: &Range<u64>,
    hold: Taken<H>,
) -> Result<u32, TryLockError> {
    let hold = hold?;
    note(me, &format!("read({range:?})={}", data.sum(range)));
    drop(hold);
    Ok(0)
}

fn write<H>(
    me: usize,
    _: &Lock,
    data: &Data,
    range: &Range<u64>,
    hold: Taken<H>,
) -> Result<u32, TryLockError> {
    let hold = hold?;
    data.add_one(range);
    note(me, &format!("write({range:?})={}", data.sum(range)));
    drop(hold);
    Ok((range.end - range.start) as u32)
}
