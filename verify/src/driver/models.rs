//! The models of each package, as its test binary describes them, and the rows to run.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Error, Result, anyhow, bail};

use super::args::Scope;
use super::build::{Built, Package};
use super::process::exited;
use crate::execution::no_replay;
use crate::info::{Description, SuiteInfo};
use crate::mode::{Checker, Mode};
use crate::plan::{Job, jobs};
use crate::rows::counts::{Count, Counts};

/// The models of a package.
#[derive(Debug)]
pub(super) struct Models {
    pub(super) package: Arc<Package>,
    pub(super) description: Description,
    pub(super) counts: Counts,
}

/// A row to run, and its package's models.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) models: Arc<Models>,
    pub(super) job: Job,
    /// The row's position among all selected rows, from 1.
    pub(super) number: usize,
}

impl Task {
    /// Returns the row's record, if it has one.
    pub(super) fn recorded(&self) -> Option<Count> {
        self.models.counts.of(&self.job.name())
    }

    /// Estimates the work of the row.
    pub(super) fn cost(&self) -> u64 {
        self.job.cost(&self.models.counts)
    }

    /// Returns the row's suite.
    pub(super) fn suite(&self) -> &SuiteInfo {
        let mut suites = self.models.description.suites.iter();
        let suite = suites.find(|suite| suite.name == self.job.program.suite);
        suite.expect("a row is of a suite of its models")
    }
}

/// Builds a workspace's models under the explorer, and asks each binary what it contains. Unless
/// `is_replay`, refuses the environment variables of a replay, which would silently change what a
/// row runs.
pub(super) fn models(
    scope: &Scope,
    target: &'static str,
    is_replay: bool,
) -> Result<(Built, Vec<Arc<Models>>)> {
    if !is_replay {
        no_replay().map_err(Error::msg)?;
    }
    let mut built = Built::none_of(scope, target)?;
    built.add([Checker::Explorer])?;
    let mut all = Vec::new();
    let mut suites: HashMap<String, &str> = HashMap::new();
    for package in &built.packages {
        let description = ask(&built, package)?;
        // Each binary has checked that its own suites have different names.
        for SuiteInfo { name, .. } in &description.suites {
            let why = "rename one: names of rows begin with the suite's";
            if let Some(other) = suites.insert(name.clone(), &package.name) {
                let package = &package.name;
                bail!("two suites are called `{name}`, in {other} and in {package}\n  {why}");
            }
        }
        all.push(Arc::new(Models {
            package: package.clone(),
            description,
            counts: Counts::read(&package.folder).map_err(|why| anyhow!(why))?,
        }));
    }
    Ok((built, all))
}

fn ask(built: &Built, package: &Package) -> Result<Description> {
    let binary = built.binary(Checker::Explorer, package)?;
    let mut command = Command::new(binary);
    command.arg("--describe").current_dir(&package.folder);
    let ended = exited(command, None)?;
    serde_json::from_str(&ended.stdout).map_err(|_| {
        let said = [ended.stdout, ended.stderr].concat();
        let said: String = said.trim().chars().take(500).collect();
        anyhow!(
            "{}: the model binary printed no description: {said}\n  the test target needs \
             `harness = false`, a `main` that only returns `spanlock_verify::main([...])`, and \
             the version {} of spanlock-verify",
            package.name,
            env!("CARGO_PKG_VERSION")
        )
    })
}

/// Returns every row of these models, including the long rows, which only `--full` runs.
pub(super) fn tasks(all: &[Arc<Models>]) -> Vec<Task> {
    let mut tasks = Vec::new();
    for models in all {
        let jobs = jobs(&models.description, &models.counts);
        tasks.extend(jobs.into_iter().map(|job| Task {
            models: models.clone(),
            job,
            number: 0,
        }));
    }
    tasks
}

/// Returns the suites of all packages.
pub(super) fn suites(all: &[Arc<Models>]) -> Vec<SuiteInfo> {
    let suites = all.iter().flat_map(|models| &models.description.suites);
    suites.cloned().collect()
}

/// All rows except the long ones, cheapest first.
pub(super) struct Plan {
    pub(super) tasks: Vec<Task>,
    /// Loom's long searches.
    by_loom: Vec<Task>,
    /// Every program: its suite, and its name.
    programs: BTreeSet<(String, String)>,
}

impl Plan {
    /// Whether there is such a program: of this suite, if one is given.
    pub(super) fn has(&self, suite: Option<&str>, program: &str) -> bool {
        let mut all = self.programs.iter();
        all.any(|(of, name)| name == program && suite.is_none_or(|suite| suite == of))
    }

    /// Returns loom's search of a program that only has random schedules in the normal run.
    pub(super) fn search_instead(&self, task: &Task) -> Option<&Task> {
        let program = |it: &Task| (it.job.program.suite.clone(), it.job.program.name.clone());
        let mut all = self.by_loom.iter();
        let is_random = task.job.mode == Mode::Random;
        all.find(|it| is_random && program(it) == program(task))
    }

    /// Plans the rows of these models.
    pub(super) fn of(all: &[Arc<Models>]) -> Self {
        let mut tasks = tasks(all);
        let program = |it: &Task| (it.job.program.suite.clone(), it.job.program.name.clone());
        let programs = tasks.iter().map(program).collect();
        let is_by_loom = |it: &&Task| it.job.long && it.job.mode == Mode::Weak;
        let by_loom = tasks.iter().filter(is_by_loom).cloned().collect();
        tasks.retain(|task| !task.job.long);
        tasks.sort_by_cached_key(|task| {
            let program = &task.job.program;
            let millis = task.recorded().and_then(|it| it.millis);
            (millis, task.cost(), program.threads, program.operations)
        });
        Plan {
            tasks,
            by_loom,
            programs,
        }
    }
}
