//! The arguments of `cargo compare failures`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand};

use super::child::{self, Size};
use super::contestants::{self, Contestant, Maker};
use super::plan::Plan;
use super::record::Id;
use super::trial::Conditions;
use super::{Task, contestants::named};

/// Whom to run, and how.
#[derive(Args, Clone, Debug)]
pub struct FailuresArgs {
    /// Whom to run, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(), value_name = "NAME,…")]
    pub contestant: Vec<String>,

    /// Only this plan: `none`, or `write-N`, `short-write-N`, `flush-N` with N counted from 0, and perhaps `-lost` or `-cached` behind it
    #[arg(long, value_parser = plan)]
    pub plan: Option<OnePlan>,

    /// How often to run the plan: who meets whom differs from run to run
    #[arg(long, default_value = "1", requires = "plan", value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub times: u32,

    /// Threads that append at once
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u32).range(1..=i64::from(Id::THREADS)), value_name = "N")]
    pub threads: u32,

    /// Records that each thread appends
    #[arg(long, default_value = "6", value_parser = clap::value_parser!(u32).range(1..=i64::from(Id::RECORDS)), value_name = "N")]
    pub records: u32,

    /// Seconds without progress, and as many in which none of its threads runs or wants to: then a run hangs
    #[arg(long, default_value = "2", value_parser = seconds, value_name = "S")]
    pub patience: f64,

    /// Runs at once; those that hang need no processor
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u16).range(1..=256), value_name = "N")]
    pub jobs: u16,

    /// Also write the rows to this file, as JSON, with each run that was not clean
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the report to this file, as one self-contained page of HTML
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    pub report: PathBuf,
}

/// A plan of the command line: perhaps no failure at all.
#[derive(Clone, Copy, Debug)]
pub struct OnePlan(Option<Plan>);

impl FailuresArgs {
    /// What is to be run.
    pub fn task(&self) -> Task {
        let is_chosen = |it: &Contestant| {
            if self.contestant.is_empty() {
                it.maker != Maker::WrongOnPurpose
            } else {
                self.contestant.iter().any(|name| name == it.name)
            }
        };
        Task {
            contestants: contestants::all().into_iter().filter(is_chosen).collect(),
            only: self.plan.map(|plan| (plan.0, self.times)),
            conditions: Conditions {
                size: Size {
                    threads: self.threads,
                    records: self.records,
                },
                patience: Duration::from_secs_f64(self.patience),
                // Who looks at one plan wants to know all.
                loud: self.plan.is_some() && self.times == 1,
            },
            jobs: self.jobs.into(),
        }
    }
}

/// A child's arguments: for this program alone.
#[derive(Clone, Debug, Subcommand)]
pub enum Child {
    /// Runs a contestant.
    Run {
        /// Its name.
        contestant: String,
        /// Where.
        folder: PathBuf,
        /// That append.
        threads: u32,
        /// Of each thread.
        records: u32,
        /// What fails.
        plan: Option<Plan>,
    },
    /// Reads what is left.
    Read {
        /// Its name.
        contestant: String,
        /// Where.
        folder: PathBuf,
    },
}

impl Child {
    /// Does it.
    ///
    /// # Errors
    /// As [`child::run`] and [`child::read`].
    pub fn run(&self) -> Result<()> {
        let of_name = |name: &str| named(name).with_context(|| format!("no contestant: {name}"));
        match self {
            Child::Run {
                contestant,
                folder,
                threads,
                records,
                plan,
            } => {
                ensure!(
                    *threads <= Id::THREADS && *records <= Id::RECORDS,
                    "too many records"
                );
                let size = Size {
                    threads: *threads,
                    records: *records,
                };
                child::run(of_name(contestant)?, *plan, folder, size)
            }
            Child::Read { contestant, folder } => child::read(&of_name(contestant)?, folder),
        }
    }
}

fn names() -> PossibleValuesParser {
    let all = contestants::all().into_iter();
    PossibleValuesParser::new(all.map(|it| {
        let hidden = it.maker == Maker::WrongOnPurpose;
        PossibleValue::new(it.name).hide(hidden).help(it.about)
    }))
}

fn plan(text: &str) -> Result<OnePlan, String> {
    if text == "none" {
        return Ok(OnePlan(None));
    }
    text.parse().map(|plan| OnePlan(Some(plan)))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.1 to 3600".to_owned()),
    }
}
