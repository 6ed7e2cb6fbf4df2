//! The arguments.

use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Builds the models of the locks under loom and under shuttle and runs them, one process a row.
///
/// Succeeds only if every row is EXHAUSTED (every execution explored) or BOUNDED (every execution within the bound
/// that the row states). A search that was cut off is TRUNCATED, and no success.
#[derive(clap::Parser, Debug)]
#[command(name = "cargo verify", bin_name = "cargo verify", version)]
pub struct Args {
    /// Leave out the rows that take more than a few seconds
    #[arg(long)]
    pub quick: bool,
    /// Only rows whose name contains TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Show the rows and what they claim, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub json: Option<PathBuf>,
    /// Run one row by its full name, and show every step of the execution that fails
    #[arg(long, value_name = "ROW", conflicts_with_all = ["quick", "filter", "list", "json", "limit"])]
    pub replay: Option<String>,
    /// Rows that run at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Stop a row after SECONDS; it is TRUNCATED then
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    pub limit: u64,
}
