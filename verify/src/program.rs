//! What can be explored: a property of a primitive, as a program of a few threads.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use spanlock_testkit::Driven;

use crate::models::linear::{self, Scenarios};
use crate::models::twins::{self, Twin};
use crate::models::{
    compact, history, journal, litmus, lock, logs, pairs, parts, powers, sections, segments, word,
};
use crate::pairs::Operation;
use crate::plan::Mode;

/// A property of a primitive, and the program that shows it.
#[derive(Clone)]
pub struct Program {
    /// The lock, `rw-word`, or `litmus`.
    pub primitive: &'static str,
    /// The property's name: `exclusion`.
    pub property: &'static str,
    /// What it says, in a line.
    pub claim: &'static str,
    /// Threads, main included.
    pub threads: u32,
    /// Operations of all threads together.
    pub operations: u32,
    /// What each thread performs of what its primitive does, main first: see [`crate::pairs`]. Empty if it does not say.
    pub performs: Vec<Vec<Operation>>,
    /// Faults without which it would be another program. Those of a lock are none of them: they are sought ([`crate::plan::Job::faults`]).
    pub faults: &'static [Fault],
    /// The exact outcomes, where they are the point.
    pub expected: Option<Arc<Expected>>,
    /// What runs.
    pub run: Run,
}

impl Program {
    /// Whether it is to be run under all faults that it can meet: not litmus programs, in whose outcomes they are part, and not
    /// where more threads meet more than can be searched.
    pub fn meets_faults(&self) -> bool {
        self.threads == 2 && self.expected.is_none() && self.faults.is_empty()
    }

    /// With what each thread performs, main first.
    pub(crate) fn performs<const N: usize>(self, performs: [&[Operation]; N]) -> Self {
        let performs = performs.map(<[_]>::to_vec).into();
        Program { performs, ..self }
    }

    /// Whether it is searched, to its end or to a number of preemptions, and not under random schedules alone.
    pub fn is_searched(&self) -> bool {
        matches!(self.run, Run::Once(_)) && (self.threads <= 3 || self.expected.is_some())
    }
}

/// What an exploration runs.
#[derive(Clone)]
pub enum Run {
    /// One program: this is an execution of it.
    Once(Arc<dyn Fn() + Send + Sync>),
    /// Many random programs, for a fresh lock each time.
    Histories(fn() -> Driven),
    /// Many generated programs, each searched, and judged by what its threads saw.
    Scenarios(Scenarios),
    /// A model of its own, which Spin searches.
    Twin(&'static Twin),
}

/// The outcomes that a litmus program must show, as [`crate::trace`] writes them.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// What the memory model allows.
    pub allowed: BTreeSet<String>,
    /// How modes are known to deviate from that.
    pub deviations: HashMap<Mode, Deviation>,
}

/// How a mode deviates from what is allowed.
#[derive(Clone, Debug, Default)]
pub struct Deviation {
    /// Allowed outcomes that it does not show.
    pub misses: BTreeSet<String>,
    /// Outcomes that it shows, and that are not allowed.
    pub adds: BTreeSet<String>,
}

impl Expected {
    /// What `mode` shows: no more, and no less.
    pub fn shown_by(&self, mode: Mode) -> BTreeSet<&str> {
        let mut shown: BTreeSet<_> = self.allowed.iter().map(String::as_str).collect();
        if let Some(deviation) = self.deviations.get(&mode) {
            shown.retain(|outcome| !deviation.misses.contains(*outcome));
            shown.extend(deviation.adds.iter().map(String::as_str));
        }
        shown
    }
}

/// One fault in every execution: the `nth` of its kind, from 0, that `thread` comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// In which thread; main is 0.
    pub thread: usize,
    /// Where.
    pub nth: u32,
}

/// What can go wrong without anybody's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A weak compare-exchange fails although the value is the expected one.
    WeakCas,
    /// A sleep ends although nobody woke it.
    SpuriousWake,
    /// A deadline passes.
    TimeOut,
}

impl Fault {
    /// A fault in every execution.
    pub const fn new(kind: FaultKind, thread: usize, nth: u32) -> Self {
        Fault { kind, thread, nth }
    }
}

/// As the door writes an occasion for it.
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

/// Every program.
pub fn programs() -> Vec<Program> {
    let mut programs = litmus::programs();
    programs.extend(word::programs());
    programs.extend(lock::programs());
    programs.extend(powers::programs());
    programs.extend(sections::programs());
    programs.extend(segments::programs());
    programs.extend(parts::programs());
    programs.extend(journal::programs());
    programs.extend(compact::programs());
    programs.extend(logs::programs());
    programs.extend(history::programs());
    programs.extend(linear::programs());
    programs.extend(twins::programs());
    programs.extend(pairs::programs(&programs));
    programs
}
