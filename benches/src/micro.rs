//! Lock and unlock alone: every lock of the registry next to locks of other projects, in one
//! process.
//!
//! A *row* is a case under a lock. The rows take turns, with a sample of about a millisecond each.
//! Each round begins with a different row, so that other load on the machine affects all rows
//! equally. A row with longer samples skips rounds, so that all rows are spread over the same time.
//! The reported figure is the median of the samples.

mod cases;
mod contended;
pub(crate) mod ranges;
pub(crate) mod subjects;
mod targets;

use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::Serialize;

pub use cases::{CASES, Candidate, Case, MeasuredLock, Runner, candidates};
pub use contended::{CONTENDED, CORES, Contended, Contention};
pub use ranges::{LARGEST, SEGMENT, SEGMENTS};
pub use targets::{Cell, Figure, Target};

use crate::load::{LoadWatch, Others};
use crate::measure;

/// The lock that rows are compared with.
pub const PEER: &str = "parking_lot";

/// The lock that longest waits are compared with.
pub const FAIR: &str = "parking_lot-fair";

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

/// The result of a case under a lock.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case's name.
    pub case: &'static str,
    /// The lock's name.
    pub lock: &'static str,
    /// Nanoseconds for lock and unlock: the median of the samples. In contended cases, the
    /// nanoseconds per acquisition of all threads together.
    pub ns: f64,
    /// The shortest sample.
    pub min_ns: f64,
    /// The first quartile of the samples.
    pub q1_ns: f64,
    /// The third quartile of the samples.
    pub q3_ns: f64,
    /// The longest wait for an acquisition, from the half of each contended round in which every
    /// acquisition was timed. `None` in uncontended cases.
    pub longest_ns: Option<f64>,
    /// The number of samples.
    pub samples: usize,
    /// The length in bytes of the range that is locked. For the full range it is the lock's
    /// capacity.
    pub bytes: u64,
    /// `ns` divided by parking_lot's in the same case. In cases that lock one segment and that
    /// parking_lot cannot run, it is divided by parking_lot's write of one segment. `None` in other
    /// cases, or if parking_lot was not measured.
    pub ratio: Option<f64>,
    /// The targets of this row.
    pub targets: Vec<Target>,
}

impl Row {
    /// Returns whether parking_lot is faster.
    pub fn is_loss(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio > 1.0)
    }

    fn new(case: &'static str, lock: &'static str, bytes: u64, mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        // Interpolates if the position lies between two samples.
        let at = |share: f64| {
            let place = (samples.len() - 1) as f64 * share;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            samples[below] + (samples[above] - samples[below]) * place.fract()
        };
        Row {
            case,
            lock,
            ns: at(0.5),
            min_ns: at(0.0),
            q1_ns: at(0.25),
            q3_ns: at(0.75),
            longest_ns: None,
            samples: samples.len(),
            bytes,
            ratio: None,
            targets: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_test(case: &'static str, lock: &'static str, ns: f64) -> Self {
        Row::new(case, lock, SEGMENT, vec![ns])
    }
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
    compare(&mut rows);
    let ours = candidates.iter().filter(|it| it.ours);
    let ours: Vec<_> = ours.map(|it| it.name).collect();
    let targets = targets::targets(&rows, &ours);
    for row in &mut rows {
        let of_row = |it: &&Target| (it.of.case, it.of.lock) == (row.case, row.lock);
        row.targets = targets.iter().filter(of_row).cloned().collect();
    }
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

/// Fills in the ratios.
fn compare(rows: &mut [Row]) {
    let peer = |case: &str| {
        let mut of_peer = rows.iter().filter(|row| row.lock == PEER);
        of_peer.find(|row| row.case == case).map(|row| row.ns)
    };
    let ratios: Vec<_> = rows
        .iter()
        .map(|row| {
            let one_segment = || peer(CASES[0].name).filter(|_| row.bytes == SEGMENT);
            let against = peer(row.case).or_else(one_segment);
            against.map(|ns| row.ns / ns)
        })
        .collect();
    for (row, ratio) in rows.iter_mut().zip(ratios) {
        row.ratio = ratio;
    }
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
        for case in CONTENDED {
            self.bar.set_message(case.about);
            let all = self.contended_rounds(case, &able)?;
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
        locks: &[(&'static str, Box<dyn MeasuredLock>)],
    ) -> Result<Vec<Rounds>> {
        let half = Duration::from_secs_f64(self.plan.seconds / ROUNDS as f64 / 2.0);
        let mut all: Vec<Rounds> = locks.iter().map(|_| Rounds::default()).collect();
        for first in 0..ROUNDS {
            for turn in 0..locks.len() {
                let place = (first + turn) % locks.len();
                let (name, lock) = &locks[place];
                let told = || format!("{} under {name}", case.name);
                let round = lock.contended(case.threads, half, false);
                let round = round.with_context(told)?.round;
                let timed = lock.contended(case.threads, half, true);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_follow_from_the_samples() {
        let samples = vec![5.0, 1.0, 4.0, 2.0, 3.0];
        let row = Row::new("case", "lock", 1, samples);
        let told = (row.min_ns, row.q1_ns, row.ns, row.q3_ns, row.samples);
        assert_eq!(told, (1.0, 2.0, 3.0, 4.0, 5));
        let row = Row::new("case", "lock", 1, vec![2.0, 1.0]);
        let told = (row.min_ns, row.q1_ns, row.ns, row.q3_ns);
        assert_eq!(told, (1.0, 1.25, 1.5, 1.75));
        let row = Row::of_test("case", "lock", 7.0);
        assert_eq!(
            (row.min_ns, row.q1_ns, row.ns, row.q3_ns),
            (7.0, 7.0, 7.0, 7.0)
        );
    }

    #[test]
    fn a_ratio_uses_the_peer_in_the_same_case_or_its_write() {
        let mut rows = [
            Row::of_test("write/1-segment", "parking_lot", 10.0),
            Row::of_test("read/1-segment", "parking_lot", 20.0),
            Row::of_test("read/1-segment", "a", 10.0),
            Row::of_test("write/held-10", "a", 20.0),
        ];
        compare(&mut rows);
        assert_eq!(
            rows.each_ref().map(|it| it.ratio),
            [1.0, 1.0, 0.5, 2.0].map(Some)
        );
        assert!(rows[3].is_loss() && !rows[2].is_loss());
        compare(&mut rows[2..]);
        assert_eq!(rows[3].ratio, None);
        // A pass over many segments is not compared with a single segment.
        rows[3].bytes = 1 << 30;
        compare(&mut rows);
        assert_eq!(rows[3].ratio, None);
    }
}
