//! Changes the code under test, one thing at a time, and runs programs until one fails: what
//! mutants and injected bugs have in common.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use comfy_table::{Cell, Table};
use serde::{Deserialize, Serialize};

use super::args::InjectArgs;
use super::build::Built;
use super::models::{Plan, Task, models};
use super::output::{json_at, write_json};
use super::pool::{at_the_same_time, workers};
use super::process::{End, explore};
use super::sites::Site;
use super::table::{self, Column};
use super::workspace::MODELS;
use super::{circumstances, exit_code, retain_meant};
use crate::info::{BugSite, Kind};
use crate::mode::{Checker, Mode};
use crate::rows::row::Circumstances;
use crate::rows::verdict::told;

/// Preemptions of the first searches for a failure.
const FEW: &str = "2";

/// Rows of at most this many executions are also searched with their own bounds.
const AFFORDABLE: u64 = 20_000;

/// A search is stopped after this time, and then has found no failure.
const LIMIT: Duration = Duration::from_secs(60);

/// A row to search, and whether with few preemptions.
pub(super) type Search<'a> = (&'a Task, bool);

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Fate {
    /// A program that is there to find it failed.
    Killed,
    /// Only another program failed.
    #[serde(rename = "WRONG MODEL")]
    WrongModel,
    /// No program failed.
    Survived,
    /// No program failed, and the source says why none can.
    Equivalent,
    /// Spin is not installed.
    Skipped,
}

impl Fate {
    /// Returns its name in tables.
    fn name(self) -> String {
        match self {
            Fate::WrongModel => "WRONG MODEL".to_owned(),
            one_word => format!("{one_word:?}").to_uppercase(),
        }
    }
}

/// A mutation or an injected bug.
pub(super) trait Change: Clone + Serialize + Sync + 'static {
    /// What many of them are called.
    const MANY: &'static str;
    /// The fates that they can have.
    const FATES: &'static [Fate];
    /// The error for a filter that no name contains; `{}` stands for the filter.
    const MISSING: &'static str;
    /// The columns that say what is changed.
    const COLUMNS: &'static [Column<Self>];
    /// The last column of the table of fates.
    const LAST: Column<Self>;

    /// Returns its name, to which `--filter` applies.
    fn name(&self) -> String;

    /// Returns the arguments that make a binary of models change the code.
    fn arguments(&self) -> [String; 2];

    /// Keeps what the failing program said.
    fn keep(&mut self, _said: String) {}

    /// Whether the source says that no program can fail.
    fn is_equivalent(&self) -> bool {
        false
    }

    /// Describes a fate that is not well. `model` is the program that failed, if one did.
    fn problem(&self, fate: &str, model: Option<&str>) -> String;
}

/// A change, and the programs that are searched with it.
pub(super) struct Candidate<'a, T> {
    pub(super) change: T,
    /// Programs that are there to find it.
    pub(super) right: Vec<Search<'a>>,
    /// Programs whose failure is no success, but says where to look.
    pub(super) others: Vec<Search<'a>>,
}

/// A program that failed, if one did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Kill {
    /// Its row.
    model: Option<String>,
    /// The execution in which it failed.
    pub(super) executions: Option<u64>,
    /// The command that shows the failure.
    replay: Option<String>,
    /// What it said.
    #[serde(skip)]
    said: String,
}

/// A change and its fate: a row of the table and of the JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Judged<T> {
    #[serde(flatten)]
    pub(super) change: T,
    pub(super) verdict: Fate,
    #[serde(flatten)]
    kill: Kill,
    /// The run that judged it. `selection` holds the filters, and `rows` counts what they chose.
    pub(super) run: Circumstances,
}

impl<T: Change> Judged<T> {
    /// Whether it lets the command succeed. A reason above a mutant that is killed is stale.
    pub(super) fn is_well(&self) -> bool {
        match self.verdict {
            Fate::Killed => !self.change.is_equivalent(),
            Fate::Equivalent => true,
            Fate::Skipped => std::env::var_os("CI").is_none(),
            Fate::Survived | Fate::WrongModel => false,
        }
    }
}

/// Returns the table of all fates.
pub(super) fn rows<T: Change>(all: &[Judged<T>]) -> Table {
    let of_change = &T::COLUMNS[..2];
    let mut head: Vec<&str> = of_change.iter().map(|column| column.0).collect();
    head.extend(["verdict", "model", "execution", T::LAST.0]);
    let mut table = table::table(&head);
    for judged in all {
        let mut cells = Vec::from_iter(of_change.iter().map(|it| it.1(&judged.change)));
        cells.push(table::colored(judged.verdict.name(), judged.is_well()));
        cells.push(Cell::new(judged.kill.model.as_deref().unwrap_or_default()));
        cells.push(table::number_or_none(judged.kill.executions));
        cells.push(T::LAST.1(&judged.change));
        table.add_row(cells);
    }
    table
}

/// Returns how many there are of each fate, and what is wrong.
pub(super) fn summary<T: Change>(all: &[Judged<T>]) -> String {
    let count = |fate: &Fate| {
        let n = all.iter().filter(|it| it.verdict == *fate).count();
        format!("{n} {}", fate.name())
    };
    let counts: Vec<String> = T::FATES.iter().map(count).collect();
    let mut text = format!("{} {}: {}.", all.len(), T::MANY, counts.join(", "));
    for judged in all.iter().filter(|it| !it.is_well()) {
        let model = judged.kill.model.as_deref();
        let problem = judged.change.problem(&judged.verdict.name(), model);
        let _ = write!(text, "\n{problem}");
    }
    text
}

/// Runs the subcommand that judges all changes that `find` returns. `find` also returns what is
/// wrong with their statements. That counts only if all are chosen, since a statement may name
/// programs of other packages.
pub(super) fn command<T: Change + Send>(
    args: &InjectArgs,
    find: impl for<'a> Fn(
        &Built,
        &'a Plan,
        &Reached<'a>,
    ) -> Result<(Vec<Candidate<'a, T>>, Vec<String>)>,
) -> Result<ExitCode> {
    let common = &args.common;
    let file = json_at(common.json.as_deref())?;
    let workers = workers(common.jobs);
    let (mut built, models) = models(&common.scope, MODELS)?;
    let run = circumstances::now(common, &[], &built.workspace);
    let plan = Plan::of(&models);
    let reached = Reached::by(&plan, &built, workers)?;
    let (mut candidates, mut errors) = find(&built, &plan, &reached)?;
    let name = |candidate: &Candidate<T>| candidate.change.name();
    retain_meant(&mut candidates, &common.filter, name, T::MISSING)?;
    if !common.is_everything() {
        errors.clear();
    }
    let is_well = if args.list {
        let changes = candidates.iter().map(|candidate| &candidate.change);
        println!("{}", table::of(T::COLUMNS, changes));
        true
    } else {
        built.add(Checker::OF_CODE)?;
        let all = judge(&built, candidates, workers, &run)?;
        println!("{}\n{}", rows(&all), summary(&all));
        write_json(file.as_ref(), "Rows", &all)?;
        all.iter().all(Judged::is_well)
    };
    errors.iter().for_each(|error| println!("{error}"));
    Ok(exit_code(is_well && errors.is_empty()))
}

/// Searches the programs of each candidate until one fails.
pub(super) fn judge<T: Change + Send>(
    built: &Built,
    candidates: Vec<Candidate<'_, T>>,
    workers: usize,
    run: &Circumstances,
) -> Result<Vec<Judged<T>>> {
    let run = Circumstances {
        rows: candidates.len(),
        ..run.clone()
    };
    let name = |candidate: &Candidate<T>| candidate.change.name();
    let judged = at_the_same_time(&candidates, workers, T::MANY, name, |candidate| {
        let mut change = candidate.change.clone();
        let arguments = change.arguments();
        let arguments = [&*arguments[0], &*arguments[1]];
        let (mut verdict, mut kill) = first_failure(built, &candidate.right, arguments)?;
        if verdict == Fate::Survived {
            (verdict, kill) = first_failure(built, &candidate.others, arguments)?;
            verdict = match verdict {
                Fate::Killed => Fate::WrongModel,
                Fate::Survived if change.is_equivalent() => Fate::Equivalent,
                other => other,
            };
        }
        if kill.model.is_some() {
            change.keep(std::mem::take(&mut kill.said));
        }
        Ok(Judged {
            change,
            verdict,
            kill,
            run: run.clone(),
        })
    });
    judged.into_iter().collect()
}

/// What the programs reach: each with the rows that reach it, the cheap ones first.
pub(super) struct Reached<'a> {
    /// Sites of the facade in the sources of packages that have models.
    pub(super) sites: BTreeMap<Site, Vec<&'a Task>>,
    /// Places where a bug can be injected.
    pub(super) bugs: BTreeMap<BugSite, Vec<&'a Task>>,
}

impl<'a> Reached<'a> {
    /// Runs every program under loom, with few preemptions, and asks what it reaches.
    pub(super) fn by(plan: &'a Plan, built: &Built, workers: usize) -> Result<Self> {
        // Programs of one or three threads reach sooner what double faults reach.
        let is_asked = |task: &&Task| task.job.mode == Mode::Weak && task.job.faults < 2;
        let tasks: Vec<&Task> = plan.tasks.iter().filter(is_asked).collect();
        let name = |task: &&Task| task.job.name();
        let found = at_the_same_time(&tasks, workers, "programs asked for sites", name, |task| {
            explore(built, task, &["--sites", "--preemptions", FEW], None)
        });
        let mut reached = Reached {
            sites: BTreeMap::new(),
            bugs: BTreeMap::new(),
        };
        for (task, ended) in tasks.into_iter().zip(found) {
            let ended = ended?;
            let End::Found(found) = ended.end else {
                let said = ended.stderr.trim();
                bail!("{} fails as it is: {said}", task.job.name());
            };
            for site in found.bugs {
                reached.bugs.entry(site).or_default().push(task);
            }
            // A litmus suite shows what the checkers do, and kills no mutant.
            let mut programs = task.suite().programs.iter();
            if programs.any(|program| program.expected.is_some()) {
                continue;
            }
            let is_ours = |site: &Site| {
                let mut packages = built.packages.iter();
                packages.any(|package| site.file.starts_with(&package.sources))
            };
            let sites = found.sites.iter().filter_map(|site| site.parse().ok());
            for site in sites.filter(is_ours) {
                reached.sites.entry(site).or_default().push(task);
            }
        }
        Ok(reached)
    }
}

/// Returns searches of `models` in both modes of loom with few preemptions, and then the
/// affordable ones in `modes` with their own bounds.
pub(super) fn searches<'a>(plan: &'a Plan, models: &[&'a Task], modes: &[Mode]) -> Vec<Search<'a>> {
    let in_mode = |mode| models.iter().filter_map(move |it| plan.in_mode(it, mode));
    let short = [Mode::Weak, Mode::RmwLoad].into_iter().flat_map(in_mode);
    let affordable = |task: &&Task| {
        let recorded = task.recorded();
        recorded.is_some_and(|count| count.executions <= AFFORDABLE)
    };
    let long = modes.iter().copied().flat_map(in_mode).filter(affordable);
    let short = short.map(|task| (task, true));
    short.chain(long.map(|task| (task, false))).collect()
}

/// Runs `searches` in order, with a change of the code under test, until one fails.
fn first_failure(built: &Built, searches: &[Search], change: [&str; 2]) -> Result<(Fate, Kill)> {
    for (task, few) in searches {
        let mut more = change.to_vec();
        if *few {
            more.extend(["--preemptions", FEW]);
        }
        let is_spin = matches!(task.job.program.kind, Kind::Promela { .. });
        let ended = explore(built, task, &more, (!is_spin).then_some(LIMIT))?;
        if let Some(mut kill) = kill(task, &ended.stderr) {
            let again = [
                "cargo verify --replay",
                &task.job.name(),
                change[0],
                change[1],
            ];
            kill.replay = Some(again.join(" "));
            return Ok((Fate::Killed, kill));
        }
        match ended.end {
            End::Failed(_) => {
                let said = ended.stderr.trim();
                bail!("{} with {}: {said}", task.job.name(), change[1]);
            }
            End::Broken(why) => bail!("{}: {why}", task.job.name()),
            End::Skipped(_) => return Ok((Fate::Skipped, Kill::default())),
            End::Found(_) | End::Stopped => {}
        }
    }
    Ok((Fate::Survived, Kill::default()))
}

/// Returns what a row's process wrote, if a program failed: `execution 7: panicked at …:`, and
/// what the panic says.
pub(super) fn kill(task: &Task, stderr: &str) -> Option<Kill> {
    let mut told = told(stderr).into_iter();
    let first = told.next()?;
    let number = first.strip_prefix("execution ");
    Some(Kill {
        model: Some(task.job.name()),
        executions: number.and_then(|told| told.split(':').next()?.parse().ok()),
        // Spin says it in the first line.
        said: (number.and_then(|_| told.next()).unwrap_or(first)).to_owned(),
        replay: None,
    })
}
