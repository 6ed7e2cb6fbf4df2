//! A row of the report: one model, run by one checker in one mode.

use serde::{Deserialize, Serialize};

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Every execution was explored, and none failed.
    Exhausted,
    /// Every execution within the stated bound was explored, and none failed.
    Bounded,
    /// The search was cut off: not a pass.
    Truncated,
    /// An execution failed, or the row disagrees with another checker.
    Failed,
}

/// One line of the table and of the JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The lock.
    pub primitive: String,
    /// What is checked.
    pub property: String,
    /// `loom` or `shuttle`.
    pub checker: String,
    /// `weak`, `rmw-load`, `dfs`, `random` or `pct`.
    pub mode: String,
    /// Threads, the main thread included.
    pub threads: u32,
    /// Preemption bound (loom), or schedules (random, pct); none: no bound.
    pub bound: Option<u64>,
    /// Rounds after which a spin loop is cut; none: there is no spin loop.
    pub spin_cap: Option<u32>,
    /// Injected faults, `kind@occurrence`.
    pub faults: Vec<String>,
    /// Executions explored.
    pub executions: u64,
    /// Wall-clock seconds, the process's start included.
    pub seconds: f64,
    /// How it ended.
    pub verdict: Verdict,
    /// How many different outcomes (orders of events) were seen.
    pub outcomes: usize,
    /// A hash of the set of outcomes.
    pub outcome_hash: String,
    /// The command that runs this row again.
    pub replay: String,
    /// What went wrong, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
