//! A whole run: for each device all contestants, which take turns.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::ProgressBar;

use super::contestants::{Contestant, Made};
use super::devices::Device;
use super::load::{self, Figures, Load};
use super::rows::{COMMIT, Row};
use super::targets::{self, Target};
use super::thesis::{self, Pattern, Servers, Transactions};
use crate::load::{Others, Watch};

/// The most rounds of a cell, and how long one is to be at least if there are fewer.
const ROUNDS: f64 = 7.0;
const ROUND: f64 = 0.1;
/// A round has at least so many flushes, and is at least so long.
const FLUSHES: u32 = 20;
const SHORTEST: Duration = Duration::from_millis(25);

/// What is to be run.
#[derive(Clone)]
pub struct Plan {
    /// Names.
    pub workloads: Vec<&'static str>,
    /// Names.
    pub devices: Vec<&'static str>,
    /// In the order of the list.
    pub contestants: Vec<&'static Contestant>,
    /// Ascending, each once.
    pub threads: Vec<usize>,
    /// In flushes; ascending, each once.
    pub think: Vec<f64>,
    /// For each row.
    pub seconds: f64,
    /// Where the disk's files lie, if not in the folder for temporary files.
    pub dir: Option<PathBuf>,
}

/// A whole run, measured.
#[derive(Clone)]
pub struct Outcome {
    /// By device, load, contestant.
    pub rows: Vec<Row>,
    /// What is to be reached, and what is.
    pub targets: Vec<Target>,
    /// What was run.
    pub plan: Plan,
    /// What each device is.
    pub devices: Vec<String>,
    /// What else ran.
    pub others: Others,
}

impl Plan {
    fn rounds(&self) -> u32 {
        (self.seconds / ROUND).clamp(1.0, ROUNDS) as u32
    }

    /// How long a round is where a flush takes so long.
    fn round(&self, flush: Duration) -> Duration {
        let time = Duration::from_secs_f64(self.seconds) / self.rounds();
        time.max(flush * FLUSHES).max(SHORTEST)
    }

    /// The loads of the thesis' patterns: it has two clients and more.
    fn patterns(&self) -> Vec<Pattern> {
        let clients = self.threads.iter().copied().filter(|&it| it > 1);
        thesis::patterns(&self.workloads, &Vec::from_iter(clients))
    }

    /// Those that have blocks.
    fn journals(&self) -> impl Iterator<Item = &'static Contestant> {
        self.contestants
            .iter()
            .copied()
            .filter(|it| it.has_blocks())
    }

    /// Rounds of all contestants, of everything.
    pub(super) fn steps(&self) -> u64 {
        let grid = if self.workloads.contains(&COMMIT) {
            self.contestants.len() * self.threads.len() * self.think.len()
        } else {
            0
        };
        let patterns = self.journals().count() * self.patterns().len();
        (self.devices.len() * (grid + patterns)) as u64 * u64::from(self.rounds())
    }
}

/// Runs everything that is planned. `bar` shows how far it is; `tell` is given a line for each device.
///
/// # Errors
/// Files or threads cannot be made; a contestant fails, or has lost what it acknowledged.
pub fn run(plan: &Plan, bar: &ProgressBar, tell: impl Fn(&str)) -> Result<Outcome> {
    let watch = Watch::start();
    bar.set_length(plan.steps());
    let (mut rows, mut devices) = (Vec::new(), Vec::new());
    for &name in &plan.devices {
        let device = Device::open(name, plan.dir.as_deref())?;
        tell(&device.told);
        devices.push(device.told.clone());
        if plan.workloads.contains(&COMMIT) {
            grid(plan, &device, bar, &mut rows)?;
        }
        patterns(plan, &device, bar, &mut rows)?;
    }
    let targets = targets::targets(&rows, &plan.devices);
    for row in &mut rows {
        let of_row = targets.iter().filter(|it| Some(it.of) == row.place());
        row.targets = of_row.cloned().collect();
    }
    Ok(Outcome {
        rows,
        targets,
        plan: plan.clone(),
        devices,
        others: watch.others(),
    })
}

/// Small commits, by so many threads that think so long.
fn grid(plan: &Plan, device: &Device, bar: &ProgressBar, rows: &mut Vec<Row>) -> Result<()> {
    bar.set_message(format!("{}: making files", device.name));
    let threads = plan.threads.iter().copied().max().unwrap_or(1);
    let mut made = Vec::new();
    for contestant in &plan.contestants {
        let one = contestant.make(device, threads);
        made.push((*contestant, one.with_context(|| contestant.name)?));
    }
    for &threads in &plan.threads {
        for &think in &plan.think {
            let flush = device.flush_takes()?;
            bar.set_message(format!("{}: {threads} threads, think {think}", device.name));
            let load = Load {
                threads,
                think: flush.mul_f64(think),
                time: plan.round(flush),
            };
            let all = in_turn(plan, bar, made.len(), |place, figures: &mut Figures| {
                let (contestant, made) = &made[place];
                one_round(made, load, figures)
                    .with_context(|| format!("{} on {}", contestant.name, device.name))
            })?;
            for ((contestant, _), figures) in made.iter().zip(&all) {
                let who = (contestant.name, contestant.of_others());
                let load = (threads, Some(think));
                rows.push(Row::new(COMMIT, who, device.name, load, figures));
            }
        }
    }
    for (contestant, made) in made {
        let ended = made.commits.end(device);
        ended.with_context(|| format!("{} on {}", contestant.name, device.name))?;
    }
    Ok(())
}

fn one_round(made: &Made, load: Load, figures: &mut Figures) -> Result<()> {
    made.commits.tidy()?;
    let commit = |thread| made.commits.commit(thread);
    load::round(load, commit, &[&made.meter], || {}, figures)
}

/// All rounds of so many, each round beginning with another; returns what each has come to.
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

/// The thesis' patterns, under the journals of blocks.
fn patterns(plan: &Plan, device: &Device, bar: &ProgressBar, rows: &mut Vec<Row>) -> Result<()> {
    let patterns = plan.patterns();
    let clients = patterns.iter().map(|it| it.clients).max();
    let Some(clients) = clients.filter(|_| plan.journals().count() > 0) else {
        return Ok(());
    };
    bar.set_message(format!("{}: making files", device.name));
    let data = thesis::data(device, clients)?;
    let servers = plan
        .journals()
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
