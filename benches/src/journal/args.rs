//! The arguments of `compare journal`.

use std::path::PathBuf;

use clap::Args;

use super::Plan;
use super::contestants::{self, CONTESTANTS};
use super::devices::DEVICES;
use super::rows::{BLOCKS, COMMIT};
use super::thesis::{FIO, IOR};
use crate::args::{OutputArgs, help, names, seconds, selected, threads};

/// All workloads, each with a description.
pub const WORKLOADS: [(&str, &str); 4] = [
    (
        COMMIT,
        "each thread commits 256 bytes (one block in a block journal), waits until they are durable, and thinks",
    ),
    (
        BLOCKS,
        "each thread commits 1, 16 or 64 blocks, and waits until they are durable",
    ),
    (
        FIO,
        "Figures 4.1 and 4.2 and Table 3.1 of the thesis: each client has a file on one of two servers",
    ),
    (
        IOR,
        "Figure 4.3: each client has a file striped over both servers",
    ),
];

/// The arguments of `compare journal`.
#[derive(Args, Clone, Debug)]
pub struct JournalArgs {
    /// Workloads to run, separated by commas [default: all]; blocks, fio and ior ignore think times
    /// and run only on block journals; fio and ior need at least two threads
    #[arg(long, value_delimiter = ',', value_parser = names(WORKLOADS.to_vec()), value_name = "WORKLOAD,…")]
    pub workload: Vec<String>,

    /// Contestants, separated by commas [default: all]; a target or ratio needs both contestants
    /// that it compares
    #[arg(long, value_delimiter = ',', value_parser = names(all_contestants()), value_name = "NAME,…")]
    pub contestant: Vec<String>,

    /// Devices, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(DEVICES.to_vec()), value_name = "DEVICE,…")]
    pub device: Vec<String>,

    /// Thread counts, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = threads, default_value = "1,2,4,8,16", value_name = "N,…")]
    pub threads: Vec<usize>,

    /// Think times in units of flushes, separated by commas: the pause of a thread between two
    /// commits, varied by up to a tenth
    #[arg(long, value_delimiter = ',', value_parser = think, default_value = "0,0.5,1,2,4", value_name = "F,…")]
    pub think: Vec<f64>,

    /// Seconds to measure each row, in up to seven rounds of at least twenty flushes
    #[arg(long, default_value = "0.7", value_parser = seconds, value_name = "S")]
    pub seconds: f64,

    /// Folder for the files of the disk's devices, which are removed at the end [default: the
    /// folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

impl JournalArgs {
    /// Returns a list of everything that can be selected, with descriptions.
    pub(crate) fn lists() -> String {
        help(&[
            ("Workloads", WORKLOADS.to_vec()),
            ("Contestants", all_contestants()),
            ("Devices", DEVICES.to_vec()),
        ])
    }

    /// Returns which arguments contradict each other, and how to fix that.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if self.plan().steps() > 0 {
            return None;
        }
        let told = "nothing to run: blocks, fio, ior and the device disk-direct need block journals, fio and ior also two or more threads, and serial-queued the device disk-direct and io_uring; change --workload, --contestant, --device or --threads";
        Some(told.to_owned())
    }

    /// Returns the plan, with defaults filled in.
    pub fn plan(&self) -> Plan {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        let mut think = self.think.clone();
        think.sort_by(f64::total_cmp);
        think.dedup();
        let chosen = selected(all_contestants(), &self.contestant);
        Plan {
            workloads: selected(WORKLOADS.to_vec(), &self.workload),
            devices: selected(DEVICES.to_vec(), &self.device),
            contestants: chosen.into_iter().filter_map(contestants::find).collect(),
            threads,
            think,
            seconds: self.seconds,
            dir: self.dir.clone(),
        }
    }
}

fn all_contestants() -> Vec<(&'static str, &'static str)> {
    CONTESTANTS.iter().map(|it| (it.name, it.about)).collect()
}

fn think(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(think) if (0.0..=100.0).contains(&think) => Ok(think),
        _ => Err("expected think times from 0 to 100 flushes, as in `--think 0,0.5,2`".to_owned()),
    }
}
