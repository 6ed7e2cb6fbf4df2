//! The arguments of `compare lines`.

use std::path::PathBuf;

use clap::Args;

use super::{Plan, model};
use crate::args::OutputArgs;

/// The most cores that the simulated machine has parameters for.
const MAX_CORES: usize = 128;

/// The arguments of `compare lines`.
#[derive(Args, Clone, Debug)]
pub struct LinesArgs {
    /// Run only cells whose name contains one of these texts, separated by commas; a name is
    /// CASE/LOCK/CORES
    #[arg(long, value_delimiter = ',', value_name = "TEXT,…")]
    pub filter: Vec<String>,

    /// Numbers of simulated cores, separated by commas, at most 128 [default: 2,8,56, and
    /// 1,2,4,8,16,28,56 of the model]
    #[arg(long, value_delimiter = ',', value_parser = cores, value_name = "N,…")]
    pub cores: Vec<usize>,

    /// Record the counts in lines/lines.tsv, instead of failing if they differ from it
    #[arg(long, conflicts_with = "cores")]
    pub accept: bool,

    /// Show the throughput of the file core instead, as a model: medians and bands over times of
    /// copies and transfers, beside the figures of a paper
    #[arg(long, conflicts_with = "accept")]
    pub model: bool,

    /// How many seeds the model runs with at each combination of times
    #[arg(long, requires = "model", default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

impl LinesArgs {
    /// Returns the plan for the sources in this folder.
    pub fn plan(&self, project: PathBuf) -> Plan {
        Plan {
            project,
            filter: self.filter.clone(),
            cores: self.cores(),
            accept: self.accept,
        }
    }

    /// Returns the plan of the model.
    pub fn model_plan(&self, project: PathBuf) -> model::Plan {
        model::Plan {
            project,
            filter: self.filter.clone(),
            cores: self.cores(),
            seeds: self.seeds,
        }
    }

    fn cores(&self) -> Vec<usize> {
        let mut cores = self.cores.clone();
        cores.sort_unstable();
        cores.dedup();
        cores
    }
}

fn cores(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(cores) if (1..=MAX_CORES).contains(&cores) => Ok(cores),
        Ok(_) => Err(format!(
            "the simulated machine has parameters for 1 to {MAX_CORES} cores"
        )),
        Err(_) => Err("expected numbers of cores, as in `--cores 2,8`".to_owned()),
    }
}
