//! The comparison: every workload with every lock and number of threads, in interleaved rounds.
//!
//! A *cell* is a workload, a lock and a number of threads. The rounds of the locks take turns, and
//! each round begins with another lock, so that whatever else the machine does hits all locks
//! alike. Each round opens the volume anew, which recovers it; so all locks use the same memory.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::Serialize;
use spanlock_range_lock::RawRangeLock;
use walkdir::DirEntry;

use crate::cli::Plan;
use crate::import::{self, Progress, Tree};
use crate::load::{Others, Watch};
use crate::locks::{self, BASELINE, Make, Task};
use crate::measure::{self, Round, median};
use crate::report;
use crate::volume::{self, Needs, PREFIX, Volume};
use crate::workloads::{self, IMPORT, PAGES_APART, SHARED_FILE, SharedFile};

/// Rounds of each cell on the shared file.
pub const ROUNDS: usize = 7;

/// The most rounds of an import; a large folder has fewer, as many as fit the time, at least one.
pub const MOST_IMPORTS: usize = 21;

/// A cell, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: &'static str,
    /// The lock's name.
    pub lock: &'static str,
    /// How many.
    pub threads: usize,
    /// Operations a second of all threads together: the median of the rounds.
    pub ops_per_s: f64,
    /// Megabytes (10⁶) a second, likewise.
    pub mb_per_s: f64,
    /// Half of the sampled operations of all rounds took at most so long, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 of them.
    pub p99_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
    /// `ops_per_s` divided by the baseline's, at the same number of threads; rounded to thousandths.
    /// `None` if the baseline was not measured.
    pub ratio: Option<f64>,
    /// Operations a second of each round.
    pub rounds: Vec<f64>,
}

impl Row {
    /// Whether the baseline is faster.
    pub fn is_loss(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio < 1.0)
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By workload, then threads, then lock.
    pub rows: Vec<Row>,
    /// What and where the volume is.
    pub volume: String,
    /// What the import did, if there was one.
    pub imported: Option<String>,
    /// What each cell was measured for.
    pub seconds: f64,
    /// What else ran.
    pub others: Others,
}

/// Runs everything that is planned. `bar` counts the rounds; `say` tells what is known before.
///
/// # Errors
/// The folder cannot be read; the volume cannot be made, opened, or is full; something read back is
/// not what was written.
pub fn run(plan: &Plan, bar: &ProgressBar, say: impl Fn(&str)) -> Result<Outcome> {
    let watch = Watch::start();
    let tree = if plan.workloads.contains(&IMPORT) {
        Some(read_tree(plan)?)
    } else {
        None
    };
    let slots = plan
        .threads
        .iter()
        .copied()
        .max()
        .unwrap_or(1)
        .max(measure::cores());
    let shared: Vec<SharedFile> = SHARED_FILE
        .into_iter()
        .filter(|it| plan.workloads.contains(&it.name))
        .collect();
    let needs = needs(tree.as_ref(), if shared.is_empty() { 0 } else { slots });
    let volume = match &plan.volume {
        Some(path) => Volume::at(path, plan.size.as_ref(), &needs)?,
        None => Volume::temporary(plan.size.as_ref(), &needs)?,
    };
    say(&format!("volume: {}", volume.told()));
    volume.check_largest_file(&needs)?;
    let left_behind = volume.clean()?;
    if left_behind > 0 {
        say(&format!(
            "removed {left_behind} files of an earlier run ({PREFIX}…)"
        ));
    }

    let mut run = Run {
        plan,
        volume: &volume,
        bar,
        rows: Vec::new(),
    };
    bar.set_length((plan.threads.len() * plan.locks.len() * ROUNDS * plan.workloads.len()) as u64);
    let imported = match &tree {
        Some(tree) => Some(run.import_all(tree, &needs)?),
        None => None,
    };
    if !shared.is_empty() {
        run.shared_file_all(&shared, slots, &needs)?;
    }
    volume.clean()?;
    let order = |row: &Row| plan.workloads.iter().position(|&it| it == row.workload);
    let mut rows = run.rows;
    rows.sort_by_key(order);
    Ok(Outcome {
        rows,
        volume: volume.told().to_owned(),
        imported,
        seconds: plan.seconds,
        others: watch.others(),
    })
}

fn read_tree(plan: &Plan) -> Result<Tree> {
    let longest_lock = plan.locks.iter().map(|it| it.len()).max().unwrap_or(0);
    let id = |it: Metadata| (it.dev(), it.ino());
    let volume = plan.volume.as_ref().and_then(|it| fs::metadata(it).ok());
    let volume = volume.map(id);
    let leave_out = |entry: &DirEntry| {
        let name = entry.file_name();
        let of_tools = name == ".git" || (name == "target" && entry.depth() == 1);
        // The volume may lie in the folder: it does not fit into itself.
        let is_volume = volume.is_some() && entry.metadata().ok().map(id) == volume;
        (plan.import_project && of_tools) || is_volume
    };
    let longest = PREFIX.len() + longest_lock + 1;
    Tree::read(&plan.import, longest, leave_out)
}

/// What the runs need of a volume, with a margin for what is overwritten and not yet free.
fn needs(tree: Option<&Tree>, slots: usize) -> Needs {
    let shared = slots as u64 * PAGES_APART;
    let (bytes, files, largest) = tree.map_or((0, 0, 0), |tree| {
        (
            tree.bytes_in_volume(),
            tree.files.len() as u64,
            tree.largest(),
        )
    });
    let content = shared.saturating_add(bytes);
    let margin = (8 << 20) + content / 8 + files * 256;
    // What no disk has is as good as more.
    let bytes = content.saturating_add(margin).min(1 << 62);
    Needs {
        bytes: bytes.next_multiple_of(1 << 20),
        files: files + 1,
        largest_file: shared.max(largest).max(1),
    }
}

/// A run under way.
struct Run<'a> {
    plan: &'a Plan,
    volume: &'a Volume,
    bar: &'a ProgressBar,
    rows: Vec<Row>,
}

impl Run<'_> {
    fn shared_file_all(&mut self, all: &[SharedFile], slots: usize, needs: &Needs) -> Result<()> {
        let name = format!("{PREFIX}shared-file");
        let volume = self.volume.open_plain()?;
        let made = workloads::preallocate(&volume, &name, slots)
            .with_context(|| format!("making {name} with 8 MiB for each of {slots} threads"));
        self.volume.advise(made, needs)?;
        drop(volume);
        let duration = Duration::from_secs_f64(self.plan.seconds / ROUNDS as f64);
        for workload in all {
            for &threads in &self.plan.threads {
                self.interleaved(workload.name, threads, ROUNDS, |lock, volume| {
                    let task = SharedFileRound {
                        workload,
                        volume,
                        name: &name,
                        threads,
                        duration,
                    };
                    locks::with(lock, task)
                })?;
            }
        }
        Ok(())
    }

    /// Imports, and returns a sentence about it.
    fn import_all(&mut self, tree: &Tree, needs: &Needs) -> Result<String> {
        for &threads in &self.plan.threads {
            self.interleaved(IMPORT, threads, MOST_IMPORTS, |lock, volume| {
                let task = ImportRound {
                    tree,
                    volume,
                    lock,
                    threads,
                };
                volume.advise(locks::with(lock, task), needs)
            })?;
        }
        Ok(format!(
            "imported {} files, {} bytes, under {} locks; recovered and verified every byte ({})",
            tree.files.len(),
            tree.bytes,
            self.plan.locks.len(),
            tree.skipped
        ))
    }

    /// Measures one workload at one number of threads under all locks, in at most `rounds` rounds,
    /// and no longer than planned.
    fn interleaved(
        &mut self,
        workload: &'static str,
        threads: usize,
        rounds: usize,
        round: impl Fn(&'static str, &Volume) -> Result<Round>,
    ) -> Result<()> {
        let locks = &self.plan.locks;
        self.bar
            .set_message(format!("{workload}, {}", report::threads_told(threads)));
        // A round of the shared file lasts as long as planned: the limit never ends those.
        let limit = Duration::from_secs_f64(self.plan.seconds * locks.len() as f64);
        let is_import = workload == IMPORT;
        let mut done: Vec<Vec<Round>> = vec![Vec::new(); locks.len()];
        let started = Instant::now();
        let before = self.bar.position();
        for first in 0..rounds {
            for turn in 0..locks.len() {
                let lock = (first + turn) % locks.len();
                let measured = round(locks[lock], self.volume).with_context(|| {
                    format!(
                        "{workload} under {}, {}",
                        locks[lock],
                        report::threads_told(threads)
                    )
                })?;
                done[lock].push(measured);
                if !is_import {
                    self.bar.inc(1);
                }
            }
            if is_import && started.elapsed() >= limit {
                break;
            }
        }
        self.bar
            .set_position(before + (locks.len() * ROUNDS) as u64);
        let baseline = locks.iter().position(|&it| it == BASELINE);
        let baseline = baseline.map(|it| median_ops(&done[it]));
        for (lock, rounds) in locks.iter().zip(&done) {
            self.rows
                .push(summary(workload, lock, threads, rounds, baseline));
        }
        Ok(())
    }
}

fn median_ops(rounds: &[Round]) -> f64 {
    let ops: Vec<f64> = rounds.iter().map(|round| round.ops_per_s).collect();
    median(&ops)
}

fn summary(
    workload: &'static str,
    lock: &'static str,
    threads: usize,
    rounds: &[Round],
    baseline: Option<f64>,
) -> Row {
    let bytes: Vec<f64> = rounds.iter().map(|round| round.bytes_per_s).collect();
    let mut latencies = measure::latencies();
    for round in rounds {
        latencies += &round.latencies;
    }
    let ops_per_s = median_ops(rounds);
    let ratio = baseline.filter(|&it| it > 0.0).map(|it| ops_per_s / it);
    Row {
        workload,
        lock,
        threads,
        ops_per_s,
        mb_per_s: median(&bytes) / 1e6,
        p50_ns: latencies.value_at_quantile(0.5),
        p99_ns: latencies.value_at_quantile(0.99),
        max_ns: latencies.max(),
        ratio: ratio.map(|it| (it * 1000.0).round() / 1000.0),
        rounds: rounds.iter().map(|round| round.ops_per_s).collect(),
    }
}

/// A round of a workload on the shared file.
struct SharedFileRound<'a> {
    workload: &'a SharedFile,
    volume: &'a Volume,
    name: &'a str,
    threads: usize,
    duration: Duration,
}

impl Task for SharedFileRound<'_> {
    type Output = Result<Round>;

    fn run<L: RawRangeLock + 'static>(self, make: Make<L>) -> Result<Round> {
        let volume = self.volume.open(make)?;
        self.workload
            .round(&volume, self.name, self.threads, self.duration)
    }
}

/// An import, recovered and verified.
struct ImportRound<'a> {
    tree: &'a Tree,
    volume: &'a Volume,
    lock: &'static str,
    threads: usize,
}

impl Task for ImportRound<'_> {
    type Output = Result<Round>;

    fn run<L: RawRangeLock + 'static>(self, make: Make<L>) -> Result<Round> {
        let prefix = format!("{PREFIX}{}/", self.lock);
        let progress = Progress::new(self.tree);
        let imported = self.volume.open(make).and_then(|volume| {
            import::import(
                self.tree,
                &volume,
                &prefix,
                self.threads,
                &progress,
                &|_, _| (),
            )
        });
        // Nothing was closed in an orderly way: there is nothing to close. So this is as after a crash.
        match imported {
            Ok(round) => {
                let volume = self.volume.open(make)?;
                import::verify(self.tree, &volume, &prefix, &progress)?;
                volume::remove_under(&volume, &prefix)?;
                Ok(round)
            }
            Err(error) => Err(self.stopped(error, &prefix, &progress)),
        }
    }
}

impl ImportRound<'_> {
    /// The error, with what was committed before it, after a look whether that is there.
    fn stopped(&self, error: anyhow::Error, prefix: &str, progress: &Progress) -> anyhow::Error {
        // By a lock that can be made: perhaps it was the lock that failed.
        let verified = self
            .volume
            .open_plain()
            .and_then(|volume| import::verify(self.tree, &volume, prefix, progress));
        let bytes = match verified {
            Ok(bytes) => bytes,
            Err(worse) => return worse.context(format!("after the import failed ({error:#})")),
        };
        let files = progress.files_committed();
        let kept = if self.volume.is_temporary() {
            "the volume was temporary, --volume makes one that stays".to_owned()
        } else {
            format!("they are in the volume under {prefix} until the next run")
        };
        error.context(format!(
            "stopped; {files} files and {bytes} bytes were committed before, recovered, and verified ({kept})"
        ))
    }
}
