//! A row of the report: one program, run by one checker in one mode.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::info::BugSite;
use crate::mode::Mode;

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Every execution was explored, and none failed.
    Exhausted,
    /// Every execution within the stated bound on preemptions was explored, or the stated number of
    /// random schedules drawn, and none failed.
    Bounded,
    /// The search was cut off: not a pass.
    Truncated,
    /// Its checker is not installed. (In CI that is a failure.)
    Skipped,
    /// An execution of a known bug's buggy form failed, as it must.
    Found,
    /// An execution failed, or the row's outcomes are not what they must be.
    Failed,
}

impl Verdict {
    /// Whether it lets the command succeed.
    pub const fn passes(self) -> bool {
        matches!(
            self,
            Verdict::Exhausted | Verdict::Bounded | Verdict::Skipped | Verdict::Found
        )
    }
}

/// How the outcomes of a litmus program relate to what C++20, and so Rust, allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// They are the same.
    Agrees,
    /// They deviate as the program states. (An unknown deviation is a failure.)
    BlindSpot,
}

/// One line of the table and of the JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its name: `primitive/property/checker/mode`, then `single-faults` or `double-faults`, and
    /// `long` if only the full run has it.
    pub name: String,
    /// Its place among all rows that were asked for, from 1.
    pub number: usize,
    /// The suite: a lock, a part of one, or `litmus` for the checkers themselves.
    pub primitive: String,
    /// The program.
    pub property: String,
    /// What is checked.
    pub claim: String,
    /// Of a known bug: its name, the link to its report, and the form: `buggy` or `fixed`.
    #[serde(flatten)]
    pub known: Option<Known>,
    /// `loom`, `shuttle` or `spin`.
    pub checker: String,
    /// The checker's version.
    pub checker_version: String,
    /// How it explores executions.
    pub mode: Mode,
    /// Threads, the main thread included.
    pub threads: u32,
    /// Operations of all threads together.
    pub operations: u32,
    /// Preemption bound (loom), or schedules (random, pct, urw); none: no bound.
    pub bound: Option<u64>,
    /// Which executions were explored, of those within the bound.
    pub search: String,
    /// Injected faults: `kind@thread.nth`, the nth of its kind, from 0, that the thread reaches.
    /// Or the plans that were run, each as a search of its own: `all single (7 plans)`.
    pub faults: Vec<String>,
    /// Executions explored; states, by Spin.
    pub executions: u64,
    /// Executions that are committed for it. None: it is not recorded yet, or it draws schedules,
    /// whose number is the bound.
    pub committed: Option<u64>,
    /// Wall-clock seconds, the process's start included.
    pub seconds: f64,
    /// Under shuttle: the most steps of all threads together that may lie between two finished
    /// operations. More are a failure.
    pub step_bound: Option<u64>,
    /// The most that were seen.
    pub longest: Option<u64>,
    /// Of a program about overtaking: the most later arrivals that may overtake a waiter.
    pub overtakes: Option<u32>,
    /// The most that were seen.
    pub overtaken: Option<u32>,
    /// How it ended.
    pub verdict: Verdict,
    /// How many different outcomes (what each thread saw) there were; of scenarios, histories.
    pub outcomes: u64,
    /// How many scenarios there were, if the row is about many.
    pub scenarios: Option<u64>,
    /// A checksum of the set of outcomes.
    pub outcome_hash: String,
    /// Of a litmus row: whether the mode shows exactly what is allowed.
    pub agreement: Option<Agreement>,
    /// Of a search of all interleavings: loom's two modes passed, too, and showed its outcomes.
    pub agrees: bool,
    /// What this mode cannot see; of a litmus row that deviates, the outcomes it misses or adds; of
    /// a known bug that no mode finds, the checker that would.
    pub blind_spot: String,
    /// The command that runs this row again.
    pub replay: String,
    /// What went wrong, if anything did.
    pub failure: Option<String>,
    /// The run that it is from.
    pub run: Circumstances,
}

impl Row {
    /// Whether its executions differ from the committed ones. Those of a row that does not pass say
    /// nothing.
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

/// When, where and of which sources a run was made: the same in all its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstances {
    /// The options that chose the rows: `--full`, `--filter ring`; empty: all but the long rows.
    pub selection: String,
    /// How many rows they chose, in all partitions.
    pub rows: usize,
    /// Which part of them ran: `2/3`; `1/1`: all.
    pub partition: String,
    /// The version of this package.
    pub version: String,
    /// The commit, with `-dirty` if files were changed since; `unknown` without git.
    pub commit: String,
    /// The compiler.
    pub rustc: String,
    /// The processor, its cores, the system.
    pub machine: String,
    /// When it began, UTC.
    pub date: String,
}

/// What the process that explores one row prints on standard output.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Executions explored.
    pub executions: u64,
    /// The different outcomes.
    pub outcomes: BTreeSet<String>,
    /// Of a row about many scenarios: how many, and how many different histories.
    pub explained: Option<(u64, u64)>,
    /// How often the weakened site was reached.
    pub weakened: u64,
    /// How many faults were injected.
    pub injected: u64,
    /// How many plans of faults were found and run, besides none.
    pub plans: u64,
    /// The most steps of all threads between two finished operations, under shuttle.
    pub longest: Option<u64>,
    /// What was seen of arrivals that overtake a waiter, if the program is about that.
    pub overtaking: Option<Overtaking>,
    /// How often the injected bug fired.
    pub bug_fired: u64,
    /// The operations that were performed in some execution, each with its thread.
    pub performed: BTreeSet<(usize, String)>,
    /// Whether the facade saw any operation of the threads.
    pub uses_facade: bool,
    /// The sites that were reached: `file:line:column:op=Ordering`.
    pub sites: Vec<String>,
    /// The sites of injected bugs that were reached.
    pub bugs: Vec<BugSite>,
}

/// How many later arrivals overtook a waiter. More than the bound are a failure, and so is a bound
/// that no execution reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overtaking {
    /// The stated bound.
    pub bound: u32,
    /// The most that did, in any execution.
    pub most: u32,
    /// Whether an arrival tried to and could not. If none did, the bound was not tested.
    pub refused: bool,
}

/// The exit status of that process if it does not accept its arguments.
pub const REFUSES: i32 = 2;

/// The start of the process's lines on standard error that report a failure.
pub const FAILURE: &str = "failure: ";

/// How the last of those lines continues: with what the threads saw until then.
pub const EVENTS: &str = "seen until then: ";
