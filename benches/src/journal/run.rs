//! A whole run: on each device, all contestants take turns.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::ProgressBar;

use super::contestants::{Contestant, Made};
use super::devices::Device;
use super::load::{self, Figures, Load};
use super::rows::{BLOCKS, COMMIT, COUNTS, Row};
use super::targets;
use super::thesis::{self, Pattern, Servers, Transactions};
use crate::load::{LoadWatch, Others};
use crate::target::Target;

/// The maximum number of rounds of a cell. There are fewer if rounds would be shorter than `ROUND`
/// seconds.
const ROUNDS: f64 = 7.0;
const ROUND: f64 = 0.1;
/// A round lasts at least as long as this many flushes, and at least `SHORTEST`.
const FLUSHES: u32 = 20;
const SHORTEST: Duration = Duration::from_millis(25);

/// The measurements to perform.
#[derive(Clone)]
pub struct Plan {
    /// The names of the workloads.
    pub workloads: Vec<&'static str>,
    /// The names of the devices.
    pub devices: Vec<&'static str>,
    /// The contestants, in the order of the list.
    pub contestants: Vec<&'static Contestant>,
    /// Thread counts, ascending and without duplicates.
    pub threads: Vec<usize>,
    /// Think times in flushes, ascending and without duplicates.
    pub think: Vec<f64>,
    /// Seconds for each row.
    pub seconds: f64,
    /// The folder for the disk's files; `None` for the folder for temporary files.
    pub dir: Option<PathBuf>,
}

/// The result of a whole run.
#[derive(Clone)]
pub struct Outcome {
    /// The rows by device, load, and contestant.
    pub rows: Vec<Row>,
    /// The targets, with verdicts.
    pub targets: Vec<Target>,
    /// The plan that was run.
    pub plan: Plan,
    /// A description of each device.
    pub devices: Vec<String>,
    /// The load caused by other programs.
    pub others: Others,
}

impl Plan {
    fn rounds(&self) -> u32 {
        (self.seconds / ROUND).clamp(1.0, ROUNDS) as u32
    }

    /// Returns the length of a round, given the duration of a flush.
    fn round(&self, flush: Duration) -> Duration {
        let time = Duration::from_secs_f64(self.seconds) / self.rounds();
        time.max(flush * FLUSHES).max(SHORTEST)
    }

    /// Returns the loads of the thesis' patterns, which have at least two clients.
    fn patterns(&self) -> Vec<Pattern> {
        let clients = self.threads.iter().copied().filter(|&it| it > 1);
        thesis::patterns(&self.workloads, &Vec::from_iter(clients))
    }

    /// Returns the block journals on a device.
    fn journals(&self, device: &str) -> impl Iterator<Item = &'static Contestant> {
        let all = self.contestants.iter().copied();
        all.filter(move |it| it.has_blocks() && it.is_on(device))
    }

    /// Returns the closed loops of a workload: the think time and the number of blocks of each.
    fn loops(&self, workload: &str) -> Vec<(f64, u64)> {
        match workload {
            _ if !self.workloads.contains(&workload) => Vec::new(),
            BLOCKS => COUNTS.map(|blocks| (0.0, blocks)).to_vec(),
            _ => self.think.iter().map(|&think| (think, 1)).collect(),
        }
    }

    /// Returns the contestants of a closed loop on a device.
    fn contestants_of(&self, workload: &str, device: &str) -> Vec<&'static Contestant> {
        let all = self.contestants.iter().copied();
        let all = all.filter(|it| it.is_on(device));
        all.filter(|it| workload != BLOCKS || it.has_blocks())
            .collect()
    }

    /// Returns the number of contestant rounds in the whole run.
    pub(super) fn steps(&self) -> u64 {
        self.devices
            .iter()
            .map(|device| self.steps_on(device))
            .sum()
    }

    fn steps_on(&self, device: &str) -> u64 {
        let of_workload = |workload| {
            let contestants = self.contestants_of(workload, device).len();
            contestants * self.threads.len() * self.loops(workload).len()
        };
        let grid: usize = [COMMIT, BLOCKS].map(of_workload).iter().sum();
        let patterns = self.journals(device).count() * self.patterns().len();
        (grid + patterns) as u64 * u64::from(self.rounds())
    }
}

/// Runs everything that is planned. `bar` shows the progress; `tell` receives a line for each
/// device.
///
/// # Errors
/// Files or threads cannot be created, a contestant fails, or it has lost an acknowledged commit.
pub fn run(plan: &Plan, bar: &ProgressBar, tell: impl Fn(&str)) -> Result<Outcome> {
    let watch = LoadWatch::start();
    bar.set_length(plan.steps());
    let (mut rows, mut devices) = (Vec::new(), Vec::new());
    for &name in &plan.devices {
        let mut device = Device::open(name, plan.dir.as_deref())?;
        let unusable = device.check();
        if let Err(why) = &unusable {
            device.told += &format!("; skipped: {why:#}");
        }
        tell(&device.told);
        devices.push(device.told.clone());
        if unusable.is_err() {
            bar.inc(plan.steps_on(name));
            continue;
        }
        device.advise(workloads(plan, &device, bar, &mut rows))?;
    }
    let targets = targets::judge(&mut rows, &plan.devices);
    Ok(Outcome {
        rows,
        targets,
        plan: plan.clone(),
        devices,
        others: watch.others(),
    })
}

fn workloads(plan: &Plan, device: &Device, bar: &ProgressBar, rows: &mut Vec<Row>) -> Result<()> {
    for workload in [COMMIT, BLOCKS] {
        grid(plan, workload, device, bar, rows)?;
    }
    patterns(plan, device, bar, rows)
}

/// Measures a closed loop under every number of threads, and every think time or number of blocks.
fn grid(
    plan: &Plan,
    workload: &'static str,
    device: &Device,
    bar: &ProgressBar,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let loops = plan.loops(workload);
    let contestants = plan.contestants_of(workload, device.name);
    if loops.is_empty() || contestants.is_empty() {
        return Ok(());
    }
    bar.set_message(format!("{}: creating files", device.name));
    let threads = plan.threads.iter().copied().max().unwrap_or(1);
    let mut made = Vec::new();
    for contestant in contestants {
        let one = contestant.make(device, workload, threads);
        made.push((contestant, one.with_context(|| contestant.name)?));
    }
    for &threads in &plan.threads {
        for &(think, blocks) in &loops {
            let flush = device.flush_takes()?;
            let told = match workload {
                BLOCKS => format!("{blocks} blocks"),
                _ => format!("think {think}"),
            };
            bar.set_message(format!("{}: {threads} threads, {told}", device.name));
            let load = Load {
                threads,
                think: flush.mul_f64(think),
                time: plan.round(flush),
            };
            let all = in_turn(plan, bar, made.len(), |place, figures: &mut Figures| {
                let (contestant, made) = &made[place];
                one_round(made, load, blocks, figures)
                    .with_context(|| format!("{} on {}", contestant.name, device.name))
            })?;
            for ((contestant, _), figures) in made.iter().zip(&all) {
                let who = (contestant.name, contestant.of_others());
                let load = (threads, Some(think), Some(blocks));
                rows.push(Row::new(workload, who, device.name, load, figures));
            }
        }
    }
    for (contestant, made) in made {
        let ended = made.commits.end(device);
        ended.with_context(|| format!("{} on {}", contestant.name, device.name))?;
    }
    Ok(())
}

fn one_round(made: &Made, load: Load, blocks: u64, figures: &mut Figures) -> Result<()> {
    made.commits.tidy()?;
    let commit = |thread| made.commits.commit(thread, blocks);
    load::round(load, commit, &[&made.meter], || {}, figures)
}

/// Runs all rounds of `count` contestants, starting each round with a different one. Returns the
/// results of each.
fn in_turn<T: Default + Clone>(
    plan: &Plan,
    bar: &ProgressBar,
    count: usize,
    mut round: impl FnMut(usize, &mut T) -> Result<()>,
) -> Result<Vec<T>> {
    let mut all = vec![T::default(); count];
    for first in 0..plan.rounds() as usize {
        for turn in 0..count {
            let place = (first + turn) % count;
            round(place, &mut all[place])?;
            bar.inc(1);
        }
    }
    Ok(all)
}

/// Measures the thesis' patterns on the block journals.
fn patterns(plan: &Plan, device: &Device, bar: &ProgressBar, rows: &mut Vec<Row>) -> Result<()> {
    let patterns = plan.patterns();
    let clients = patterns.iter().map(|it| it.clients).max();
    let Some(clients) = clients.filter(|_| plan.journals(device.name).count() > 0) else {
        return Ok(());
    };
    bar.set_message(format!("{}: creating files", device.name));
    let data = thesis::Data::make(device, clients)?;
    let servers = plan
        .journals(device.name)
        .map(|it| Servers::make(it, device, &data, clients))
        .collect::<Result<Vec<_>>>()?;
    for pattern in patterns {
        let Pattern {
            workload, clients, ..
        } = pattern;
        bar.set_message(format!("{}: {workload}, {clients} clients", device.name));
        let time = plan.round(device.flush_takes()?);
        type Both = (Figures, Transactions);
        let all = in_turn(plan, bar, servers.len(), |place, both: &mut Both| {
            servers[place].round(pattern, time, &mut both.0, &mut both.1)
        })?;
        for (servers, (figures, stats)) in servers.iter().zip(&all) {
            rows.push(servers.row(pattern, device.name, figures, stats));
        }
    }
    for servers in servers {
        servers.end()?;
    }
    Ok(())
}
