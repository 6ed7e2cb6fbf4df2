//! Lock and unlock alone: every lock of the registry next to locks of other projects, in one
//! process.
//!
//! A *row* is a case under a lock. The rows take turns, with a sample of about a millisecond each.
//! Each round begins with a different row, so that other load on the machine affects all rows
//! equally. A row with longer samples skips rounds, so that all rows are spread over the same time.
//! The reported figure is the median of the samples.

pub mod cases;
mod contended;
pub(crate) mod ranges;
mod rows;
pub(crate) mod subjects;
pub mod targets;

use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::ProgressBar;

pub use cases::{CASES, Candidate, Case, MeasuredLock, Runner, candidates};
pub use contended::{CONTENDED, CORES, Contended, Contention};
pub use ranges::{LARGEST, SEGMENT, SEGMENTS};
pub use rows::{Cell, FAIR, PEER, Row};

use crate::load::{LoadWatch, Others};
use crate::measure;
use crate::target::Target;

/// The intended duration of a sample. A single lock and unlock may take longer.
const SAMPLE: Duration = Duration::from_millis(1);

/// Rounds of the contended cases.
pub const ROUNDS: usize = 7;

/// The measurements to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names of [`candidates`].
    pub locks: Vec<&'static str>,
    /// Seconds for each row.
    pub seconds: f64,
}

/// A row that could not be measured.
#[derive(Clone, Debug)]
pub struct Absent {
    /// The row's case and lock.
    pub cell: Cell,
    /// The reason.
    pub reason: String,
}

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows by case, then lock.
    pub rows: Vec<Row>,
    /// The rows that could not be measured.
    pub absent: Vec<Absent>,
    /// The targets, with verdicts.
    pub targets: Vec<Target>,
    /// The locks of the registry that were measured.
    pub ours: Vec<&'static str>,
    /// The seconds for which each row was measured.
    pub seconds: f64,
    /// The number of cores in contended cases.
    pub cores: usize,
    /// The load caused by other programs.
    pub others: Others,
}

/// Runs everything that is planned. `bar` shows the progress.
///
/// # Errors
/// No thread can be started, or a lock admitted two threads at once.
pub fn run(plan: &Plan, bar: &ProgressBar) -> Result<Outcome> {
    let watch = LoadWatch::start();
    let candidates: Vec<Candidate> = candidates()
        .into_iter()
        .filter(|it| plan.locks.contains(&it.name))
        .collect();
    let mut run = Run {
        plan,
        bar,
        rows: Vec::new(),
        absent: Vec::new(),
    };
    bar.set_message("creating locks");
    // Some locks have per-core state for the thread that creates them, so create them on this
    // thread.
    let locks = run.make_all(&candidates);
    // A separate thread, because it stays bound to one core.
    std::thread::scope(|scope| {
        let alone = measure::spawn(scope, 0, || {
            measure::bind_to_first(1);
            run.uncontended(&locks, candidates.len())
        });
        measure::joined(alone?);
        anyhow::Ok(())
    })?;
    run.contended(&candidates)?;

    let Run {
        mut rows, absent, ..
    } = run;
    rows::compare(&mut rows);
    let ours = candidates.iter().filter(|it| it.ours);
    let ours: Vec<_> = ours.map(|it| it.name).collect();
    let targets = targets::judge(&mut rows, &ours);
    Ok(Outcome {
        rows,
        absent,
        targets,
        ours,
        seconds: plan.seconds,
        cores: measure::cores().min(CORES),
        others: watch.others(),
    })
}

/// A run in progress.
struct Run<'a> {
    plan: &'a Plan,
    bar: &'a ProgressBar,
    rows: Vec<Row>,
    absent: Vec<Absent>,
}

/// A lock created for one row.
struct Made {
    case: &'static Case,
    name: &'static str,
    lock: Box<dyn MeasuredLock>,
}

/// A row that is being measured.
struct Sampled<'a> {
    cell: Cell,
    bytes: u64,
    runner: Runner<'a>,
    /// Repetitions per sample.
    times: u64,
    spent: Duration,
    samples: Vec<f64>,
}

impl Run<'_> {
    fn uncontended(&mut self, locks: &[Made], candidates: usize) {
        self.bar.set_message("populating locks");
        let mut all = Vec::new();
        for Made { case, name, lock } in locks {
            let cell = Cell {
                case: case.name,
                lock: name,
            };
            match lock.prepare(case) {
                Ok(runner) => all.push(Sampled::new(cell, lock.bytes(case), runner)),
                Err(reason) => self.absent(cell, reason.to_owned()),
            }
        }
        let seconds = Duration::from_secs_f64(self.plan.seconds);
        let rounds = seconds.div_duration_f64(SAMPLE).ceil() as u32;
        // The progress in samples. Contended rounds are converted by their duration.
        let contended = (candidates * CONTENDED.len()) as u64 * u64::from(rounds);
        let alone = all.len() as u64 * u64::from(rounds);
        self.bar.set_length(alone + contended);
        self.bar.set_message("one thread");
        for round in 0..rounds {
            let count = all.len();
            for turn in 0..count {
                let row = &mut all[(round as usize + turn) % count];
                // A row takes a sample unless it has used more than its share of the rounds so far.
                if row.spent <= seconds * round / rounds {
                    row.sample();
                }
            }
            self.bar.inc(count as u64);
        }
        let rows = all
            .into_iter()
            .map(|it| Row::new(it.cell.case, it.cell.lock, it.bytes, it.samples));
        self.rows.extend(rows);
    }

    /// Creates a separate lock for each row, by case.
    fn make_all(&mut self, candidates: &[Candidate]) -> Vec<Made> {
        let mut made = Vec::new();
        for case in &CASES {
            for candidate in candidates.iter().filter(|it| !it.only_contended) {
                let name = candidate.name;
                match candidate.make() {
                    Ok(lock) => made.push(Made { case, name, lock }),
                    Err(error) => {
                        let (case, lock) = (case.name, name);
                        self.absent(Cell { case, lock }, format!("{error:#}"));
                    }
                }
            }
        }
        made
    }

    fn contended(&mut self, candidates: &[Candidate]) -> Result<()> {
        let mut able = Vec::new();
        for candidate in candidates {
            let lock = candidate.make().map_err(|error| format!("{error:#}"));
            let lock = lock.and_then(|it| match it.cannot_wait() {
                Some(reason) => Err(reason.to_owned()),
                None => Ok(it),
            });
            match lock {
                Ok(lock) => able.push((candidate.name, lock)),
                Err(reason) => {
                    for case in CONTENDED.map(|it| it.name) {
                        let lock = candidate.name;
                        self.absent(Cell { case, lock }, reason.clone());
                    }
                }
            }
        }
        let steps_per_us = measure::steps_per_us();
        for case in CONTENDED {
            self.bar.set_message(case.about);
            let all = self.contended_rounds(case, steps_per_us, &able)?;
            for ((name, _), Rounds { samples, longest }) in able.iter().zip(all) {
                self.rows.push(Row {
                    longest_ns: Some(longest.as_secs_f64() * 1e9),
                    ..Row::new(case.name, name, SEGMENT, samples)
                });
            }
        }
        Ok(())
    }

    /// Returns each lock's results in all rounds. Half of each round measures throughput, and the
    /// other half times every acquisition.
    fn contended_rounds(
        &self,
        case: Contended,
        steps_per_us: f64,
        locks: &[(&'static str, Box<dyn MeasuredLock>)],
    ) -> Result<Vec<Rounds>> {
        let half = Duration::from_secs_f64(self.plan.seconds / ROUNDS as f64 / 2.0);
        let mut all: Vec<Rounds> = locks.iter().map(|_| Rounds::default()).collect();
        for first in 0..ROUNDS {
            for turn in 0..locks.len() {
                let place = (first + turn) % locks.len();
                let (name, lock) = &locks[place];
                let told = || format!("{} under {name}", case.name);
                let round = lock.contended(case.threads, steps_per_us, half, false);
                let round = round.with_context(told)?.round;
                let timed = lock.contended(case.threads, steps_per_us, half, true);
                let timed = timed.with_context(told)?;
                let rounds = &mut all[place];
                rounds.samples.push(1e9 / round.ops_per_s);
                rounds.longest = rounds.longest.max(timed.longest);
                self.bar
                    .inc((2 * half).div_duration_f64(SAMPLE).round() as u64);
            }
        }
        Ok(all)
    }

    fn absent(&mut self, cell: Cell, reason: String) {
        self.absent.push(Absent { cell, reason });
    }
}

/// The results of a lock in the rounds of a contended case.
#[derive(Default)]
struct Rounds {
    /// Nanoseconds per acquisition, for each round.
    samples: Vec<f64>,
    /// The longest wait in all rounds.
    longest: Duration,
}

impl<'a> Sampled<'a> {
    fn new(cell: Cell, bytes: u64, mut runner: Runner<'a>) -> Self {
        let mut times = 1;
        loop {
            let took = runner(times);
            if took * 2 >= SAMPLE {
                break;
            }
            times *= 2;
        }
        Sampled {
            cell,
            bytes,
            runner,
            times,
            spent: Duration::ZERO,
            samples: Vec::new(),
        }
    }

    fn sample(&mut self) {
        // Other rows have evicted this row's cache lines, so warm up first.
        if self.times > 1 {
            (self.runner)(self.times.div_ceil(16));
        }
        let took = (self.runner)(self.times);
        self.spent += took;
        self.samples
            .push(took.as_secs_f64() * 1e9 / self.times as f64);
    }
}
