//! The arguments of a binary of models.

use clap::Parser;
use libtest_mimic::Arguments;

/// The arguments: libtest's, and those of the process that explores one row.
#[derive(Parser, Debug)]
#[command(name = "models")]
#[cfg_attr(
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)),
    allow(dead_code)
)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) libtest: Arguments,
    /// Print the suites and programs of this binary as a line of JSON
    #[arg(long)]
    pub(super) describe: bool,
    /// Explore the row of this name, and print the result as a line of JSON
    #[arg(long)]
    pub(super) row: Option<String>,
    /// Weaken one ordering: file:line:column:operation=Ordering, or =drop to omit the operation
    #[arg(long)]
    pub(super) weaken: Option<String>,
    /// Enable one injected bug
    #[arg(long)]
    pub(super) bug: Option<String>,
    /// Use this bound instead of the row's
    #[arg(long)]
    pub(super) bound: Option<u64>,
    /// Ignore the row's bound
    #[arg(long, conflicts_with = "bound")]
    pub(super) unbounded: bool,
    /// Let the explorer choose no faults
    #[arg(long)]
    pub(super) without_faults: bool,
    /// Record each step, and print the steps of a failing execution
    #[arg(long)]
    pub(super) trace: bool,
}

impl Args {
    /// Returns the arguments that change the code under test.
    pub(super) fn mutations(&self) -> Vec<String> {
        let both = [("--weaken", &self.weaken), ("--bug", &self.bug)].into_iter();
        let given = both.filter_map(|(name, value)| Some([name.to_owned(), value.clone()?]));
        given.flatten().collect()
    }
}
