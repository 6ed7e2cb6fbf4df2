//! Which program runs under which checker, in which mode, with which bound.

use std::collections::HashMap;
use std::fmt;

use crate::linear::scenario::Alphabet;
use crate::models::{history, linear};
use crate::pairs::Operation;
use crate::program::{Program, Run, programs};

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
    /// Every plan of at most so many faults is run, each as a search of its own; 0: the program as it is.
    pub faults: usize,
    /// Part of `--full` alone: a search without bound, or a million schedules. It stands there for the row that is the same but not long, if there is one.
    pub long: bool,
}

impl Job {
    /// The name that `--filter` and `--replay` take: `srl-array/exclusion/loom/weak`, and one more part
    /// with faults: `srl-array/exclusion/loom/weak/single-faults`. A long row ends in `/long`.
    pub fn name(&self) -> String {
        let (primitive, property) = (self.program.primitive, self.program.property);
        let (checker, mode) = (self.mode.checker().name(), self.mode.name());
        let faults = match self.faults {
            0 => "",
            1 => "/single-faults",
            _ => "/double-faults",
        };
        let long = if self.long { "/long" } else { "" };
        format!("{primitive}/{property}/{checker}/{mode}{faults}{long}")
    }

    /// The name of the long row that stands for it in the full run, if there is one.
    pub fn long_name(&self) -> String {
        let long = true;
        Job {
            long,
            ..self.clone()
        }
        .name()
    }

    /// Whether its name begins with one of these.
    fn is_among(&self, beginnings: &[&str]) -> bool {
        let name = self.name();
        beginnings
            .iter()
            .any(|beginning| name.starts_with(beginning))
    }

    /// Whether, of executions that differ only in the order of independent steps, one is enough: so in all searches of two threads without bound, and in shuttle's.
    pub fn is_reduced(&self) -> bool {
        matches!(self.mode, Mode::Dfs) || self.bound.is_none() && self.program.threads <= 2
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

    /// How many steps of all threads together may lie between two finished operations, if the checker counts them: more, and nobody gets on.
    ///
    /// While nobody finishes, each thread makes the steps of one operation, and repeats some that met another's. So the bound is in proportion to
    /// the threads. It is two to five times the most that was seen: by the searches of two threads, which see all that there is, by random schedules of four to eight, and in
    /// histories.
    pub fn step_bound(&self) -> Option<u64> {
        let of_a_thread = match self.program.primitive {
            // The way down, and the leaves on it.
            "srl-tree" => 160,
            "srl-array" | "srl-packed" | "srl-gate" => 96,
            "rw-distributed" | "packed-word" => 64,
            // From one end to the other: a log that is opened, or a transaction that is written, sealed and acknowledged.
            "journal" => 320,
            "journal-submission" | "compact-log" => 96,
            _ => 40,
        };
        // In a history an operation takes several ranges at once, or polls all requests that there are.
        let at_once = match self.program.run {
            Run::Histories(_) => 2,
            _ => 1,
        };
        let counts = self.mode.checker() == Checker::Shuttle;
        counts.then(|| at_once * of_a_thread * u64::from(self.program.threads))
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

/// Schedules of a primitive in the full run, at the least: its programs share them, and the random modes.
const MANY_SCHEDULES: u64 = 1_000_000;

/// Programs of three threads that the full run searches without bound, in loom's `weak`: one of each primitive.
const UNBOUNDED: &[&str] = &[
    "tries-3",
    "grace-3",
    // Of a journal's commit, machine by machine; a whole journal has none that ends.
    "wake-3",
    "hand-over-3",
    "let-go-3",
    "drain-3",
    "fail-3",
    "wait-3",
    "gather-3",
    "commit-3",
    "nobody-comes-3",
    "truncate-3",
];

/// Searches of two threads that take more than twenty seconds or so: the full run makes them; the normal one goes up to a number of preemptions there, or draws schedules. Beginnings of names.
const LONG: &[&str] = &[
    // Two requests that each go through words, gate, entries and scan.
    "srl-array/batch-across/loom/rmw-load",
    "srl-array/pair-batch-append/loom/weak",
    "srl-packed/batch-across/loom/rmw-load",
    "srl-packed/pair-acquire-shared-batch/loom/weak",
    "srl-packed/pair-acquire-upgradable-batch/loom/weak",
    "srl-packed/pair-batch-append/loom/weak",
    "srl-packed/pair-deadline-batch/loom/weak",
    "srl-tree/batch-across/loom/rmw-load",
    "srl-tree/batch-across/shuttle",
    "srl-tree/pair-acquire-shared-batch/loom/weak",
    "srl-tree/pair-acquire-upgradable-batch/loom/weak",
    "srl-tree/pair-batch-append/loom",
    "srl-tree/pair-deadline-batch/loom/weak",
    // Wide requests that wait, or are waited for.
    "srl-gate/pair-acquire-exclusive-append/loom/weak",
    "srl-gate/pair-acquire-shared-append/loom/weak",
    "srl-gate/pair-acquire-upgradable-append/loom/weak",
    "srl-gate/pair-deadline-append/loom/weak",
    "srl-gate/pair-deadline-split/loom/weak",
];

/// Those that do not end in ten minutes: the full run does not search them whole either. Two requests of two segments each, which wait for each other through words, gate and entries, with all stale loads.
/// The other mode of loom and shuttle search the same programs to their end.
const ENDLESS: &[&str] = &[
    "srl-array/batch-across/loom/weak",
    "srl-packed/batch-across/loom/weak",
    "srl-tree/batch-across/loom/weak",
    // A whole journal, in every mode. Each of the machines it is made of is searched to its end.
    "journal/close",
    "journal/commit",
    "journal/next",
];

/// Preemptions in those.
const FEW_PREEMPTIONS: u64 = 3;

/// Programs of which a search has over 500 executions or so, and under faults as often again as there are plans, and smaller ones that those bring along: beginnings of
/// names. Single faults are searched with few preemptions, and without bound in the full run; double ones with few.
const COSTLY: &[&str] = &[
    "journal-submission/beside-a-failure",
    "journal-submission/help",
    "packed-word/exclusion-whole-word",
    "rw-counter/cancel-reader",
    "rw-distributed/",
    "srl-array/batch",
    "srl-array/cancel-reader",
    "srl-array/downgrade-writer",
    "srl-gate/",
    "srl-packed/batch",
    "srl-packed/bounded-overtaking",
    "srl-packed/cancel",
    "srl-packed/downgrade-writer",
    "srl-packed/shrink-keeps",
    "srl-packed/split-keeps",
    "srl-packed/upgrade-readers",
    "srl-packed/visibility",
    "srl-packed/wakeup",
    "srl-tree/",
];

/// Those of these of which it has many thousand, the smaller modes of two programs among them: none is searched without bound under faults.
const TOO_COSTLY: &[&str] = &[
    "srl-gate/batch-across",
    "srl-gate/cancel/loom/weak",
    "srl-gate/cancel-shared/loom/weak",
    "srl-gate/exclusion",
    "srl-gate/split-wakes/loom/weak",
    "srl-tree/cancel-reader/loom/weak",
    "srl-tree/reclamation",
];

/// Preemptions of costly programs under faults.
const PREEMPTIONS_UNDER_FAULTS: u64 = 2;

/// Every row, the long ones too.
pub fn jobs() -> Vec<Job> {
    jobs_of(|_| true)
}

/// The row of this name, without planning all the others: a process that runs one row needs no more.
pub fn job(name: &str) -> Option<Job> {
    let beginning = |it: &Program| format!("{}/{}/", it.primitive, it.property);
    let mut rows = jobs_of(|it| name.starts_with(&beginning(it))).into_iter();
    rows.find(|job| job.name() == name)
}

/// The rows of some programs.
fn jobs_of(chosen: impl Fn(&Program) -> bool) -> Vec<Job> {
    let programs = programs();
    let is_drawn = |it: &&Program| matches!(it.run, Run::Once(_)) && !it.is_searched();
    let mut drawn: HashMap<&str, u64> = HashMap::new();
    for program in programs.iter().filter(is_drawn) {
        *drawn.entry(program.primitive).or_default() += 1;
    }
    let beside = |it: &Program| drawn.get(it.primitive).copied().unwrap_or_default();
    let chosen = programs.iter().filter(|it| chosen(it));
    chosen.flat_map(|it| rows(it, beside(it))).collect()
}

/// The rows of a program, of a primitive that has so many programs under random schedules alone.
fn rows(program: &Program, drawn: u64) -> Vec<Job> {
    let row = |mode, bound| Job {
        program: program.clone(),
        mode,
        bound,
        faults: 0,
        long: false,
    };
    let long = |job| Job { long: true, ..job };
    match program.run {
        Run::Histories(_) => {
            let drawn = |mode| row(mode, Some(history::SCHEDULES));
            vec![drawn(Mode::Random), drawn(Mode::Pct)]
        }
        Run::Scenarios(scenarios) if scenarios.alphabet == Alphabet::Core => {
            let all = if linear::ENDLESS.contains(&program.primitive) {
                let schedules = scenarios.count(scenarios.operations) as u64 * linear::OF_EACH;
                row(Mode::Random, Some(schedules))
            } else {
                row(Mode::Dfs, None)
            };
            vec![row(Mode::Dfs, None), long(all)]
        }
        Run::Scenarios(_) => {
            let drawn = |schedules| row(Mode::Random, Some(schedules));
            vec![
                drawn(linear::SCHEDULES),
                long(drawn(linear::MANY_SCHEDULES)),
            ]
        }
        Run::Twin(_) => vec![row(Mode::Ltl, None)],
        Run::Once(_) if !program.is_searched() => {
            let modes = [Mode::Random, Mode::Pct, Mode::Urw];
            let many = MANY_SCHEDULES.div_ceil(drawn * modes.len() as u64);
            let both = |mode| [row(mode, Some(SCHEDULES)), long(row(mode, Some(many)))];
            modes.into_iter().flat_map(both).collect()
        }
        Run::Once(_) => searches(program, row),
    }
}

/// The rows of a program of at most three threads.
fn searches(program: &Program, row: impl Fn(Mode, Option<u64>) -> Job) -> Vec<Job> {
    let mut rows = Vec::new();
    let exact = program.threads <= 2 || program.expected.is_some();
    for mode in [Mode::Weak, Mode::RmwLoad] {
        let whole = row(mode, None);
        let (is_long, is_endless) = (whole.is_among(LONG), whole.is_among(ENDLESS));
        let bound = match exact {
            true if is_long || is_endless => Some(FEW_PREEMPTIONS),
            true => None,
            false => Some(PREEMPTIONS),
        };
        rows.push(row(mode, bound));
        let unbounded = mode == Mode::Weak && UNBOUNDED.contains(&program.property);
        if is_long || !exact && unbounded {
            rows.push(Job {
                long: true,
                ..whole
            });
        }
        if program.meets_faults() {
            rows.extend(under_faults(row(mode, bound)));
        }
    }
    // Shuttle adds interleavings; what a fault changes, the two modes of loom show.
    if !program.faults.is_empty() {
        return rows;
    }
    let whole = row(Mode::Dfs, None);
    let (is_long, is_endless) = (whole.is_among(LONG), whole.is_among(ENDLESS));
    if exact && !is_long && !is_endless {
        rows.push(whole);
        return rows;
    }
    rows.push(row(Mode::Random, Some(SCHEDULES)));
    rows.push(row(Mode::Pct, Some(SCHEDULES)));
    if is_long {
        rows.push(Job {
            long: true,
            ..whole
        });
    }
    rows
}

/// The rows of a search under single and double faults.
fn under_faults(plain: Job) -> Vec<Job> {
    let is_costly = plain.bound.is_some() || plain.is_among(COSTLY);
    let has_long = plain.bound.is_none() && !plain.is_among(TOO_COSTLY);
    let row = |faults, bound, long| Job {
        faults,
        bound,
        long,
        ..plain.clone()
    };
    let few = Some(PREEMPTIONS_UNDER_FAULTS);
    if plain.program.property.starts_with("pair-") {
        // A deadline passes in no other row.
        let mut performed = plain.program.performs.iter().flatten();
        let waits = performed.any(|it| *it == Operation::Deadline);
        return vec![row(1, few, !waits), row(2, few, true)];
    }
    match is_costly {
        false => vec![row(1, None, false), row(2, None, true)],
        true if has_long => vec![row(1, few, false), row(1, None, true), row(2, few, true)],
        true => vec![row(1, few, false), row(2, few, true)],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Those that checkers run: neither the checkers' own programs nor twins.
    fn primitives(jobs: &[Job]) -> BTreeSet<&'static str> {
        let is_ours =
            |job: &&Job| job.program.primitive != "litmus" && job.mode.checker().cfg().is_some();
        let ours = jobs.iter().filter(is_ours);
        ours.map(|job| job.program.primitive).collect()
    }

    #[test]
    fn each_primitive_has_three_threads_without_bound_in_the_full_run() {
        let jobs = jobs();
        let is_whole = |job: &&Job| {
            job.long && job.program.threads == 3 && job.bound.is_none() && job.mode == Mode::Weak
        };
        let whole: BTreeSet<_> = jobs
            .iter()
            .filter(is_whole)
            .map(|job| job.program.primitive)
            .collect();
        let missing: Vec<_> = primitives(&jobs).difference(&whole).copied().collect();
        assert_eq!(missing, ["journal"]);
    }

    #[test]
    fn each_primitive_has_a_million_schedules_of_four_threads_or_more_in_the_full_run() {
        let jobs = jobs();
        for primitive in primitives(&jobs) {
            let is_drawn = |job: &&Job| {
                job.long && job.program.primitive == primitive && job.program.threads >= 4
            };
            let schedules: u64 = jobs
                .iter()
                .filter(is_drawn)
                .filter_map(|job| job.bound)
                .sum();
            assert!(schedules >= MANY_SCHEDULES, "{primitive}: {schedules}");
        }
    }

    #[test]
    fn nothing_is_listed_that_is_not_there() {
        let jobs = jobs();
        for beginning in [LONG, ENDLESS, COSTLY, TOO_COSTLY].concat() {
            assert!(
                jobs.iter().any(|job| job.name().starts_with(beginning)),
                "{beginning}"
            );
        }
        for property in UNBOUNDED {
            assert!(
                jobs.iter().any(|job| job.program.property == *property),
                "{property}"
            );
        }
    }

    #[test]
    fn each_primitive_has_three_threads_at_bound_three_or_more_in_both_modes_of_loom() {
        let jobs = jobs();
        let three = |job: &&Job| {
            job.program.threads == 3
                && job.bound.is_none_or(|bound| bound >= 3)
                && job.faults == 0
                && !job.long
        };
        let there: BTreeSet<_> = jobs
            .iter()
            .filter(three)
            .map(|job| (job.program.primitive, job.mode.name()))
            .collect();
        let pairs = primitives(&jobs)
            .into_iter()
            .flat_map(|it| [(it, "weak"), (it, "rmw-load")]);
        let missing: Vec<_> = pairs.filter(|pair| !there.contains(pair)).collect();
        // A whole journal's three threads are drawn alone: the machines it is made of are searched.
        assert_eq!(missing, [("journal", "weak"), ("journal", "rmw-load")]);
    }
}
