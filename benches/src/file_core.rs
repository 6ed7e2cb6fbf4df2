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
//! | `rows.rs` | the results |
//! | `targets.rs` | ratios and targets |

pub mod args;
pub mod counting;
pub mod drive;
pub mod limit;
pub mod operations;
mod rows;
pub mod targets;

pub use rows::Row;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use spanlock_file_core::Volume;
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RwCounter;

use self::drive::{Measured, OneRound};
use self::limit::Bare;
use self::operations::{Operation, Pace, Stage, format, operations, volume_bytes};
use crate::load::{LoadWatch, Others};
use crate::locks;
use crate::measure::{self, thread_count};
use crate::scratch::Scratch;

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
        let volume = Volume::format(region, &format(threads), |_| RwCounter::new())?;
        let stage = Stage::new(volume);
        stage.fill(threads).context("filling the volume")?;
        Ok(media)
    }
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
        bar.set_message(format!("{case}, {}", thread_count(threads)));
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
