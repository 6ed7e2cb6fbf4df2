//! What came out, a row a contestant.

use std::collections::BTreeMap;

use serde::Serialize;

use super::contestants::{Contestant, Maker};
use super::plan::Plan;
use super::trial::Outcome;

/// A contestant under all plans.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub contestant: &'static str,
    /// That was run.
    pub version: &'static str,
    /// How many runs there were, each with one failure planned.
    pub runs: usize,
    /// In how many the failure happened: who meets whom differs, so a run may have fewer writes than the one that the plans are made for.
    pub failed: usize,
    /// Runs in which a caller was told an error.
    pub told: usize,
    /// Records that were acknowledged and are not there after a power cut, of all runs.
    pub false_acknowledgements: usize,
    /// Runs that have such.
    pub false_runs: usize,
    /// Records that are there and that nobody appended, of all runs.
    pub foreign: usize,
    /// Runs that did not end.
    pub hangs: usize,
    /// Runs in which a thread panicked, or the process aborted.
    pub panics: usize,
    /// Runs after which it could not be opened again.
    pub cannot_reopen: usize,
    /// Each run that was not clean.
    pub unclean: Vec<Unclean>,
    /// How many runs there were of each kind of plan.
    #[serde(skip)]
    pub kinds: BTreeMap<String, usize>,
    /// Who made it.
    #[serde(skip)]
    pub maker: Maker,
}

/// A run that was not clean.
#[derive(Clone, Debug, Serialize)]
pub struct Unclean {
    /// For `--plan`.
    pub plan: String,
    /// What plans of this kind have in common.
    #[serde(skip)]
    pub kind: String,
    /// Records that are gone, each as thread and number.
    pub lost: Vec<(u32, u32)>,
    /// How many records are there that nobody appended.
    pub foreign: usize,
    /// It did not end.
    pub hung: bool,
    /// What threads said when they panicked.
    pub panics: Vec<String>,
    /// Why it could not be opened again.
    pub cannot_reopen: Option<String>,
}

impl Row {
    /// Of the outcomes of all plans.
    pub fn new(
        contestant: &Contestant,
        outcomes: impl Iterator<Item = (Option<Plan>, Outcome)>,
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

    fn add(&mut self, plan: Option<Plan>, outcome: Outcome) {
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

    /// No run was unclean.
    pub fn is_clean(&self) -> bool {
        self.unclean.is_empty()
    }
}
