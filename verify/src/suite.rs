//! Suites: the programs about one primitive.

use std::sync::Arc;

use crate::info::{NoPair, SuiteInfo};
use crate::program::Program;

/// Steps of one thread that may pass before an operation is finished, unless the suite says
/// otherwise.
const STEP_BOUND: u64 = 40;

/// The programs about one primitive, and what holds for all of them.
///
/// The operations that its programs perform form a *table of pairs*: for each two of them some
/// program must perform one in one thread and the other in another, or the suite says why not
/// ([`no_pair`](Self::no_pair)).
#[derive(Clone)]
pub struct Suite {
    pub(crate) info: SuiteInfo,
    pub(crate) programs: Vec<Program>,
    pub(crate) checks: Vec<(String, Arc<dyn Fn() + Send + Sync>)>,
    step_bound: u64,
    has_facade: bool,
}

impl Suite {
    /// Creates a suite without programs. `name` is the first part of its rows' names.
    pub fn new(name: impl Into<String>) -> Self {
        Suite {
            info: SuiteInfo {
                name: name.into(),
                has_pairs: true,
                ..SuiteInfo::default()
            },
            programs: Vec::new(),
            checks: Vec::new(),
            step_bound: STEP_BOUND,
            has_facade: true,
        }
    }

    /// Adds a program.
    pub fn program(self, program: impl Into<Program>) -> Self {
        self.programs([program])
    }

    /// Adds programs.
    pub fn programs<P: Into<Program>>(mut self, programs: impl IntoIterator<Item = P>) -> Self {
        self.programs.extend(programs.into_iter().map(Into::into));
        self
    }

    /// Adds a test of the models themselves, which needs no checker: `check` panics if it fails. It
    /// runs where the binary is built without a checker, in `cargo test` for example.
    pub fn check(mut self, name: &str, check: impl Fn() + Send + Sync + 'static) -> Self {
        self.checks.push((name.to_owned(), Arc::new(check)));
        self
    }

    /// States operations of the primitive, besides those that its programs perform: so that a pair
    /// is missed even if no program performs one of the two.
    pub fn operations<O>(mut self, operations: O) -> Self
    where
        O: IntoIterator<Item: Into<String>>,
    {
        let operations = operations.into_iter().map(Into::into);
        self.info.operations.extend(operations);
        self
    }

    /// Says why two operations need no program.
    pub fn no_pair(mut self, first: &str, second: &str, why: &str) -> Self {
        let [first, second, why] = [first, second, why].map(str::to_owned);
        self.info.no_pairs.push(NoPair { first, second, why });
        self
    }

    /// Says that another suite's primitive contains this one and adds no step: its programs cover
    /// this suite's pairs too.
    pub fn part_of(mut self, whole: &str) -> Self {
        self.info.part_of = Some(whole.to_owned());
        self
    }

    /// Leaves out the table of pairs.
    pub fn without_pairs(mut self) -> Self {
        self.info.has_pairs = false;
        self
    }

    /// Sets how many steps of one thread may pass before an operation of the suite is finished,
    /// under shuttle: 40, unless set. Set it to two to five times the most that is seen (`longest`
    /// in a row's JSON). The bound of a row is this many for each of its threads.
    pub fn step_bound(mut self, steps: u64) -> Self {
        self.step_bound = steps;
        self
    }

    /// Says that the code under test takes its atomics and threads from the checker itself, not
    /// from `spanlock_sync`: then there are neither ordering mutants nor injected bugs nor faults,
    /// and nothing is left out of a search.
    pub fn without_facade(mut self) -> Self {
        self.has_facade = false;
        self
    }

    /// Returns the suite's programs as they are so far.
    pub fn programs_so_far(&self) -> &[Program] {
        &self.programs
    }

    /// Completes the suite: what holds for all programs is written into each. An error says what
    /// to change.
    pub(crate) fn complete(mut self) -> Result<Self, String> {
        for program in &mut self.programs {
            let info = &mut program.info;
            info.suite.clone_from(&self.info.name);
            info.step_bound = self.step_bound;
            info.has_facade &= self.has_facade;
            let mut programs = self.info.programs.iter();
            let why = match programs.any(|other| other.name == info.name) {
                true => Some("two programs of the suite have this name"),
                false => program.problem(),
            };
            let info = &program.info;
            if let Some(why) = why {
                return Err(format!("`{}/{}`: {why}", info.suite, info.name));
            }
            let performs = info.performs.iter().flatten().cloned();
            self.info.operations.extend(performs);
            self.info.programs.push(info.clone());
        }
        self.info.has_pairs &= !self.info.operations.is_empty();
        self.info.operations.sort();
        self.info.operations.dedup();
        Ok(self)
    }
}
