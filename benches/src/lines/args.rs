//! The arguments of `compare lines`.

use std::path::PathBuf;

use clap::Args;

use super::Plan;
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

    /// Numbers of simulated cores, separated by commas, at most 128 [default: 2,8,56]
    #[arg(long, value_delimiter = ',', value_parser = cores, value_name = "N,…")]
    pub cores: Vec<usize>,

    /// Record the counts in lines/lines.tsv, instead of failing if they differ from it
    #[arg(long, conflicts_with = "cores")]
    pub accept: bool,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

impl LinesArgs {
    /// Returns the plan for the sources in this folder.
    pub fn plan(&self, project: PathBuf) -> Plan {
        let mut cores = self.cores.clone();
        cores.sort_unstable();
        cores.dedup();
        Plan {
            project,
            filter: self.filter.clone(),
            cores,
            accept: self.accept,
        }
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
