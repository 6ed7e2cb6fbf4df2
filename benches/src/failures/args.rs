//! The arguments of `cargo compare failures`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand};

use super::child::{self, RunSize};
use super::contestants::{self, FailureContestant, Maker};
use super::plan::FailurePlan;
use super::record::Id;
use super::trial::Conditions;
use super::{Trials, contestants::named};
use crate::args::OutputArgs;

/// The contestants, and how to run them.
#[derive(Args, Clone, Debug)]
pub struct FailuresArgs {
    /// Contestants to run, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(), value_name = "NAME,…")]
    pub contestant: Vec<String>,

    /// Run only this plan: `none`, or `write-N`, `short-write-N` or `flush-N` with N counted from
    /// 0, optionally followed by `-lost` or `-cached`
    #[arg(long, value_parser = plan)]
    pub plan: Option<OnePlan>,

    /// Number of times to run the plan; thread timing differs from run to run
    #[arg(long, default_value = "1", requires = "plan", value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub times: u32,

    /// Number of threads that append concurrently
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u32).range(1..=i64::from(Id::THREADS)), value_name = "N")]
    pub threads: u32,

    /// Number of records that each thread appends
    #[arg(long, default_value = "6", value_parser = clap::value_parser!(u32).range(1..=i64::from(Id::RECORDS)), value_name = "N")]
    pub records: u32,

    /// Seconds of silence after which a run is checked for a hang. It counts as hanging if it stays
    /// silent for as long again and no thread runs or is runnable meanwhile
    #[arg(long, default_value = "2", value_parser = seconds, value_name = "S")]
    pub patience: f64,

    /// Number of concurrent runs; runs that hang use no CPU time
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u16).range(1..=256), value_name = "N")]
    pub jobs: u16,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

/// A plan from the command line, possibly without a failure.
#[derive(Clone, Copy, Debug)]
pub struct OnePlan(Option<FailurePlan>);

impl FailuresArgs {
    /// Returns the trials to run.
    pub fn task(&self) -> Trials {
        let is_chosen = |it: &FailureContestant| {
            if self.contestant.is_empty() {
                it.maker != Maker::WrongOnPurpose
            } else {
                self.contestant.iter().any(|name| name == it.name)
            }
        };
        Trials {
            contestants: contestants::all().into_iter().filter(is_chosen).collect(),
            only: self.plan.map(|plan| (plan.0, self.times)),
            conditions: Conditions {
                size: RunSize {
                    threads: self.threads,
                    records: self.records,
                },
                patience: Duration::from_secs_f64(self.patience),
                // A user who runs a single plan wants all output.
                loud: self.plan.is_some() && self.times == 1,
            },
            jobs: self.jobs.into(),
        }
    }
}

/// The arguments of a child process, for internal use only.
#[derive(Clone, Debug, Subcommand)]
pub enum Child {
    /// Runs a contestant.
    Run {
        /// The contestant's name.
        contestant: String,
        /// The folder of the run.
        folder: PathBuf,
        /// The number of threads that append.
        threads: u32,
        /// The number of records per thread.
        records: u32,
        /// The planned failure.
        plan: Option<FailurePlan>,
    },
    /// Reads what is left after the run.
    Read {
        /// The contestant's name.
        contestant: String,
        /// The folder of the run.
        folder: PathBuf,
    },
}

impl Child {
    /// Performs the child's work.
    ///
    /// # Errors
    /// Same as [`child::run`] and [`child::read`].
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
                    "too many threads or records"
                );
                let size = RunSize {
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
        _ => Err("expected a number of seconds from 0.1 to 3600".to_owned()),
    }
}
