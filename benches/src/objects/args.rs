//! The arguments of `compare objects`.

use std::path::PathBuf;

use clap::Args;

use super::Plan;
use super::devices::DEVICES;
use super::work::GROUPS;
use crate::args::{OutputArgs, help, names, seconds, selected, threads};

/// The arguments of `compare objects`.
#[derive(Args, Clone, Debug)]
pub struct ObjectsArgs {
    /// Groups of cases to run, separated by commas [default: all]; a target or ratio needs all rows
    /// that it compares
    #[arg(long, value_delimiter = ',', value_parser = names(GROUPS.to_vec()), value_name = "GROUP,…")]
    pub case: Vec<String>,

    /// Devices, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(DEVICES.to_vec()), value_name = "DEVICE,…")]
    pub device: Vec<String>,

    /// Thread counts, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = threads, default_value = "1,2,4,8,16", value_name = "N,…")]
    pub threads: Vec<usize>,

    /// Seconds to measure each row, in five rounds; a row of checkpoints takes longer
    #[arg(long, default_value = "0.3", value_parser = seconds, value_name = "S")]
    pub seconds: f64,

    /// Folder for the files of the disk's devices, which are removed at the end [default: the
    /// folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

impl ObjectsArgs {
    /// Returns a list of everything that can be selected, with descriptions.
    pub(crate) fn lists() -> String {
        help(&[
            ("Groups of cases", GROUPS.to_vec()),
            ("Devices", DEVICES.to_vec()),
        ])
    }

    /// Returns the plan, with defaults filled in.
    pub fn plan(&self) -> Plan {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        Plan {
            groups: selected(GROUPS.to_vec(), &self.case),
            devices: selected(DEVICES.to_vec(), &self.device),
            threads,
            seconds: self.seconds,
            dir: self.dir.clone(),
        }
    }
}
