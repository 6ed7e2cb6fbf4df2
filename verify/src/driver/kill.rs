//! Makes one change to the code under test at a time (a mutant or an injected bug), and runs
//! programs until one fails. Both subcommands share this code.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use comfy_table::{Cell, Table};
use serde::{Deserialize, Serialize};

use super::args::InjectArgs;
use super::build::{Built, MODELS};
use super::models::{Models, Plan, Task, models};
use super::mutants::Site;
use super::process::{End, Ended, explore};
use super::report::Outputs;
use super::run::{at_the_same_time, workers};
use super::table::{self, Column};
use super::{bugs, exit_code, mutants, retain_meant};
use crate::info::BugSite;
use crate::mode::{Checker, Mode};
use crate::rows::row::Circumstances;

/// The bound on preemptions in the first searches of a change.
const FEW: u64 = 2;

/// Rows with at most this many recorded executions are also searched with their own bounds.
const AFFORDABLE: u64 = 20_000;

/// The time limit of a search. A search that reaches it counts as one without a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// The time after which no further search of an explained change begins: one of which the source
/// says that no program can find it. No failure ends its searches, so without this limit they would
/// take most of the time of all.
const LIMIT_OF_EXPLAINED: Duration = Duration::from_secs(10);

/// A kind of change: mutants or injected bugs.
pub(super) struct Kind {
    /// The subcommand. The file of this kind in a report has the same name.
    pub(super) command: &'static str,
    /// The heading in reports.
    pub(super) many: &'static str,
    find: for<'a> fn(&Built, &'a Plan, &Reached<'a>) -> Result<Candidates<'a>>,
}

/// All kinds of changes.
pub(super) static KINDS: [Kind; 2] = [MUTANTS, BUGS];

pub(super) const MUTANTS: Kind = Kind {
    command: "mutants",
    many: "Mutants",
    find: mutants::candidates,
};

pub(super) const BUGS: Kind = Kind {
    command: "bugs",
    many: "Injected bugs",
    find: bugs::candidates,
};

/// All changes of a kind, and the errors in their definitions in the sources.
pub(super) type Candidates<'a> = (Vec<Candidate<'a>>, Vec<String>);

/// A change and the searches to run with it. Programs that must find the change come first.
pub(super) type Candidate<'a> = (Change, Vec<Search<'a>>);

/// A row to search, and whether to search it with few preemptions only.
pub(super) type Search<'a> = (&'a Task, bool);

/// The verdict on a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Fate {
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
    name: String,
    /// `Acquire->Relaxed`, `drop`, the bug's description, or `unreached` if no program reaches it.
    what: String,
    /// The arguments that tell a model binary to make the change.
    #[serde(skip)]
    arguments: [String; 2],
    /// Programs of which at least one must find the change. If empty, any program may.
    pub(super) expected: BTreeSet<String>,
    /// The reason from the source why no program can fail.
    pub(super) reason: Option<String>,
    verdict: Fate,
    /// The row that failed.
    model: Option<String>,
    /// The number of the failing execution.
    executions: Option<u64>,
    /// The message of the failure.
    failure: Option<String>,
    /// The command that shows the failure.
    replay: Option<String>,
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
    fn finders(&self) -> String {
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

    /// Runs `searches` in order until one fails.
    fn judge(&mut self, built: &Built, searches: &[Search]) -> Result<()> {
        self.verdict = match self.reason {
            Some(_) => Fate::Equivalent,
            None => Fate::Survived,
        };
        let begun = Instant::now();
        for (task, few) in searches {
            if self.reason.is_some() && begun.elapsed() > LIMIT_OF_EXPLAINED {
                break;
            }
            let (name, program) = (task.job.name(), &task.job.program.name);
            let mut more = Vec::from_iter(self.arguments.iter().map(String::as_str));
            let bound = FEW.to_string();
            if *few {
                more.extend(["--preemptions", &bound]);
            }
            let is_spin = task.job.mode == Mode::Ltl;
            let ended = explore(built, task, &more, (!is_spin).then_some(LIMIT))?;
            let told = ended.told();
            // Spin's message is its first line, a panic's message the second.
            if let Some(failure) = told.get(1).filter(|_| !is_spin).or(told.first()) {
                let is_right = self.expected.is_empty() || self.expected.contains(program);
                self.verdict = if is_right { Fate::Killed } else { Fate::Missed };
                let change = self.arguments.join(" ");
                self.replay = Some(format!("cargo verify --replay {name} {change}"));
                self.model = Some(name);
                self.executions = ended.failed_execution();
                self.failure = Some((*failure).to_owned());
                return Ok(());
            }
            match ended.end {
                End::Found(_) | End::Stopped => {}
                End::Skipped(_) => {
                    self.verdict = Fate::Skipped;
                    return Ok(());
                }
                End::Failed(_) => bail!("{name} with {}: {}", self.name, ended.stderr.trim()),
                End::Broken(why) => bail!("{name}: {why}"),
            }
        }
        Ok(())
    }
}

/// All changes of a kind, with their verdicts.
pub(super) struct Changes {
    pub(super) kind: &'static Kind,
    pub(super) all: Vec<Change>,
}

impl Changes {
    /// Returns the table of verdicts.
    pub(super) fn table(&self) -> Table {
        let columns: &[Column<Change>] = &[
            (self.kind.command, |it| Cell::new(&it.name)),
            ("what", |it| Cell::new(&it.what)),
            ("verdict", |it| {
                table::colored(table::name(it.verdict), it.problem().is_none())
            }),
            ("model", |it| table::optional(it.model.as_ref())),
            ("execution", |it| table::optional(it.executions)),
            ("reason or failure", |it| {
                let told = it.reason.as_ref().or(it.failure.as_ref());
                table::optional(told.map(|it| shortened(it)))
            }),
        ];
        table::of(columns, &self.all)
    }

    /// Returns the number of changes with each verdict, and the problems.
    pub(super) fn summary(&self) -> String {
        let fates = table::tally(self.all.iter().map(|it| it.verdict));
        let many = self.kind.many.to_lowercase();
        let head = format!("{} {many}: {fates}.", self.all.len());
        let problems = self.all.iter().filter_map(Change::problem);
        Vec::from_iter(std::iter::once(head).chain(problems)).join("\n")
    }

    /// Whether there is no problem.
    pub(super) fn are_well(&self) -> bool {
        self.all.iter().all(|it| it.problem().is_none())
    }
}

/// Cuts a text that is too long for a table.
fn shortened(text: &str) -> String {
    const MOST: usize = 160;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Runs the subcommand that judges the changes of a kind. Reports errors in the definitions only if
/// all packages and changes are selected, because `killed_by` may name programs of other packages.
pub(super) fn command(kind: &'static Kind, args: &InjectArgs) -> Result<ExitCode> {
    let common = &args.common;
    let outputs = Outputs::new(common.json.as_ref(), None)?;
    let workers = workers(common.jobs);
    let (mut built, models) = models(&common.scope, MODELS, false)?;
    built.add(Checker::OF_CODE)?;
    let run = built.circumstances(common, &[]);
    let plan = Plan::of(&models);
    let reached = Reached::by(&plan, &[], &built, workers)?;
    let (mut candidates, mut errors) = (kind.find)(&built, &plan, &reached)?;
    let list = format!("`cargo verify {} --list` shows them all", kind.command);
    let missing = format!("no name contains `{{}}`\n  {list}");
    let name = |(change, _): &Candidate| change.name.clone();
    retain_meant(&mut candidates, &common.filter, name, &missing)?;
    if !common.is_everything() {
        errors.clear();
    }
    errors.iter().for_each(|error| println!("{error}"));
    if args.list {
        let columns: &[Column<Change>] = &[
            (kind.command, |it| Cell::new(&it.name)),
            ("what", |it| Cell::new(&it.what)),
            ("found by one of", |it| Cell::new(it.finders())),
        ];
        let changes = candidates.iter().map(|(change, _)| change);
        println!("{}", table::of(columns, changes));
        return Ok(exit_code(errors.is_empty()));
    }
    let changes = judge(kind, &built, &candidates, workers, &run)?;
    println!("{}\n{}", changes.table(), changes.summary());
    outputs.write(&changes.all)?;
    Ok(exit_code(changes.are_well() && errors.is_empty()))
}

/// Judges all changes of all kinds, after the rows in `ran`. Also returns the errors in their
/// definitions.
pub(super) fn judge_all(
    built: &mut Built,
    models: &[Arc<Models>],
    ran: &[(Task, Ended)],
    workers: usize,
    run: &Circumstances,
) -> Result<(Vec<Changes>, Vec<String>)> {
    let plan = Plan::of(models);
    built.add(Checker::OF_CODE)?;
    let reached = Reached::by(&plan, ran, built, workers)?;
    let (mut changes, mut errors) = (Vec::new(), Vec::new());
    for kind in &KINDS {
        let (candidates, wrong) = (kind.find)(built, &plan, &reached)?;
        changes.push(judge(kind, built, &candidates, workers, run)?);
        errors.extend(wrong);
    }
    Ok((changes, errors))
}

/// Judges all `candidates`.
fn judge(
    kind: &'static Kind,
    built: &Built,
    candidates: &[Candidate],
    workers: usize,
    run: &Circumstances,
) -> Result<Changes> {
    let name = |(change, _): &Candidate| change.name.clone();
    let judged = at_the_same_time(candidates, workers, kind.many, name, |(change, rows)| {
        let mut change = change.clone();
        change.kind = kind.command.to_owned();
        change.run = run.clone();
        change.run.rows = candidates.len();
        change.judge(built, rows).map(|()| change)
    });
    let all = judged.into_iter().collect::<Result<_>>()?;
    Ok(Changes { kind, all })
}

/// The sites and bugs that programs reach, each with the rows that reach it, cheapest first.
pub(super) struct Reached<'a> {
    /// Sites: operations of the facade in the sources of packages that have models.
    pub(super) sites: BTreeMap<Site, Vec<&'a Task>>,
    /// Places where a bug can be injected.
    pub(super) bugs: BTreeMap<BugSite, Vec<&'a Task>>,
}

impl<'a> Reached<'a> {
    /// Collects what each program reaches in its main mode. Takes this from the rows that `ran`,
    /// and runs the others.
    ///
    /// A site does not count if the program reaches it only with more preemptions than the searches
    /// of changes have: no search would reach the change.
    fn by(plan: &'a Plan, ran: &[(Task, Ended)], built: &Built, workers: usize) -> Result<Self> {
        let name = |task: &Task| task.job.name();
        let ran = ran.iter().filter(|(task, _)| runs_as_planned(task));
        let ran = ran.map(|(task, ended)| (name(task), ended));
        let mut of: BTreeMap<String, &Ended> = ran.collect();
        let tasks = plan.tasks.iter().filter(|it| it.job.is_main());
        let tasks: Vec<&Task> = tasks.collect();
        let mut others = tasks.clone();
        others.retain(|task| !of.contains_key(&name(task)));
        let asked = |task: &&Task| name(task);
        let what = "programs asked for sites";
        let bound = FEW.to_string();
        let found = at_the_same_time(&others, workers, what, asked, |task| {
            let few: &[&str] = match runs_as_planned(task) {
                true => &[],
                false => &["--preemptions", &bound],
            };
            explore(built, task, few, None)
        });
        let found = found.into_iter().collect::<Result<Vec<_>>>()?;
        of.extend(others.into_iter().map(name).zip(&found));
        let mut reached = Reached {
            sites: BTreeMap::new(),
            bugs: BTreeMap::new(),
        };
        for task in tasks {
            let ended = of[&name(task)];
            let Some(found) = ended.found() else {
                let said = ended.stderr.trim();
                bail!("{} fails without any change: {said}", name(task));
            };
            for site in &found.bugs {
                reached.bugs.entry(site.clone()).or_default().push(task);
            }
            // Litmus programs test the checkers, and shuttle sees no orderings: no mutants here.
            let mut programs = task.suite().programs.iter();
            if programs.any(|it| it.expected.is_some()) || task.job.program.unwinds {
                continue;
            }
            let is_ours = |site: &Site| {
                let mut packages = built.packages.iter();
                packages.any(|package| site.file.starts_with(&package.sources))
            };
            let sites = found.sites.iter().filter_map(|it| Site::parse(it));
            let sites = sites.filter(|it| !task.job.mode.has_crashes() || it.is_flush());
            for site in sites.filter(is_ours) {
                reached.sites.entry(site).or_default().push(task);
            }
        }
        Ok(reached)
    }
}

/// Whether the searches of changes run this row as planned, and not only with few preemptions.
fn runs_as_planned(task: &Task) -> bool {
    let has_few = task.job.bound.is_some_and(|bound| bound <= FEW);
    task.job.mode.has_crashes() || has_few || is_affordable(task)
}

fn is_affordable(task: &Task) -> bool {
    (task.recorded()).is_some_and(|count| count.executions <= AFFORDABLE)
}

/// Returns the searches of `models`: first all of them in both modes of loom with few preemptions,
/// then the affordable ones in `modes` with their own bounds.
pub(super) fn searches<'a>(plan: &'a Plan, models: &[&'a Task], modes: &[Mode]) -> Vec<Search<'a>> {
    // Programs with crashes run in their main mode.
    let crashes = models.iter().filter(|it| it.job.mode.has_crashes());
    let crashes = crashes.map(|task| (*task, false));
    let in_mode = |mode| models.iter().filter_map(move |it| plan.in_mode(it, mode));
    let short = [Mode::Weak, Mode::RmwLoad].into_iter().flat_map(in_mode);
    let long = modes.iter().copied().flat_map(in_mode);
    let long = long.filter(|task| is_affordable(task));
    let short = short.map(|task| (task, true));
    crashes
        .chain(short)
        .chain(long.map(|task| (task, false)))
        .collect()
}
