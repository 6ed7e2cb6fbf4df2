//! `cargo verify mutants`: weakens each ordering, and omits each fence, wake and flush, one at a
//! time and at run time. A program must fail.
//!
//! The sites are found by running: every program under loom, with few preemptions. A mutant then
//! goes through the programs that reach its site, the cheap ones first, until one fails: first with
//! few preemptions too, then through those of up to 20,000 executions as they are. A wake whose
//! absence loom cannot show also goes through shuttle's searches.
//!
//! A mutant that survives shows that a program is missing, or that an ordering is stronger than
//! needed. Or it is equivalent, and the source says so above the site's statement:
//! `// equivalent(Relaxed): why` for an ordering, `equivalent(drop)` for a fence or a wake.

pub(super) mod sites;

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use comfy_table::{Color, Table};
use serde::{Deserialize, Serialize};

use super::args::MutantsArgs;
use super::build::Built;
use super::evidence::judged;
use super::kill::{self, Reached, Search};
use super::models::{Plan, Task, describe};
use super::output::{json_at, write_json};
use super::pool::{at_the_same_time, workers};
use super::workspace::{MODELS, Workspace};
use super::{circumstances, exit_code, table};
use crate::mode::{Checker, Mode};
use sites::Site;

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Fate {
    /// A program failed.
    Killed,
    /// None did.
    Survived,
    /// None did, and the source says why none can.
    Equivalent,
}

impl Fate {
    /// Returns its name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Fate::Killed => "KILLED",
            Fate::Survived => "SURVIVED",
            Fate::Equivalent => "EQUIVALENT",
        }
    }
}

/// A mutant and its fate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mutant {
    /// `file:line:column:operation`
    pub(super) site: String,
    /// `Acquire->Relaxed`, or `drop`; `unreached`, if no program reaches the site.
    pub(super) mutation: String,
    pub(super) verdict: Fate,
    /// The row that failed.
    pub(super) model: Option<String>,
    /// The execution in which it failed.
    pub(super) executions: Option<u64>,
    /// Why no program can fail, from the source.
    pub(super) reason: Option<String>,
    /// The command that shows the failure.
    pub(super) replay: Option<String>,
}

impl Mutant {
    /// Whether it is killed, or equivalent; a reason above a killed one is stale.
    fn is_well(&self) -> bool {
        match self.verdict {
            Fate::Killed => self.reason.is_none(),
            Fate::Survived => false,
            Fate::Equivalent => true,
        }
    }
}

pub(super) fn all_well(mutants: &[Mutant]) -> bool {
    mutants.iter().all(Mutant::is_well)
}

/// Runs the command: exit code 0 if no mutant survives without a reason.
pub(super) fn mutants(args: &MutantsArgs) -> Result<ExitCode> {
    let file = json_at(args.common.json.as_deref())?;
    let workers = workers(args.common.jobs);
    let mut built = Built::none_of(Workspace::find(&args.common.scope)?, MODELS)?;
    let run = circumstances::of_filter(&args.common.filter, &args.common.scope, &built.workspace);
    let plan = Plan::of(&describe(&mut built)?);
    let reached = Reached::by(&plan, &built, workers)?;
    if args.sites {
        println!("{}", site_table(&selected(&reached, &args.common.filter)?));
        return Ok(ExitCode::SUCCESS);
    }
    built.add(Checker::OF_CODE)?;
    let mutants = matrix(&built, &plan, &reached, &args.common.filter, workers)?;
    println!("{}\n{}", rows(&mutants), told(&mutants));
    write_json(file.as_ref(), "Rows", &judged(&mutants, &run))?;
    Ok(exit_code(all_well(&mutants)))
}

/// Returns every mutant whose name contains one of `filter`, or every one, and its fate.
///
/// # Errors
/// A filter that no mutant's name contains, or a process that does not end as it should.
pub(super) fn matrix(
    built: &Built,
    plan: &Plan,
    reached: &Reached,
    filter: &[String],
    workers: usize,
) -> Result<Vec<Mutant>> {
    let chosen = selected(reached, filter)?;
    let name = |(site, mutation): &(&Site, &str)| site.mutant(mutation);
    let mutants = at_the_same_time(&chosen, workers, "mutants", name, |&(site, mutation)| {
        judge(built, plan, site, mutation, &reached.sites[site])
    });
    let mut mutants = mutants.into_iter().collect::<Result<Vec<_>>>()?;
    if filter.is_empty() {
        let missed = sites::unreached(built, reached.sites.keys())?;
        mutants.extend(missed.into_iter().map(unreached));
    }
    Ok(mutants)
}

fn selected<'a>(reached: &'a Reached, filter: &[String]) -> Result<Vec<(&'a Site, &'static str)>> {
    let all = reached.sites.keys().flat_map(|site| {
        let weaker = site.mutations().iter();
        weaker.map(move |&mutation| (site, mutation))
    });
    let mut all: Vec<_> = all.collect();
    let is_meant =
        |text: &String, (site, mutation): (&Site, &str)| site.mutant(mutation).contains(text);
    for text in filter {
        if !all.iter().any(|&mutant| is_meant(text, mutant)) {
            bail!(
                "no mutant's name contains `{text}`\n  names look like \
                 src/ring.rs:89:19:rmw=Relaxed; `cargo verify mutants --sites` shows them all"
            );
        }
    }
    all.retain(|&mutant| filter.is_empty() || filter.iter().any(|text| is_meant(text, mutant)));
    Ok(all)
}

/// Runs the programs that reach `site`, until one fails.
fn judge(
    built: &Built,
    plan: &Plan,
    site: &Site,
    mutation: &'static str,
    models: &[&Task],
) -> Result<Mutant> {
    let reason = sites::reason(&built.workspace.root, site, mutation)?;
    let weaken = site.mutant(mutation);
    let mut mutant = Mutant {
        site: site.place.clone(),
        mutation: site.change(mutation),
        verdict: match reason {
            Some(_) => Fate::Equivalent,
            None => Fate::Survived,
        },
        model: None,
        executions: None,
        reason,
        replay: None,
    };
    let searches = searches(plan, models, site.is_wake(), mutant.reason.is_none());
    if let Some(kill) = kill::first_failure(built, &searches, ["--weaken", &weaken])? {
        let model = &kill.model;
        mutant.replay = Some(format!("cargo verify --replay {model} --weaken {weaken}"));
        mutant.verdict = Fate::Killed;
        mutant.executions = kill.execution;
        mutant.model = Some(kill.model);
    }
    Ok(mutant)
}

/// Returns the searches that a mutant goes through, in order.
///
/// One that the source says to be equivalent goes through the short searches alone, which show most
/// stale reasons: all of them would take minutes each time.
fn searches<'a>(
    plan: &'a Plan,
    models: &[&'a Task],
    is_wake: bool,
    thorough: bool,
) -> Vec<Search<'a>> {
    let mut searches = kill::short(plan, models);
    if thorough {
        searches.extend(kill::long(plan, models, &[Mode::Weak, Mode::RmwLoad]));
    }
    if thorough && is_wake {
        searches.extend(kill::long(plan, models, &[Mode::Dfs]));
    }
    searches
}

fn unreached(place: String) -> Mutant {
    Mutant {
        site: place,
        mutation: "unreached".to_owned(),
        verdict: Fate::Survived,
        model: None,
        executions: None,
        reason: None,
        replay: None,
    }
}

fn site_table(chosen: &[(&Site, &str)]) -> Table {
    let mut table = table::table(&["site", "mutation"]);
    for (site, mutation) in chosen {
        table.add_row([site.place.clone(), site.change(mutation)]);
    }
    table
}

const HEAD: [&str; 6] = [
    "site",
    "mutation",
    "verdict",
    "model",
    "execution",
    "reason",
];

fn cells(mutant: &Mutant) -> [String; 6] {
    [
        mutant.site.clone(),
        mutant.mutation.clone(),
        mutant.verdict.name().to_owned(),
        mutant.model.clone().unwrap_or_default(),
        mutant.executions.map_or(String::new(), |n| n.to_string()),
        mutant.reason.clone().unwrap_or_default(),
    ]
}

pub(super) fn rows(mutants: &[Mutant]) -> Table {
    let mut table = table::table(&HEAD);
    for mutant in mutants {
        let color = if mutant.is_well() {
            Color::Green
        } else {
            Color::Red
        };
        table.add_row(table::colored(cells(mutant), color));
    }
    table
}

/// Returns how many there are of each fate, and what is wrong.
pub(super) fn told(mutants: &[Mutant]) -> String {
    let count = |fate: Fate| mutants.iter().filter(|it| it.verdict == fate).count();
    let mut text = format!(
        "{} mutants: {} KILLED, {} SURVIVED, {} EQUIVALENT.",
        mutants.len(),
        count(Fate::Killed),
        count(Fate::Survived),
        count(Fate::Equivalent)
    );
    for mutant in mutants.iter().filter(|mutant| !mutant.is_well()) {
        let (site, mutation) = (&mutant.site, &mutant.mutation);
        let _ = match &mutant.model {
            Some(model) => write!(
                text,
                "\nSTALE REASON: {site} {mutation}: the source says that it is equivalent, and \
                 {model} fails"
            ),
            None => write!(text, "\nSURVIVED: {site} {mutation}"),
        };
    }
    text
}
