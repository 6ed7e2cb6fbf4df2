//! `cargo verify bugs`: injects each bug that the code under test names, one at a time and at run
//! time. The right program must fail.
//!
//! A bug is named where it fires, with the properties of which one must find it. It is judged in
//! each suite that reaches it and has such a program. It goes through these programs, the cheap
//! ones first, until one fails. If none does it goes through the suite's other programs too: a
//! failure of one of those is no success, but says where to look.
//!
//! The macros of a Promela model that each inject a bug are judged too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use anyhow::{Result, bail};
use comfy_table::{Color, Table};
use serde::{Deserialize, Serialize};

use super::args::BugsArgs;
use super::build::Built;
use super::evidence::judged;
use super::kill::{self, Kill, Reached, Search};
use super::models::{Plan, Task, describe};
use super::mutants::sites::sources;
use super::output::{json_at, write_json};
use super::pool::{at_the_same_time, workers};
use super::process::{End, explore};
use super::workspace::{MODELS, Workspace};
use super::{circumstances, exit_code, table};
use crate::info::Kind;
use crate::mode::{Checker, Mode};

/// What became of a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fate {
    /// A program failed that is there to find it.
    #[serde(rename = "KILLED")]
    Killed,
    /// Only another program failed.
    #[serde(rename = "WRONG MODEL")]
    WrongModel,
    /// No program failed.
    #[serde(rename = "SURVIVED")]
    Survived,
    /// Spin is not installed.
    #[serde(rename = "SKIPPED")]
    Skipped,
}

impl Fate {
    /// Returns its name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Fate::Killed => "KILLED",
            Fate::WrongModel => "WRONG MODEL",
            Fate::Survived => "SURVIVED",
            Fate::Skipped => "SKIPPED",
        }
    }

    /// Whether it lets the command succeed.
    fn is_well(self) -> bool {
        let may_skip = std::env::var_os("CI").is_none();
        self == Fate::Killed || (self == Fate::Skipped && may_skip)
    }
}

/// A bug in a suite, and its fate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Case {
    /// Its name, which `--bug` takes.
    pub(super) bug: String,
    /// What is done wrong.
    pub(super) what: String,
    /// The suite that has to find it.
    pub(super) primitive: String,
    /// The properties of which one must find it.
    pub(super) expected: Vec<String>,
    pub(super) verdict: Fate,
    /// The row that failed.
    pub(super) model: Option<String>,
    /// The execution in which it failed.
    pub(super) executions: Option<u64>,
    /// What it said.
    pub(super) failure: Option<String>,
    /// The command that shows the failure.
    pub(super) replay: Option<String>,
}

pub(super) fn all_well(cases: &[Case]) -> bool {
    cases.iter().all(|case| case.verdict.is_well())
}

/// A bug that a suite has to find.
struct Injected<'a> {
    name: String,
    what: String,
    suite: String,
    /// The programs of the suite of which one must fail.
    expected: BTreeSet<String>,
    /// The row of the Promela model that contains it, if one does.
    promela: Option<&'a Task>,
}

impl Injected<'_> {
    fn full_name(&self) -> String {
        format!("{}/{}", self.name, self.suite)
    }
}

/// Runs the command: exit code 0 if the right program finds each bug.
pub(super) fn bugs(args: &BugsArgs) -> Result<ExitCode> {
    let file = json_at(args.common.json.as_deref())?;
    let workers = workers(args.common.jobs);
    let mut built = Built::none_of(Workspace::find(&args.common.scope)?, MODELS)?;
    let run = circumstances::of_filter(&args.common.filter, &args.common.scope, &built.workspace);
    let plan = Plan::of(&describe(&mut built)?);
    let reached = Reached::by(&plan, &built, workers)?;
    let (mut chosen, mut errors) = injected(&built, &plan, &reached)?;
    select(&mut chosen, &args.common.filter)?;
    // Other packages may have the programs that a bug names.
    if !args.common.filter.is_empty() || !args.common.scope.package.is_empty() {
        errors.clear();
    }
    if args.list {
        println!("{}", list(&chosen));
        errors.iter().for_each(|error| println!("{error}"));
        return Ok(exit_code(errors.is_empty()));
    }
    built.add(Checker::OF_CODE)?;
    let cases = judge_all(&built, &plan, &chosen, workers)?;
    println!("{}\n{}", rows(&cases), told(&cases));
    errors.iter().for_each(|error| println!("{error}"));
    write_json(file.as_ref(), "Rows", &judged(&cases, &run))?;
    Ok(exit_code(all_well(&cases) && errors.is_empty()))
}

/// Returns every bug with its fate, and what is wrong with how bugs are stated.
///
/// # Errors
/// A process does not end as it should, or a source cannot be read.
pub(super) fn all(
    built: &Built,
    plan: &Plan,
    reached: &Reached,
    workers: usize,
) -> Result<(Vec<Case>, Vec<String>)> {
    let (injected, errors) = injected(built, plan, reached)?;
    Ok((judge_all(built, plan, &injected, workers)?, errors))
}

fn select(injected: &mut Vec<Injected>, filter: &[String]) -> Result<()> {
    for text in filter {
        if !injected.iter().any(|it| it.full_name().contains(text)) {
            bail!(
                "no injected bug's name contains `{text}`\n  names look like BUG/SUITE; `cargo \
                 verify bugs --list` shows them all"
            );
        }
    }
    let is_meant = |it: &Injected| filter.iter().any(|text| it.full_name().contains(text));
    injected.retain(|it| filter.is_empty() || is_meant(it));
    Ok(())
}

/// Returns the bugs, each with a suite that has to find it, and what is wrong with their
/// statements.
fn injected<'a>(
    built: &Built,
    plan: &'a Plan,
    reached: &Reached,
) -> Result<(Vec<Injected<'a>>, Vec<String>)> {
    let mut programs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for task in &plan.tasks {
        let program = &task.job.program;
        programs
            .entry(&program.suite)
            .or_default()
            .insert(&program.name);
    }
    let mut errors = Vec::new();
    let mut found: BTreeMap<(String, String), Injected> = BTreeMap::new();
    for (site, tasks) in &reached.bugs {
        let (bug, place) = (&site.name, &site.place);
        let of_suites: BTreeSet<&str> = tasks.iter().map(|it| &*it.job.program.suite).collect();
        for entry in &site.killed_by {
            let is_there = match entry.split_once('/') {
                Some((suite, name)) => programs.get(suite).is_some_and(|it| it.contains(name)),
                None => programs.values().any(|it| it.contains(&**entry)),
            };
            if !is_there {
                errors.push(format!(
                    "NO SUCH PROGRAM: {place}: the injected bug `{bug}` is `killed_by` `{entry}`, \
                     and no suite has that program"
                ));
            }
        }
        let mut is_judged = false;
        for (&suite, its) in &programs {
            let is_stated = |it: &String| it.split_once('/').is_some_and(|(its, _)| its == suite);
            if !of_suites.contains(suite) && !site.killed_by.iter().any(is_stated) {
                continue;
            }
            let right = its
                .iter()
                .filter(|program| site.is_killed_by(suite, program));
            let right: BTreeSet<String> = right.map(ToString::to_string).collect();
            if right.is_empty() {
                continue;
            }
            is_judged = true;
            let key = (bug.clone(), suite.to_owned());
            let case = found.entry(key).or_insert_with(|| Injected {
                name: bug.clone(),
                what: site.what.clone(),
                suite: suite.to_owned(),
                expected: BTreeSet::new(),
                promela: None,
            });
            case.expected.extend(right);
        }
        if !is_judged {
            let suites: Vec<_> = of_suites.into_iter().collect();
            errors.push(format!(
                "NOT JUDGED: {place}: the injected bug `{bug}` is reached by {}, and none of its \
                 `killed_by` is a program there",
                suites.join(", ")
            ));
        }
    }
    errors.extend(unreached(built, reached)?);
    let mut injected: Vec<_> = found.into_values().collect();
    injected.extend(of_promela(plan));
    Ok((injected, errors))
}

/// Returns what to say of bugs in the sources that no program reaches.
fn unreached(built: &Built, reached: &Reached) -> Result<Vec<String>> {
    const SITE: &str = "injected_bug!(";
    let root = &built.workspace.root;
    let mut errors = Vec::new();
    for package in &built.packages {
        for file in sources(&root.join(&package.sources))? {
            let text = fs::read_to_string(&file)?;
            for (at, _) in text.match_indices(SITE) {
                let is_code = !text[..at].lines().last().unwrap_or_default().contains("//");
                let rest = text[at + SITE.len()..].trim_start();
                let name = rest.strip_prefix('"').and_then(|it| it.split('"').next());
                let Some(name) = name.filter(|_| is_code) else {
                    continue;
                };
                if !reached.bugs.keys().any(|site| site.name == name) {
                    let line = text[..at].matches('\n').count() + 1;
                    let file = file.strip_prefix(root).unwrap_or(&file).display();
                    errors.push(format!(
                        "UNREACHED: {file}:{line}: no program reaches the injected bug `{name}`"
                    ));
                }
            }
        }
    }
    Ok(errors)
}

fn of_promela(plan: &Plan) -> Vec<Injected<'_>> {
    let mut injected = Vec::new();
    for task in &plan.tasks {
        let program = &task.job.program;
        if let Kind::Promela(model) = &program.kind {
            injected.extend(model.bugs.iter().map(|bug| Injected {
                name: bug.clone(),
                what: format!("a macro of {}", model.file),
                suite: program.suite.clone(),
                expected: BTreeSet::from([program.name.clone()]),
                promela: Some(task),
            }));
        }
    }
    injected
}

fn judge_all(built: &Built, plan: &Plan, chosen: &[Injected], workers: usize) -> Result<Vec<Case>> {
    let cases =
        at_the_same_time(
            chosen,
            workers,
            "bugs",
            Injected::full_name,
            |injected| match injected.promela {
                Some(task) => judge_promela(built, injected, task),
                None => judge(built, plan, injected),
            },
        );
    cases.into_iter().collect()
}

/// Runs the programs of a suite with a bug, first those that have to find it, until one fails.
fn judge(built: &Built, plan: &Plan, injected: &Injected) -> Result<Case> {
    let of_suite = plan
        .tasks
        .iter()
        .filter(|it| it.job.program.suite == injected.suite);
    let of_suite: Vec<&Task> = of_suite.collect();
    let is_right = |task: &Task| injected.expected.contains(&task.job.program.name);
    let mut models: Vec<&Task> = of_suite.clone();
    models.retain(|task| task.job.mode == Mode::Weak);
    kill::by_cost(&mut models);
    let (right, others): (Vec<_>, Vec<_>) = models.into_iter().partition(|it| is_right(it));
    let mut of_right = searches(plan, &right);
    // A program that only shuttle runs: its searches and random schedules as they are.
    let weak: BTreeSet<&str> = right.iter().map(|it| &*it.job.program.name).collect();
    let of_shuttle = of_suite.into_iter().filter(|task| {
        let is_weak = weak.contains(&*task.job.program.name);
        is_right(task) && !is_weak && task.job.mode.checker() == Checker::Shuttle
    });
    of_right.extend(of_shuttle.map(|task| (task, false)));
    let look =
        |searches: &[Search]| kill::first_failure(built, searches, ["--bug", &injected.name]);
    let (verdict, kill) = match look(&of_right)? {
        Some(kill) => (Fate::Killed, Some(kill)),
        None => match look(&searches(plan, &others))? {
            Some(kill) => (Fate::WrongModel, Some(kill)),
            None => (Fate::Survived, None),
        },
    };
    Ok(case(injected, verdict, kill))
}

fn judge_promela(built: &Built, injected: &Injected, task: &Task) -> Result<Case> {
    let ended = explore(built, task, &["--bug", &injected.name], None)?;
    let verdict = match &ended.end {
        End::Failed(_) => Fate::Killed,
        End::Skipped(_) => Fate::Skipped,
        End::Found(_) | End::Stopped => Fate::Survived,
        End::Broken(why) => bail!("{}: {why}", task.job.name()),
    };
    let kill = kill::kill(task, &ended.stderr).filter(|_| verdict == Fate::Killed);
    Ok(case(injected, verdict, kill))
}

fn searches<'a>(plan: &'a Plan, models: &[&'a Task]) -> Vec<Search<'a>> {
    let mut searches = kill::short(plan, models);
    let modes = [Mode::Weak, Mode::RmwLoad, Mode::Dfs];
    searches.extend(kill::long(plan, models, &modes));
    searches
}

fn case(injected: &Injected, verdict: Fate, kill: Option<Kill>) -> Case {
    let name = &injected.name;
    let again = |kill: &Kill| format!("cargo verify --replay {} --bug {name}", kill.model);
    Case {
        bug: name.clone(),
        what: injected.what.clone(),
        primitive: injected.suite.clone(),
        expected: injected.expected.iter().cloned().collect(),
        verdict,
        replay: kill.as_ref().map(again),
        executions: kill.as_ref().and_then(|kill| kill.execution),
        failure: kill.as_ref().map(|kill| kill.said.clone()),
        model: kill.map(|kill| kill.model),
    }
}

fn list(chosen: &[Injected]) -> Table {
    let mut table = table::table(&["bug", "primitive", "what is done wrong", "found by one of"]);
    for injected in chosen {
        let expected: Vec<&str> = injected.expected.iter().map(String::as_str).collect();
        table.add_row([
            injected.name.clone(),
            injected.suite.clone(),
            injected.what.clone(),
            expected.join(", "),
        ]);
    }
    table
}

const HEAD: [&str; 6] = [
    "bug",
    "primitive",
    "verdict",
    "model",
    "execution",
    "failure",
];

fn cells(case: &Case) -> [String; 6] {
    [
        case.bug.clone(),
        case.primitive.clone(),
        case.verdict.name().to_owned(),
        case.model.clone().unwrap_or_default(),
        case.executions.map_or(String::new(), |n| n.to_string()),
        case.failure.clone().unwrap_or_default(),
    ]
}

pub(super) fn rows(cases: &[Case]) -> Table {
    let mut table = table::table(&HEAD);
    for case in cases {
        let color = if case.verdict.is_well() {
            Color::Green
        } else {
            Color::Red
        };
        table.add_row(table::colored(cells(case), color));
    }
    table
}

/// Returns how many there are of each fate, and what is wrong.
pub(super) fn told(cases: &[Case]) -> String {
    let count = |fate: Fate| cases.iter().filter(|case| case.verdict == fate).count();
    let mut text = format!(
        "{} injected bugs: {} KILLED by the right model, {} by a WRONG MODEL, {} SURVIVED",
        cases.len(),
        count(Fate::Killed),
        count(Fate::WrongModel),
        count(Fate::Survived)
    );
    let skipped = count(Fate::Skipped);
    if skipped > 0 {
        let _ = write!(text, ", {skipped} SKIPPED (Spin is not installed)");
    }
    text.push('.');
    for case in cases.iter().filter(|case| !case.verdict.is_well()) {
        let (verdict, bug, suite) = (case.verdict.name(), &case.bug, &case.primitive);
        let expected = case.expected.join(", ");
        let _ = write!(
            text,
            "\n{verdict}: {bug} in {suite}: none of {expected} fails"
        );
        if let Some(model) = &case.model {
            let _ = write!(text, ", but {model} does");
        }
    }
    text
}
