//! Published bugs of other projects, re-created. Finding these bugs shows that the checkers work,
//! even if they find no new one.

use std::process::ExitCode;

use crate::info::Form;
use crate::program::Program;
use crate::suite::Suite;

/// A published bug: programs that exist in a buggy and in a fixed form.
#[derive(Clone)]
pub struct KnownBug {
    suite: Suite,
    is_found: bool,
}

impl KnownBug {
    /// Creates a known bug without programs. `source` is the address of the bug's description.
    pub fn new(name: &str, source: &str) -> Self {
        let mut suite = Suite::new(name).without_pairs();
        suite.info.known_bug = Some(source.to_owned());
        KnownBug {
            suite,
            is_found: true,
        }
    }

    /// Adds both forms of a program.
    pub fn program<P: Into<Program>>(mut self, program: impl Fn(Form) -> P) -> Self {
        for form in [Form::Buggy, Form::Fixed] {
            let mut program = program(form).into();
            program.info.name = format!("{}-{}", program.info.name, form.name());
            program.info.form = Some(form);
            self.suite = self.suite.program(program);
        }
        self
    }

    /// Says that no search finds the bug, for this reason, and names another checker that would.
    /// The buggy form must pass then.
    pub fn not_found(mut self, reason: &str, checker: &str) -> Self {
        self.suite.info.not_found = Some(format!("{checker}: {reason}"));
        self.is_found = false;
        self
    }

    fn suite(mut self) -> Suite {
        let programs = self.suite.programs.iter_mut().map(|it| &mut it.info);
        for buggy in programs.filter(|it| it.form == Some(Form::Buggy)) {
            buggy.must_fail = self.is_found;
        }
        self.suite
    }
}

/// Runs the test target `known-bugs`, as [`main`](crate::main) runs the test target `models`.
pub fn known_bugs(bugs: impl IntoIterator<Item = KnownBug>) -> ExitCode {
    crate::main(bugs.into_iter().map(KnownBug::suite))
}
