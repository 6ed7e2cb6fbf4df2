//! What programs reach: sites that can be weakened, and bugs that can be injected. Says which
//! searches judge a change there.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::build::Built;
use super::change::Change;
use super::explore::explore;
use super::models::{Plan, Task};
use super::process::Ended;
use super::run::at_the_same_time;
use crate::info::BugSite;
use crate::mode::Mode;

/// The bound on preemptions in the first searches of a change.
pub(super) const FEW: u64 = 2;

/// Rows with at most this many recorded executions are also searched with their own bounds.
const AFFORDABLE: u64 = 20_000;

/// All changes of a kind, and the errors in their definitions in the sources.
pub(super) type Candidates<'a> = (Vec<Candidate<'a>>, Vec<String>);

/// A change and the searches to run with it. Programs that must find the change come first.
pub(super) type Candidate<'a> = (Change, Vec<Search<'a>>);

/// A row to search, and whether to search it with few preemptions only.
pub(super) type Search<'a> = (&'a Task, bool);

/// A site of the facade: an atomic operation, a fence, a wake, a flush or a drain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site {
    pub(super) file: String,
    pub(super) line: usize,
    /// `file:line:column:operation`
    pub(super) place: String,
    pub(super) operation: String,
    /// The ordering in the source; empty for the others.
    ordering: String,
}

impl Site {
    /// Parses a site as a model binary reports it: `file:line:column:operation=Ordering`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (place, ordering) = text.rsplit_once('=')?;
        let (rest, operation) = place.rsplit_once(':')?;
        let (rest, _column) = rest.rsplit_once(':')?;
        let (file, line) = rest.rsplit_once(':')?;
        Some(Site {
            file: file.to_owned(),
            line: line.parse().ok()?,
            place: place.to_owned(),
            operation: operation.to_owned(),
            ordering: ordering.to_owned(),
        })
    }

    /// Whether the site makes something durable, which only programs with crashes or devices judge.
    pub(super) fn is_flush(&self) -> bool {
        matches!(&*self.operation, "flush" | "drain")
    }

    /// Returns the orderings that are one step weaker, and `drop` where the site can be omitted.
    pub(super) fn mutations(&self) -> &'static [&'static str] {
        match (&*self.operation, &*self.ordering) {
            ("wake" | "flush" | "drain", _) => &["drop"],
            ("fence", "SeqCst") => &["drop", "AcqRel"],
            ("fence", "AcqRel") => &["drop", "Acquire", "Release"],
            ("fence", _) => &["drop"],
            (_, "Acquire" | "Release") => &["Relaxed"],
            (_, "AcqRel") => &["Acquire", "Release"],
            ("load" | "failure", "SeqCst") => &["Acquire"],
            ("store", "SeqCst") => &["Release"],
            (_, "SeqCst") => &["AcqRel"],
            _ => &[],
        }
    }

    /// Returns `Acquire->Relaxed`, or `drop`.
    pub(super) fn change(&self, mutation: &str) -> String {
        match mutation {
            "drop" => mutation.to_owned(),
            weaker => format!("{}->{weaker}", self.ordering),
        }
    }
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
    pub(super) fn by(
        plan: &'a Plan,
        ran: &[(Task, Ended)],
        built: &Built,
        workers: usize,
    ) -> Result<Self> {
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

/// Returns the searches of `models`: first all of them under the explorer without faults, and in both
/// modes of loom with few preemptions,
/// then the affordable ones in `modes` with their own bounds.
pub(super) fn searches<'a>(plan: &'a Plan, models: &[&'a Task], modes: &[Mode]) -> Vec<Search<'a>> {
    // Programs with crashes run in their main mode.
    let crashes = models.iter().filter(|it| it.job.mode.has_crashes());
    let crashes = crashes.map(|task| (*task, false));
    let in_mode = |mode| models.iter().filter_map(move |it| plan.in_mode(it, mode));
    let short = [Mode::Explorer, Mode::Weak, Mode::RmwLoad]
        .into_iter()
        .flat_map(in_mode);
    let long = modes.iter().copied().flat_map(in_mode);
    let long = long.filter(|task| is_affordable(task));
    let short = short.map(|task| (task, true));
    crashes
        .chain(short)
        .chain(long.map(|task| (task, false)))
        .collect()
}
