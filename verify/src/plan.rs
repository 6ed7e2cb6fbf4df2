//! The rows of a program. A row is the program in one mode, with its bound and its faults.
//!
//! The rows follow from the program (its threads and its stated bound) and from the record of
//! earlier searches ([`Counts`]). `docs/rows.md` states the rules.

use std::path::Path;
use std::sync::Arc;

use crate::info::{Description, Kind, ProgramInfo};
use crate::mode::{Checker, Mode};
use crate::rows::counts::{Count, Counts};

/// The bound on preemptions of loom's searches in the full run.
pub(crate) const PREEMPTIONS: u64 = 3;

/// Random schedules of a row in the normal run.
pub(crate) const SCHEDULES: u64 = 2_000;

/// Random schedules of each random program.
const SCHEDULES_OF_DRAWN: u64 = 40;

/// The least number of random schedules of a suite in the full run, divided equally among its
/// programs and the random modes.
const SCHEDULES_IN_FULL_RUN: u64 = 300_000;

/// Schedules of a row of sampled scenarios in the normal run.
const SAMPLES: u64 = 10_000;

/// Schedules of a row of sampled scenarios in the full run.
const SAMPLES_IN_FULL_RUN: u64 = 100_000;

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
    /// The bound on preemptions (explorer: on faults), or the number of random schedules. `None`
    /// means no bound.
    pub bound: Option<u64>,
    /// The most faults that the explorer chooses in an execution; 0 if the program states its own.
    pub faults: usize,
    /// Whether the row is part of the full run only. There, it replaces the row of the same name
    /// without `/long`, if there is one.
    pub long: bool,
}

impl Job {
    /// Returns the row's name, such as `ring/exchange/explorer` or `ring/exchange/loom/weak`, with
    /// `/long` at the end if only the full run has the row.
    pub fn name(&self) -> String {
        let (suite, program) = (&self.program.suite, &self.program.name);
        let long = if self.long { "/long" } else { "" };
        if self.mode == Mode::Explorer {
            return format!("{suite}/{program}/explorer{long}");
        }
        let (checker, mode) = (self.mode.checker().name(), self.mode.name());
        format!("{suite}/{program}/{checker}/{mode}{long}")
    }

    /// Whether the row judges the changes of the code that its program reaches.
    pub fn is_main(&self) -> bool {
        match self.mode {
            Mode::Explorer => self.program.kind == Kind::Once,
            Mode::Bounded => true,
            // A program has this row if the normal run does not search it.
            Mode::Random => self.program.is_searched(),
            _ => self.program.has_crashes,
        }
    }

    /// Describes which executions within the bound the row explores.
    pub fn search(&self) -> &'static str {
        match self.mode {
            Mode::Explorer => "every execution graph",
            Mode::Sequence => "every sequence",
            Mode::Weak => {
                "one or more of all executions with the same order of dependent steps: loom's races"
            }
            Mode::Bounded => "every schedule",
            Mode::Ltl => "every state",
            Mode::Random | Mode::Pct | Mode::Urw => "the drawn schedules",
        }
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

    /// Whether `--quick` includes the row: a search that is recorded as short.
    pub fn is_quick(&self, counts: &Counts) -> bool {
        let is_search = !self.long && self.mode.is_counted();
        let is_short = |count: Count| count.executions <= QUICK;
        is_search && counts.of(&self.name()).is_some_and(is_short)
    }

    /// Returns the row that the normal run has instead if this one takes too long: the same search
    /// without faults, or none. The full run has a long row then, under loom with a bound.
    pub(crate) fn instead(&self) -> Job {
        let mut instead = self.clone();
        match self.mode {
            Mode::Explorer if self.faults > 0 => {
                instead.faults = 0;
                instead.bound = Some(0);
            }
            mode => {
                instead.long = true;
                instead.bound = self.bound.or((mode == Mode::Weak).then_some(PREEMPTIONS));
            }
        }
        instead
    }
}

/// Returns all rows of a binary's suites, including the long ones.
pub fn jobs(description: &Description, counts: &Counts) -> Vec<Job> {
    let mut jobs = Vec::new();
    for suite in &description.suites {
        let is_drawn = |it: &&ProgramInfo| it.kind == Kind::Once && !it.is_searched();
        let drawn = suite.programs.iter().filter(is_drawn).count() as u64;
        for program in &suite.programs {
            let planner = Planner {
                program: Arc::new(program.clone()),
                counts,
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
    Ok(jobs(description, &counts))
}

/// The rows of one program.
struct Planner<'a> {
    program: Arc<ProgramInfo>,
    counts: &'a Counts,
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
            Kind::Once if self.program.has_crashes => {
                let stated = self.program.bound.as_ref().map(|(bound, _)| *bound);
                let row = self.row(self.program.mode_with_crashes(), stated);
                jobs.push(self.as_recorded(row));
            }
            Kind::Drawn => {
                let modes = [Mode::Random, Mode::Pct];
                jobs.extend(modes.map(|mode| self.row(mode, Some(SCHEDULES_OF_DRAWN))));
            }
            Kind::Searched { schedules } => {
                let long = schedules.map_or(Mode::Explorer, |_| Mode::Random);
                jobs.extend([self.row(Mode::Explorer, None), self.long(long, *schedules)]);
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
        if program.unwinds {
            jobs.push(self.row(Mode::Bounded, Some(PREEMPTIONS)));
            return;
        }
        let is_explored = program.has_facade && program.unexplored.is_none();
        let explored = match is_explored {
            true => self.explored(),
            false => Vec::new(),
        };
        if program.expected.is_none() && explored.iter().all(|row| row.long) {
            let modes = [Mode::Random, Mode::Pct];
            jobs.extend(modes.map(|mode| self.row(mode, Some(SCHEDULES))));
        }
        jobs.extend(explored);
        let by_loom = self.row(Mode::Weak, None);
        jobs.push(match program.is_exact() {
            true => self.as_recorded(by_loom),
            false => self.recorded_bound(by_loom.instead()),
        });
    }

    /// Returns the rows of the explorer. A recorded bound on faults means that a search with all of
    /// them takes too long for the normal run.
    fn explored(&self) -> Vec<Job> {
        let most = self.program.most_faults();
        let whole = Job {
            faults: most,
            ..self.row(Mode::Explorer, None)
        };
        let is_cut = self.recorded(&whole).is_some_and(|it| it.bound.is_some());
        if !is_cut {
            return vec![self.as_recorded(whole)];
        }
        let instead = whole.instead();
        vec![
            instead,
            Job {
                long: true,
                ..whole
            },
        ]
    }

    /// Returns the row, or the long row in its place if only that is recorded: `--accept` has found
    /// that the search takes too long for the normal run.
    fn as_recorded(&self, row: Job) -> Job {
        let long = Job {
            long: true,
            ..row.clone()
        };
        let is_long = self.recorded(&long).is_some() && self.recorded(&row).is_none();
        if is_long {
            self.recorded_bound(long)
        } else {
            row
        }
    }

    /// Returns the row with the bound that is recorded, if it is recorded.
    fn recorded_bound(&self, row: Job) -> Job {
        let bound = self.recorded(&row).map_or(row.bound, |it| it.bound);
        let most = bound.filter(|_| row.mode == Mode::Explorer);
        Job {
            bound,
            faults: most.map_or(row.faults, |most| most as usize),
            ..row
        }
    }

    fn recorded(&self, job: &Job) -> Option<Count> {
        self.counts.of(&job.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::SuiteInfo;

    /// A row of the record: its name and bound.
    type Recorded = (&'static str, Option<u64>);

    /// Returns the rows of a program `s/p`, given its number of threads, each with its bound.
    fn rows(threads: u32, recorded: &[Recorded]) -> Vec<(String, Option<u64>)> {
        let program = ProgramInfo {
            threads,
            ..ProgramInfo::default()
        };
        rows_of(program, recorded)
    }

    /// As [`rows`], for a program that is as given otherwise.
    fn rows_of(program: ProgramInfo, recorded: &[Recorded]) -> Vec<(String, Option<u64>)> {
        let program = ProgramInfo {
            suite: "s".to_owned(),
            name: "p".to_owned(),
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
        let count = |&(row, bound): &Recorded| {
            let count = Count {
                bound,
                executions: 1,
                millis: Some(1),
            };
            (row.to_owned(), count)
        };
        let counts = Counts(recorded.iter().map(count).collect());
        let jobs = jobs(&description, &counts);
        jobs.iter().map(|job| (job.name(), job.bound)).collect()
    }

    fn row(name: &str, bound: Option<u64>) -> (String, Option<u64>) {
        (name.to_owned(), bound)
    }

    const EXPLORER: &str = "s/p/explorer";
    const LONG: &str = "s/p/explorer/long";
    const LOOM: &str = "s/p/loom/weak";
    const LONG_LOOM: &str = "s/p/loom/weak/long";

    #[test]
    fn a_search_is_long_if_only_a_long_row_is_recorded() {
        let short = [row(EXPLORER, None), row(LOOM, None)];
        assert_eq!(rows(2, &[]), short);
        assert_eq!(rows(2, &[(EXPLORER, None), (LOOM, None)]), short);
        let by_loom = [row(EXPLORER, None), row(LONG_LOOM, Some(2))];
        assert_eq!(rows(2, &[(LONG_LOOM, Some(2))]), by_loom);
        let whole = [row(EXPLORER, None), row(LONG_LOOM, None)];
        assert_eq!(rows(2, &[(LONG_LOOM, None)]), whole);
    }

    #[test]
    fn loom_searches_three_threads_in_the_full_run_only() {
        let few = [row(EXPLORER, None), row(LONG_LOOM, Some(PREEMPTIONS))];
        assert_eq!(rows(3, &[]), few);
        let whole = [row(EXPLORER, None), row(LONG_LOOM, None)];
        assert_eq!(rows(3, &[(LONG_LOOM, None)]), whole);
    }

    #[test]
    fn the_explorer_searches_all_faults_in_a_long_row_if_its_record_has_a_bound() {
        let both = [row(EXPLORER, Some(0)), row(LONG, None), row(LOOM, None)];
        assert_eq!(rows(2, &[(EXPLORER, Some(0))]), both);
        assert_eq!(rows(2, &[(EXPLORER, Some(0)), (LONG, None)]), both);
    }

    #[test]
    fn schedules_are_drawn_if_the_normal_run_does_not_search_the_program() {
        let drawn = |first: Option<&str>| {
            let drawn = ["s/p/shuttle/random", "s/p/shuttle/pct"];
            let drawn = drawn.map(|name| row(name, Some(SCHEDULES)));
            let mut rows = Vec::from(drawn);
            rows.extend(first.map(|name| row(name, None)));
            rows.push(row(LONG_LOOM, Some(PREEMPTIONS)));
            rows
        };
        assert_eq!(rows(3, &[(LONG, None)]), drawn(Some(LONG)));
        let unexplored = ProgramInfo {
            threads: 3,
            unexplored: Some("why".to_owned()),
            ..ProgramInfo::default()
        };
        assert_eq!(rows_of(unexplored, &[]), drawn(None));
    }

    #[test]
    fn a_search_with_crashes_is_long_if_only_a_long_row_is_recorded() {
        let (bounded, long_bounded) = ("s/p/shuttle/bounded", "s/p/shuttle/bounded/long");
        let bound = Some((1, String::new()));
        for (bound, short, long) in [(None, EXPLORER, LONG), (bound, bounded, long_bounded)] {
            let program = ProgramInfo {
                threads: 2,
                has_crashes: true,
                bound: bound.clone(),
                ..ProgramInfo::default()
            };
            let bound = bound.map(|(bound, _)| bound);
            assert_eq!(rows_of(program.clone(), &[]), [row(short, bound)]);
            let recorded = [(long, bound)];
            assert_eq!(rows_of(program, &recorded), [row(long, bound)]);
        }
    }
}
