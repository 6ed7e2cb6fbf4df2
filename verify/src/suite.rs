//! Suites: the programs that check one primitive.

use std::sync::Arc;

use crate::info::{NoPair, SuiteInfo};
use crate::program::Program;

/// The default of [`Suite::step_bound`].
const STEP_BOUND: u64 = 40;

/// The programs that check one primitive, and the settings that they share.
///
/// The operations that the programs perform form a *table of pairs*. For each pair, some program
/// must perform the two operations in different threads, or the suite says why none does
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
    /// Creates a suite without programs. A row is a program in one mode; the names of the suite's
    /// rows begin with `name`.
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

    /// Adds a test of the models themselves, which fails if `check` panics. It runs only in a build
    /// without a checker, for example in a plain `cargo test`.
    pub fn check(mut self, name: &str, check: impl Fn() + Send + Sync + 'static) -> Self {
        self.checks.push((name.to_owned(), Arc::new(check)));
        self
    }

    /// Adds operations to the table of pairs. The harness then reports their missing pairs even if
    /// no program performs the operations.
    pub fn operations<O>(mut self, operations: O) -> Self
    where
        O: IntoIterator<Item: Into<String>>,
    {
        let operations = operations.into_iter().map(Into::into);
        self.info.operations.extend(operations);
        self
    }

    /// Gives the reason why no program needs to run these two operations in different threads.
    pub fn no_pair(mut self, first: &str, second: &str, why: &str) -> Self {
        let [first, second, why] = [first, second, why].map(str::to_owned);
        self.info.no_pairs.push(NoPair { first, second, why });
        self
    }

    /// Says that the primitive of the suite `whole` wraps this one and adds no step. So the
    /// programs of `whole` cover this suite's pairs too.
    pub fn part_of(mut self, whole: &str) -> Self {
        self.info.part_of = Some(whole.to_owned());
        self
    }

    /// Omits the table of pairs.
    pub fn without_pairs(mut self) -> Self {
        self.info.has_pairs = false;
        self
    }

    /// Sets the step bound under shuttle. A row fails if no operation finishes within `steps` times
    /// the number of its threads. The default is 40. The row's bound should be two to five times
    /// the most steps seen between two finished operations (`longest` in the row's JSON).
    pub fn step_bound(mut self, steps: u64) -> Self {
        self.step_bound = steps;
        self
    }

    /// Says that the code under test takes its atomics and threads from the checker itself, not
    /// from `spanlock_sync`. Such code has no ordering mutants, injected bugs or faults.
    pub fn without_facade(mut self) -> Self {
        self.has_facade = false;
        self
    }

    /// Returns the programs added so far.
    pub fn programs_so_far(&self) -> &[Program] {
        &self.programs
    }

    /// Completes the suite: copies shared settings into each program. Errors say what to change.
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
