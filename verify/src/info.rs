//! The description of a binary of models: its suites and programs as plain data.
//!
//! The command and a binary of models are two processes, and the command is built without any
//! model. So the binary prints its [`Description`] on `--describe`, and both processes derive the
//! same [rows](crate::plan) from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::mode::Mode;

/// Everything that a binary of models contains.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Description {
    pub suites: Vec<SuiteInfo>,
}

/// A suite: the programs that check one primitive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SuiteInfo {
    /// The primitive's name, the first part of each row's name.
    pub name: String,
    pub programs: Vec<ProgramInfo>,
    /// The primitive's operations: rows and columns of the [table of pairs](crate::Suite).
    pub operations: Vec<String>,
    /// Pairs that need no program.
    pub no_pairs: Vec<NoPair>,
    /// Another suite whose programs also cover this suite's pairs.
    pub part_of: Option<String>,
    /// Whether the suite has a table of pairs.
    pub has_pairs: bool,
    /// The address of the published bug that the suite re-creates, if it does.
    pub known_bug: Option<String>,
    /// If no mode finds that bug: the checker that would, and the reason.
    pub not_found: Option<String>,
}

/// Two operations that no program needs to run in different threads, and the reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoPair {
    pub first: String,
    pub second: String,
    pub why: String,
}

/// A program without its code. The methods of [`Program`](crate::Program) explain the fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProgramInfo {
    pub suite: String,
    /// The property's name, the second part of each row's name.
    pub name: String,
    pub claim: String,
    pub threads: u32,
    pub operations: u32,
    pub performs: Vec<Vec<String>>,
    pub faults: Vec<Fault>,
    pub expected: Option<Expected>,
    /// The stated bound on preemptions in the mode `bounded`, and the reason for it.
    pub bound: Option<(u64, String)>,
    pub step_bound: u64,
    /// Whether its code uses the facade `spanlock_sync`.
    pub has_facade: bool,
    pub unwinds: bool,
    /// Why the program has no row of the explorer.
    pub unexplored: Option<String>,
    /// Whether the program judges the images that crashes may leave.
    pub has_crashes: bool,
    /// The form, if the program re-creates a known bug.
    pub form: Option<Form>,
    /// Whether each row of the program must fail, because of a known bug.
    pub must_fail: bool,
    pub kind: Kind,
}

impl ProgramInfo {
    /// Whether the program has searches, complete or bounded, and not only random schedules.
    pub fn is_searched(&self) -> bool {
        self.kind == Kind::Once && (self.threads <= 3 || self.expected.is_some())
    }

    /// Whether the program is small enough for searches without a bound: it has at most two
    /// threads, or is a litmus program with stated outcomes.
    pub fn is_exact(&self) -> bool {
        self.threads <= 2 || self.expected.is_some()
    }

    /// Returns the mode in which a program with crashes runs.
    pub fn mode_with_crashes(&self) -> Mode {
        match self.bound {
            _ if self.threads == 1 => Mode::Sequence,
            Some(_) => Mode::Bounded,
            None => Mode::Explorer,
        }
    }

    /// Returns the most faults that the explorer chooses in an execution.
    pub fn most_faults(&self) -> usize {
        let meets_faults = !self.has_crashes && self.faults.is_empty() && self.is_exact();
        if meets_faults { 2 } else { 0 }
    }
}

/// A form of a re-created bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// With the bug: a search must fail.
    Buggy,
    /// Without it: every search must pass.
    Fixed,
}

impl Form {
    /// Returns `buggy` or `fixed`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Form::Buggy => "buggy",
            Form::Fixed => "fixed",
        }
    }
}

/// What the rows of a program run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One program.
    #[default]
    Once,
    /// Random programs, each under random schedules.
    Drawn,
    /// Generated scenarios, each with a search. Every history must be linearizable. If `schedules`
    /// is set, the full run draws that many random schedules instead.
    Searched { schedules: Option<u64> },
    /// Scenarios drawn at random. Every history must be linearizable.
    Sampled,
    /// A Promela model for Spin: its file, and macros that inject one bug each.
    Promela { file: String, bugs: Vec<String> },
}

/// The outcomes that a litmus program must show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The outcomes that the memory model allows.
    pub allowed: BTreeSet<String>,
    /// How the outcomes of some modes are known to differ from the allowed ones.
    pub deviations: BTreeMap<Mode, Deviation>,
}

/// The known difference between a mode's outcomes and the allowed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    /// Allowed outcomes that the mode does not show.
    pub misses: BTreeSet<String>,
    /// Outcomes that the mode shows although they are not allowed.
    pub adds: BTreeSet<String>,
}

impl Expected {
    /// Returns the exact set of outcomes that `mode` must show.
    pub fn shown_by(&self, mode: Mode) -> BTreeSet<&str> {
        let mut shown: BTreeSet<_> = self.allowed.iter().map(String::as_str).collect();
        if let Some(deviation) = self.deviations.get(&mode) {
            shown.retain(|outcome| !deviation.misses.contains(*outcome));
            shown.extend(deviation.adds.iter().map(String::as_str));
        }
        shown
    }
}

/// A fault in every execution: the `nth` time, from 0, that `thread` can have one of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) thread: usize,
    pub(crate) nth: u32,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A weak compare-exchange fails although the value is the expected one.
    WeakCas,
    /// A sleep ends although no thread ended it.
    SpuriousWake,
    /// A deadline passes.
    TimeOut,
}

impl Fault {
    /// Creates a fault. The main thread is 0.
    pub const fn new(kind: FaultKind, thread: usize, nth: u32) -> Self {
        Fault { kind, thread, nth }
    }
}

/// Formats a fault as the facade does: `weak-cas@1.0`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FaultKind::WeakCas => "weak-cas",
            FaultKind::SpuriousWake => "spurious-wake",
            FaultKind::TimeOut => "time-out",
        };
        write!(f, "{kind}@{}.{}", self.thread, self.nth)
    }
}

/// A place where an injected bug fires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BugSite {
    /// The bug's name, the argument of `--bug`. Several sites may share a name.
    pub name: String,
    /// What the code does wrong.
    pub what: String,
    /// Programs of which at least one must fail, as `property` or `suite/property`.
    pub killed_by: Vec<String>,
    /// `file:line`.
    pub place: String,
}

impl BugSite {
    /// Whether `killed_by` lists the program of this suite and name.
    pub fn is_killed_by(&self, suite: &str, program: &str) -> bool {
        self.killed_by.iter().any(|it| match it.split_once('/') {
            Some((its, property)) => its == suite && property == program,
            None => it == program,
        })
    }
}
