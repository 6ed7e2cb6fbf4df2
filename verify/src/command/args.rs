//! The arguments.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::defects::Defect;

use super::partition::Partition;

/// Builds the models of the locks under loom and under shuttle and runs them, one process a row.
///
/// Succeeds only if every row is EXHAUSTED (every execution explored) or BOUNDED (every execution within the bound
/// that the row states), and every search had as many executions as are committed for it. A search that was cut off is TRUNCATED, and no success;
/// a row whose checker is not installed is SKIPPED, which is none where `CI` is set.
#[derive(clap::Parser, Debug)]
#[command(name = "cargo verify", bin_name = "cargo verify", version)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// What to do instead of running rows
    #[command(subcommand)]
    pub command: Option<Subcommand>,
    /// Only the searches of at most 300 executions, without those of two threads that a bound cuts short
    #[arg(long)]
    pub quick: bool,
    /// Also the long rows, three threads without bound and a million schedules of each primitive, the mutants and the defects; writes a report
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Only rows whose name contains TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Only the K-th of N parts of the rows; `cargo verify merge` joins what their --json wrote
    #[arg(long, value_name = "K/N")]
    pub partition: Option<Partition>,
    /// Show the rows and what they claim, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub json: Option<PathBuf>,
    /// Write verify.json, verify.md and verify.html to FOLDER, with --full of all rows also mutants.json and defects.json [default: `.` with --full of all rows]
    #[arg(long, value_name = "FOLDER", conflicts_with = "list")]
    pub report: Option<PathBuf>,
    /// Take the executions found for right: writes them to verify/executions.tsv
    #[arg(long, conflicts_with = "list")]
    pub accept: bool,
    /// Run one row by its full name, and show every step of the execution that fails
    #[arg(long, value_name = "ROW", conflicts_with_all = ["quick", "full", "filter", "partition", "list", "json", "report", "accept", "limit", "jobs"])]
    pub replay: Option<String>,
    /// Change one site while replaying: file:line:column:operation=Ordering, or =drop
    #[arg(long, value_name = "SITE=CHANGE", requires = "replay")]
    pub weaken: Option<String>,
    /// Have a lock make a mistake while replaying; `cargo verify defects --list` shows which there are
    #[arg(long, value_name = "NAME", requires = "replay")]
    pub defect: Option<Defect>,
    /// Rows that run at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N", conflicts_with = "list")]
    pub jobs: Option<NonZeroUsize>,
    /// Stop a row after SECONDS; it is TRUNCATED then [default: 900, and 5400 with --full]
    #[arg(long, value_name = "SECONDS", conflicts_with = "list")]
    pub limit: Option<u64>,
}

/// What else the command does.
#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Join the JSON of all partitions of a run, and judge it as a whole
    Merge(MergeArgs),
    /// Weaken each ordering and leave out each fence, wake and flush, one at a time: a model must fail
    Mutants(MutantsArgs),
    /// Have each lock make each mistake that is known of such locks, one at a time: the right model must fail
    Defects(DefectsArgs),
    /// Show, for each two operations of a primitive, the models in which different threads perform them; run nothing
    Pairs(PairsArgs),
}

/// The arguments of `pairs`.
#[derive(clap::Args, Debug)]
pub struct PairsArgs {
    /// Only primitives whose name contains TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Write the cells to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The arguments of `merge`.
#[derive(clap::Args, Debug)]
pub struct MergeArgs {
    /// What --json wrote, of each partition
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What `cargo verify mutants --json` wrote, once for all partitions
    #[arg(long, value_name = "FILE")]
    pub mutants: Option<PathBuf>,
    /// What `cargo verify defects --json` wrote, once for all partitions
    #[arg(long, value_name = "FILE")]
    pub defects: Option<PathBuf>,
    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write verify.json, verify.md and verify.html to FOLDER, and mutants.json and defects.json if they are given
    #[arg(long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
}

/// The arguments of `mutants`.
#[derive(clap::Args, Debug)]
pub struct MutantsArgs {
    /// Only sites or mutations whose name contains TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Show the sites and what would be done to them, and change nothing
    #[arg(long)]
    pub sites: bool,
    /// Write the matrix to FILE as a JSON array
    #[arg(long, value_name = "FILE", conflicts_with = "sites")]
    pub json: Option<PathBuf>,
    /// Models that run at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// The arguments of `defects`.
#[derive(clap::Args, Debug)]
pub struct DefectsArgs {
    /// Only those whose name, `defect/lock`, contains TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Show the defects and the properties that have to find them, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Write the table to FILE as a JSON array
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub json: Option<PathBuf>,
    /// Models that run at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}
