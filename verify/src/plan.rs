//! Which program runs under which checker, in which mode, with which bound.

use std::fmt;

use crate::models::history;
use crate::program::{Fault, Program, Run, programs};

/// A checker's way of exploring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Loom, loads as written.
    Weak,
    /// Loom, loads as read-modify-writes.
    RmwLoad,
    /// Shuttle, every schedule, but for those that differ from another in the order of independent steps (`reduce.rs`).
    Dfs,
    /// Shuttle, random schedules.
    Random,
    /// Shuttle, probabilistic concurrency testing.
    Pct,
    /// Spin, every state of a twin, for what happens eventually.
    Ltl,
    /// Shuttle, interleavings drawn about uniformly: selectively uniform concurrency testing.
    Urw,
}

impl Mode {
    /// Its name in rows.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Weak => "weak",
            Mode::RmwLoad => "rmw-load",
            Mode::Dfs => "dfs",
            Mode::Random => "random",
            Mode::Pct => "pct",
            Mode::Ltl => "ltl",
            Mode::Urw => "urw",
        }
    }

    /// Whether it draws schedules, and its bound is how many.
    pub const fn is_random(self) -> bool {
        matches!(self, Mode::Random | Mode::Pct | Mode::Urw)
    }

    /// Whether it makes the same executions in every run.
    pub const fn is_counted(self) -> bool {
        matches!(self, Mode::Weak | Mode::RmwLoad | Mode::Dfs)
    }

    /// The checker that has it.
    pub const fn checker(self) -> Checker {
        match self {
            Mode::Weak | Mode::RmwLoad => Checker::Loom,
            Mode::Dfs | Mode::Random | Mode::Pct | Mode::Urw => Checker::Shuttle,
            Mode::Ltl => Checker::Spin,
        }
    }

    /// What it cannot see, however long it runs.
    pub const fn blind_spot(self) -> &'static str {
        match self {
            Mode::Weak => "stores that race with another thread's load-then-store; load buffering",
            Mode::RmwLoad => "stale reads; load buffering",
            Mode::Dfs => "weak orderings (all are SeqCst); data races on cells",
            Mode::Random | Mode::Pct | Mode::Urw => {
                "schedules not drawn; weak orderings (all are SeqCst); data races on cells"
            }
            Mode::Ltl => "the code itself, of which it is a twin; weak orderings (all are SeqCst)",
        }
    }
}

/// A program that explores executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checker {
    /// loom: orderings.
    Loom,
    /// shuttle: interleavings.
    Shuttle,
    /// Spin: what happens eventually, shown of twins.
    Spin,
}

impl Checker {
    /// Those that run our own code, built for them.
    pub const ALL: [Checker; 2] = [Checker::Loom, Checker::Shuttle];

    /// Its crate's name, and in rows.
    pub const fn name(self) -> &'static str {
        match self {
            Checker::Loom => "loom",
            Checker::Shuttle => "shuttle",
            Checker::Spin => "spin",
        }
    }

    /// The cfg that switches the door to it; none if it does not run our code.
    pub const fn cfg(self) -> Option<&'static str> {
        match self {
            Checker::Loom => Some("spanlock_loom"),
            Checker::Shuttle => Some("spanlock_shuttle"),
            Checker::Spin => None,
        }
    }
}

/// One row to run.
#[derive(Clone)]
pub struct Job {
    /// What runs.
    pub program: Program,
    /// How.
    pub mode: Mode,
    /// Preemption bound, or number of schedules; none: no bound.
    pub bound: Option<u64>,
    /// Injected into every execution.
    pub faults: Vec<Fault>,
    /// Part of `--full` alone: a search without bound, or a million schedules.
    pub long: bool,
}

impl Job {
    /// The name that `--filter` and `--replay` take: `srl-array/exclusion/loom/weak`, and one more part
    /// with faults: `srl-array/exclusion/loom/weak/spurious-wake@0`. A long row ends in `/long`.
    pub fn name(&self) -> String {
        let (primitive, property) = (self.program.primitive, self.program.property);
        let (checker, mode) = (self.mode.checker().name(), self.mode.name());
        let faults: String = self
            .faults
            .iter()
            .map(|fault| format!("/{fault}"))
            .collect();
        let long = if self.long { "/long" } else { "" };
        format!("{primitive}/{property}/{checker}/{mode}{faults}{long}")
    }

    /// Whether, of executions that differ only in the order of independent steps, one is enough: so in all searches of two threads without bound, and in shuttle's.
    pub fn is_reduced(&self) -> bool {
        self.mode == Mode::Dfs || self.bound.is_none() && self.program.threads <= 2
    }

    /// Which executions are explored, of those within the bound.
    pub fn search(&self) -> &'static str {
        match self.mode.checker() {
            Checker::Loom if self.is_reduced() => {
                "one of each class that differ only in the order of independent steps: loom's races, and sleep sets"
            }
            Checker::Loom => {
                "one or more of each class that differ only in the order of independent steps: loom's races"
            }
            Checker::Shuttle if self.is_reduced() => {
                "one of each class that differ only in the order of independent steps: source sets and sleep sets"
            }
            Checker::Shuttle => "those drawn",
            Checker::Spin => "every state",
        }
    }

    /// The rounds after which spin loops are cut: the door cuts a lock's to none, and litmus programs have none.
    pub fn spin_cap(&self) -> Option<u32> {
        (self.program.primitive != "litmus").then_some(0)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Preemptions in programs of three threads.
const PREEMPTIONS: u64 = 3;
/// Random schedules of a program.
const SCHEDULES: u64 = 20_000;

/// Schedules of a program in the full run: of each of the random modes.
const MANY_SCHEDULES: u64 = 400_000;

/// Programs of three threads that the full run searches without bound, in both modes of loom: one of each primitive that has any.
const UNBOUNDED: &[&str] = &["tries-3", "grace-3"];

/// Rows of two threads whose search is known not to end in minutes: explored up to a number of preemptions, or by random schedules, instead. Beginnings of names.
const ENDLESS: &[&str] = &[
    // Two requests that each go through words, gate, entries and scan: shuttle searches them to their end, and so does loom those of `srl-gate`.
    "srl-array/batch/loom",
    "srl-array/batch-across/loom",
    "srl-packed/batch/loom",
    "srl-packed/batch-across/loom",
    "srl-tree/batch/loom",
    "srl-tree/batch-across",
    "srl-tree/reclamation/loom",
    "srl-tree/pair-append-reclaim/loom",
    "srl-tree/pair-deadline-reclaim/loom/weak",
    "srl-tree/pair-batch-append/shuttle",
    // Wide holds that are cut, against small requests.
    "srl-gate/shrink-keeps/loom",
    "srl-gate/shrink-wakes/loom/weak",
    "srl-gate/split-keeps/loom",
    "srl-gate/split-wakes/loom",
];

/// Pairs of the segment locks whose searches under loom do not end in seconds either, by property: a batch that has to wait goes through words, gate, entries
/// and scan. Shuttle searches them to their end.
const ENDLESS_PAIRS: &[&str] = &[
    "pair-acquire-shared-batch",
    "pair-acquire-upgradable-batch",
    "pair-batch-append",
    "pair-cancel-batch",
    "pair-deadline-batch",
    "pair-poll-batch",
];

/// Nor do, of `srl-gate`, pairs of what takes two segments, which is a wide range there, and cuts it.
const ENDLESS_WIDE: &[&str] = &["append", "shrink", "split"];

/// Preemptions in those.
const FEW_PREEMPTIONS: u64 = 3;

/// Every row, the long ones too.
pub fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for program in programs() {
        let mut add = |mode, bound, faults: &[Fault], long| {
            jobs.push(Job {
                program: program.clone(),
                mode,
                bound,
                faults: faults.to_vec(),
                long,
            });
        };
        match program.run {
            Run::Histories(_) => {
                add(Mode::Random, Some(history::SCHEDULES), &[], false);
                add(Mode::Pct, Some(history::SCHEDULES), &[], false);
            }
            Run::Twin(_) => add(Mode::Ltl, None, &[], false),
            Run::Once(_) if !program.is_searched() => {
                for mode in [Mode::Random, Mode::Pct, Mode::Urw] {
                    add(mode, Some(SCHEDULES), &[], false);
                    add(mode, Some(MANY_SCHEDULES), &[], true);
                }
            }
            Run::Once(_) => searches(&program, &mut add),
        }
    }
    jobs
}

/// The rows of a program of at most three threads, by `add`.
fn searches(program: &Program, add: &mut impl FnMut(Mode, Option<u64>, &[Fault], bool)) {
    let exact = program.threads <= 2 || program.expected.is_some();
    let endless = |mode: Mode| {
        let (primitive, property) = (program.primitive, program.property);
        let (checker, mode) = (mode.checker().name(), mode.name());
        let name = format!("{primitive}/{property}/{checker}/{mode}");
        let is_wide = |what: &&str| property.starts_with("pair-") && property.contains(*what);
        let of_segments = match primitive {
            "srl-gate" => ENDLESS_PAIRS.contains(&property) || ENDLESS_WIDE.iter().any(is_wide),
            _ => primitive.starts_with("srl-") && ENDLESS_PAIRS.contains(&property),
        };
        (checker == "loom" && of_segments) || ENDLESS.iter().any(|it| name.starts_with(it))
    };
    for &faults in program.plans {
        for mode in [Mode::Weak, Mode::RmwLoad] {
            let bound = match exact {
                true if endless(mode) => Some(FEW_PREEMPTIONS),
                true => None,
                false => Some(PREEMPTIONS),
            };
            add(mode, bound, faults, false);
            if !exact && UNBOUNDED.contains(&program.property) {
                add(mode, None, faults, true);
            }
        }
        // Shuttle adds interleavings; what a fault changes, the two modes of loom show.
        if !faults.is_empty() {
            continue;
        }
        if exact && !endless(Mode::Dfs) {
            add(Mode::Dfs, None, faults, false);
        } else {
            add(Mode::Random, Some(SCHEDULES), faults, false);
            add(Mode::Pct, Some(SCHEDULES), faults, false);
        }
    }
}
