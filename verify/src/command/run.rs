//! Runs rows, each in a process of its own: a deadlock in a model usually ends in an abort.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use super::{Args, Built, spin};
use crate::plan::Job;
use crate::program::Run;
use crate::row::Found;

/// How the process of a row ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status; none if it was stopped because its time was over.
    pub status: Option<ExitStatus>,
    /// What it found, if it came to its end.
    pub found: Option<Found>,
    /// What it wrote to standard error.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
    /// Why it did not run at all, if it did not.
    pub skipped: Option<String>,
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
    let scratch = tempfile::tempdir().context("cannot create a temporary folder")?;
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
        .env_remove("LOOM_CHECKPOINT_FILE");
    let (mut ended, printed) = ended(command, limit)?;
    ended.found = serde_json::from_str(printed.trim()).ok();
    Ok(ended)
}

/// Runs a command for at most `limit`: how it ended, nothing found yet, and what it wrote to standard output.
pub(super) fn ended(mut command: Command, limit: Option<Duration>) -> Result<(Ended, String)> {
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
    let ended = Ended {
        status,
        found: None,
        stderr: text(&mut stderr)?,
        elapsed,
        skipped: None,
    };
    Ok((ended, text(&mut stdout)?))
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs every row, several at the same time; the answers are in the order of `jobs`.
pub(super) fn run_all(jobs: &[Job], built: &Built, args: &Args) -> Result<Vec<Ended>> {
    let workers = args.jobs.map_or_else(
        || thread::available_parallelism().map_or(1, |n| n.get()),
        |n| n.get(),
    );
    let limit = Some(Duration::from_secs(args.limit));
    let bar = progress_bar(jobs.len());
    // The slow ones first, so that none of them is left for the end.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&i| jobs[i].quick);
    let next = AtomicUsize::new(0);
    let running = Mutex::new(BTreeSet::new());
    let answers = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers.min(jobs.len()) {
            scope.spawn(|| {
                // Relaxed: only that each number is taken once matters.
                while let Some(&i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = jobs[i].name();
                    show(&bar, &running, |names| _ = names.insert(name.clone()));
                    let ended = explore(built, &jobs[i], &[], limit);
                    show(&bar, &running, |names| _ = names.remove(&name));
                    bar.inc(1);
                    answers
                        .lock()
                        .expect("workers do not panic")
                        .push((i, ended));
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut answers = answers.into_inner().expect("workers do not panic");
    answers.sort_by_key(|&(i, _)| i);
    answers.into_iter().map(|(_, ended)| ended).collect()
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

fn progress_bar(rows: usize) -> ProgressBar {
    let bar = ProgressBar::new(rows as u64);
    let style = ProgressStyle::with_template("{elapsed:>5} {bar:30} {pos}/{len} rows  {wide_msg}");
    bar.set_style(style.expect("the template is right"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
