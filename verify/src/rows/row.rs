//! A row of the report: one program, run by one checker in one mode.

use serde::{Deserialize, Serialize};

use crate::mode::Mode;

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Every execution was explored, and none failed.
    Exhausted,
    /// Every execution within the stated bound on preemptions was explored, or the stated number of
    /// random schedules was drawn, and none failed.
    Bounded,
    /// The search reached its time limit. This is not a pass.
    Truncated,
    /// The checker is not installed. In CI, the row is `Failed` instead.
    Skipped,
    /// An execution failed, or the findings of the row differ from what its program states.
    Failed,
}

impl Verdict {
    /// Whether the command can succeed with this verdict.
    pub const fn passes(self) -> bool {
        !matches!(self, Verdict::Truncated | Verdict::Failed)
    }
}

/// Whether a litmus program shows the outcomes that the memory model (C++20's and Rust's) allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// The program shows exactly the allowed outcomes.
    Agrees,
    /// The outcomes deviate as the program states. Any other deviation is a failure.
    BlindSpot,
}

/// One line of the table and of the JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its name: `primitive/property/checker/mode`, or `primitive/property/explorer`, then `/long`
    /// if only the full run has the row.
    pub name: String,
    /// The row's position among all selected rows, from 1.
    pub number: usize,
    /// The suite: a lock, a part of a lock, or `litmus` for programs that test the checkers.
    pub primitive: String,
    /// The program.
    pub property: String,
    /// The claim that the program checks.
    pub claim: String,
    /// For a known bug: its name, the link to its report, and the form, `buggy` or `fixed`.
    #[serde(flatten)]
    pub known: Option<Known>,
    /// `explorer`, `loom`, `shuttle` or `spin`.
    pub checker: String,
    /// The checker's version.
    pub checker_version: String,
    /// How the checker explores executions.
    pub mode: Mode,
    /// Threads, including the main thread.
    pub threads: u32,
    /// The number of operations of all threads together.
    pub operations: u32,
    /// Bound on preemptions (explorer: on faults), or number of random schedules. `None`: no bound.
    pub bound: Option<u64>,
    /// Which of the executions within the bound were explored.
    pub search: String,
    /// Injected faults, as `kind@thread.nth`: at the thread's nth chance (from 0) for this kind. Or
    /// the most faults that the explorer chooses in an execution: `at most 2`.
    pub faults: Vec<String>,
    /// Executions (by Spin: states) explored, or the number of the execution that failed.
    pub executions: u64,
    /// The recorded number of executions. `None`: the row has no record yet, or its mode
    /// (random schedules, Spin) is not recorded.
    pub committed: Option<u64>,
    /// Wall-clock seconds, including the start of the process.
    pub seconds: f64,
    /// Under shuttle: how many steps all threads together may take between two finished operations.
    /// If they take more, the row fails.
    pub step_bound: Option<u64>,
    /// The largest number of such steps that a search saw.
    pub longest: Option<u64>,
    /// For a program about overtaking: how many later arrivals may overtake a waiter.
    pub overtakes: Option<u32>,
    /// The largest number of arrivals that overtook a waiter.
    pub overtaken: Option<u32>,
    /// How it ended.
    pub verdict: Verdict,
    /// The number of different outcomes (what each thread saw); for scenarios, of histories.
    pub outcomes: u64,
    /// With crashes: the number of different images that a crash may leave.
    pub images: Option<u64>,
    /// With crashes: the number of further images that a crash during recovery may leave.
    pub images_during_recovery: Option<u64>,
    /// With crashes, in the mode `sequence`: the number of moments at which the process may be
    /// killed while some store is not durable.
    pub kills: Option<u64>,
    /// The number of scenarios, if the row runs generated scenarios.
    pub scenarios: Option<u64>,
    /// A checksum of the set of outcomes.
    pub outcome_hash: String,
    /// For a litmus row: whether the mode shows exactly the allowed outcomes.
    pub agreement: Option<Agreement>,
    /// For a row of the explorer: whether it shows all outcomes of another checker's row.
    pub agrees: bool,
    /// What this mode cannot see. For a litmus row that deviates: the outcomes it misses or adds.
    /// For a known bug that no mode finds: the checker that would find it.
    pub blind_spot: String,
    /// The command that runs this row again.
    pub replay: String,
    /// The failure, if there is one.
    pub failure: Option<String>,
    /// The run that produced the row.
    pub run: Circumstances,
}

impl Row {
    /// Whether a search that passed has a number of executions other than the recorded one, or has
    /// no record.
    pub fn drifts(&self) -> bool {
        let ended = matches!(self.verdict, Verdict::Exhausted | Verdict::Bounded);
        self.mode.is_counted() && ended && self.committed != Some(self.executions)
    }
}

/// The known bug that a row is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    /// Its name.
    pub bug: String,
    /// The link to its report.
    pub source: String,
    /// `buggy` or `fixed`.
    pub form: String,
}

/// When, where and from which sources a run was made. All its rows share these values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstances {
    /// The options that selected the rows: `--full`, `--filter ring`. Empty: all but the long rows.
    pub selection: String,
    /// The number of selected rows, in all partitions together.
    pub rows: usize,
    /// Which part of the selected rows ran: `2/3`. All of them: `1/1`.
    pub partition: String,
    /// The version of this package.
    pub version: String,
    /// The commit, with `-dirty` if files have changed since, or `unknown` without git.
    pub commit: String,
    /// The compiler.
    pub rustc: String,
    /// The processor, its cores, and the operating system.
    pub machine: String,
    /// When the run began, in UTC.
    pub date: String,
}
