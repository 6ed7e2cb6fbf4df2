//! The rows of a program. A row is the program in one mode, with its bound and its faults.
//!
//! The rows follow from the program (its threads and stated bounds) and from the record of earlier
//! searches ([`Counts`]). `docs/rows.md` states the rules. A search by loom without a
//! record is bounded until `cargo verify --accept` measures it.

use std::path::Path;
use std::sync::Arc;

use crate::info::{Description, Injection, Kind, ProgramInfo};
use crate::mode::{Checker, Mode};
use crate::rows::counts::{Count, Counts};

/// The default bound on preemptions, for a search that is too long without one.
const PREEMPTIONS: u64 = 3;

/// The bound on preemptions where the default is too slow, and for a costly search with faults.
pub(crate) const FEW_PREEMPTIONS: u64 = 2;

/// How many more preemptions the full run allows than the normal run, where both are bounded.
const MORE_IN_FULL_RUN: u64 = 1;

/// Random schedules of a row in the normal run.
pub(crate) const SCHEDULES: u64 = 2_000;

/// Random schedules of a row in the full run, if loom searches the program too.
const SCHEDULES_BESIDE_LOOM: u64 = 10_000;

/// Random schedules of each random program.
const SCHEDULES_OF_DRAWN: u64 = 40;

/// The least number of random schedules of a suite in the full run, divided equally among its
/// programs and the random modes.
const SCHEDULES_IN_FULL_RUN: u64 = 1_000_000;

/// Schedules of a row of sampled scenarios in the normal run.
const SAMPLES: u64 = 10_000;

/// Schedules of a row of sampled scenarios in the full run.
const SAMPLES_IN_FULL_RUN: u64 = 100_000;

/// The most executions of a program whose searches with single faults may be unbounded. Each fault
/// needs a search of its own.
const TOO_COSTLY_UNDER_FAULTS: u64 = 5_000;

/// The longest recorded search with single faults, in milliseconds, for which pairs of faults are
/// searched, too. Each pair needs a search of its own.
const TOO_LONG_FOR_PAIRS: u64 = 10_000;

/// `--quick` leaves out rows with more executions than this.
const QUICK: u64 = 300;

/// The assumed cost of random programs, which run until a million operations are done.
const COST_OF_DRAWN: u64 = 100_000;

/// One row to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program.
    pub program: Arc<ProgramInfo>,
    /// The mode in which it runs.
    pub mode: Mode,
    /// The bound on preemptions (explorer: on faults), or the number of random schedules. `None` means
    /// no bound.
    pub bound: Option<u64>,
    /// The most faults in an execution. Under loom, each combination of at most this many has its own
    /// search.
    pub faults: usize,
    /// Whether the row is part of the full run only. There, it replaces the row of the same name
    /// without `/long`, if there is one.
    pub long: bool,
}

impl Job {
    /// Returns the row's name, such as `ring/exchange/explorer` or `ring/exchange/loom/weak`. Under
    /// loom, `/single-faults` or `/double-faults` follows if it applies. Then comes `/long`.
    pub fn name(&self) -> String {
        let (suite, program) = (&self.program.suite, &self.program.name);
        let long = if self.long { "/long" } else { "" };
        if self.mode == Mode::Explorer {
            return format!("{suite}/{program}/explorer{long}");
        }
        let (checker, mode) = (self.mode.checker().name(), self.mode.name());
        let faults = match self.faults {
            0 => "",
            1 => "/single-faults",
            _ => "/double-faults",
        };
        format!("{suite}/{program}/{checker}/{mode}{faults}{long}")
    }

    /// Whether the row is the one that stands for its program, and any faults, in all modes.
    pub fn is_main(&self) -> bool {
        let main = [Mode::Weak, Mode::Dfs][usize::from(self.program.unwinds)];
        self.mode == *self.program.crashes.first().unwrap_or(&main)
    }

    /// Whether the row explores only one of all executions with the same order of dependent steps:
    /// true of shuttle's searches without crashes, of unbounded searches with crashes, and of
    /// loom's unbounded searches of at most two threads.
    pub fn is_reduced(&self) -> bool {
        let may = self.mode.has_crashes() || self.program.threads <= 2;
        let is = self.mode == Mode::Dfs || self.bound.is_none() && may;
        self.program.has_facade && is
    }

    /// Describes which executions within the bound the row explores.
    pub fn search(&self) -> String {
        let (some, how) = match (self.mode, self.is_reduced()) {
            (Mode::Explorer, _) => return "every execution graph".to_owned(),
            (Mode::Sequence, _) => return "every sequence".to_owned(),
            (Mode::Weak | Mode::RmwLoad, true) => ("one", "loom's races, and sleep sets"),
            (Mode::Weak | Mode::RmwLoad, false) => ("one or more", "loom's races"),
            (Mode::Dfs | Mode::Global | Mode::Cut, true) => ("one", "source sets and sleep sets"),
            (Mode::Dfs | Mode::Global | Mode::Cut, false) => return "every schedule".to_owned(),
            (Mode::Ltl, _) => return "every state".to_owned(),
            _ => return "the drawn schedules".to_owned(),
        };
        format!("{some} of all executions with the same order of dependent steps: {how}")
    }

    /// Returns the most steps of all threads together between two finished operations. If
    /// there are more, the execution counts as stuck. `None` if the checker does not count steps.
    ///
    /// While no operation finishes, each thread makes the steps of one operation, and repeats some
    /// after a conflict. So the bound is proportional to the number of threads.
    pub fn step_bound(&self) -> Option<u64> {
        let program = &self.program;
        // Operations of random programs are longer: they take several ranges, or poll all requests.
        let at_once = if program.kind == Kind::Drawn { 2 } else { 1 };
        let counts = self.mode.checker() == Checker::Shuttle;
        counts.then(|| at_once * program.step_bound * u64::from(program.threads))
    }

    /// Estimates the cost of the row. A search without a record counts as the costliest.
    pub fn cost(&self, counts: &Counts) -> u64 {
        let recorded = || counts.of(&self.name()).map(|count| count.executions);
        match (&self.program.kind, self.bound) {
            (Kind::Drawn, _) => COST_OF_DRAWN,
            (_, Some(schedules)) if self.mode.is_random() => schedules,
            _ => recorded().unwrap_or(u64::MAX),
        }
    }

    /// Whether `--quick` includes the row: a search that is recorded as short. A search of two
    /// threads must also have no bound.
    pub fn is_quick(&self, counts: &Counts) -> bool {
        let is_search = !self.long && self.mode.is_counted();
        let is_cut = self.program.threads == 2 && self.bound.is_some();
        let is_short = |count: Count| count.executions <= QUICK;
        is_search && !is_cut && counts.of(&self.name()).is_some_and(is_short)
    }
}

/// How to run a search without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecorded {
    /// With a bound on preemptions.
    Bounded,
    /// Without a bound, to see whether it ends within the time limit.
    Whole,
}

/// Returns all rows of a binary's suites, including the long ones.
pub fn jobs(description: &Description, counts: &Counts, unrecorded: Unrecorded) -> Vec<Job> {
    let mut jobs = Vec::new();
    for suite in &description.suites {
        let is_drawn = |it: &&ProgramInfo| it.kind == Kind::Once && !it.is_searched();
        let drawn = suite.programs.iter().filter(is_drawn).count() as u64;
        for program in &suite.programs {
            let planner = Planner {
                program: Arc::new(program.clone()),
                counts,
                unrecorded,
            };
            planner.rows(drawn, &mut jobs);
        }
    }
    jobs
}

/// Returns the rows of a binary's suites, given the record of the package in whose folder this
/// process runs.
pub(crate) fn jobs_here(description: &Description) -> Result<Vec<Job>, String> {
    let counts = Counts::read(Path::new("."))?;
    Ok(jobs(description, &counts, Unrecorded::Bounded))
}

/// The rows of one program.
struct Planner<'a> {
    program: Arc<ProgramInfo>,
    counts: &'a Counts,
    unrecorded: Unrecorded,
}

impl Planner<'_> {
    fn row(&self, mode: Mode, bound: Option<u64>) -> Job {
        Job {
            program: self.program.clone(),
            mode,
            bound,
            faults: 0,
            long: false,
        }
    }

    fn long(&self, mode: Mode, bound: Option<u64>) -> Job {
        Job {
            long: true,
            ..self.row(mode, bound)
        }
    }

    /// Adds the program's rows. Of its suite's programs, `drawn` run with random schedules only.
    fn rows(&self, drawn: u64, jobs: &mut Vec<Job>) {
        match &self.program.kind {
            _ if !self.program.crashes.is_empty() => {
                if self.program.crashes.contains(&Mode::Cut) {
                    self.explored(jobs);
                }
                for &mode in &self.program.crashes {
                    let row = self.row(mode, self.stated(mode));
                    match self.more(mode) {
                        None => jobs.push(self.as_recorded(row)),
                        more => jobs.extend([row, self.long(mode, more)]),
                    }
                }
            }
            Kind::Drawn => {
                let modes = [Mode::Random, Mode::Pct];
                jobs.extend(modes.map(|mode| self.row(mode, Some(SCHEDULES_OF_DRAWN))));
            }
            Kind::Searched { schedules } => {
                let long = schedules.map_or(Mode::Dfs, |_| Mode::Random);
                jobs.extend([self.row(Mode::Dfs, None), self.long(long, *schedules)]);
            }
            Kind::Sampled => {
                let long = self.long(Mode::Random, Some(SAMPLES_IN_FULL_RUN));
                jobs.extend([self.row(Mode::Random, Some(SAMPLES)), long]);
            }
            Kind::Promela { .. } => jobs.push(self.row(Mode::Ltl, None)),
            Kind::Once if self.program.is_searched() => self.searches(jobs),
            Kind::Once => {
                let modes = [Mode::Random, Mode::Pct, Mode::Urw];
                let many = SCHEDULES_IN_FULL_RUN.div_ceil(drawn * modes.len() as u64);
                let both = |mode| [self.row(mode, Some(SCHEDULES)), self.long(mode, Some(many))];
                jobs.extend(modes.into_iter().flat_map(both));
            }
        }
    }

    /// Adds the rows of a program that is searched.
    fn searches(&self, jobs: &mut Vec<Job>) {
        let program = &self.program;
        // In the explorer, a thread that unwinds cannot wait for another.
        if program.has_facade && !program.unwinds && program.unexplored.is_none() {
            self.explored(jobs);
        }
        let is_stated = |mode| self.stated(mode).is_some();
        let by_loom = [Mode::Weak, Mode::RmwLoad].into_iter();
        for mode in by_loom.filter(|_| !program.unwinds) {
            let row = self.search(mode, 0, false);
            // A recorded bound means that the whole search takes too long for the normal run.
            let is_cut = self.recorded(&row).is_some_and(|it| it.bound.is_some());
            let is_long = program.is_exact() && !is_stated(mode) && is_cut;
            let more = self.more(mode);
            let is_whole = mode == Mode::Weak && !program.is_exact();
            let is_whole = is_whole && program.more_in_full_run.contains(&mode);
            let long = match is_long {
                true => Some(self.long_of(&row, PREEMPTIONS + MORE_IN_FULL_RUN)),
                false => (is_whole || more.is_some()).then(|| self.long(mode, more)),
            };
            jobs.push(row.clone());
            jobs.extend(long);
            if program.meets_faults() {
                self.under_faults(&row, jobs);
            }
        }
        // With stated faults, a program runs under loom only: its two modes show their effect.
        if !program.faults.is_empty() {
            return;
        }
        let whole = self.as_recorded(self.row(Mode::Dfs, None));
        let is_bounded = !program.is_exact() || is_stated(Mode::Dfs);
        if is_bounded || whole.long {
            for mode in [Mode::Random, Mode::Pct] {
                jobs.push(self.row(mode, Some(SCHEDULES)));
                jobs.push(self.long(mode, Some(SCHEDULES_BESIDE_LOOM)));
            }
        }
        jobs.extend((!is_bounded).then_some(whole));
    }

    /// Adds the rows of the explorer. If a search was recorded with a bound on faults, a search with
    /// all of them takes too long for the normal run. A search without faults that was recorded as
    /// long is part of the full run only.
    fn explored(&self, jobs: &mut Vec<Job>) {
        let row = self.with_faults(self.row(Mode::Explorer, None), 0);
        let long = self.with_faults(self.long(Mode::Explorer, None), 1);
        let is_recorded = |job: &Job| self.recorded(job).is_some();
        let is_cut = self.recorded(&row).is_some_and(|it| it.bound.is_some());
        let is_long =
            row.faults == 0 && row.bound.is_none() && is_recorded(&long) && !is_recorded(&row);
        jobs.extend((!is_long).then_some(row));
        jobs.extend((is_long || is_cut).then_some(long));
    }

    /// Sets the most faults of the explorer's row, and its bound on them: the recorded one, or `few`
    /// if there is no record, and the row is not to be measured.
    fn with_faults(&self, row: Job, few: u64) -> Job {
        let most = self.program.most_faults();
        let bound = (most > 0).then(|| self.bound(&row, few)).flatten();
        Job {
            faults: bound.map_or(most, |bound| bound as usize),
            bound,
            ..row
        }
    }

    /// Adds the rows with single faults and with pairs of faults.
    fn under_faults(&self, plain: &Job, jobs: &mut Vec<Job>) {
        let injection = self.program.injection;
        let single = self.search(plain.mode, 1, injection == Injection::Rare);
        let double = self.search(plain.mode, 2, true);
        let is_cut = single.bound.is_some() && plain.bound.is_none();
        let is_affordable = |count: Count| count.executions <= TOO_COSTLY_UNDER_FAULTS;
        let is_affordable = self.recorded(plain).is_some_and(is_affordable);
        let has_long = injection == Injection::Searched && is_cut && is_affordable;
        let few = FEW_PREEMPTIONS + MORE_IN_FULL_RUN;
        let long = has_long.then(|| self.long_of(&single, few));
        // While the searches with single faults are measured, nobody knows how long they take.
        let has_pairs = match self.recorded(&single) {
            Some(count) => count.millis.is_none_or(|it| it <= TOO_LONG_FOR_PAIRS),
            None => self.unrecorded == Unrecorded::Bounded,
        };
        jobs.push(single);
        jobs.extend(long);
        jobs.extend(has_pairs.then_some(double));
    }

    /// Returns the row of a search by loom. Its bound is stated by the program, or recorded.
    fn search(&self, mode: Mode, faults: usize, long: bool) -> Job {
        let program = &self.program;
        let stated = self.stated(mode);
        let few = match (faults, stated) {
            (0, Some(stated)) => stated,
            (0, None) => PREEMPTIONS,
            _ => FEW_PREEMPTIONS,
        };
        let mut row = Job {
            faults,
            long,
            ..self.row(mode, Some(few))
        };
        let is_few = faults > 0 && program.injection != Injection::Searched;
        if stated.is_none() && program.is_exact() && !is_few {
            row.bound = self.bound(&row, few);
        }
        row
    }

    /// Returns the row that the full run has in place of `row`, with the bound that
    /// [`bound`](Self::bound) gives.
    fn long_of(&self, row: &Job, few: u64) -> Job {
        let mut long = Job {
            long: true,
            ..row.clone()
        };
        long.bound = self.bound(&long, few);
        long
    }

    /// Returns the recorded bound of a row. Without a record, the row has the bound `few`, or none
    /// if it is to be measured.
    fn bound(&self, row: &Job, few: u64) -> Option<u64> {
        match self.recorded(row) {
            Some(count) => count.bound,
            None => (self.unrecorded == Unrecorded::Bounded).then_some(few),
        }
    }

    /// Returns the bound on preemptions that the program states for this mode.
    fn stated(&self, mode: Mode) -> Option<u64> {
        self.program.bounds.get(&mode).map(|(bound, _)| *bound)
    }

    /// Returns the bound of the full run's search in this mode, if the program states a bound for
    /// the normal run and that the full run searches more.
    fn more(&self, mode: Mode) -> Option<u64> {
        let has_more = self.program.more_in_full_run.contains(&mode);
        let stated = self.stated(mode).filter(|_| has_more);
        stated.map(|bound| bound + MORE_IN_FULL_RUN)
    }

    /// Returns the row, or the long row in its place if only that is recorded: `--accept` has found
    /// that the search takes too long for the normal run.
    fn as_recorded(&self, row: Job) -> Job {
        let long = Job {
            long: true,
            ..row.clone()
        };
        let is_long = self.recorded(&long).is_some() && self.recorded(&row).is_none();
        if is_long { long } else { row }
    }

    fn recorded(&self, job: &Job) -> Option<Count> {
        self.counts.of(&job.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::info::SuiteInfo;

    /// A row of the record: its name, bound and milliseconds.
    type Recorded = (&'static str, Option<u64>, u64);

    /// Returns the bounds of the rows of a program `s/p` of two threads, by their names.
    fn bounds(recorded: &[Recorded], unrecorded: Unrecorded) -> BTreeMap<String, Option<u64>> {
        bounds_of(ProgramInfo::default(), recorded, unrecorded)
    }

    /// As [`bounds`], for a program that is as given otherwise.
    fn bounds_of(
        program: ProgramInfo,
        recorded: &[Recorded],
        unrecorded: Unrecorded,
    ) -> BTreeMap<String, Option<u64>> {
        let program = ProgramInfo {
            suite: "s".to_owned(),
            name: "p".to_owned(),
            threads: 2,
            has_facade: true,
            ..program
        };
        let suite = SuiteInfo {
            programs: vec![program],
            ..SuiteInfo::default()
        };
        let description = Description {
            suites: vec![suite],
        };
        let count = |&(row, bound, millis): &Recorded| {
            let count = Count {
                bound,
                executions: 1,
                millis: Some(millis),
            };
            (row.to_owned(), count)
        };
        let counts = Counts(recorded.iter().map(count).collect());
        let jobs = jobs(&description, &counts, unrecorded);
        jobs.iter().map(|job| (job.name(), job.bound)).collect()
    }

    #[test]
    fn a_long_search_is_whole_unless_its_record_has_a_bound() {
        let long = "s/p/loom/weak/long";
        let cut = ("s/p/loom/weak", Some(3), 1);
        let bound =
            |recorded: &[Recorded], unrecorded| bounds(recorded, unrecorded).get(long).copied();
        assert_eq!(bound(&[], Unrecorded::Bounded), None, "no row");
        assert_eq!(bound(&[cut], Unrecorded::Whole), Some(None));
        assert_eq!(bound(&[cut], Unrecorded::Bounded), Some(Some(4)));
        for unrecorded in [Unrecorded::Whole, Unrecorded::Bounded] {
            assert_eq!(bound(&[cut, (long, None, 1)], unrecorded), Some(None));
            assert_eq!(bound(&[cut, (long, Some(4), 1)], unrecorded), Some(Some(4)));
        }
    }

    #[test]
    fn a_long_search_with_single_faults_is_whole_unless_its_record_has_a_bound() {
        let long = "s/p/loom/weak/single-faults/long";
        let plain = ("s/p/loom/weak", None, 1);
        let cut = ("s/p/loom/weak/single-faults", Some(2), 1);
        let bound = |recorded: &[Recorded], unrecorded| bounds(recorded, unrecorded)[long];
        assert_eq!(bound(&[plain, cut], Unrecorded::Whole), None);
        assert_eq!(bound(&[plain, cut], Unrecorded::Bounded), Some(3));
        let recorded = [plain, cut, (long, Some(3), 1)];
        assert_eq!(bound(&recorded, Unrecorded::Whole), Some(3));
    }

    #[test]
    fn the_explorer_searches_all_faults_in_a_long_row_if_its_record_has_a_bound() {
        let (name, long) = ("s/p/explorer", "s/p/explorer/long");
        let of = |recorded: &[Recorded], unrecorded| {
            let bounds = bounds(recorded, unrecorded);
            (bounds.get(name).copied(), bounds.get(long).copied())
        };
        assert_eq!(of(&[], Unrecorded::Whole), (Some(None), None));
        assert_eq!(of(&[], Unrecorded::Bounded), (Some(Some(0)), None));
        for unrecorded in [Unrecorded::Whole, Unrecorded::Bounded] {
            assert_eq!(of(&[(name, None, 1)], unrecorded), (Some(None), None));
        }
        let cut = [(name, Some(0), 1)];
        assert_eq!(of(&cut, Unrecorded::Whole), (Some(Some(0)), Some(None)));
        let both = [(name, Some(0), 1), (long, None, 1)];
        assert_eq!(of(&both, Unrecorded::Bounded), (Some(Some(0)), Some(None)));
    }

    #[test]
    fn pairs_of_faults_need_a_short_search_with_single_faults() {
        let has_pairs = |recorded: &[Recorded], unrecorded| {
            bounds(recorded, unrecorded).contains_key("s/p/loom/weak/double-faults/long")
        };
        for unrecorded in [Unrecorded::Whole, Unrecorded::Bounded] {
            let single = |millis| [("s/p/loom/weak/single-faults", Some(2), millis)];
            assert!(has_pairs(&single(TOO_LONG_FOR_PAIRS), unrecorded));
            assert!(!has_pairs(&single(TOO_LONG_FOR_PAIRS + 1), unrecorded));
        }
        assert!(!has_pairs(&[], Unrecorded::Whole), "not known yet");
        assert!(has_pairs(&[], Unrecorded::Bounded));
    }

    #[test]
    fn a_search_with_crashes_is_long_if_only_a_long_row_is_recorded() {
        let (cut, global) = ("s/p/shuttle/cut", "s/p/shuttle/global");
        let (long_cut, long_global) = ("s/p/shuttle/cut/long", "s/p/shuttle/global/long");
        let names = |more: &[Mode], recorded: &[Recorded]| {
            let program = ProgramInfo {
                crashes: vec![Mode::Cut, Mode::Global],
                bounds: BTreeMap::from([(Mode::Cut, (1, String::new()))]),
                more_in_full_run: more.iter().copied().collect(),
                ..ProgramInfo::default()
            };
            Vec::from_iter(bounds_of(program, recorded, Unrecorded::Bounded))
        };
        let row = |name: &str, bound| (name.to_owned(), bound);
        let both = [(long_cut, Some(1), 1), (long_global, None, 1)];
        assert_eq!(names(&[], &[]), [row(cut, Some(1)), row(global, None)]);
        let long = [row(long_cut, Some(1)), row(long_global, None)];
        assert_eq!(names(&[], &both), long);
        let short = [both[0], both[1], (cut, Some(1), 1), (global, None, 1)];
        assert_eq!(names(&[], &short), [row(cut, Some(1)), row(global, None)]);
        // The full run searches more, so the normal run keeps its own search.
        let more = [row(cut, Some(1)), row(long_cut, Some(2))];
        assert_eq!(names(&[Mode::Cut], &both)[..2], more);
    }
}
