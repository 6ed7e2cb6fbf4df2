//! The table of documented commands.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::commands::{Documented, without_assignments};

const NAME: &str = "testkit/tests/documented/commands.tsv";

/// The table: what runs each documented command.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

/// A row of the table.
#[derive(Clone)]
pub(crate) struct Entry {
    line: usize,
    pub(crate) command: String,
    pub(crate) how: How,
}

/// What runs a command.
#[derive(Clone)]
pub(crate) enum How {
    /// A shell script, which is the command at its smallest settings.
    Run(String),
    /// A step of a script in `.ci`.
    Step { script: String, step: String },
    /// Nothing, for the reason in the table.
    Not,
}

impl Table {
    /// Parses the table: rows of the command, what runs it, and a script, a step or a reason.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rows = (1..).zip(text.lines());
        let rows = rows.filter(|(_, row)| !row.is_empty() && !row.starts_with('#'));
        let entry = |(line, row): (usize, &str)| {
            let [command, how, text] = *row.split('\t').collect::<Vec<_>>() else {
                return Err(format!("{NAME}:{line}: not three columns"));
            };
            let how = match (how, text) {
                ("run", "") => How::Run(command.to_owned()),
                ("run", script) => How::Run(script.to_owned()),
                (".ci/run" | ".ci/full", step) => How::Step {
                    script: how.to_owned(),
                    step: step.to_owned(),
                },
                ("not", reason) if !reason.is_empty() => How::Not,
                _ => return Err(format!("{NAME}:{line}: neither run, a script nor not")),
            };
            let command = command.to_owned();
            Ok(Entry { line, command, how })
        };
        let entries = rows.map(entry).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// Returns what is wrong with the table, and how to fix it.
    pub(crate) fn problems(&self, project: &Path, documented: &Documented) -> Vec<String> {
        let read = |script| fs::read_to_string(project.join(script)).expect("a script");
        let mut problems = Vec::new();
        let mut known = BTreeSet::new();
        for Entry { line, command, how } in &self.entries {
            if !known.insert(command) {
                problems.push(format!("{NAME}:{line}: a second entry of `{command}`"));
            }
            if !documented.contains_key(command) {
                problems.push(format!(
                    "{NAME}:{line}: no document shows `{command}`: remove the line"
                ));
            }
            match how {
                How::Run(script) if !runs(script, command) => {
                    problems.push(format!("{NAME}:{line}: this does not run `{command}`"));
                }
                How::Step { script, step } if !steps(&read(script)).contains(step) => {
                    problems.push(format!("{NAME}:{line}: {script} has no step `{step}`"));
                }
                // The step may run more than the command, and so not notice.
                How::Step { .. } => problems.extend(
                    missing(project, command)
                        .map(|what| format!("{NAME}:{line}: `{command}`: there is no {what}")),
                ),
                _ => {}
            }
        }
        for (command, places) in documented {
            if !known.contains(command) {
                let (places, entry) = (places.join(", "), self.suggestion(command));
                problems.push(format!(
                    "{places}: no entry of `{command}`. Add a line to {NAME}, such as\n{entry}"
                ));
            }
        }
        problems
    }

    /// Returns an entry for a command: what runs the one that begins most like it, if that is a
    /// step, or else the command itself.
    fn suggestion(&self, command: &str) -> String {
        let common = |entry: &&Entry| {
            let pairs = entry.command.chars().zip(command.chars());
            pairs.take_while(|(one, other)| one == other).count()
        };
        // Of several, the first: the last one that `max_by_key` sees.
        let like = self.entries.iter().rev().max_by_key(common);
        match like.map(|entry| &entry.how) {
            Some(How::Step { script, step }) => format!("{command}\t{script}\t{step}"),
            _ => format!("{command}\trun\t"),
        }
    }
}

/// Returns whether a script has the programs, subcommands and options of a command, in their order.
/// Values of options and of variables may differ.
fn runs(script: &str, command: &str) -> bool {
    let mut words = script.split_whitespace();
    let mut is_value = false;
    command.split_whitespace().all(|word| {
        let is_option = word.starts_with('-');
        let is_free = word.contains('=') || (is_value && !is_option);
        is_value |= is_option;
        is_free || words.any(|it| it.trim_end_matches(';') == word)
    })
}

/// Returns the steps of a script in `.ci`, given its text.
pub(crate) fn steps(text: &str) -> Vec<String> {
    let step = |line| Some(without_assignments(line).strip_prefix("step ")?.to_owned());
    text.lines().filter_map(step).collect()
}

/// Returns what a command of Cargo names that does not exist: a package, or an example, a test or a
/// feature of it.
fn missing(project: &Path, command: &str) -> Option<String> {
    let words: Vec<_> = command.split_whitespace().collect();
    let values = |option: &'static str| {
        let pairs = words.windows(2).filter(move |pair| pair[0] == option);
        pairs
            .map(|pair| pair[1])
            .filter(|it| !it.contains(['*', '…']))
    };
    let package = values("-p").next()?;
    let folder = project.join(package.strip_prefix("spanlock-").unwrap_or(package));
    let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
        return Some(format!("package {package}"));
    };
    for (option, kind) in [("--example", "examples"), ("--test", "tests")] {
        for name in values(option) {
            let file = folder.join(kind).join(name);
            if !file.with_extension("rs").is_file() && !file.join("main.rs").is_file() {
                return Some(format!("{kind}/{name}.rs in {package}"));
            }
        }
    }
    let mut features = values("--features").flat_map(|it| it.split(','));
    let has = |feature: &str| {
        manifest
            .lines()
            .any(|it| it.starts_with(&format!("{feature} = ")))
    };
    let feature = features.find(|feature| !has(feature))?;
    Some(format!("feature {feature} of {package}"))
}
