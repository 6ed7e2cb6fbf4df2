//! Suites: the programs about one primitive.

use std::sync::Arc;

use crate::info::{Injection, Kind, NoPair, SuiteInfo};
use crate::program::{Body, Program};

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
    pub fn program(mut self, program: impl Into<Program>) -> Self {
        self.programs.push(program.into());
        self
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
        self.info.no_pairs.push(NoPair {
            first: first.to_owned(),
            second: second.to_owned(),
            why: why.to_owned(),
        });
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

    /// Completes the suite: what holds for all programs is written into each.
    ///
    /// # Errors
    /// Two programs have one name, or a program has nothing to run: with what to change.
    pub(crate) fn complete(mut self) -> Result<Self, String> {
        let suite = self.info.name.clone();
        for (i, program) in self.programs.iter_mut().enumerate() {
            let info = &mut program.info;
            info.suite = suite.clone();
            info.step_bound = self.step_bound;
            info.has_facade &= self.has_facade;
            if !info.has_facade {
                info.injection = Injection::None;
            }
            for operation in info.performs.iter().flatten() {
                if !self.info.operations.contains(operation) {
                    self.info.operations.push(operation.clone());
                }
            }
            let name = &info.name;
            if self.info.programs.iter().any(|other| other.name == *name) {
                return Err(format!("suite `{suite}` has two programs called `{name}`"));
            }
            let is_bad = |name: &str| name.is_empty() || name.contains(['/', ' ', '\t']);
            if is_bad(name) || is_bad(&suite) {
                return Err(format!(
                    "`{suite}/{name}`: a name is not empty, and has no slash, space or tab"
                ));
            }
            let runs_code = !matches!(info.kind, Kind::Promela { .. });
            if runs_code && (matches!(program.body, Body::None) || info.threads == 0) {
                return Err(format!(
                    "`{suite}/{name}` (program {i} of its suite) has nothing to run: give it a \
                     scene with threads, or `run`"
                ));
            }
            if !info.faults.is_empty() && !info.has_facade {
                return Err(format!(
                    "`{suite}/{name}` has faults, which only the facade can inject"
                ));
            }
            self.info.programs.push(info.clone());
        }
        self.info.has_pairs &= !self.info.operations.is_empty();
        self.info.operations.sort();
        self.info.operations.dedup();
        Ok(self)
    }
}
