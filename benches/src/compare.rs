//! The comparison: every workload with every lock and number of threads, in interleaved rounds.
//!
//! A *cell* is a workload, a lock and a number of threads. The locks take turns, and each round
//! begins with a different lock, so that other load on the machine affects all locks equally. Each
//! round reopens and recovers the volume, so all locks use the same memory.

mod rows;
pub mod targets;

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use spanlock_range_lock::RawRangeLock;
use walkdir::DirEntry;

pub use rows::Row;

use crate::args::Size;
use crate::import::{self, Progress, Tree};
use crate::load::{LoadWatch, Others};
use crate::locks::{self, Make, Task};
use crate::measure::{self, Round, thread_count};
use crate::target::Target;
use crate::volume::{self, Needs, PREFIX, Volume};
use crate::workloads::{self, IMPORT, OF_PAPERS, PAGES_APART, SHARED_FILE, SharedFile};

/// Rounds of each cell on the shared file.
pub const ROUNDS: usize = 7;

/// The maximum number of rounds of an import. A large folder gets as many as fit the time, but at
/// least one.
pub const MAX_IMPORTS: usize = 21;

/// The runs to perform: the arguments with defaults filled in.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Thread counts, ascending and without duplicates.
    pub threads: Vec<usize>,
    /// Seconds for each cell.
    pub seconds: f64,
    /// Names of locks, in the order of the list of locks.
    pub locks: Vec<&'static str>,
    /// Names of workloads, in the order of the list of workloads.
    pub workloads: Vec<&'static str>,
    /// The folder to import.
    pub import: PathBuf,
    /// Whether [`import`](Self::import) is the default, which is this project.
    pub import_project: bool,
    /// The path of the volume; `None` for a temporary one.
    pub volume: Option<PathBuf>,
    /// The size of a new volume.
    pub size: Option<Size>,
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
        .chain(OF_PAPERS)
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
    let targets = targets::judge(&mut rows);
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
            .and_then(|()| volume.create(&name))
            .map_err(Into::into)
            .and_then(|file| workloads::fill(&file, slots))
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
            .set_message(format!("{workload}, {}", thread_count(threads)));
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
                        thread_count(threads)
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
            .map(|(lock, rounds)| rows::summary(workload, lock, threads, rounds))
            .collect();
        rows::fill_in_ratios(&mut rows);
        self.rows.append(&mut rows);
        Ok(())
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
        let file = volume.open_file(self.name)?;
        self.workload
            .round(&file, self.name, self.threads, self.duration)
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
