//! The object store beside files, raw bytes and the paper's figures: `cargo compare objects`.
//!
//! A *case* is an operation with its parameters. A *row* is a case with a layout and a mode of the
//! store, or with what is measured in its place, on a device, with a number of threads. All rows of
//! a case take turns, and each round begins with a different one, so that other load on the machine
//! affects all of them equally.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `work.rs` | the cases and the contestants |
//! | `devices.rs` | persistent memory and disks |
//! | `subjects.rs` | stores, spaces and raw bytes behind traits |
//! | `drive.rs` | measures a contestant |
//! | `rows.rs` | the results |
//! | `targets.rs` | ratios and targets |
//! | `paper.rs` | the paper's figures |

pub mod args;
pub mod devices;
pub mod drive;
pub mod paper;
mod rows;
pub mod subjects;
pub mod targets;
pub mod work;

pub use rows::Row;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;

use self::devices::{DIRECT, Device, PMEM};
use self::drive::Bench;
use self::paper::Beside;
use self::work::{CHECKPOINTS, Work, cells};
use crate::load::{LoadWatch, Others};
use crate::measure::{self, thread_count};
use crate::target::Target;

/// Rounds of each row.
pub const ROUNDS: usize = 5;

/// The measurements to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Groups of cases, in the order in which they are reported.
    pub groups: Vec<&'static str>,
    /// The names of devices, in the order in which they are reported.
    pub devices: Vec<&'static str>,
    /// Thread counts, ascending and without duplicates.
    pub threads: Vec<usize>,
    /// Seconds for each row.
    pub seconds: f64,
    /// The folder of the disk's devices. `None` for the default.
    pub dir: Option<PathBuf>,
}

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows by device, then case, then threads.
    pub rows: Vec<Row>,
    /// The targets, each of the worst row.
    pub targets: Vec<Target>,
    /// The paper's figures that have a counterpart.
    pub paper: Vec<Beside>,
    /// Descriptions of the devices and their locations.
    pub devices: Vec<String>,
    /// The seconds for which each row was measured.
    pub seconds: f64,
    /// The load caused by other programs.
    pub others: Others,
}

/// Runs everything that is planned. `bar` counts the rounds; `say` receives messages before they
/// start.
///
/// # Errors
/// A device does not have enough room, an operation fails, or no thread can be started.
pub fn run(plan: &Plan, bar: &ProgressBar, say: impl Fn(&str)) -> Result<Outcome> {
    let watch = LoadWatch::start();
    let devices = opened(plan, &say)?;
    let mut all = Vec::new();
    for (nth, device) in devices.iter().enumerate() {
        // Files on a disk are measured once.
        let with_files = device.name == PMEM || devices[..nth].iter().all(|it| it.name == PMEM);
        let groups = plan.groups.iter().map(|it| (*it, cells(it, with_files)));
        all.push((device, groups.collect::<Vec<_>>()));
    }
    let groups = all.iter().flat_map(|(_, groups)| groups);
    let rounds = groups.map(|(group, cells)| {
        let contestants: usize = cells.iter().map(Vec::len).sum();
        contestants * plan.threads.len() * rounds_of(group)
    });
    bar.set_length(rounds.sum::<usize>() as u64);
    let mut rows = Vec::new();
    for (device, groups) in &all {
        rows.append(&mut on_device(plan, device, groups, bar)?);
    }
    targets::compare(&mut rows);
    Ok(Outcome {
        targets: targets::worst(&rows),
        paper: paper::beside(&rows, &plan.devices),
        rows,
        devices: devices.into_iter().map(|it| it.told).collect(),
        seconds: plan.seconds,
        others: watch.others(),
    })
}

/// Opens the devices, and says where they are. A disk that cannot bypass the page cache is left
/// out.
fn opened(plan: &Plan, say: impl Fn(&str)) -> Result<Vec<Device>> {
    let mut devices = Vec::new();
    for &name in &plan.devices {
        let device = Device::open(name, plan.dir.as_deref())?;
        match device.check() {
            Err(error) if name == DIRECT => say(&format!("{name} is left out: {error:#}")),
            checked => {
                device.advise(checked)?;
                say(&device.told);
                devices.push(device);
            }
        }
    }
    ensure!(
        !devices.is_empty(),
        "no device is left: choose others with --device, or another folder with --dir"
    );
    Ok(devices)
}

fn rounds_of(group: &str) -> usize {
    // Such a row needs a long time without interruption.
    if group == CHECKPOINTS { 1 } else { ROUNDS }
}

/// Runs all groups on a device.
fn on_device(
    plan: &Plan,
    device: &Device,
    groups: &[(&str, Vec<Vec<Work>>)],
    bar: &ProgressBar,
) -> Result<Vec<Row>> {
    let threads = plan.threads.iter().copied().max().unwrap_or(1);
    let duration = Duration::from_secs_f64(plan.seconds / ROUNDS as f64);
    let mut bench = Bench::new(device, threads, duration);
    let mut rows = Vec::new();
    for (group, cells) in groups {
        for cell in cells {
            for &threads in &plan.threads {
                let about = format!("{group}, {}, {}", device.name, thread_count(threads));
                bar.set_message(about);
                rows.append(&mut in_turns(
                    &mut bench,
                    cell,
                    threads,
                    rounds_of(group),
                    bar,
                )?);
            }
        }
        bench.clear();
    }
    Ok(rows)
}

/// Runs the contestants of a case in turns.
fn in_turns(
    bench: &mut Bench<'_>,
    cell: &[Work],
    threads: usize,
    rounds: usize,
    bar: &ProgressBar,
) -> Result<Vec<Row>> {
    let empty = |work| Row::empty(work, bench.device(), threads);
    let mut all: Vec<_> = cell
        .iter()
        .map(|it| (empty(it), measure::latencies()))
        .collect();
    for first in 0..rounds {
        for turn in 0..cell.len() {
            let place = (first + turn) % cell.len();
            let (row, latencies) = &mut all[place];
            let measured = bench
                .round(&cell[place], threads)
                .with_context(|| format!("{} with {} on {}", row.case, row.layout, row.device))?;
            row.add(&measured, latencies);
            bar.inc(1);
        }
    }
    let finished = all.into_iter().map(|(mut row, latencies)| {
        row.finish(&latencies);
        row
    });
    Ok(finished.collect())
}
