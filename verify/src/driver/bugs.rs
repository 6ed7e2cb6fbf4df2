//! `cargo verify bugs`: injects each bug that the code under test names, one at a time and at run
//! time. The right program must fail.
//!
//! A bug is named where it fires, with a list of programs, at least one of which must find it. It
//! is judged in each suite that reaches it and has such a program. These programs run, the cheap
//! ones first, until one fails. If none does, the suite's other programs run too: a failure of one
//! of those is no success, but says where to look.
//!
//! The macros of a Promela model that each inject a bug are judged too.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::Result;
use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use super::args::InjectArgs;
use super::build::Built;
use super::kill::{self, Candidate, Change, Fate, Judged, Reached};
use super::models::{Plan, Task};
use super::sites::sources;
use super::table::Column;
use crate::info::{BugSite, Kind};
use crate::mode::{Checker, Mode};

/// A bug that a suite has to find.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Injected {
    /// Its name, which `--bug` takes.
    bug: String,
    /// What is done wrong.
    what: String,
    /// The suite that has to find it.
    primitive: String,
    /// The programs, at least one of which must find it.
    expected: BTreeSet<String>,
    /// What the failing program said.
    failure: Option<String>,
}

pub(super) type Bug = Judged<Injected>;

impl Injected {
    fn expected(&self) -> String {
        let expected: Vec<&str> = self.expected.iter().map(String::as_str).collect();
        expected.join(", ")
    }
}

impl Change for Injected {
    const MANY: &'static str = "injected bugs";
    const FATES: &'static [Fate] = &[
        Fate::Killed,
        Fate::WrongModel,
        Fate::Survived,
        Fate::Skipped,
    ];
    const MISSING: &'static str = "no injected bug's name contains `{}`\n  names look like \
        BUG/SUITE; `cargo verify bugs --list` shows them all";
    const COLUMNS: &'static [Column<Self>] = &[
        ("bug", |it| Cell::new(&it.bug)),
        ("primitive", |it| Cell::new(&it.primitive)),
        ("what is done wrong", |it| Cell::new(&it.what)),
        ("found by one of", |it| Cell::new(it.expected())),
    ];
    const LAST: Column<Self> = ("failure", |it| {
        Cell::new(it.failure.as_deref().unwrap_or(""))
    });

    fn name(&self) -> String {
        format!("{}/{}", self.bug, self.primitive)
    }

    fn arguments(&self) -> [String; 2] {
        ["--bug".to_owned(), self.bug.clone()]
    }

    fn keep(&mut self, said: String) {
        self.failure = Some(said);
    }

    fn problem(&self, fate: &str, model: Option<&str>) -> String {
        let (bug, suite, expected) = (&self.bug, &self.primitive, self.expected());
        let but = model.map_or(String::new(), |model| format!(", but {model} does"));
        format!("{fate}: {bug} in {suite}: none of {expected} fails{but}")
    }
}

/// Runs the command: exit code 0 if the right program finds each bug.
pub(super) fn bugs(args: &InjectArgs) -> Result<ExitCode> {
    kill::command(args, candidates)
}

/// Returns the bugs, each with a suite that has to find it, and what is wrong with their
/// statements.
pub(super) fn candidates<'a>(
    built: &Built,
    plan: &'a Plan,
    reached: &Reached<'a>,
) -> Result<(Vec<Candidate<'a, Injected>>, Vec<String>)> {
    let mut programs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for task in &plan.tasks {
        let program = &task.job.program;
        let of_suite = programs.entry(&program.suite).or_default();
        of_suite.insert(&program.name);
    }
    let mut errors = Vec::new();
    let mut found: BTreeMap<(&str, &str), Injected> = BTreeMap::new();
    for (site, tasks) in &reached.bugs {
        errors.extend(unknown_programs(site, &programs));
        let of_suites: BTreeSet<&str> = tasks.iter().map(|it| &*it.job.program.suite).collect();
        let reach = tasks.iter().map(|it| &it.job.program);
        let reach: BTreeSet<_> = reach.map(|it| (&*it.suite, &*it.name)).collect();
        let mut is_judged = false;
        for (&suite, its) in &programs {
            let is_stated = |it: &String| it.split_once('/').is_some_and(|(its, _)| its == suite);
            if !of_suites.contains(suite) && !site.killed_by.iter().any(is_stated) {
                continue;
            }
            // Only a program that reaches the bug can find it.
            let is_right =
                |it: &&&str| site.is_killed_by(suite, it) && reach.contains(&(suite, **it));
            let right = its.iter().filter(is_right);
            let mut right = right.map(ToString::to_string).peekable();
            if right.peek().is_none() {
                continue;
            }
            is_judged = true;
            let injected = found
                .entry((&site.name, suite))
                .or_insert_with(|| Injected {
                    bug: site.name.clone(),
                    what: site.what.clone(),
                    primitive: suite.to_owned(),
                    expected: BTreeSet::new(),
                    failure: None,
                });
            injected.expected.extend(right);
        }
        if !is_judged {
            let suites: Vec<_> = of_suites.into_iter().collect();
            errors.push(format!(
                "NOT JUDGED: {}: the injected bug `{}` is reached by {}, and none of its \
                 `killed_by` is a program there",
                site.place,
                site.name,
                suites.join(", ")
            ));
        }
    }
    errors.extend(unreached(built, reached)?);
    let candidates = found
        .into_values()
        .map(|injected| candidate(plan, injected));
    Ok((candidates.chain(of_promela(plan)).collect(), errors))
}

/// Returns an error for each program in `killed_by` that does not exist.
fn unknown_programs<'a>(
    site: &'a BugSite,
    programs: &'a BTreeMap<&str, BTreeSet<&str>>,
) -> impl Iterator<Item = String> + 'a {
    let is_unknown = |entry: &&String| match entry.split_once('/') {
        Some((suite, name)) => !programs.get(suite).is_some_and(|it| it.contains(name)),
        None => !programs.values().any(|it| it.contains(&***entry)),
    };
    site.killed_by.iter().filter(is_unknown).map(|entry| {
        format!(
            "NO SUCH PROGRAM: {}: the injected bug `{}` is `killed_by` `{entry}`, and no suite has \
             that program",
            site.place, site.name
        )
    })
}

/// Returns an error for each bug in the sources that no program reaches.
fn unreached(built: &Built, reached: &Reached) -> Result<Vec<String>> {
    const SITE: &str = "injected_bug!(";
    let mut errors = Vec::new();
    for (file, text) in sources(built)? {
        for (at, _) in text.match_indices(SITE) {
            let is_code = !text[..at].lines().last().unwrap_or_default().contains("//");
            let rest = text[at + SITE.len()..].trim_start();
            let name = rest.strip_prefix('"').and_then(|it| it.split('"').next());
            let is_reached = |name| reached.bugs.keys().any(|site| site.name == name);
            if let Some(name) = name.filter(|name| is_code && !is_reached(*name)) {
                let line = text[..at].matches('\n').count() + 1;
                errors.push(format!(
                    "UNREACHED: {file}:{line}: no program reaches the injected bug `{name}`"
                ));
            }
        }
    }
    Ok(errors)
}

fn of_promela(plan: &Plan) -> impl Iterator<Item = Candidate<'_, Injected>> {
    plan.tasks.iter().flat_map(|task| {
        let program = &task.job.program;
        let (file, bugs) = match &program.kind {
            Kind::Promela { file, bugs } => (&**file, &bugs[..]),
            _ => ("", &[][..]),
        };
        bugs.iter().map(move |bug| Candidate {
            change: Injected {
                bug: bug.clone(),
                what: format!("a macro of {file}"),
                primitive: program.suite.clone(),
                expected: BTreeSet::from([program.name.clone()]),
                failure: None,
            },
            right: vec![(task, false)],
            others: Vec::new(),
        })
    })
}

/// Returns a bug with the programs of its suite, first those that have to find it.
fn candidate(plan: &Plan, change: Injected) -> Candidate<'_, Injected> {
    const MODES: [Mode; 3] = [Mode::Weak, Mode::RmwLoad, Mode::Dfs];
    let suite = &change.primitive;
    let of_suite = plan
        .tasks
        .iter()
        .filter(|it| it.job.program.suite == *suite);
    let is_right = |task: &Task| change.expected.contains(&task.job.program.name);
    let in_weak = of_suite.clone().filter(|task| task.job.mode == Mode::Weak);
    let (models, others): (Vec<_>, Vec<_>) = in_weak.partition(|it| is_right(it));
    // Programs that only shuttle runs: all their rows, with their own bounds.
    let weak: BTreeSet<&str> = models.iter().map(|it| &*it.job.program.name).collect();
    let of_shuttle = of_suite.filter(|task| {
        let is_weak = weak.contains(&*task.job.program.name);
        is_right(task) && !is_weak && task.job.mode.checker() == Checker::Shuttle
    });
    let mut right = kill::searches(plan, &models, &MODES);
    right.extend(of_shuttle.map(|task| (task, false)));
    Candidate {
        right,
        others: kill::searches(plan, &others, &MODES),
        change,
    }
}
