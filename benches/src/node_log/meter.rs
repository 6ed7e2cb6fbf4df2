//! Counts and times the operations of one thread.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::measure::{self, Latencies, in_phases, record};

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// A write. In OLTP, until it is durable.
    Write,
    /// A read.
    Read,
    /// An fsync.
    Fsync,
    /// A checkpoint.
    Checkpoint,
}

/// The number of [`Timed`]s.
pub(super) const TIMED: usize = 4;

/// The operations of a thread, or of several.
pub(super) struct Meter {
    /// Operations of the measured phase.
    pub(super) ops: u64,
    /// All calls of `fsync`, those of the warm-up included.
    pub(super) fsyncs: u64,
    /// The longest write that a checkpoint overlapped.
    pub(super) stall: Option<Duration>,
    pub(super) times: [Latencies; TIMED],
}

impl Meter {
    pub(super) fn new() -> Self {
        Meter {
            ops: 0,
            fsyncs: 0,
            stall: None,
            times: std::array::from_fn(|_| measure::latencies()),
        }
    }

    /// Times a call.
    pub(super) fn time(&mut self, what: Timed, call: impl FnOnce() -> Result<()>) -> Result<()> {
        let began = Instant::now();
        call()?;
        self.record(what, began.elapsed());
        Ok(())
    }

    pub(super) fn record(&mut self, what: Timed, took: Duration) {
        record(&mut self.times[what as usize], took);
        self.fsyncs += u64::from(what == Timed::Fsync);
    }

    /// Notes how long a write took that a checkpoint overlapped.
    pub(super) fn note_stall(&mut self, took: Duration) {
        self.stall = self.stall.max(Some(took));
    }

    /// The warm-up is over.
    fn restart(&mut self) {
        let fsyncs = self.fsyncs;
        *self = Meter::new();
        self.fsyncs = fsyncs;
    }

    fn add(&mut self, other: &Meter) {
        self.ops += other.ops;
        self.fsyncs += other.fsyncs;
        self.stall = self.stall.max(other.stall);
        for (sum, its) in self.times.iter_mut().zip(&other.times) {
            *sum += its;
        }
    }
}

/// The operation that a thread repeats.
pub(super) type Op<'a> = Box<dyn FnMut(&mut Meter) -> Result<()> + 'a>;

/// Runs a round. `prepare` is called on each thread with its number, and returns its operation,
/// which runs at least once in the measured phase. Returns what all threads did, and in which time.
///
/// # Errors
/// A thread cannot be started, or an operation fails.
pub(super) fn run<'a>(
    threads: usize,
    duration: Duration,
    prepare: impl Fn(usize) -> Result<Op<'a>> + Sync,
) -> Result<(Meter, Duration)> {
    let (done, took) = in_phases(threads, duration, |worker| {
        let op = prepare(worker);
        move |phase: &measure::Phase| -> Result<Meter> {
            let (mut op, mut meter) = (op?, Meter::new());
            while phase.is_warm_up() {
                op(&mut meter)?;
            }
            meter.restart();
            loop {
                op(&mut meter)?;
                if !phase.is_measured() {
                    return Ok(meter);
                }
            }
        }
    })?;
    let mut all = Meter::new();
    for thread in done {
        all.add(&thread?);
    }
    Ok((all, took))
}
