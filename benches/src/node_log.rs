//! Node logging in persistent memory and in blocks, beside files: `cargo compare node-log`.
//!
//! A *case* is a workload of the paper, or a part of the system. A *row* is a case with a system
//! and a number of threads. All rows of a case take turns, and each round begins with a different
//! one, so that other load on the machine affects all of them equally.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `work.rs` | the cases, with the paper's parameters |
//! | `systems.rs` | the systems |
//! | `media.rs` | the disk and the persistent memory |
//! | `subjects.rs` | volumes and files behind traits |
//! | `drive.rs` | prepares and measures a case |
//! | `meter.rs` | times the operations of one thread |
//! | `lookup.rs` | lookups of direct nodes |
//! | `rows.rs` | the results |
//! | `targets.rs` | ratios and targets |
//! | `paper.rs` | the papers' figures |

pub mod args;
mod drive;
mod lookup;
mod media;
mod meter;
mod paper;
mod rows;
mod subjects;
pub mod systems;
pub mod targets;
pub mod work;

pub use rows::{Beside, Row, Times};

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;

use self::drive::Measured;
use self::media::Media;
use self::rows::Sums;
use self::subjects::Files;
use self::systems::System;
use self::work::{Case, DWOM_DIRECT, LOOKUP};
use crate::load::{LoadWatch, Others};
use crate::measure::thread_count;
use crate::target::Target;

/// Rounds of each row.
pub const ROUNDS: usize = 5;

/// The measurements to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Cases, in the order in which they are reported.
    pub cases: Vec<&'static Case>,
    /// Systems, in the order in which they are reported.
    pub systems: Vec<&'static System>,
    /// Thread counts, ascending and without duplicates.
    pub threads: Vec<usize>,
    /// Seconds for each row.
    pub seconds: f64,
    /// The folder of the disk's files. `None` for the default.
    pub dir: Option<PathBuf>,
}

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows by case, then threads.
    pub rows: Vec<Row>,
    /// Descriptions of the media and their locations.
    pub media: Vec<String>,
    /// The seconds for which each row was measured.
    pub seconds: f64,
    /// The load caused by other programs.
    pub others: Others,
}

impl Outcome {
    /// Returns the targets of all rows.
    pub fn all_targets(&self) -> Vec<Target> {
        let targets = self.rows.iter().flat_map(|it| &it.targets);
        targets.cloned().collect()
    }
}

/// Runs everything that is planned. `bar` counts the rounds; `say` receives messages before they
/// start.
///
/// # Errors
/// A medium does not have enough room, an operation fails, or no thread can be started.
pub fn run(plan: &Plan, bar: &ProgressBar, say: impl Fn(&str)) -> Result<Outcome> {
    let watch = LoadWatch::start();
    let media = Media::open(plan.dir.as_deref())?;
    for told in media.told() {
        say(told);
    }
    let cases = possible(plan, &media, &say)?;
    let rounds = cases.iter().map(|case| match case.name {
        LOOKUP => lookup::WAYS.len(),
        _ => case.systems(&plan.systems).count(),
    });
    bar.set_length((rounds.sum::<usize>() * plan.threads.len() * ROUNDS) as u64);
    let mut rows = Vec::new();
    for case in cases {
        let measured = match case.name {
            LOOKUP => lookups(plan, &media, case, bar),
            _ => in_case(plan, &media, case, bar),
        };
        rows.append(&mut media.advise(measured.with_context(|| case.name))?);
    }
    targets::compare(&mut rows);
    Ok(Outcome {
        rows,
        media: media.told().to_vec(),
        seconds: plan.seconds,
        others: watch.others(),
    })
}

/// Returns the cases that can be measured here: where files cannot bypass the page cache, not all.
fn possible(plan: &Plan, media: &Media, say: impl Fn(&str)) -> Result<Vec<&'static Case>> {
    let mut cases = plan.cases.clone();
    if cases.iter().any(|it| it.is_direct)
        && let Err(error) = media.check_direct()
    {
        say(&format!("{DWOM_DIRECT} is left out: {error:#}"));
        cases.retain(|it| !it.is_direct);
    }
    ensure!(
        !cases.is_empty(),
        "no case is left: choose others with --case, or another folder with --dir"
    );
    Ok(cases)
}

impl Plan {
    fn most_threads(&self) -> usize {
        self.threads.iter().copied().max().unwrap_or(1)
    }

    fn round(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / ROUNDS as f64)
    }
}

/// Runs a case on all systems, with each number of threads.
fn in_case(plan: &Plan, media: &Media, case: &'static Case, bar: &ProgressBar) -> Result<Vec<Row>> {
    let mut prepared: Vec<(&str, Box<dyn Files>)> = Vec::new();
    for system in case.systems(&plan.systems) {
        bar.set_message(format!("{}, preparing {}", case.name, system.name));
        let made = drive::prepare(case, system, media, plan.most_threads());
        prepared.push((system.name, made.with_context(|| system.name)?));
    }
    let names: Vec<_> = prepared.iter().map(|it| it.0).collect();
    in_turns(plan, case, &names, bar, |place, threads| {
        drive::round(case, &*prepared[place].1, threads, plan.round())
    })
}

/// Measures the lookups, each way on a volume of its own.
fn lookups(plan: &Plan, media: &Media, case: &'static Case, bar: &ProgressBar) -> Result<Vec<Row>> {
    let mut volumes = Vec::new();
    for (_, way) in lookup::WAYS {
        bar.set_message(format!("{}, preparing", case.name));
        volumes.push(lookup::prepare(media, way, plan.most_threads())?);
    }
    let names = lookup::WAYS.map(|it| it.0);
    in_turns(plan, case, &names, bar, |place, threads| {
        lookup::round(&volumes[place], threads, plan.round())
    })
}

/// Runs the rounds of a case's contestants in turns.
fn in_turns(
    plan: &Plan,
    case: &'static Case,
    names: &[&'static str],
    bar: &ProgressBar,
    round: impl Fn(usize, usize) -> Result<Measured>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &threads in &plan.threads {
        bar.set_message(format!("{}, {}", case.name, thread_count(threads)));
        let mut all: Vec<_> = names.iter().map(|_| Sums::default()).collect();
        for first in 0..ROUNDS {
            for turn in 0..names.len() {
                let place = (first + turn) % names.len();
                let measured = round(place, threads)
                    .with_context(|| format!("{} with {}", names[place], thread_count(threads)))?;
                all[place].add(measured);
                bar.inc(1);
            }
        }
        let of_case = names.iter().zip(all);
        rows.extend(of_case.map(|(name, sums)| sums.row(case, name, threads)));
    }
    Ok(rows)
}
