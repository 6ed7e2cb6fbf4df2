//! How the rows of a result file came about.

use serde::{Deserialize, Serialize};

use super::machine::Machine;

/// The version of the format of result files.
pub const FORMAT: u64 = 1;

/// Everything in a result file but its rows: how they came about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// [`FORMAT`].
    pub format: u64,
    /// The comparison: a subcommand, or `compare` or `micro`.
    pub name: String,
    /// The command line, without the options that name output files.
    pub command: String,
    /// The machine.
    pub machine: Machine,
    /// The date and time in UTC at the end of the run.
    pub date: String,
    /// The sources; `None` if they are in no Git repository.
    pub commit: Option<Commit>,
    /// The version of this package and that of the compiler; `None` if they were not recorded.
    #[serde(default)]
    pub versions: Option<String>,
    /// Whether the command was compiled with optimisations. Otherwise the figures mean nothing.
    pub optimised: bool,
    /// The share of the machine's processor time that other programs used during the run; `None` if
    /// unknown.
    pub disturbed: Option<f64>,
    /// A description of each place where the run stored data.
    pub media: Vec<String>,
}

/// The state of the sources at the end of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Commit {
    /// The commit that is checked out.
    pub hash: String,
    /// Whether files other than documents and results differ from it.
    pub modified: bool,
}

/// The versions behind the figures: this package and the compiler.
pub(super) const VERSIONS: &str = concat!(
    "spanlock ",
    env!("CARGO_PKG_VERSION"),
    ", ",
    env!("SPANLOCK_RUSTC")
);

impl Origin {
    /// Describes the sources and the compiler.
    pub(super) fn sources(&self) -> String {
        let commit = self.commit.as_ref().map(|it| {
            let modified = if it.modified { ", modified" } else { "" };
            format!("commit {}{modified}", it.hash)
        });
        let parts: Vec<_> = commit.into_iter().chain(self.versions.clone()).collect();
        match parts.is_empty() {
            true => "unknown".to_owned(),
            false => parts.join(", "),
        }
    }
}
