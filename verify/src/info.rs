//! What a binary of models says of itself: its suites and programs as plain data.
//!
//! The command and a binary of models are two processes, and the command is built without any
//! model. So a binary prints its [`Description`] when asked (`--describe`), and both sides derive
//! the same [rows](crate::plan) from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::mode::Mode;

/// Everything that a binary of models contains.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Description {
    pub suites: Vec<SuiteInfo>,
}

/// A suite: the programs about one primitive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SuiteInfo {
    /// The primitive's name, the first part of each row's name.
    pub name: String,
    pub programs: Vec<ProgramInfo>,
    /// The operations of the primitive: the rows and columns of its table of pairs.
    pub operations: Vec<String>,
    /// Pairs that need no program.
    pub no_pairs: Vec<NoPair>,
    /// The suite whose programs cover this one's pairs too.
    pub part_of: Option<String>,
    /// Whether a table of pairs is derived.
    pub has_pairs: bool,
    /// The address of the published bug that the suite re-creates, if it does.
    pub known_bug: Option<String>,
    /// Where no mode finds that bug: the checker that would, and why none here does.
    pub not_found: Option<String>,
}

/// A cell of a table of pairs that is empty for a reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoPair {
    pub first: String,
    pub second: String,
    pub why: String,
}

/// A program without its code. The methods of [`Program`](crate::Program) explain what they set.
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
    /// Bounds on the preemptions of its searches, and why the search without bound is not made.
    pub bounds: BTreeMap<Mode, (u64, String)>,
    pub injection: Injection,
    pub whole_in_full_run: bool,
    pub step_bound: u64,
    /// Whether its code uses the facade, which tells what each step touches.
    pub has_facade: bool,
    /// Which form of a known bug it is.
    pub form: Option<Form>,
    /// The modes whose search must fail, because of that bug. In every other mode it passes.
    pub fails_in: Vec<Mode>,
    pub kind: Kind,
}

impl ProgramInfo {
    /// Whether the program is searched, to its end or to a number of preemptions, rather than run
    /// under random schedules alone.
    pub fn is_searched(&self) -> bool {
        self.kind == Kind::Once && (self.threads <= 3 || self.expected.is_some())
    }

    /// Whether every search of it may go to its end: of more threads than two, one ends only where
    /// the outcomes are known to be few.
    pub fn is_exact(&self) -> bool {
        self.threads <= 2 || self.expected.is_some()
    }

    /// Whether the program is run under every single and double fault.
    pub fn meets_faults(&self) -> bool {
        let is_plain = self.expected.is_none() && self.faults.is_empty();
        let is_injected = self.has_facade && self.injection != Injection::None;
        self.threads == 2 && is_plain && is_injected
    }

    /// Whether the search in this mode must fail: the program has a known bug that the mode finds.
    pub fn must_fail(&self, mode: Mode) -> bool {
        // A program of three threads has random schedules in place of shuttle's search.
        let mode = if mode.is_random() { Mode::Dfs } else { mode };
        self.fails_in.contains(&mode)
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
    /// `buggy` or `fixed`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Form::Buggy => "buggy",
            Form::Fixed => "fixed",
        }
    }
}

/// How a program is run under fault injection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Injection {
    /// Single faults in every run, double ones in the full run; without bound where that is
    /// affordable.
    #[default]
    Searched,
    /// The same, always with at most two preemptions.
    Few,
    /// As `Few`, and in the full run only.
    Rare,
    /// Never.
    None,
}

/// What is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One program.
    #[default]
    Once,
    /// Random programs, each under random schedules.
    Drawn,
    /// Generated scenarios, each of them searched, and each history judged; in the full run under
    /// random schedules, if so many are stated.
    Searched { schedules: Option<u64> },
    /// Scenarios drawn at random, and each history judged.
    Sampled,
    /// A Promela model for Spin: its file, and the macros that each inject a bug into it.
    Promela { file: String, bugs: Vec<String> },
}

/// The outcomes that a litmus program must show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// What the memory model allows.
    pub allowed: BTreeSet<String>,
    /// How modes are known to deviate from that.
    pub deviations: BTreeMap<Mode, Deviation>,
}

/// How a mode deviates from what is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    /// Allowed outcomes that it does not show.
    pub misses: BTreeSet<String>,
    /// Outcomes that it shows and that are not allowed.
    pub adds: BTreeSet<String>,
}

impl Expected {
    /// Returns exactly the outcomes that `mode` shows.
    pub fn shown_by(&self, mode: Mode) -> BTreeSet<&str> {
        let mut shown: BTreeSet<_> = self.allowed.iter().map(String::as_str).collect();
        if let Some(deviation) = self.deviations.get(&mode) {
            shown.retain(|outcome| !deviation.misses.contains(*outcome));
            shown.extend(deviation.adds.iter().map(String::as_str));
        }
        shown
    }
}

/// One fault in every execution: the `nth` of its kind, from 0, that `thread` reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) thread: usize,
    pub(crate) nth: u32,
}

/// What can be injected.
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

/// As the facade writes an occasion: `weak-cas@1.0`.
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
    /// Its name, which `--bug` takes. Several sites may share one.
    pub name: String,
    /// What is done wrong.
    pub what: String,
    /// The programs, at least one of which must fail: `property`, or `suite/property`.
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
