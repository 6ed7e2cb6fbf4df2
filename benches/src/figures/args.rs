//! The arguments of `compare figures`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::runs::RUNS;

/// The arguments of `compare figures`.
#[derive(Args, Clone, Debug)]
pub struct FiguresArgs {
    /// Change nothing, and fail if a document differs from the results
    #[arg(long)]
    pub check: bool,

    /// First measure these comparisons again, or all if none is named, and replace their result
    /// files
    #[arg(long, num_args = 0.., value_delimiter = ',', value_parser = runs(), conflicts_with = "check", value_name = "NAME,…")]
    pub measure: Option<Vec<String>>,

    /// Folder of the result files, relative to the project
    #[arg(long, default_value = "docs/figures", value_name = "FOLDER")]
    pub dir: PathBuf,
}

impl FiguresArgs {
    /// Returns how to write what `--measure` measures, one line for each comparison.
    pub(crate) fn lists() -> String {
        let lines = RUNS.iter().map(|run| {
            let seconds = run.seconds;
            format!("\n  {}: {}, about {seconds} s", run.name, run.command())
        });
        format!("Comparisons:{}", lines.collect::<String>())
    }
}

fn runs() -> PossibleValuesParser {
    PossibleValuesParser::new(RUNS.iter().map(|it| it.name))
}
