//! The command-line arguments of `cargo verify`. Their doc comments are the help text.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::partition::Partition;

/// Builds each package's models under the explorer, loom and shuttle, and runs each row (one
/// program in one mode of a checker) in its own process.
///
/// Succeeds only if every row passes, every search has the recorded number of executions, and the
/// explorer shows every outcome that loom and shuttle show. A row passes if it is EXHAUSTED (every
/// execution explored), BOUNDED (every one within a bound, or a number of random ones, explored) or
/// SKIPPED (its checker is not installed). A row that reaches its time limit is TRUNCATED, which is
/// a failure. If `CI` is set, a row is FAILED instead of SKIPPED.
#[derive(clap::Parser, Debug)]
#[command(name = "cargo verify", bin_name = "cargo verify", version)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Subcommand>,
    #[command(flatten)]
    pub(super) common: Common,
    /// Run only searches of at most 300 recorded executions
    #[arg(long)]
    pub(super) quick: bool,
    /// Also run the long rows; unless -p, --filter or --partition is given, imply --changes and
    /// --report
    #[arg(long, conflicts_with = "quick")]
    pub(super) full: bool,
    /// Also judge all mutants and bugs, in less time than the two subcommands take
    #[arg(long, conflicts_with_all = ["quick", "package", "filter", "partition", "accept"])]
    pub(super) changes: bool,
    /// Run only the K-th of N parts of the rows; `cargo verify merge` joins their --json files
    #[arg(long, value_name = "K/N")]
    pub(super) partition: Option<Partition>,
    /// List the rows and their claims, and run nothing
    #[arg(long, conflicts_with_all = ["json", "report", "accept", "jobs", "limit", "changes"])]
    pub(super) list: bool,
    /// Write verify.json, verify.md and verify.html to FOLDER, with --changes also mutants.json and
    /// bugs.json [default with --full: target/verify/report]
    #[arg(long, value_name = "FOLDER")]
    pub(super) report: Option<PathBuf>,
    /// Record each search's number of executions in its package's models/executions.tsv
    #[arg(long)]
    pub(super) accept: bool,
    /// Run the row with this full name, and print every step of a failing execution
    #[arg(long, value_name = "ROW", conflicts_with_all = ["quick", "full", "changes",
        "filter", "partition", "list", "json", "report", "accept", "limit", "jobs"])]
    pub(super) replay: Option<String>,
    #[command(flatten)]
    pub(super) change: Change,
    /// Stop each row after SECONDS, with verdict TRUNCATED [default: 900; with --full, 5400]
    #[arg(long, value_name = "SECONDS")]
    pub(super) limit: Option<u64>,
}

#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Scope {
    /// Use only the models of this package; may be given several times
    #[arg(short, long, value_name = "NAME")]
    pub(super) package: Vec<String>,
    /// The workspace's Cargo.toml [default: the one that cargo finds from the current folder]
    #[arg(long, value_name = "PATH")]
    pub(super) manifest_path: Option<PathBuf>,
}

#[derive(clap::Args, Debug, Default)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) scope: Scope,
    /// Select rows, mutants, bugs or primitives with TEXT in their name; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(super) filter: Vec<String>,
    /// Write the results to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Run up to N rows at the same time [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
}

impl Common {
    /// Whether neither `--package` nor `--filter` is given.
    pub(super) fn is_everything(&self) -> bool {
        self.filter.is_empty() && self.scope.package.is_empty()
    }

    /// Keeps the items whose names contain at least one text of `--filter`; without a filter, keeps
    /// all. If a text is in no name, returns the error `missing`, with the text in place of `{}`.
    pub(super) fn retain<T>(
        &self,
        items: &mut Vec<T>,
        name: impl Fn(&T) -> String,
        missing: &str,
    ) -> Result<()> {
        let has = |item: &T, text: &String| name(item).contains(text);
        for text in &self.filter {
            let is_there = items.iter().any(|item| has(item, text));
            ensure!(is_there, "{}", missing.replace("{}", text));
        }
        items.retain(|item| {
            self.filter.is_empty() || self.filter.iter().any(|text| has(item, text))
        });
        Ok(())
    }
}

/// How a replay changes the code under test or the search.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Change {
    /// Weaken or omit one operation in the replay: file:line:column:operation=Ordering, or =drop
    #[arg(long, value_name = "SITE=CHANGE", requires = "replay")]
    pub(super) weaken: Option<String>,
    /// Inject a bug in the replay; `cargo verify bugs --list` shows them all as NAME/SUITE
    #[arg(long, value_name = "NAME", requires = "replay")]
    pub(super) bug: Option<String>,
}

/// The subcommands.
#[derive(clap::Subcommand, Debug)]
pub(super) enum Subcommand {
    /// Join the --json files of all partitions, and judge the run as a whole
    Merge(MergeArgs),
    /// Weaken each ordering and omit each fence, wake and flush, one at a time: a program must fail
    Mutants(InjectArgs),
    /// Inject each `injected_bug!` of the code under test: a program in its `killed_by` must fail
    Bugs(InjectArgs),
    /// List, for each pair of a primitive's operations, the programs in which different threads
    /// perform the two; run nothing
    Pairs(Common),
    /// Check re-created bugs of other projects: buggy forms must fail as stated, fixed forms pass
    KnownBugs(KnownBugsArgs),
}

#[derive(clap::Args, Debug)]
pub(super) struct MergeArgs {
    #[command(flatten)]
    pub(super) scope: Scope,
    /// The --json file of each partition
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// The file that `cargo verify mutants --json` wrote; one run serves all partitions
    #[arg(long, value_name = "FILE")]
    pub(super) mutants: Option<PathBuf>,
    /// The file that `cargo verify bugs --json` wrote; one run serves all partitions
    #[arg(long, value_name = "FILE")]
    pub(super) bugs: Option<PathBuf>,
    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write verify.json, verify.md and verify.html to FOLDER, and mutants.json and bugs.json if
    /// --mutants and --bugs are given
    #[arg(long, value_name = "FOLDER")]
    pub(super) report: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
pub(super) struct InjectArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// List the changes and their places, and make none of them
    #[arg(long, visible_alias = "sites", conflicts_with = "json")]
    pub(super) list: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct KnownBugsArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Run the row with this full name, and print every step of a failing execution
    #[arg(long, value_name = "ROW", conflicts_with_all = ["filter", "json", "jobs"])]
    pub(super) replay: Option<String>,
}
