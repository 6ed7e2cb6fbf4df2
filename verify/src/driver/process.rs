//! Runs rows, each in a process of its own: a deadlock in a model usually ends in an abort.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::num::NonZeroUsize;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use super::counts::Counts;
use super::{Built, spin};
use crate::plan::Job;
use crate::program::Run;
use crate::row::Found;

/// How a row ended.
#[derive(Debug)]
pub struct Ended {
    /// In which way.
    pub end: End,
    /// What its process wrote to standard error.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

/// The ways in which a row ends.
#[derive(Debug)]
pub enum End {
    /// Its process came to its end, and found this.
    Found(Found),
    /// Its process ended with this status, and has no finding: it says on standard error what failed.
    Failed(ExitStatus),
    /// It was stopped: its time was over.
    Stopped,
    /// It did not run, and why: its checker is not installed.
    Skipped(String),
    /// It could not be run, though it should, and why: a tool that is broken.
    Broken(String),
}

impl Ended {
    /// What it found, if it came to its end.
    pub fn found(&self) -> Option<&Found> {
        match &self.end {
            End::Found(found) => Some(found),
            _ => None,
        }
    }
}

/// Runs one row, with further arguments of the binary `model`, for at most `limit`.
///
/// # Errors
/// The process cannot be started or waited for.
pub fn explore(built: &Built, job: &Job, more: &[&str], limit: Option<Duration>) -> Result<Ended> {
    if let Run::Twin(twin) = job.program.run {
        return spin::check(twin, &[], more.contains(&"--trace"), limit);
    }
    let binary = built.binary(job.mode.checker());
    let binary = binary.with_context(|| format!("{}: its checker is not built", job.name()))?;
    // Loom writes a file there before each execution. Where it is made anew on a disk, that waits for the disk.
    let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let scratch = scratch.context("cannot create a temporary folder")?;
    let mut command = Command::new(binary);
    command
        .args(["--row", &job.name()])
        .arg("--scratch")
        .arg(scratch.path().join("scratch"))
        .args(more)
        // A trace of every panic costs more than the search.
        .env_remove("RUST_BACKTRACE")
        // They would change or cut off a search behind our back.
        .env_remove("LOOM_MAX_DURATION")
        .env_remove("LOOM_MAX_PERMUTATIONS")
        .env_remove("LOOM_MAX_PREEMPTIONS")
        .env_remove("LOOM_MAX_BRANCHES")
        .env_remove("LOOM_CHECKPOINT_FILE")
        .env_remove("SHUTTLE_RANDOM_SEED");
    let exited = exited(command, limit)?;
    let end = match exited.status {
        None => End::Stopped,
        Some(status) => match serde_json::from_str(exited.stdout.trim()) {
            Ok(found) if status.success() => End::Found(found),
            _ => End::Failed(status),
        },
    };
    Ok(Ended {
        end,
        stderr: exited.stderr,
        elapsed: exited.elapsed,
    })
}

/// A process that has ended.
pub(super) struct Exited {
    /// None if it was stopped because its time was over.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    elapsed: Duration,
}

/// Runs a command for at most `limit`.
pub(super) fn exited(mut command: Command, limit: Option<Duration>) -> Result<Exited> {
    // Files, not pipes: nobody need read while it runs.
    let mut stdout = tempfile::tempfile().context("cannot create a temporary file")?;
    let mut stderr = tempfile::tempfile().context("cannot create a temporary file")?;
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if limit.is_some_and(|limit| start.elapsed() >= limit) {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    let elapsed = start.elapsed();
    Ok(Exited {
        status,
        stdout: text(&mut stdout)?,
        stderr: text(&mut stderr)?,
        elapsed,
    })
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs every row, several at the same time, the costly ones first; the answers are in the order of `jobs`.
pub(super) fn run_all(
    jobs: &[Job],
    built: &Built,
    counts: &Counts,
    workers: usize,
    limit: Duration,
) -> Vec<Ended> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // So that none of those is left for the end.
    order.sort_by_key(|&i| std::cmp::Reverse(counts.cost(&jobs[i])));
    let in_order: Vec<&Job> = order.iter().map(|&i| &jobs[i]).collect();
    let name = |job: &&Job| job.name();
    let ended = at_the_same_time(&in_order, workers, "rows", name, |job| {
        let start = Instant::now();
        // One row that cannot be run is no reason to lose what the others find.
        explore(built, job, &[], Some(limit)).unwrap_or_else(|error| Ended {
            end: End::Broken(format!("{error:#}")),
            stderr: String::new(),
            elapsed: start.elapsed(),
        })
    });
    let mut ended: Vec<_> = order.into_iter().zip(ended).collect();
    ended.sort_by_key(|&(i, _)| i);
    ended.into_iter().map(|(_, ended)| ended).collect()
}

/// Works off `items` in order, `workers` of them at the same time, and shows how far it is; the answers are in the same order.
pub(super) fn at_the_same_time<T: Sync, R: Send>(
    items: &[T],
    workers: usize,
    what: &str,
    name: impl Fn(&T) -> String + Sync,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let bar = progress_bar(items.len(), what);
    let next = AtomicUsize::new(0);
    let running = Mutex::new(BTreeSet::new());
    let told = Mutex::new(Instant::now());
    let answers = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(|| {
                loop {
                    // Relaxed: only that each number is taken once matters.
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { break };
                    let name = name(item);
                    show(&bar, &running, |names| _ = names.insert(name.clone()));
                    let answer = work(item);
                    show(&bar, &running, |names| _ = names.remove(&name));
                    bar.inc(1);
                    if bar.is_hidden() {
                        tell(&bar, &told, what);
                    }
                    let mut answers = answers.lock().expect("workers do not panic");
                    answers.push((i, answer));
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut answers = answers.into_inner().expect("workers do not panic");
    answers.sort_by_key(|&(i, _)| i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// As many as there are cores, unless said otherwise.
pub(super) fn workers(given: Option<NonZeroUsize>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    given.map_or_else(cores, NonZeroUsize::get)
}

fn show(
    bar: &ProgressBar,
    running: &Mutex<BTreeSet<String>>,
    change: impl FnOnce(&mut BTreeSet<String>),
) {
    let mut names = running.lock().expect("workers do not panic");
    change(&mut names);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    bar.set_message(names.join("  "));
}

/// Where nobody sees a bar, in the log of a CI job: a line from time to time.
fn tell(bar: &ProgressBar, told: &Mutex<Instant>, what: &str) {
    let mut told = told.lock().expect("workers do not panic");
    if told.elapsed() < Duration::from_secs(30) {
        return;
    }
    *told = Instant::now();
    let (done, all) = (bar.position(), bar.length().unwrap_or_default());
    eprintln!("{done} of {all} {what}, now {}", bar.message());
}

fn progress_bar(items: usize, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(items as u64);
    let template = format!("{{elapsed:>5}} {{bar:30}} {{pos}}/{{len}} {what}  {{wide_msg}}");
    let style = ProgressStyle::with_template(&template);
    bar.set_style(style.expect("the template is right"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
