//! `cargo verify mutants`: each ordering weakened, each fence, each wake and each flush left out, one at a time and at run time. A model must fail.
//!
//! The sites are found by running: every program under loom, with few preemptions. A mutant then goes through the models that reach its
//! site, the cheap ones first, until one fails: first with few preemptions too, then through those of up to 20,000 executions as they are, and a
//! wake that loom cannot tell through shuttle's.
//!
//! A mutant that survives is a model that is missing or an ordering that is stronger than it need be; or it is equivalent, which the
//! source says right above the site's statement: `// equivalent(Relaxed): why` for an ordering, `equivalent(drop)` for a fence or a wake.

mod sites;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use comfy_table::{Cell, Color, Table};
use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::evidence::judged;
use super::kill::{self, FEW, Search};
use super::{
    Built, End, MutantsArgs, build, circumstances, explore, run, table, writable, write_json,
};
use crate::plan::{Checker, Job, Mode, jobs};
use sites::Site;

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Fate {
    /// A model failed.
    Killed,
    /// None did.
    Survived,
    /// None did, and the source says why none can.
    Equivalent,
}

impl Fate {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Fate::Killed => "KILLED",
            Fate::Survived => "SURVIVED",
            Fate::Equivalent => "EQUIVALENT",
        }
    }
}

/// A row of the matrix.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mutant {
    /// `file:line:column:operation`
    pub(super) site: String,
    /// `Acquire->Relaxed`, or `drop`; `unreached`, if no model comes there at all.
    pub(super) mutation: String,
    pub(super) verdict: Fate,
    /// The row that failed.
    pub(super) model: Option<String>,
    /// In which execution it did.
    pub(super) executions: Option<u64>,
    /// Why none can, from the source.
    pub(super) reason: Option<String>,
    /// The command that shows the failure.
    pub(super) replay: Option<String>,
}

impl Mutant {
    /// Killed, or equivalent; and no reason stands in the source for what is killed.
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
    let file = args.json.as_deref().map(writable).transpose()?;
    let workers = run::workers(args.jobs);
    if args.sites {
        let built = build(&[Checker::Loom])?;
        let sites = reached(&built, &Counts::read()?, workers)?;
        println!("{}", site_table(&selected(&sites, &args.filter)?));
        return Ok(ExitCode::SUCCESS);
    }
    let run = circumstances::of_filter(&args.filter);
    let mutants = matrix(&build(&Checker::ALL)?, &args.filter, workers)?;
    println!("{}\n{}", rows(&mutants), told(&mutants));
    if let Some(file) = file {
        write_json(&file, "Rows", &judged(&mutants, &run))?;
    }
    Ok(if all_well(&mutants) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Every mutant whose name contains one of `filter`, or every one, and its fate.
pub(super) fn matrix(built: &Built, filter: &[String], workers: usize) -> Result<Vec<Mutant>> {
    let counts = Counts::read()?;
    let sites = reached(built, &counts, workers)?;
    let chosen = selected(&sites, filter)?;
    let name = |(site, mutation): &(&Site, &str)| site.mutant(mutation);
    let mutants = run::at_the_same_time(&chosen, workers, "mutants", name, |&(site, mutation)| {
        judge(built, &counts, site, mutation, &sites[site])
    });
    let mut mutants = mutants.into_iter().collect::<Result<Vec<_>>>()?;
    if filter.is_empty() {
        mutants.extend(sites::unreached(sites.keys())?.into_iter().map(unreached));
    }
    Ok(mutants)
}

/// The sites of the locks, and the models that reach each, the cheap ones first.
type Sites = BTreeMap<Site, Vec<Job>>;

fn reached(built: &Built, counts: &Counts, workers: usize) -> Result<Sites> {
    let mut rows = jobs();
    rows.retain(|job| job.mode == Mode::Weak && !job.long && job.program.primitive != "litmus");
    // What two faults show, one and three threads show sooner.
    rows.retain(|job| job.faults < 2);
    kill::by_cost(&mut rows, counts);
    let found = run::at_the_same_time(&rows, workers, "models asked for sites", Job::name, |job| {
        explore(built, job, &["--sites", "--preemptions", FEW], None)
    });
    let mut sites = Sites::new();
    for (job, ended) in rows.into_iter().zip(found) {
        let ended = ended?;
        let End::Found(found) = ended.end else {
            bail!("{}: {}", job.name(), ended.stderr.trim());
        };
        for site in found.sites.iter().filter_map(|site| site.parse().ok()) {
            sites.entry(site).or_default().push(job.clone());
        }
    }
    Ok(sites)
}

fn selected<'a>(sites: &'a Sites, filter: &[String]) -> Result<Vec<(&'a Site, &'static str)>> {
    let all = sites.keys().flat_map(|site| {
        let weaker = site.mutations().iter();
        weaker.map(move |&mutation| (site, mutation))
    });
    let all: Vec<_> = all.collect();
    let is_meant = |text: &String, (site, mutation): (&Site, &str)| {
        site.mutant(mutation).contains(text.as_str())
    };
    for text in filter {
        if !all.iter().any(|&mutant| is_meant(text, mutant)) {
            bail!(
                "no mutant's name contains `{text}`\n  names look like srl/src/gate.rs:89:19:rmw=Relaxed; \
                 `cargo verify mutants --sites` shows them all"
            );
        }
    }
    let mut chosen = all;
    chosen.retain(|&mutant| filter.is_empty() || filter.iter().any(|text| is_meant(text, mutant)));
    Ok(chosen)
}

/// Runs the models that reach `site`, until one fails.
fn judge(
    built: &Built,
    counts: &Counts,
    site: &Site,
    mutation: &'static str,
    models: &[Job],
) -> Result<Mutant> {
    let reason = sites::reason(site, mutation)?;
    let weaken = site.mutant(mutation);
    let mut mutant = Mutant {
        site: site.place.clone(),
        mutation: site.change(mutation),
        verdict: if reason.is_some() {
            Fate::Equivalent
        } else {
            Fate::Survived
        },
        model: None,
        executions: None,
        reason,
        replay: None,
    };
    let searches = searches(counts, models, site.is_wake(), mutant.reason.is_none());
    if let Some(kill) = kill::first_failure(built, &searches, ["--weaken", &weaken])? {
        let model = &kill.model;
        mutant.replay = Some(format!("cargo verify --replay {model} --weaken {weaken}"));
        mutant.verdict = Fate::Killed;
        mutant.executions = kill.execution;
        mutant.model = Some(kill.model);
    }
    Ok(mutant)
}

/// What a mutant goes through, in order.
///
/// One that the source says to be equivalent goes through the short searches alone, which would tell most stale reasons: all would take minutes each time.
fn searches(counts: &Counts, models: &[Job], is_wake: bool, thorough: bool) -> Vec<Search> {
    let mut searches = kill::short(models);
    if thorough {
        searches.extend(kill::long(models, &[Mode::Weak, Mode::RmwLoad], counts));
    }
    if thorough && is_wake {
        searches.extend(kill::long(models, &[Mode::Dfs], counts));
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

/// The matrix, for a terminal.
fn rows(mutants: &[Mutant]) -> Table {
    let head = [
        "site",
        "mutation",
        "verdict",
        "model",
        "execution",
        "reason",
    ];
    let mut table = table::table(&head);
    for mutant in mutants {
        let color = if mutant.is_well() {
            Color::Green
        } else {
            Color::Red
        };
        table.add_row([
            Cell::new(&mutant.site),
            Cell::new(&mutant.mutation),
            Cell::new(mutant.verdict.name()).fg(color),
            Cell::new(mutant.model.as_deref().unwrap_or_default()),
            table::number(mutant.executions.map_or(String::new(), |n| n.to_string())),
            Cell::new(mutant.reason.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

/// How many there are of each fate, and what is wrong.
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
                "\nSTALE REASON: {site} {mutation}: the source says that it is equivalent, and {model} fails"
            ),
            None => write!(text, "\nSURVIVED: {site} {mutation}"),
        };
    }
    text
}
