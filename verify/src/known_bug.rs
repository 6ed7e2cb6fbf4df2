//! Published bugs of other projects, re-created. If a checker finds no new bug, finding these shows
//! that it works.

use std::process::ExitCode;

use crate::info::{Form, Injection};
use crate::mode::Mode;
use crate::program::Program;
use crate::suite::Suite;

/// A published bug, as the same programs in two forms.
#[derive(Clone)]
pub struct KnownBug {
    suite: Suite,
    found_in: Vec<Mode>,
}

impl KnownBug {
    /// Creates an entry. `source` is the address where the bug is described.
    pub fn new(name: &str, source: &str) -> Self {
        let mut suite = Suite::new(name).without_pairs();
        suite.info.known_bug = Some(source.to_owned());
        let found_in = Mode::SEARCHES.to_vec();
        KnownBug { suite, found_in }
    }

    /// Adds a program, in both forms.
    pub fn program<P: Into<Program>>(mut self, program: impl Fn(Form) -> P) -> Self {
        for form in [Form::Buggy, Form::Fixed] {
            let mut program = program(form).into().injection(Injection::None);
            program.info.name = format!("{}-{}", program.info.name, form.name());
            program.info.form = Some(form);
            self.suite = self.suite.program(program);
        }
        self
    }

    /// States the modes that find the bug, if these are not all three searches. In every other mode
    /// the buggy form must pass: an entry says exactly what each checker sees.
    pub fn found_in(mut self, modes: impl IntoIterator<Item = Mode>) -> Self {
        self.found_in = modes.into_iter().collect();
        self
    }

    /// Says that no mode finds the bug, why, and which other checker would.
    pub fn not_found(mut self, reason: &str, checker: &str) -> Self {
        self.suite.info.not_found = Some(format!("{checker}: {reason}"));
        self.found_in([])
    }

    fn suite(mut self) -> Suite {
        let programs = self.suite.programs.iter_mut().map(|it| &mut it.info);
        for buggy in programs.filter(|it| it.form == Some(Form::Buggy)) {
            buggy.fails_in.clone_from(&self.found_in);
        }
        self.suite
    }
}

/// Runs a binary of known bugs: as [`main`](crate::main), for the test target `known-bugs`.
pub fn known_bugs(bugs: impl IntoIterator<Item = KnownBug>) -> ExitCode {
    crate::main(bugs.into_iter().map(KnownBug::suite))
}
