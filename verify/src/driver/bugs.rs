//! `cargo verify defects`: each seeded defect in each lock that can make it, one at a time and at run time. The right model must fail.
//!
//! A defect goes through the models that are there to find it, the cheap ones first, until one fails. If none does it goes through the lock's other models
//! too: that one of them finds it is no success, but says where to look.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use comfy_table::{Cell, Color, Table};
use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::evidence::judged;
use super::kill::{self, Kill, Search};
use super::{Built, DefectsArgs, build, circumstances, run, table, writable, write_json};
use crate::defects::{Seeded, seeded};
use crate::plan::{Checker, Job, Mode, jobs};

/// What became of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fate {
    /// A model failed that is there to find it.
    #[serde(rename = "KILLED")]
    Killed,
    /// Only another one did.
    #[serde(rename = "WRONG MODEL")]
    WrongModel,
    /// None did.
    #[serde(rename = "SURVIVED")]
    Survived,
}

impl Fate {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Fate::Killed => "KILLED",
            Fate::WrongModel => "WRONG MODEL",
            Fate::Survived => "SURVIVED",
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Case {
    /// Its name, for `--defect`.
    pub(super) defect: String,
    /// What is done wrong.
    pub(super) what: String,
    /// The primitive that does it.
    pub(super) lock: String,
    /// The properties of which one must find it.
    pub(super) expected: Vec<String>,
    pub(super) verdict: Fate,
    /// The row that failed.
    pub(super) model: Option<String>,
    /// In which execution it did.
    pub(super) executions: Option<u64>,
    /// What it said.
    pub(super) failure: Option<String>,
    /// The command that shows the failure.
    pub(super) replay: Option<String>,
}

pub(super) fn all_well(cases: &[Case]) -> bool {
    cases.iter().all(|case| case.verdict == Fate::Killed)
}

/// Runs the command: exit code 0 if the right model finds each defect.
pub(super) fn defects(args: &DefectsArgs) -> Result<ExitCode> {
    let chosen = selected(&args.filter)?;
    if args.list {
        println!("{}", list(&chosen));
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.json.as_deref().map(writable).transpose()?;
    let run = circumstances::of_filter(&args.filter);
    let cases = judge_all(&build(&Checker::ALL)?, &chosen, run::workers(args.jobs))?;
    println!("{}\n{}", rows(&cases), told(&cases));
    if let Some(file) = file {
        write_json(&file, "Rows", &judged(&cases, &run))?;
    }
    Ok(if all_well(&cases) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Every seeded defect and its fate.
pub(super) fn all(built: &Built, workers: usize) -> Result<Vec<Case>> {
    judge_all(built, &selected(&[])?, workers)
}

fn selected(filter: &[String]) -> Result<Vec<Seeded>> {
    let mut chosen = seeded();
    for text in filter {
        if !chosen.iter().any(|it| it.name().contains(text)) {
            bail!(
                "no seeded defect's name contains `{text}`\n  names look like no-recheck/srl-array; \
                 `cargo verify defects --list` shows them all"
            );
        }
    }
    let is_meant = |it: &Seeded| filter.iter().any(|text| it.name().contains(text));
    chosen.retain(|it| filter.is_empty() || is_meant(it));
    Ok(chosen)
}

fn judge_all(built: &Built, chosen: &[Seeded], workers: usize) -> Result<Vec<Case>> {
    let counts = Counts::read()?;
    let cases = run::at_the_same_time(chosen, workers, "defects", Seeded::name, |seeded| {
        judge(built, &counts, seeded)
    });
    cases.into_iter().collect()
}

/// Runs the models of a lock with a defect, those first that are there to find it, until one fails.
fn judge(built: &Built, counts: &Counts, seeded: &Seeded) -> Result<Case> {
    let mut models = jobs();
    models.retain(|job| {
        job.mode == Mode::Weak && !job.long && job.program.primitive == seeded.primitive
    });
    kill::by_cost(&mut models, counts);
    let (right, others): (Vec<_>, Vec<_>) = models
        .into_iter()
        .partition(|job| seeded.properties.contains(&job.program.property));
    let name = seeded.defect.name();
    let look =
        |models: &[Job]| kill::first_failure(built, &searches(counts, models), ["--defect", name]);
    let (verdict, kill) = match look(&right)? {
        Some(kill) => (Fate::Killed, Some(kill)),
        None => match look(&others)? {
            Some(kill) => (Fate::WrongModel, Some(kill)),
            None => (Fate::Survived, None),
        },
    };
    Ok(case(seeded, verdict, kill))
}

fn searches(counts: &Counts, models: &[Job]) -> Vec<Search> {
    let mut searches = kill::short(models);
    let modes = [Mode::Weak, Mode::RmwLoad, Mode::Dfs];
    searches.extend(kill::long(models, &modes, counts));
    searches
}

fn case(seeded: &Seeded, verdict: Fate, kill: Option<Kill>) -> Case {
    let name = seeded.defect.name();
    let again = |kill: &Kill| format!("cargo verify --replay {} --defect {name}", kill.model);
    Case {
        defect: name.to_owned(),
        what: seeded.defect.what().to_owned(),
        lock: seeded.primitive.to_owned(),
        expected: seeded.properties.iter().map(ToString::to_string).collect(),
        verdict,
        replay: kill.as_ref().map(again),
        executions: kill.as_ref().and_then(|kill| kill.execution),
        failure: kill.as_ref().map(|kill| kill.said.clone()),
        model: kill.map(|kill| kill.model),
    }
}

fn list(chosen: &[Seeded]) -> Table {
    let mut table = table::table(&["defect", "lock", "what is done wrong", "found by one of"]);
    for seeded in chosen {
        table.add_row([
            Cell::new(seeded.defect.name()),
            Cell::new(seeded.primitive),
            Cell::new(seeded.defect.what()),
            Cell::new(seeded.properties.join(", ")),
        ]);
    }
    table
}

/// What a table tells of each.
pub(super) const HEAD: [&str; 6] = ["defect", "lock", "verdict", "model", "execution", "failure"];

/// A row's cells.
pub(super) fn cells(case: &Case) -> [String; 6] {
    [
        case.defect.clone(),
        case.lock.clone(),
        case.verdict.name().to_owned(),
        case.model.clone().unwrap_or_default(),
        case.executions.map_or(String::new(), |n| n.to_string()),
        case.failure.clone().unwrap_or_default(),
    ]
}

/// All of them, for a terminal.
fn rows(cases: &[Case]) -> Table {
    let mut table = table::table(&HEAD);
    for case in cases {
        let color = match case.verdict {
            Fate::Killed => Color::Green,
            Fate::WrongModel | Fate::Survived => Color::Red,
        };
        let [defect, lock, verdict, model, execution, failure] = cells(case);
        table.add_row([
            Cell::new(defect),
            Cell::new(lock),
            Cell::new(verdict).fg(color),
            Cell::new(model),
            table::number(execution),
            Cell::new(failure),
        ]);
    }
    table
}

/// How many there are of each fate, and what is wrong.
pub(super) fn told(cases: &[Case]) -> String {
    let count = |fate: Fate| cases.iter().filter(|case| case.verdict == fate).count();
    let mut text = format!(
        "{} seeded defects: {} KILLED by the right model, {} by a WRONG MODEL, {} SURVIVED.",
        cases.len(),
        count(Fate::Killed),
        count(Fate::WrongModel),
        count(Fate::Survived)
    );
    for case in cases.iter().filter(|case| case.verdict != Fate::Killed) {
        let (verdict, defect, lock) = (case.verdict.name(), &case.defect, &case.lock);
        let expected = case.expected.join(", ");
        let _ = write!(
            text,
            "\n{verdict}: {defect} in {lock}: none of {expected} fails"
        );
        if let Some(model) = &case.model {
            let _ = write!(text, ", but {model} does");
        }
    }
    text
}
