//! The arguments of `compare papers`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::published::{self, Said};
use super::{PAPERS, Plan};
use crate::args::{OutputArgs, help, names, seconds};

/// The arguments of `compare papers`.
#[derive(Args, Clone, Debug)]
pub struct PapersArgs {
    /// Papers [default: all]
    #[arg(value_parser = papers(), ignore_case = true, value_name = "PAPER")]
    pub papers: Vec<String>,

    /// Figures and tables, separated by commas, as in `--figure 12,'Table 3.1'`; `12` includes all
    /// its parts [default: all]
    #[arg(long, value_delimiter = ',', value_name = "FIGURE,…")]
    pub figure: Vec<String>,

    /// Show the papers' numbers and what is not shown here, and measure nothing
    #[arg(long, conflicts_with_all = ["json", "report", "seconds", "dir"])]
    pub list: bool,

    /// Seconds to measure each row of a comparison in each of the two runs
    #[arg(long, default_value = "0.4", value_parser = seconds, value_name = "S")]
    pub seconds: f64,

    /// Folder for the files on a disk, which are removed at the end [default: the folder for
    /// temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

fn papers() -> impl TypedValueParser<Value = String> {
    let parser: PossibleValuesParser = names(PAPERS.to_vec());
    parser.map(|it| it.to_uppercase())
}

impl PapersArgs {
    /// Returns a list of the papers, with descriptions.
    pub(crate) fn lists() -> String {
        help(&[("Papers", PAPERS.to_vec())])
    }

    /// Returns which figure the chosen papers do not have, and those that they have.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let all = self.of_papers();
        let unknown = self
            .figure
            .iter()
            .find(|it| !all.iter().any(|said| is_figure(it, said.figure)))?;
        let figures = PAPERS.iter().filter_map(|(paper, _)| {
            let mut figures: Vec<&str> = Vec::new();
            for said in all.iter().filter(|it| it.paper == *paper) {
                if !figures.contains(&said.figure) {
                    figures.push(said.figure);
                }
            }
            (!figures.is_empty()).then(|| format!("\n  {paper}: {}", figures.join(", ")))
        });
        let figures = figures.collect::<String>();
        Some(format!(
            "--figure {unknown}: there is no such figure; there are{figures}"
        ))
    }

    /// Returns the plan, with defaults filled in.
    pub fn plan(&self) -> Plan {
        let mut said = self.of_papers();
        let is_chosen = |it: &&Said| {
            self.figure
                .iter()
                .any(|figure| is_figure(figure, it.figure))
        };
        said.retain(|it| self.figure.is_empty() || is_chosen(it));
        Plan {
            said,
            seconds: self.seconds,
            dir: self.dir.clone(),
        }
    }

    fn of_papers(&self) -> Vec<&'static Said> {
        let is_chosen = |it: &&Said| self.papers.iter().any(|paper| paper == it.paper);
        let all = published::all().iter();
        all.filter(|it| self.papers.is_empty() || is_chosen(it))
            .collect()
    }
}

/// Returns whether a user who names `wanted` means this figure: by its whole name, or by its number
/// with or without a part.
pub(crate) fn is_figure(wanted: &str, figure: &str) -> bool {
    let (wanted, name) = (wanted.trim().to_lowercase(), figure.to_lowercase());
    let number = name.split(' ').next_back().unwrap_or_default();
    [&*name, number].into_iter().any(|it| {
        it == wanted
            || it
                .strip_prefix(&*wanted)
                .is_some_and(|rest| rest.starts_with('('))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_named_by_its_number_or_its_whole_name() {
        let chosen = |figure: &str| -> Vec<_> {
            let all = published::all().iter();
            let of = all.filter(|it| it.paper == "SRL" && is_figure(figure, it.figure));
            let mut figures: Vec<_> = of.map(|it| it.figure).collect();
            figures.dedup();
            figures
        };
        assert_eq!(chosen("3(c)"), ["Figure 3(c)"]);
        assert_eq!(chosen("figure 15"), ["Figure 15(a)", "Figure 15(b)"]);
        assert_eq!(chosen("1"), ["Figure 1", "Table 1"]);
        assert_eq!(chosen("Table 1"), ["Table 1"]);
        assert!(chosen("16").is_empty() && chosen("").is_empty());
    }
}
