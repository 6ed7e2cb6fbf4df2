//! Published bugs of other projects, re-created. If a checker finds no new bug, finding these shows
//! that it works.

use std::process::ExitCode;

use crate::info;
use crate::mode::Mode;
use crate::program::Program;
use crate::suite::Suite;

/// A form of a re-created bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With the bug: a search must fail.
    Buggy,
    /// Without it: every search must pass.
    Fixed,
}

/// A published bug, as the same programs in two forms.
#[derive(Clone)]
pub struct KnownBug {
    name: String,
    source: String,
    programs: Vec<[Program; 2]>,
    found_in: Vec<Mode>,
    unseen: Option<String>,
}

impl KnownBug {
    /// Creates an entry. `source` is the address where the bug is described.
    pub fn new(name: &str, source: &str) -> Self {
        KnownBug {
            name: name.to_owned(),
            source: source.to_owned(),
            programs: Vec::new(),
            found_in: vec![Mode::Weak, Mode::RmwLoad, Mode::Dfs],
            unseen: None,
        }
    }

    /// Adds a program, in both forms.
    pub fn program<P: Into<Program>>(mut self, program: impl Fn(Form) -> P) -> Self {
        let forms = [Form::Buggy, Form::Fixed];
        self.programs.push(forms.map(|form| program(form).into()));
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
        self.found_in.clear();
        self.unseen = Some(format!("{checker}: {reason}"));
        self
    }

    fn suite(self) -> Suite {
        let mut suite = Suite::new(self.name).without_pairs();
        suite.info.known_bug = Some(self.source);
        for [buggy, fixed] in self.programs {
            let (fails_in, found_by) = (self.found_in.clone(), self.unseen.clone());
            let form = info::Form::Buggy { fails_in, found_by };
            suite = suite.program(buggy.in_form("buggy", form));
            suite = suite.program(fixed.in_form("fixed", info::Form::Fixed));
        }
        suite
    }
}

/// Runs a binary of known bugs: as [`main`](crate::main), for the test target `known-bugs`.
pub fn known_bugs(bugs: impl IntoIterator<Item = KnownBug>) -> ExitCode {
    crate::main(bugs.into_iter().map(KnownBug::suite))
}
