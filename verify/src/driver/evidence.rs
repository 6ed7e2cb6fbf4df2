//! Results besides the rows: pairs of operations, mutants, injected bugs.

use std::sync::Arc;

use anyhow::Result;

use super::build::Built;
use super::kill::{self, Reached};
use super::models::{Models, Plan};
use super::{bugs, mutants};
use crate::mode::Checker;
use crate::rows::pairs::Table;
use crate::rows::row::Circumstances;

/// The note for a partition, which has neither mutants nor injected bugs.
pub(super) const SHARED_BY_NONE: &str = "Mutants and injected bugs are in no partition: run `cargo \
    verify mutants --json` and `cargo verify bugs --json` once, on one machine, and give the files \
    to `merge`.";

/// Results besides the rows. An empty field was not examined.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) tables: Vec<Table>,
    pub(super) mutants: Vec<mutants::Mutant>,
    pub(super) bugs: Vec<bugs::Bug>,
    /// Remarks that do not fail the run.
    pub(super) notes: Vec<String>,
    /// Parts that could not be judged: the run fails.
    pub(super) errors: Vec<String>,
}

impl Evidence {
    /// Adds the mutants and the injected bugs.
    pub(super) fn inject(
        &mut self,
        built: &mut Built,
        models: &[Arc<Models>],
        workers: usize,
        run: &Circumstances,
    ) -> Result<()> {
        let run = Circumstances {
            selection: String::new(),
            ..run.clone()
        };
        let plan = Plan::of(models);
        built.add(Checker::OF_CODE)?;
        let reached = Reached::by(&plan, built, workers)?;
        let mutants = mutants::candidates(built, &plan, &reached)?;
        self.mutants = kill::judge(built, mutants, workers, &run)?;
        let (bugs, errors) = bugs::candidates(built, &plan, &reached)?;
        self.errors.extend(errors);
        self.bugs = kill::judge(built, bugs, workers, &run)?;
        Ok(())
    }

    /// Returns all remarks on the run, errors first.
    pub(super) fn remarks(&self) -> impl Iterator<Item = &String> {
        self.errors.iter().chain(&self.notes)
    }
}
