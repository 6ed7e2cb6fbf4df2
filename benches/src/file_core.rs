//! The file core next to the bare work of its stores: `cargo compare file-core`.
//!
//! A *case* is an operation, and a *row* is a case with a lock and a number of threads. The locks
//! and the bare writes take turns, and each round begins with a different one, so that other load
//! on the machine affects all of them equally. Flushes and fences are counted in a separate pass
//! that is not timed.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `operations.rs` | the operations, one entry each |
//! | `limit.rs` | the bare work of an overwrite |
//! | `counting.rs` | a region that counts flushes and fences |
//! | `drive.rs` | repeats an operation and measures it |
//! | `targets.rs` | ratios and targets |

pub mod args;
pub mod counting;
pub mod drive;
pub mod limit;
pub mod operations;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::Serialize;
use spanlock_file_core::{FileCore, FormatOptions};
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RwCounter;

use self::drive::{Exact, Measured, OneRound};
use self::limit::Bare;
use self::operations::{BATCH, Operation, Pace, Stage, hot_bytes, operations};
use crate::load::{LoadWatch, Others};
use crate::locks;
use crate::measure::{self, Latencies, median};
use crate::scratch::Scratch;
use crate::target::Target;

/// The measurements to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names of the cases, in the order in which they are reported.
    pub cases: Vec<&'static str>,
    /// Names of locks, in the order of the list of locks.
    pub locks: Vec<&'static str>,
    /// Thread counts of the overwrites, ascending and without duplicates.
    pub threads: Vec<usize>,
    /// Seconds for each row.
    pub seconds: f64,
    /// The folder of the temporary volume. `None` for the default.
    pub dir: Option<PathBuf>,
}

/// The result of a case with a lock and a number of threads. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case's name.
    pub case: &'static str,
    /// The lock's name, or `limit` or `copy` for the [bare work](limit).
    pub lock: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// Operations per second of all threads together: the median of the rounds.
    pub ops_per_s: f64,
    /// `ops_per_s` divided by the limit's with the same number of threads. `None` if the case has
    /// no limit.
    pub to_limit: Option<f64>,
    /// `ops_per_s` divided by that of one thread with the same lock. `None` if that was not
    /// measured.
    pub to_one_thread: Option<f64>,
    /// The fastest whole-file lock in this case with as many threads. `None` if none was measured.
    pub whole_file: Option<&'static str>,
    /// `ops_per_s` divided by that lock's.
    pub to_whole_file: Option<f64>,
    /// Lines of 64 bytes that an operation usually flushes. Streamed bytes need no flush.
    pub flushes: u64,
    /// Fences that an operation usually takes.
    pub fences: u64,
    /// The most lines that one operation flushed.
    pub most_flushes: u64,
    /// The most fences that one operation took.
    pub most_fences: u64,
    /// The median latency.
    pub p50_ns: u64,
    /// The 99th percentile of the latencies.
    pub p99_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
    /// Cleanings during the rounds that copied what was live in a log.
    pub cleanings: u64,
    /// Log pages that cleanings unlinked during the rounds.
    pub unlinked_pages: u64,
    /// Operations per second of each round.
    pub rounds: Vec<f64>,
    /// The targets of this row.
    pub targets: Vec<Target>,
}

impl Row {
    /// Returns whether the row shows the bare work, without a file core.
    pub fn is_bare(&self) -> bool {
        Bare::ALL.iter().any(|it| it.name() == self.lock)
    }

    /// Returns a row without figures.
    fn empty(case: &'static str, lock: &'static str, threads: usize) -> Self {
        Row {
            case,
            lock,
            threads,
            ops_per_s: 0.0,
            to_limit: None,
            to_one_thread: None,
            whole_file: None,
            to_whole_file: None,
            flushes: 0,
            fences: 0,
            most_flushes: 0,
            most_fences: 0,
            p50_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            cleanings: 0,
            unlinked_pages: 0,
            rounds: Vec::new(),
            targets: Vec::new(),
        }
    }
}

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows by case, then threads, then lock.
    pub rows: Vec<Row>,
    /// A description of the volume and its location.
    pub volume: String,
    /// The seconds for which each row was measured.
    pub seconds: f64,
    /// The load caused by other programs.
    pub others: Others,
}

/// Runs everything that is planned. `bar` counts the rounds; `say` receives messages before they
/// start.
///
/// # Errors
/// The folder cannot hold the volume, an operation fails, or no thread can be started.
pub fn run(plan: &Plan, bar: &ProgressBar, say: impl Fn(&str)) -> Result<Outcome> {
    let watch = LoadWatch::start();
    let threads = plan.threads.iter().copied().max().unwrap_or(1);
    let media = Media::new(plan, threads)?;
    let volume = media.volume.description()?;
    say(&format!("volume: {volume}"));
    let all = operations::<MappedFile, RwCounter>();
    let chosen = all.iter().enumerate();
    let chosen: Vec<_> = chosen
        .filter(|(_, it)| plan.cases.contains(&it.name))
        .flat_map(|(place, operation)| {
            let threads = match operation.pace {
                Pace::Repeated => &plan.threads[..],
                Pace::Batches | Pace::EachTimed => &[1],
            };
            threads.iter().map(move |&threads| Cell {
                operation,
                place,
                threads,
            })
        })
        .collect();
    let rounds = chosen
        .iter()
        .map(|it| it.contestants(plan).len() * it.operation.pace.rounds());
    bar.set_length(rounds.sum::<usize>() as u64);
    let mut rows = Vec::new();
    for cell in &chosen {
        rows.append(&mut cell.rows(plan, &media, bar)?);
    }
    targets::compare(&mut rows);
    Ok(Outcome {
        rows,
        volume,
        seconds: plan.seconds,
        others: watch.others(),
    })
}

/// The regions of a run, all of one kind.
struct Media {
    /// The volume that is measured.
    volume: Scratch,
    /// The region of bare writes.
    bare: Scratch,
    /// The volume for counting.
    counted: Scratch,
}

impl Media {
    fn new(plan: &Plan, threads: usize) -> Result<Self> {
        let dir = plan.dir.as_deref();
        let media = Media {
            volume: Scratch::new(dir, volume_bytes(threads))?,
            bare: Scratch::new(dir, limit::region_bytes(threads))?,
            counted: Scratch::new(dir, volume_bytes(1))?,
        };
        let region = media.volume.map()?;
        let volume = FileCore::format(region, &format(threads), |_| RwCounter::new())?;
        let stage = Stage::new(volume);
        stage.fill(threads).context("filling the volume")?;
        Ok(media)
    }
}

/// Returns the size of a volume for all operations with at most `threads` threads.
fn volume_bytes(threads: usize) -> u64 {
    2 * hot_bytes(threads) + (64 << 20)
}

/// Returns the format of such a volume.
fn format(threads: usize) -> FormatOptions {
    FormatOptions::new()
        .inodes(BATCH as u32 + 64)
        .max_file_size(hot_bytes(threads))
}

/// An operation with a number of threads.
struct Cell<'a> {
    operation: &'a Operation<MappedFile, RwCounter>,
    /// The operation's place in the list.
    place: usize,
    threads: usize,
}

/// One that takes turns with others.
#[derive(Clone, Copy)]
enum Contestant {
    Lock(&'static str),
    Bare(Bare, usize),
}

impl Contestant {
    fn name(self) -> &'static str {
        match self {
            Contestant::Lock(name) => name,
            Contestant::Bare(kind, _) => kind.name(),
        }
    }
}

impl Cell<'_> {
    fn contestants(&self, plan: &Plan) -> Vec<Contestant> {
        let mut all: Vec<_> = plan.locks.iter().map(|&it| Contestant::Lock(it)).collect();
        if let Some(bytes) = self.operation.bare_bytes {
            all.extend(Bare::ALL.map(|kind| Contestant::Bare(kind, bytes)));
        }
        all
    }

    fn rows(&self, plan: &Plan, media: &Media, bar: &ProgressBar) -> Result<Vec<Row>> {
        let (case, threads) = (self.operation.name, self.threads);
        bar.set_message(format!("{case}, {}", crate::report::thread_count(threads)));
        let contestants = self.contestants(plan);
        let mut all: Vec<_> = contestants
            .iter()
            .map(|it| (Row::empty(case, it.name(), threads), measure::latencies()))
            .collect();
        let rounds = self.operation.pace.rounds();
        let duration = Duration::from_secs_f64(plan.seconds / rounds as f64);
        for first in 0..rounds {
            for turn in 0..contestants.len() {
                let place = (first + turn) % contestants.len();
                let contestant = contestants[place];
                let measured = self.round(contestant, media, duration);
                let measured =
                    measured.with_context(|| format!("{case} with {}", contestant.name()))?;
                let (row, latencies) = &mut all[place];
                row.add(&measured, latencies);
                bar.inc(1);
            }
        }
        let exact = drive::exact(&media.counted, self.place)
            .with_context(|| format!("counting the flushes of {case}"))?;
        let finished = contestants
            .iter()
            .zip(all)
            .map(|(it, (mut row, latencies))| {
                let exact = match *it {
                    Contestant::Lock(_) => exact,
                    Contestant::Bare(kind, bytes) => drive::exact_bare(&media.bare, kind, bytes)?,
                };
                row.finish(&latencies, exact);
                Ok(row)
            });
        finished.collect()
    }

    fn round(&self, contestant: Contestant, media: &Media, duration: Duration) -> Result<Measured> {
        let threads = self.threads;
        match contestant {
            Contestant::Lock(name) => locks::with(
                name,
                OneRound {
                    scratch: &media.volume,
                    operation: self.place,
                    threads,
                    duration,
                },
            ),
            Contestant::Bare(kind, bytes) => {
                let pace = self.operation.pace;
                drive::bare_round(&media.bare, kind, bytes, pace, threads, duration)
            }
        }
    }
}

impl Row {
    /// Adds a round.
    fn add(&mut self, measured: &Measured, latencies: &mut Latencies) {
        self.rounds.push(measured.ops_per_s);
        self.cleanings += measured.cleanings;
        self.unlinked_pages += measured.unlinked_pages;
        *latencies += &measured.latencies;
    }

    /// Fills in what follows from all rounds.
    fn finish(&mut self, latencies: &Latencies, exact: Exact) {
        self.ops_per_s = median(&self.rounds);
        self.p50_ns = latencies.value_at_quantile(0.5);
        self.p99_ns = latencies.value_at_quantile(0.99);
        self.max_ns = latencies.max();
        (self.flushes, self.fences) = (exact.usual.flushes, exact.usual.fences);
        (self.most_flushes, self.most_fences) = (exact.most.flushes, exact.most.fences);
    }
}
