//! Transfers of cache lines on simulated cores: `cargo compare lines`.
//!
//! Each cell (a case, a lock, a number of cores) runs in a process of its own, and its counts are
//! the same in each run. They are compared with the committed record.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `model.rs` | throughput, as a model |
//! | `programs.rs` | building the package `spanlock-lines`, and running its cells |
//! | `record.rs` | the committed counts |
//! | `rows.rs` | the results |

pub mod args;
pub mod model;
mod programs;
mod record;
mod rows;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use rayon::prelude::*;

use self::programs::{Cell, Programs};
use self::record::Record;
pub use self::rows::{Line, Row};

/// The runs to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The project.
    pub project: PathBuf,
    /// Parts of the names of cells. A cell runs if its name contains one of them, or if there are
    /// none.
    pub filter: Vec<String>,
    /// Numbers of cores, or none for the usual ones.
    pub cores: Vec<usize>,
    /// Whether to record the counts instead of comparing them.
    pub accept: bool,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows, by case, then lock, then cores.
    pub rows: Vec<Row>,
    /// How the rows differ from the record.
    pub drifted: Vec<String>,
    /// What was not run, and why.
    pub notes: Vec<String>,
}

/// Runs the cells. `bar` counts them; `say` receives messages before they start.
///
/// # Errors
/// No cell has such a name, the programs cannot be built, or one fails.
pub fn run(plan: &Plan, bar: &ProgressBar, say: impl Fn(&str)) -> Result<Outcome> {
    let record = Record::read(&plan.project)?;
    bar.set_message("building the programs");
    let programs = Programs::build(&plan.project)?;
    let mut cells = programs.cells(&plan.cores)?;
    let all = cells.len();
    cells.retain(|it| plan.filter.is_empty() || plan.filter.iter().any(|part| it.has(part)));
    ensure!(
        !cells.is_empty(),
        "--filter {}: none of the {all} cells has such a name; one is `read-same/rw-counter/2`",
        plan.filter.join(",")
    );
    let notes = Vec::from_iter(programs.skipped().map(str::to_owned));
    let is_whole = cells.len() == all && plan.cores.is_empty() && notes.is_empty();
    notes.iter().for_each(|note| say(note));
    cells.retain(|it| programs.can_run(it));
    bar.set_length(cells.len() as u64);
    bar.set_message("running");
    let rows: Result<Vec<Row>> = cells
        .par_iter()
        .map(|cell| {
            let row = programs.run(cell).map(Row::judged);
            bar.inc(1);
            row
        })
        .collect();
    let rows = rows?;
    let mut drifted = Vec::new();
    if plan.accept {
        record.merged(&rows, is_whole).write(&plan.project)?;
    } else {
        drifted = record.compare(&rows, is_whole, plan.cores.is_empty());
    }
    Ok(Outcome {
        rows,
        drifted,
        notes,
    })
}

impl Cell {
    fn has(&self, part: &str) -> bool {
        format!("{}/{}/{}", self.case, self.lock, self.cores).contains(part)
    }
}
