//! What stands beside the rows: pairs of operations, mutants, seeded defects.

use serde::{Deserialize, Serialize};

use super::{Built, defects, mutants};
use crate::pairs::Table;
use crate::row::Circumstances;

/// What is empty was not looked for.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) tables: Vec<Table>,
    pub(super) mutants: Vec<mutants::Mutant>,
    pub(super) defects: Vec<defects::Case>,
    /// What has to be known of the run, and is no fault of it.
    pub(super) notes: Vec<String>,
    /// What was to be looked for and could not be: no success.
    pub(super) errors: Vec<String>,
}

impl Evidence {
    /// Adds the mutants and the defects, or why they could not be judged.
    pub(super) fn make_wrong(&mut self, built: &Built, workers: usize) {
        match mutants::matrix(built, &[], workers) {
            Ok(mutants) => self.mutants = mutants,
            Err(error) => (self.errors).push(format!("The mutants could not be judged: {error:#}")),
        }
        match defects::all(built, workers) {
            Ok(defects) => self.defects = defects,
            Err(error) => (self.errors).push(format!("The defects could not be judged: {error:#}")),
        }
    }

    /// What has to be known, errors first.
    pub(super) fn remarks(&self) -> impl Iterator<Item = &String> {
        self.errors.iter().chain(&self.notes)
    }
}

/// A mutant or a defect in JSON, with the run that judged it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Judged<T> {
    #[serde(flatten)]
    pub(super) what: T,
    /// `selection`: the filters; `rows`: how many these chose.
    pub(super) run: Circumstances,
}

/// All of a run, which then has their number.
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
