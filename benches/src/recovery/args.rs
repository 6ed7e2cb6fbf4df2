//! The arguments of `compare recovery`.

use std::path::PathBuf;

use clap::Args;

use super::Plan;
use super::fixture::Content;
use crate::args::{OutputArgs, threads};

/// Bytes of the file of `--large`.
const LARGE_FILE: u64 = 8 << 30;
/// Names in the directory of `--large`.
const LARGE_DIRECTORY: u32 = 100_000;

/// The arguments of `compare recovery`.
#[derive(Args, Clone, Debug)]
pub struct RecoveryArgs {
    /// Number of files in the volume, each with one small write; a file takes about 8.5 KB of the
    /// volume
    #[arg(long, default_value = "100000", value_parser = clap::value_parser!(u32).range(1..=100_000_000), value_name = "N")]
    pub files: u32,

    /// Thread counts of the recovery, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = threads, default_value = "1,2", value_name = "N,…")]
    pub threads: Vec<usize>,

    /// Also recover one file of 8 GiB, written in pieces of 4 KiB, and one directory of 100,000
    /// names
    #[arg(long)]
    pub large: bool,

    /// Folder for the temporary volumes [default: /dev/shm if that is a tmpfs with enough room,
    /// otherwise the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

impl RecoveryArgs {
    /// Returns the plan.
    pub fn plan(&self) -> Plan {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        let mut contents = vec![Content::Files(self.files)];
        if self.large {
            contents.push(Content::OneFile(LARGE_FILE));
            contents.push(Content::Names(LARGE_DIRECTORY));
        }
        Plan {
            contents,
            threads,
            dir: self.dir.clone(),
        }
    }
}
