//! The results: one row per contestant.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use super::contestants::{FailureContestant, Maker, named};
use super::plan::FailurePlan;
use super::trial::TrialOutcome;

/// The results of a contestant under all plans.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The contestant's name.
    pub contestant: &'static str,
    /// The version that was run.
    pub version: &'static str,
    /// The number of runs, each with one planned failure.
    pub runs: usize,
    /// The number of runs in which the failure happened. Thread timing differs, so a run may make
    /// fewer writes than the run the plans are based on.
    pub failed: usize,
    /// The number of runs in which a caller received an error.
    pub told: usize,
    /// The number of records, over all runs, that were acknowledged but are missing after a power
    /// cut.
    pub false_acknowledgements: usize,
    /// The number of runs with such records.
    pub false_runs: usize,
    /// The number of records, over all runs, that exist but were never appended.
    pub foreign: usize,
    /// The number of runs that did not end.
    pub hangs: usize,
    /// The number of runs in which a thread panicked or the process aborted.
    pub panics: usize,
    /// The number of runs after which the log could not be reopened.
    pub cannot_reopen: usize,
    /// Every run that was not clean.
    pub unclean: Vec<Unclean>,
    /// The number of runs of each kind of plan.
    #[serde(skip)]
    pub kinds: BTreeMap<String, usize>,
    /// The maker of the contestant.
    #[serde(skip, default = "no_maker")]
    pub maker: Maker,
}

/// A run that was not clean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unclean {
    /// The plan, in the syntax of `--plan`.
    pub plan: String,
    /// The kind of plan; see [`FailurePlan::kind`].
    #[serde(skip)]
    pub kind: String,
    /// Missing records, each as thread and number.
    pub lost: Vec<(u32, u32)>,
    /// The number of records that exist but were never appended.
    pub foreign: usize,
    /// Whether the run did not end.
    pub hung: bool,
    /// The messages of panicked threads.
    pub panics: Vec<String>,
    /// Why the log could not be reopened.
    pub cannot_reopen: Option<String>,
}

/// Stands for the maker until [`Row::recorded`] finds it.
fn no_maker() -> Maker {
    Maker::Others
}

impl Row {
    /// Fills in what a result file does not have, except how many runs there were of a kind.
    ///
    /// # Errors
    /// There is no such contestant, or no such plan.
    pub fn recorded(mut self) -> Result<Self> {
        let contestant = named(self.contestant);
        let contestant =
            contestant.with_context(|| format!("no contestant {}", self.contestant))?;
        self.maker = contestant.maker;
        for unclean in &mut self.unclean {
            unclean.kind = match &*unclean.plan {
                "none" => "none".to_owned(),
                plan => {
                    let plan: FailurePlan = plan.parse().map_err(|why| anyhow!("{why}"))?;
                    plan.kind()
                }
            };
        }
        Ok(self)
    }

    /// Creates the row from the outcomes of all plans.
    pub fn new(
        contestant: &FailureContestant,
        outcomes: impl Iterator<Item = (Option<FailurePlan>, TrialOutcome)>,
    ) -> Row {
        let mut row = Row {
            contestant: contestant.name,
            version: contestant.version,
            runs: 0,
            kinds: BTreeMap::new(),
            failed: 0,
            told: 0,
            false_acknowledgements: 0,
            false_runs: 0,
            foreign: 0,
            hangs: 0,
            panics: 0,
            cannot_reopen: 0,
            unclean: Vec::new(),
            maker: contestant.maker,
        };
        for (plan, outcome) in outcomes {
            row.add(plan, outcome);
        }
        row
    }

    fn add(&mut self, plan: Option<FailurePlan>, outcome: TrialOutcome) {
        self.runs += 1;
        self.failed += usize::from(outcome.failed);
        self.told += usize::from(!outcome.told.is_empty());
        self.false_acknowledgements += outcome.lost.len();
        self.false_runs += usize::from(!outcome.lost.is_empty());
        self.foreign += outcome.foreign;
        self.hangs += usize::from(outcome.hung);
        self.panics += usize::from(!outcome.panics.is_empty());
        self.cannot_reopen += usize::from(outcome.cannot_reopen.is_some());
        let kind = plan.map_or_else(|| "none".to_owned(), |plan| plan.kind());
        *self.kinds.entry(kind.clone()).or_default() += 1;
        if outcome.is_clean() {
            return;
        }
        self.unclean.push(Unclean {
            plan: plan.map_or_else(|| "none".to_owned(), |plan| plan.to_string()),
            kind,
            lost: outcome.lost.iter().map(|id| (id.thread, id.nth)).collect(),
            foreign: outcome.foreign,
            hung: outcome.hung,
            panics: outcome.panics,
            cannot_reopen: outcome.cannot_reopen,
        });
    }

    /// Returns whether every run was clean.
    pub fn is_clean(&self) -> bool {
        self.unclean.is_empty()
    }
}
