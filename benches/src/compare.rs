//! The comparison: every workload with every lock and number of threads, in interleaved rounds.
//!
//! A *cell* is a workload, a lock and a number of threads. The locks take turns, and each round
//! begins with a different lock, so that other load on the machine affects all locks equally. Each
//! round reopens and recovers the volume, so all locks use the same memory.

mod targets;

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::Serialize;
use spanlock_range_lock::RawRangeLock;
use walkdir::DirEntry;

pub use targets::Target;

use crate::cli::Plan;
use crate::import::{self, Progress, Tree};
use crate::load::{LoadWatch, Others};
use crate::locks::{self, Make, Task};
use crate::measure::{self, Round, median};
use crate::report;
use crate::volume::{self, Needs, PREFIX, Volume};
use crate::workloads::{self, IMPORT, PAGES_APART, SHARED_FILE, SharedFile};

/// Rounds of each cell on the shared file.
pub const ROUNDS: usize = 7;

/// The maximum number of rounds of an import. A large folder gets as many as fit the time, but at
/// least one.
pub const MAX_IMPORTS: usize = 21;

/// The result for a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: &'static str,
    /// The lock's name.
    pub lock: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// Operations per second of all threads together: the median of the rounds.
    pub ops_per_s: f64,
    /// Megabytes (10⁶ bytes) per second of all threads together: the median of the rounds.
    pub mb_per_s: f64,
    /// The median latency of the sampled operations of all rounds, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile of these latencies.
    pub p99_ns: u64,
    /// The longest of these latencies.
    pub max_ns: u64,
    /// Whether the lock is in this project's registry.
    pub ours: bool,
    /// The fastest whole-file lock in this workload with this number of threads: the baseline.
    /// `None` if no whole-file lock was measured.
    pub baseline: Option<&'static str>,
    /// `ops_per_s` divided by the baseline's, rounded to thousandths. `None` without a baseline.
    pub ratio: Option<f64>,
    /// The targets of this row.
    pub targets: Vec<Target>,
    /// Operations per second of each round.
    pub rounds: Vec<f64>,
}

impl Row {
    /// Returns whether this lock is one of ours and the baseline is faster.
    pub fn is_loss(&self) -> bool {
        self.ours && self.ratio.is_some_and(|ratio| ratio < 1.0)
    }
}

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows by workload, then threads, then lock.
    pub rows: Vec<Row>,
    /// The targets, with verdicts.
    pub targets: Vec<Target>,
    /// A description of the volume and its location.
    pub volume: String,
    /// A summary of the import, if there was one.
    pub imported: Option<String>,
    /// The seconds for which each cell was measured.
    pub seconds: f64,
    /// The load caused by other programs.
    pub others: Others,
}

/// Runs everything that is planned. `bar` counts the rounds; `say` receives messages before they
/// start.
///
/// # Errors
/// The folder cannot be read; the volume cannot be created or opened, or is full; or data read back
/// differs from the data written.
pub fn run(plan: &Plan, bar: &ProgressBar, say: impl Fn(&str)) -> Result<Outcome> {
    let watch = LoadWatch::start();
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
    say(&format!("volume: {}", volume.description()));
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
    let targets = targets::targets(&rows);
    for row in &mut rows {
        let of_row = targets.iter().filter(|it| it.is_of(row));
        row.targets = of_row.cloned().collect();
    }
    Ok(Outcome {
        rows,
        targets,
        volume: volume.description().to_owned(),
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
        // The volume may lie in the folder. It cannot contain itself.
        let is_volume = volume.is_some() && entry.metadata().ok().map(id) == volume;
        (plan.import_project && of_tools) || is_volume
    };
    let longest = PREFIX.len() + longest_lock + 1;
    Tree::read(&plan.import, longest, leave_out)
}

/// Returns what the runs need of a volume, with a margin for pages that were replaced and are not
/// yet free.
fn needs(tree: Option<&Tree>, slots: usize) -> Needs {
    let shared = slots as u64 * PAGES_APART;
    let (bytes, files, largest) = tree.map_or((0, 0, 0), |tree| {
        (
            tree.bytes_in_volume(),
            tree.files.len() as u64 + tree.directories(),
            tree.largest(),
        )
    });
    let content = shared.saturating_add(bytes);
    let margin = (8 << 20) + content / 8 + files * 256;
    // Cap the size: no disk is that large.
    let bytes = content.saturating_add(margin).min(1 << 62);
    Needs {
        bytes: bytes.next_multiple_of(1 << 20),
        // The shared file, and the two directories that the runs put theirs in.
        files: files + 3,
        largest_file: shared.max(largest).max(1),
    }
}

/// A run in progress.
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
        let made = (volume.create_dir_all(PREFIX.trim_end_matches('/')))
            .and_then(|()| workloads::preallocate(&volume, &name, slots))
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

    /// Runs the imports and returns a one-sentence summary.
    fn import_all(&mut self, tree: &Tree, needs: &Needs) -> Result<String> {
        for &threads in &self.plan.threads {
            self.interleaved(IMPORT, threads, MAX_IMPORTS, |lock, volume| {
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

    /// Measures one workload at one number of threads under all locks, in at most `rounds` rounds
    /// and within the planned time.
    fn interleaved(
        &mut self,
        workload: &'static str,
        threads: usize,
        rounds: usize,
        round: impl Fn(&'static str, &Volume) -> Result<Round>,
    ) -> Result<()> {
        let locks = &self.plan.locks;
        self.bar
            .set_message(format!("{workload}, {}", report::thread_count(threads)));
        // A round on the shared file lasts exactly as planned, so this limit never cuts such rounds
        // short.
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
                        report::thread_count(threads)
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
        let mut rows: Vec<Row> = locks
            .iter()
            .zip(&done)
            .map(|(lock, rounds)| summary(workload, lock, threads, rounds))
            .collect();
        fill_in_ratios(&mut rows);
        self.rows.append(&mut rows);
        Ok(())
    }
}

/// Compares rows of one workload and one number of threads with the fastest whole-file lock.
fn fill_in_ratios(rows: &mut [Row]) {
    let whole_file = rows
        .iter()
        .filter(|row| locks::contestant(row.lock).whole_file);
    let fastest = whole_file.max_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s));
    let Some((baseline, ops_per_s)) = fastest.map(|row| (row.lock, row.ops_per_s)) else {
        return;
    };
    for row in rows {
        row.baseline = Some(baseline);
        let ratio = (ops_per_s > 0.0).then(|| row.ops_per_s / ops_per_s);
        row.ratio = ratio.map(|it| (it * 1000.0).round() / 1000.0);
    }
}

fn median_ops(rounds: &[Round]) -> f64 {
    let ops: Vec<f64> = rounds.iter().map(|round| round.ops_per_s).collect();
    median(&ops)
}

fn summary(workload: &'static str, lock: &'static str, threads: usize, rounds: &[Round]) -> Row {
    let bytes: Vec<f64> = rounds.iter().map(|round| round.bytes_per_s).collect();
    let mut latencies = measure::latencies();
    for round in rounds {
        latencies += &round.latencies;
    }
    Row {
        workload,
        lock,
        threads,
        ops_per_s: median_ops(rounds),
        mb_per_s: median(&bytes) / 1e6,
        p50_ns: latencies.value_at_quantile(0.5),
        p99_ns: latencies.value_at_quantile(0.99),
        max_ns: latencies.max(),
        ours: locks::contestant(lock).ours,
        baseline: None,
        ratio: None,
        targets: Vec::new(),
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

/// A round of importing, recovering, and verifying.
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
        // The volume has no shutdown, so this is equivalent to a crash.
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
    /// Extends the error with a statement of what was committed before it, after verifying those
    /// files.
    fn stopped(&self, error: anyhow::Error, prefix: &str, progress: &Progress) -> anyhow::Error {
        // Use a lock that can always be created, as the lock may have caused the failure.
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
            "the volume was temporary; use --volume to keep one".to_owned()
        } else {
            format!("they are in the volume under {prefix} until the next run")
        };
        error.context(format!(
            "stopped; before that, {files} files and {bytes} bytes were committed, recovered and verified ({kept})"
        ))
    }
}

#[cfg(test)]
impl Row {
    pub(crate) fn of_test(
        workload: &'static str,
        lock: &'static str,
        threads: usize,
        ops_per_s: f64,
    ) -> Self {
        let round = Round {
            ops_per_s,
            bytes_per_s: ops_per_s * 4096.0,
            latencies: measure::latencies(),
            cpu_ns_per_op: 0.0,
        };
        summary(workload, lock, threads, &[round])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_fastest_whole_file_lock() {
        let row = |lock, ops_per_s| Row::of_test("dwom", lock, 2, ops_per_s);
        let mut rows = [
            row("rw-counter", 50.0),
            row("srl-array", 90.0),
            row("parking_lot", 100.0),
            row("std", 80.0),
            row("range-mutex", 110.0),
        ];
        fill_in_ratios(&mut rows);
        let ratios = rows.each_ref().map(|row| row.ratio.unwrap());
        assert_eq!(ratios, [0.5, 0.9, 1.0, 0.8, 1.1]);
        assert!(rows.iter().all(|row| row.baseline == Some("parking_lot")));
        let losses = rows.each_ref().map(Row::is_loss);
        assert_eq!(losses, [true, true, false, false, false]);

        let mut ranges = [row("srl-array", 90.0), row("range-mutex", 110.0)];
        fill_in_ratios(&mut ranges);
        assert!(ranges.iter().all(|row| row.ratio.is_none()));
    }
}
