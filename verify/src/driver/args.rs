//! The arguments.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::verify::Partition;

/// Builds every package's models under loom and under shuttle, and runs each row in a process of
/// its own.
///
/// Succeeds only if every row is EXHAUSTED (every execution explored) or BOUNDED (every execution
/// within the bound that the row states), and every search had as many executions as are recorded
/// for it. A search that was cut off is TRUNCATED, which is a failure. A row whose checker is not
/// installed is SKIPPED; where `CI` is set, it is FAILED.
#[derive(clap::Parser, Debug)]
#[command(name = "cargo verify", bin_name = "cargo verify", version)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Subcommand>,
    #[command(flatten)]
    pub(super) common: Common,
    /// Only searches of at most 300 executions; of two threads, only those without a bound
    #[arg(long)]
    pub(super) quick: bool,
    /// Also the long rows, the mutants and the injected bugs; writes a report
    #[arg(long, conflicts_with = "quick")]
    pub(super) full: bool,
    /// Only the K-th of N parts of the rows; `cargo verify merge` joins their --json files
    #[arg(long, value_name = "K/N")]
    pub(super) partition: Option<Partition>,
    /// Show the rows and what they claim, and run nothing
    #[arg(long, conflicts_with_all = ["json", "report", "accept", "jobs", "limit"])]
    pub(super) list: bool,
    /// Write verify.json, verify.md and verify.html to FOLDER, with --full of all rows also
    /// mutants.json and bugs.json [default: target/verify/report with --full of all rows]
    #[arg(long, value_name = "FOLDER")]
    pub(super) report: Option<PathBuf>,
    /// Record the executions found in each package's models/executions.tsv
    #[arg(long)]
    pub(super) accept: bool,
    /// Run one row by its full name, and show every step of the execution that fails
    #[arg(long, value_name = "ROW", conflicts_with_all = ["quick", "full", "filter",
        "partition", "list", "json", "report", "accept", "limit", "jobs"])]
    pub(super) replay: Option<String>,
    #[command(flatten)]
    pub(super) change: Change,
    /// Stop a row after SECONDS, as TRUNCATED [default: 900, and 5400 with --full]
    #[arg(long, value_name = "SECONDS")]
    pub(super) limit: Option<u64>,
}

#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Scope {
    /// Only the models of this package; may be given several times
    #[arg(short, long, value_name = "NAME")]
    pub(super) package: Vec<String>,
    /// The Cargo.toml of the workspace [default: that of the current folder]
    #[arg(long, value_name = "PATH")]
    pub(super) manifest_path: Option<PathBuf>,
}

#[derive(clap::Args, Debug, Default)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) scope: Scope,
    /// Only those whose name contains TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(super) filter: Vec<String>,
    /// Write the result to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Rows that run at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
}

impl Common {
    /// Whether neither packages nor names are chosen.
    pub(super) fn is_everything(&self) -> bool {
        self.filter.is_empty() && self.scope.package.is_empty()
    }
}

/// A change of the code under test or of the search, for a replay.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Change {
    /// Change one site while replaying: file:line:column:operation=Ordering, or =drop
    #[arg(long, value_name = "SITE=CHANGE", requires = "replay")]
    pub(super) weaken: Option<String>,
    /// Inject a bug while replaying; `cargo verify bugs --list` shows them
    #[arg(long, value_name = "NAME", requires = "replay")]
    pub(super) bug: Option<String>,
    /// Leave nothing out of the search while replaying
    #[arg(long, requires = "replay")]
    pub(super) plain: bool,
}

/// The other commands.
#[derive(clap::Subcommand, Debug)]
pub(super) enum Subcommand {
    /// Join the JSON of all partitions of a run, and judge it as a whole
    Merge(MergeArgs),
    /// Weaken each ordering and omit each fence, wake and flush, one at a time: a model must fail
    Mutants(InjectArgs),
    /// Inject each bug that the code under test names, one at a time: the right model must fail
    Bugs(InjectArgs),
    /// Show, for each pair of operations of a primitive, the models in which different threads
    /// perform them; run nothing
    Pairs(Common),
    /// Find known bugs of other projects again: each buggy form must fail, each fixed form pass
    KnownBugs(KnownBugsArgs),
}

#[derive(clap::Args, Debug)]
pub(super) struct MergeArgs {
    #[command(flatten)]
    pub(super) scope: Scope,
    /// The --json file of each partition
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// The file of `cargo verify mutants --json`, run once for all partitions
    #[arg(long, value_name = "FILE")]
    pub(super) mutants: Option<PathBuf>,
    /// The file of `cargo verify bugs --json`, run once for all partitions
    #[arg(long, value_name = "FILE")]
    pub(super) bugs: Option<PathBuf>,
    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write verify.json, verify.md and verify.html to FOLDER, and mutants.json and bugs.json if
    /// they are given
    #[arg(long, value_name = "FOLDER")]
    pub(super) report: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
pub(super) struct InjectArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Show what would be changed and where, and change nothing
    #[arg(long, visible_alias = "sites", conflicts_with = "json")]
    pub(super) list: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct KnownBugsArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Run one row by its full name, and show every step of the execution that fails
    #[arg(long, value_name = "ROW", conflicts_with_all = ["filter", "json", "jobs"])]
    pub(super) replay: Option<String>,
}
