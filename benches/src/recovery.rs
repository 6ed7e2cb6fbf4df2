//! The recovery of large volumes: `cargo compare recovery`.
//!
//! Each recovery runs in a process of its own. The recoveries with different numbers of threads
//! take turns. The heap is counted in another process than the one that is timed, because counting
//! slows threads down.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `fixture.rs` | the volumes |
//! | `child.rs` | a recovery in a separate process |
//! | `heap.rs` | an allocator that counts |

pub mod args;
pub mod child;
pub mod fixture;
pub mod heap;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use self::child::{Recovered, recover_in_child};
use self::fixture::Content;
use crate::load::{LoadWatch, Others};
use crate::measure::{median, thread_count};
use crate::scratch::Scratch;
use crate::target::Target;

/// Timed recoveries of each row.
pub const ROUNDS: usize = 3;

/// The most acceptable heap for a file that is not open, in bytes.
const MOST_BYTES_PER_FILE: f64 = 300.0;
/// The lowest acceptable speed of two threads, as a multiple of one thread's.
const TO_ONE_THREAD: f64 = 1.6;

/// Steps of the progress bar for a volume that is made.
const MAKE_STEPS: u64 = 100;
/// Steps of the progress bar for a recovery.
const RECOVERY_STEPS: u64 = 10;

/// The measurements to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The contents of the volumes.
    pub contents: Vec<Content>,
    /// Thread counts, ascending and without duplicates.
    pub threads: Vec<usize>,
    /// The folder of the temporary volumes. `None` for the default.
    pub dir: Option<PathBuf>,
}

/// The recovery of a volume with a number of threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// `files`, `one-file` or `one-directory`.
    pub case: &'static str,
    /// Files in the volume.
    pub files: u64,
    /// The number of threads.
    pub threads: usize,
    /// The median time of a recovery in seconds.
    pub seconds: f64,
    /// Files per second.
    pub files_per_s: f64,
    /// `files_per_s` divided by that of one thread. `None` if that was not measured.
    pub to_one_thread: Option<f64>,
    /// The most bytes of heap in use at a time during a recovery.
    pub peak_bytes: u64,
    /// `peak_bytes` divided by the number of files.
    pub peak_bytes_per_file: f64,
    /// The time of each recovery in seconds.
    pub rounds: Vec<f64>,
    /// The targets of this row.
    #[serde(skip_deserializing)]
    pub targets: Vec<Target>,
}

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows by case, then threads.
    pub rows: Vec<Row>,
    /// A description of the first volume and its location.
    pub volume: String,
    /// The load caused by other programs.
    pub others: Others,
}

/// Runs everything that is planned. `bar` shows the progress; `say` receives messages before the
/// recoveries start.
///
/// # Errors
/// The folder cannot hold a volume, or a recovery fails.
pub fn run(plan: &Plan, bar: &ProgressBar, say: impl Fn(&str)) -> Result<Outcome> {
    let watch = LoadWatch::start();
    let recoveries = (plan.threads.len() * (ROUNDS + 1)) as u64;
    let steps = MAKE_STEPS + recoveries * RECOVERY_STEPS;
    bar.set_length(plan.contents.len() as u64 * steps);
    let (mut rows, mut volume) = (Vec::new(), String::new());
    for (nth, &content) in plan.contents.iter().enumerate() {
        let begun = nth as u64 * steps;
        bar.set_message(format!("making the volume of the case {}", content.name()));
        let scratch = content.make(plan.dir.as_deref(), |share| {
            bar.set_position(begun + (share * MAKE_STEPS as f64) as u64);
        })?;
        bar.set_position(begun + MAKE_STEPS);
        if nth == 0 {
            volume = scratch.description()?;
            say(&format!("volume: {volume}"));
        }
        bar.set_message(format!("recovering, case {}", content.name()));
        rows.append(&mut rows_of(content, plan, &scratch, bar)?);
    }
    Ok(Outcome {
        rows,
        volume,
        others: watch.others(),
    })
}

fn rows_of(
    content: Content,
    plan: &Plan,
    scratch: &Scratch,
    bar: &ProgressBar,
) -> Result<Vec<Row>> {
    let recovered = |threads, counts| -> Result<Recovered> {
        let recovered = recover_in_child(scratch, threads, counts)?;
        bar.inc(RECOVERY_STEPS);
        ensure!(
            recovered.files == u64::from(content.files()),
            "{} files were made, but {} recovered: the file core is broken",
            content.files(),
            recovered.files
        );
        Ok(recovered)
    };
    let count = plan.threads.len();
    let mut rounds = vec![Vec::new(); count];
    for first in 0..ROUNDS {
        for turn in 0..count {
            let place = (first + turn) % count;
            let seconds = recovered(plan.threads[place], false)?.seconds;
            rounds[place].push(seconds);
        }
    }
    let mut rows = Vec::new();
    for (&threads, rounds) in plan.threads.iter().zip(rounds) {
        let peak = recovered(threads, true)?.peak_bytes.unwrap_or_default();
        rows.push(Row::new(content, threads, peak, rounds));
    }
    compare(&mut rows);
    Ok(rows)
}

impl Row {
    fn new(content: Content, threads: usize, peak_bytes: u64, rounds: Vec<f64>) -> Self {
        let files = content.files();
        let seconds = median(&rounds);
        Row {
            case: content.name(),
            files: files.into(),
            threads,
            seconds,
            files_per_s: f64::from(files) / seconds,
            to_one_thread: None,
            peak_bytes,
            peak_bytes_per_file: peak_bytes as f64 / f64::from(files),
            rounds,
            targets: Vec::new(),
        }
    }
}

/// Fills in what follows from comparing the rows of one volume. Targets are for many files.
pub(crate) fn compare(rows: &mut [Row]) {
    let one = rows.iter().find(|it| it.threads == 1);
    let one = one.map(|it| it.files_per_s);
    for row in rows {
        row.to_one_thread = one.map(|it| row.files_per_s / it);
        if row.case != Content::Files(0).name() {
            continue;
        }
        let bytes = row.peak_bytes_per_file;
        let of = format!("{}, {}", row.case, thread_count(row.threads));
        row.targets = vec![Target::at_most(
            of.clone(),
            "peak_bytes_per_file",
            MOST_BYTES_PER_FILE,
            Some(bytes),
        )];
        if row.threads == 2 {
            let measured = row.to_one_thread;
            let target = Target::at_least(of, "to_one_thread", TO_ONE_THREAD, measured);
            row.targets.push(target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_rows() {
        let content = Content::Files(10);
        let mut rows = [
            Row::new(content, 1, 3000, vec![1.0, 3.0, 2.0]),
            Row::new(content, 2, 3001, vec![1.0]),
        ];
        compare(&mut rows);
        assert_eq!(
            (rows[0].files_per_s, rows[0].to_one_thread),
            (5.0, Some(1.0))
        );
        assert_eq!(rows[1].to_one_thread, Some(2.0));
        let met = |row: &Row| Vec::from_iter(row.targets.iter().map(|it| it.met));
        assert_eq!(met(&rows[0]), [Some(true)]);
        assert_eq!(met(&rows[1]), [Some(false), Some(true)]);
        compare(&mut rows[1..]);
        assert_eq!(met(&rows[1]), [Some(false), None]);

        let mut rows = [Row::new(Content::Names(10), 2, 1 << 30, vec![1.0])];
        compare(&mut rows);
        assert!(rows[0].targets.is_empty());
    }
}
