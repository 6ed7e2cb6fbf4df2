//! What stands beside the rows: pairs of operations, mutants, injected bugs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::build::Built;
use super::kill::Reached;
use super::models::{Models, Plan};
use super::{bugs, mutants};
use crate::mode::Checker;
use crate::rows::pairs::Table;
use crate::rows::row::Circumstances;

/// What partitions together lack.
pub(super) const SHARED_BY_NONE: &str = "Mutants and injected bugs are in no partition: run `cargo \
    verify mutants --json` and `cargo verify bugs --json` once, on one machine, and give the files \
    to `merge`.";

/// What was looked at besides the rows. A part that is empty was not.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) tables: Vec<Table>,
    pub(super) mutants: Vec<mutants::Mutant>,
    pub(super) bugs: Vec<bugs::Case>,
    /// Remarks on the run that are no fault of it.
    pub(super) notes: Vec<String>,
    /// Parts that could not be judged: the run fails.
    pub(super) errors: Vec<String>,
}

impl Evidence {
    /// Adds the mutants and the injected bugs, or why they could not be judged.
    pub(super) fn make_wrong(&mut self, built: &mut Built, models: &[Arc<Models>], workers: usize) {
        let plan = Plan::of(models);
        let reached = built.add(Checker::OF_CODE);
        let reached = match reached.and_then(|()| Reached::by(&plan, built, workers)) {
            Ok(reached) => reached,
            Err(error) => {
                let what = "The mutants and the injected bugs could not be judged";
                return self.errors.push(format!("{what}: {error:#}"));
            }
        };
        match mutants::matrix(built, &plan, &reached, &[], workers) {
            Ok(mutants) => self.mutants = mutants,
            Err(error) => (self.errors).push(format!("The mutants could not be judged: {error:#}")),
        }
        match bugs::all(built, &plan, &reached, workers) {
            Ok((bugs, errors)) => {
                self.bugs = bugs;
                self.errors.extend(errors);
            }
            Err(error) => (self.errors).push(format!("The bugs could not be judged: {error:#}")),
        }
    }

    /// Returns what has to be known of the run, errors first.
    pub(super) fn remarks(&self) -> impl Iterator<Item = &String> {
        self.errors.iter().chain(&self.notes)
    }
}

/// A mutant or a bug in JSON, with the run that judged it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Judged<T> {
    #[serde(flatten)]
    pub(super) what: T,
    /// Its `selection` is the filters, and its `rows` how many these chose.
    pub(super) run: Circumstances,
}

/// Adds to each the run, which then has their number.
pub(super) fn judged<'a, T>(all: &'a [T], run: &Circumstances) -> Vec<Judged<&'a T>> {
    let run = Circumstances {
        rows: all.len(),
        ..run.clone()
    };
    let with_run = |what| Judged {
        what,
        run: run.clone(),
    };
    all.iter().map(with_run).collect()
}
