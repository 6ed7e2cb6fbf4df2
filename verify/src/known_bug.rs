//! Published bugs of other projects, re-created. Finding these bugs shows that the checkers work,
//! even if they find no new one.

use std::process::ExitCode;

use crate::info::{Form, Injection};
use crate::mode::Mode;
use crate::program::Program;
use crate::suite::Suite;

/// A published bug: programs that exist in a buggy and in a fixed form.
#[derive(Clone)]
pub struct KnownBug {
    suite: Suite,
    found_in: Vec<Mode>,
}

impl KnownBug {
    /// Creates a known bug without programs. `source` is the address of the bug's description.
    pub fn new(name: &str, source: &str) -> Self {
        let mut suite = Suite::new(name).without_pairs();
        suite.info.known_bug = Some(source.to_owned());
        let found_in = Mode::SEARCHES.to_vec();
        KnownBug { suite, found_in }
    }

    /// Adds both forms of a program.
    pub fn program<P: Into<Program>>(mut self, program: impl Fn(Form) -> P) -> Self {
        for form in [Form::Buggy, Form::Fixed] {
            let mut program = program(form).into().injection(Injection::None);
            program.info.name = format!("{}-{}", program.info.name, form.name());
            program.info.form = Some(form);
            self.suite = self.suite.program(program);
        }
        self
    }

    /// Sets the searches that find the bug. The default is all of them. The explorer finds the bug if
    /// any other search does. In every other search the buggy form must pass, so the list is exact.
    pub fn found_in(mut self, modes: impl IntoIterator<Item = Mode>) -> Self {
        self.found_in = modes.into_iter().collect();
        self
    }

    /// Says that no mode finds the bug, for this reason, and names another checker that would.
    pub fn not_found(mut self, reason: &str, checker: &str) -> Self {
        self.suite.info.not_found = Some(format!("{checker}: {reason}"));
        self.found_in([])
    }

    fn suite(mut self) -> Suite {
        let programs = self.suite.programs.iter_mut().map(|it| &mut it.info);
        for buggy in programs.filter(|it| it.form == Some(Form::Buggy)) {
            buggy.fails_in.clone_from(&self.found_in);
            // The explorer finds what any other search finds.
            let is_found = !self.found_in.is_empty() && !self.found_in.contains(&Mode::Explorer);
            buggy.fails_in.extend(is_found.then_some(Mode::Explorer));
        }
        self.suite
    }
}

/// Runs the test target `known-bugs`, as [`main`](crate::main) runs the test target `models`.
pub fn known_bugs(bugs: impl IntoIterator<Item = KnownBug>) -> ExitCode {
    crate::main(bugs.into_iter().map(KnownBug::suite))
}
