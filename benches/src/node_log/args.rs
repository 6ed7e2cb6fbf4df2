//! The arguments of `compare node-log`.

use std::path::PathBuf;

use clap::Args;

use super::Plan;
use super::systems::SYSTEMS;
use super::work::CASES;
use crate::args::{OutputArgs, help, names, seconds, selected, threads};

/// The arguments of `compare node-log`.
#[derive(Args, Clone, Debug)]
pub struct NodeLogArgs {
    /// Cases to run, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(cases()), value_name = "CASE,…")]
    pub case: Vec<String>,

    /// Systems to compare, separated by commas [default: all]; a target or ratio needs `baseline`;
    /// lookups are not affected
    #[arg(long, value_delimiter = ',', value_parser = names(systems()), value_name = "SYSTEM,…")]
    pub systems: Vec<String>,

    /// Thread counts, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = threads, default_value = "1,2,8,16", value_name = "N,…")]
    pub threads: Vec<usize>,

    /// Seconds to measure each row, in five rounds
    #[arg(long, default_value = "1.2", value_parser = seconds, value_name = "S")]
    pub seconds: f64,

    /// Folder for the files on the disk, which are removed at the end [default: the folder for
    /// temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

impl NodeLogArgs {
    /// Returns a list of the cases and systems, with descriptions.
    pub(crate) fn lists() -> String {
        help(&[("Cases", cases()), ("Systems", systems())])
    }

    /// Returns the plan, with defaults filled in.
    pub fn plan(&self) -> Plan {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        let (of_cases, of_systems) = (
            selected(cases(), &self.case),
            selected(systems(), &self.systems),
        );
        let cases = CASES.iter().filter(|it| of_cases.contains(&it.name));
        let systems = SYSTEMS.iter().filter(|it| of_systems.contains(&it.name));
        Plan {
            cases: cases.collect(),
            systems: systems.collect(),
            threads,
            seconds: self.seconds,
            dir: self.dir.clone(),
        }
    }
}

fn cases() -> Vec<(&'static str, &'static str)> {
    CASES.iter().map(|it| (it.name, it.about)).collect()
}

fn systems() -> Vec<(&'static str, &'static str)> {
    SYSTEMS.iter().map(|it| (it.name, it.about)).collect()
}
