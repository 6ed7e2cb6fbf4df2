//! Changes of the code under test that a program must find: mutants and injected bugs.

use std::collections::BTreeSet;

use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use super::table::{self, Column, Fitted};
use crate::messages::{BRANCH_BOUND, STEP_BOUND};
use crate::rows::row::Circumstances;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mutants,
    Bugs,
}

impl Kind {
    /// All kinds.
    pub(super) const ALL: [Kind; 2] = [Kind::Mutants, Kind::Bugs];

    /// Returns the subcommand. The file of this kind in a report has the same name.
    pub(super) const fn command(self) -> &'static str {
        match self {
            Kind::Mutants => "mutants",
            Kind::Bugs => "bugs",
        }
    }

    /// Returns the heading in reports.
    pub(super) const fn many(self) -> &'static str {
        match self {
            Kind::Mutants => "Mutants",
            Kind::Bugs => "Injected bugs",
        }
    }
}

/// The verdict on a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Fate {
    /// A program that is expected to find the change failed.
    Killed,
    /// A program failed, but none that is expected to find the change.
    Missed,
    /// No program failed.
    #[default]
    Survived,
    /// No program failed in the time given, and the source says why none can.
    Equivalent,
    /// The change is in a Promela model, and Spin is not installed.
    Skipped,
}

/// A mutant or an injected bug, with its verdict: one row of the table and of the JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Change {
    /// `mutants` or `bugs`.
    pub(super) kind: String,
    /// `file:line:column:operation=Relaxed`, or `BUG/SUITE`. `--filter` matches this name.
    pub(super) name: String,
    /// `Acquire->Relaxed`, `drop`, the bug's description, or `unreached` if no program reaches it.
    pub(super) what: String,
    /// The arguments that tell a model binary to make the change.
    #[serde(skip)]
    pub(super) arguments: [String; 2],
    /// Programs of which at least one must find the change. If empty, any program may.
    pub(super) expected: BTreeSet<String>,
    /// The reason from the source why no program can fail.
    pub(super) reason: Option<String>,
    pub(super) verdict: Fate,
    /// The row that failed.
    pub(super) model: Option<String>,
    /// The number of the failing execution.
    pub(super) executions: Option<u64>,
    /// The message of the failure.
    pub(super) failure: Option<String>,
    /// The command that shows the failure.
    pub(super) replay: Option<String>,
    /// The run that judged the change; `rows` is the number of changes that `selection` selects.
    pub(super) run: Circumstances,
}

impl Change {
    /// Returns an unjudged change. A model binary makes it when given `argument` and `value`.
    pub(super) fn new(name: &str, what: &str, [argument, value]: [&str; 2]) -> Self {
        Change {
            name: name.to_owned(),
            what: what.to_owned(),
            arguments: [argument.to_owned(), value.to_owned()],
            ..Change::default()
        }
    }

    /// Names the programs that must find the change.
    pub(super) fn finders(&self) -> String {
        match &self.reason {
            Some(why) => format!("none: {why}"),
            None if self.expected.is_empty() => "any program".to_owned(),
            None => Vec::from_iter(self.expected.iter().map(String::as_str)).join(", "),
        }
    }

    /// Describes the problem, if there is one.
    fn problem(&self) -> Option<String> {
        let (name, what, finders) = (&self.name, &self.what, self.finders());
        let model = self.model.as_deref().unwrap_or_default();
        let why = match self.verdict {
            Fate::Killed if self.reason.is_some() => {
                format!("{model} fails, although the source says that no program can")
            }
            Fate::Survived => format!("no program fails; expected: {finders}"),
            Fate::Missed => format!("none of {finders} fails, but {model} does"),
            Fate::Skipped if std::env::var_os("CI").is_some() => "Spin is not installed".to_owned(),
            Fate::Killed | Fate::Equivalent | Fate::Skipped => return None,
        };
        let verdict = table::name(self.verdict);
        Some(format!("{verdict}: {name} ({what}): {why}"))
    }
}

/// All changes of a kind, with their verdicts.
pub(super) struct Changes {
    pub(super) kind: Kind,
    pub(super) all: Vec<Change>,
}

impl Changes {
    /// Returns the table of verdicts.
    pub(super) fn table(&self) -> Fitted {
        let columns: &[Column<Change>] = &[
            (self.kind.command(), 0, |it| Cell::new(&it.name)),
            ("what", 1, |it| Cell::new(&it.what)),
            ("verdict", 0, |it| {
                table::colored(table::name(it.verdict), it.problem().is_none())
            }),
            ("model", 2, |it| table::optional(it.model.as_ref())),
            ("execution", 4, |it| table::optional(it.executions)),
            ("reason or failure", 3, |it| {
                let told = it.reason.as_ref().or(it.failure.as_ref());
                table::optional(told.map(|it| shortened(it)))
            }),
        ];
        Fitted::of(columns, &self.all)
    }

    /// Returns the number of changes with each verdict, and the problems.
    pub(super) fn summary(&self) -> String {
        let fates = table::tally(self.all.iter().map(|it| it.verdict));
        let many = self.kind.many().to_lowercase();
        let head = format!("{} {many}: {fates}.", self.all.len());
        let long = self.all.iter().filter(|it| it.expected.is_empty());
        let long = long.filter(|it| it.failure.as_deref().is_some_and(is_too_long));
        let long = long.map(|it| format!("{} only made an execution too long.", it.name));
        let problems = self.all.iter().filter_map(Change::problem);
        Vec::from_iter(std::iter::once(head).chain(long).chain(problems)).join("\n")
    }

    /// Whether there is no problem.
    pub(super) fn are_well(&self) -> bool {
        self.all.iter().all(|it| it.problem().is_none())
    }
}

/// Returns whether an execution failed only because it exceeded a checker's bound on its length.
pub(super) fn is_too_long(failure: &str) -> bool {
    [STEP_BOUND, BRANCH_BOUND]
        .iter()
        .any(|said| failure.contains(said))
}

/// Cuts a text that is too long for a table.
fn shortened(text: &str) -> String {
    const MOST: usize = 160;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
