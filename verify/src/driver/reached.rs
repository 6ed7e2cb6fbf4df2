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

/// All changes of a kind, and the errors in their definitions in the sources.
pub(super) type Candidates<'a> = (Vec<Candidate<'a>>, Vec<String>);

/// A change and the searches to run with it. Programs that must find the change come first.
pub(super) type Candidate<'a> = (Change, Vec<Search<'a>>);

/// A row to search, and whether to search it without faults.
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
    pub(super) fn by(
        plan: &'a Plan,
        ran: &[(Task, Ended)],
        built: &Built,
        workers: usize,
    ) -> Result<Self> {
        let name = |task: &Task| task.job.name();
        let ran = ran.iter().map(|(task, ended)| (name(task), ended));
        let mut of: BTreeMap<String, &Ended> = ran.collect();
        let tasks = plan.tasks.iter().filter(|it| it.job.is_main());
        let tasks: Vec<&Task> = tasks.collect();
        let mut others = tasks.clone();
        others.retain(|task| !of.contains_key(&name(task)));
        let asked = |task: &&Task| name(task);
        let what = "programs asked for sites";
        let found = at_the_same_time(&others, workers, what, asked, |task| {
            explore(built, task, &[], None)
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
            let sees_orderings = !matches!(task.job.mode, Mode::Bounded | Mode::Sequence);
            let sites = sites.filter(|it| sees_orderings || it.is_flush());
            for site in sites.filter(is_ours) {
                reached.sites.entry(site).or_default().push(task);
            }
        }
        Ok(reached)
    }
}

/// Returns the searches of `models`: first those without crashes, all without faults and then those
/// that have faults; then those with crashes, which take longer. If a crash must show the change,
/// those with crashes come first. Loom's searches come last, of programs that have only random
/// schedules otherwise.
pub(super) fn searches<'a>(
    plan: &'a Plan,
    models: &[&'a Task],
    needs_crash: bool,
) -> Vec<Search<'a>> {
    let crashes = |it: &&&Task| it.job.program.has_crashes;
    let in_crashes = models.iter().filter(crashes).map(|task| (*task, true));
    let others = models.iter().filter(|it| !crashes(it));
    let with_faults = others.clone().filter(|task| task.job.faults > 0);
    let with_faults = with_faults.map(|task| (*task, false));
    let others = others.map(|task| (*task, true)).chain(with_faults);
    let by_loom = models.iter().filter_map(|it| plan.search_instead(it));
    let by_loom = by_loom.map(|task| (task, true));
    match needs_crash {
        true => in_crashes.chain(others).chain(by_loom).collect(),
        false => others.chain(in_crashes).chain(by_loom).collect(),
    }
}
