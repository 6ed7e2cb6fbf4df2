//! The arguments.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::partition::Partition;

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
pub struct Args {
    /// What to do instead of running rows
    #[command(subcommand)]
    pub command: Option<Subcommand>,
    /// Which rows, and where the result goes
    #[command(flatten)]
    pub common: Common,
    /// Only searches of at most 300 executions, without those of two threads that a bound cuts
    #[arg(long)]
    pub quick: bool,
    /// Also the long rows, the mutants and the injected bugs; writes a report
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Only the K-th of N parts of the rows; `cargo verify merge` joins their --json files
    #[arg(long, value_name = "K/N")]
    pub partition: Option<Partition>,
    /// Show the rows and what they claim, and run nothing
    #[arg(long, conflicts_with_all = ["json", "report", "accept", "jobs", "limit"])]
    pub list: bool,
    /// Write verify.json, verify.md and verify.html to FOLDER, with --full of all rows also
    /// mutants.json and bugs.json [default: target/verify/report with --full of all rows]
    #[arg(long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
    /// Record the executions found in each package's models/executions.tsv
    #[arg(long)]
    pub accept: bool,
    /// Run one row by its full name, and show every step of the execution that fails
    #[arg(long, value_name = "ROW", conflicts_with_all = ["quick", "full", "filter",
        "partition", "list", "json", "report", "accept", "limit", "jobs"])]
    pub replay: Option<String>,
    /// What to change in a replay
    #[command(flatten)]
    pub change: Change,
    /// Stop a row after SECONDS, as TRUNCATED [default: 900, and 5400 with --full]
    #[arg(long, value_name = "SECONDS")]
    pub limit: Option<u64>,
}

/// Which packages are looked at.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Scope {
    /// Only the models of this package; may be given several times
    #[arg(short, long, value_name = "NAME")]
    pub package: Vec<String>,
    /// The Cargo.toml of the workspace [default: that of the current folder]
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<PathBuf>,
}

/// Options that most subcommands have.
#[derive(clap::Args, Debug, Default)]
pub struct Common {
    /// Which packages
    #[command(flatten)]
    pub scope: Scope,
    /// Only those whose name contains TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Write the result to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Rows that run at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

impl Common {
    /// Whether neither packages nor names are chosen.
    pub(super) fn is_everything(&self) -> bool {
        self.filter.is_empty() && self.scope.package.is_empty()
    }
}

/// A change of the code under test or of the search, for a replay.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Change {
    /// Change one site while replaying: file:line:column:operation=Ordering, or =drop
    #[arg(long, value_name = "SITE=CHANGE", requires = "replay")]
    pub weaken: Option<String>,
    /// Inject a bug while replaying; `cargo verify bugs --list` shows them
    #[arg(long, value_name = "NAME", requires = "replay")]
    pub bug: Option<String>,
    /// Leave nothing out of the search while replaying
    #[arg(long, requires = "replay")]
    pub plain: bool,
}

/// What else the command does.
#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Join the JSON of all partitions of a run, and judge it as a whole
    Merge(MergeArgs),
    /// Weaken each ordering and omit each fence, wake and flush, one at a time: a model must fail
    Mutants(InjectArgs),
    /// Inject each bug that the code under test names, one at a time: the right model must fail
    Bugs(InjectArgs),
    /// Show, for each two operations of a primitive, the models in which different threads
    /// perform them; run nothing
    Pairs(Common),
    /// Find known bugs of other projects again: each buggy form must fail, each fixed form pass
    KnownBugs(KnownBugsArgs),
}

/// The arguments of `merge`.
#[derive(clap::Args, Debug)]
pub struct MergeArgs {
    /// Which packages
    #[command(flatten)]
    pub scope: Scope,
    /// The --json file of each partition
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The file of `cargo verify mutants --json`, run once for all partitions
    #[arg(long, value_name = "FILE")]
    pub mutants: Option<PathBuf>,
    /// The file of `cargo verify bugs --json`, run once for all partitions
    #[arg(long, value_name = "FILE")]
    pub bugs: Option<PathBuf>,
    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write verify.json, verify.md and verify.html to FOLDER, and mutants.json and bugs.json if
    /// they are given
    #[arg(long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
}

/// The arguments of `mutants` and `bugs`.
#[derive(clap::Args, Debug)]
pub struct InjectArgs {
    /// Which ones
    #[command(flatten)]
    pub common: Common,
    /// Show what would be changed and where, and change nothing
    #[arg(long, visible_alias = "sites", conflicts_with = "json")]
    pub list: bool,
}

/// The arguments of `known-bugs`.
#[derive(clap::Args, Debug)]
pub struct KnownBugsArgs {
    /// Which ones
    #[command(flatten)]
    pub common: Common,
    /// Run one row by its full name, and show every step of the execution that fails
    #[arg(long, value_name = "ROW", conflicts_with_all = ["filter", "json", "jobs"])]
    pub replay: Option<String>,
}
