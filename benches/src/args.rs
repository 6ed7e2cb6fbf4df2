//! Arguments that several commands share, and their parsers.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::measure;

/// The size of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The size in bytes: whole pages of 4 KiB, at least one.
    pub bytes: u64,
    /// The size as typed by the user, for error messages.
    pub typed: String,
}

/// The end of every help text: what affects a run besides its arguments, and how it ends.
pub(crate) const ENVIRONMENT: &str = "\
Environment:
  COLUMNS: the width of the output [default: that of the terminal, or 100 in a file or a pipe]
  NO_COLOR: no colours in messages about wrong arguments
  TMPDIR: the folder for temporary files [default: /tmp]

Exit status: 0, or 1 after an error, or 2 for wrong arguments. A reader that closes the output \
early, such as `head`, changes neither the status nor the files.";

/// The files for the result of a run.
#[derive(Args, Clone, Debug)]
pub struct OutputArgs {
    /// Also write the rows to this file, as JSON, with all columns and targets
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the report to this file, as one self-contained HTML page
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    pub report: PathBuf,
}

/// The arguments of `compare redraw`.
#[derive(Args, Clone, Debug)]
pub struct RedrawArgs {
    /// The result file, which a command wrote with --json
    #[arg(value_name = "FILE")]
    pub json: PathBuf,

    /// Write the report to this file, as one self-contained HTML page
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    pub report: PathBuf,
}

/// Returns the largest thread count that is accepted. More threads would only wait for each other.
fn max_threads() -> usize {
    (16 * measure::cores()).max(64)
}

pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let most = max_threads();
    match text.trim().parse() {
        Ok(threads) if (1..=most).contains(&threads) => Ok(threads),
        Ok(_) => Err(format!("use between 1 and {most} threads on this machine")),
        Err(_) => Err("expected thread counts, as in `--threads 1,2`".to_owned()),
    }
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.01 to 3600".to_owned()),
    }
}

/// Parses a size and rounds it up to whole pages of 4 KiB.
pub(crate) fn size(text: &str) -> Result<Size, String> {
    let typed = text.to_owned();
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        "t" | "tib" => Some(40),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    number
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(1 << unit))
        .and_then(|bytes| bytes.checked_next_multiple_of(4096))
        .filter(|&bytes| bytes > 0)
        .map(|bytes| Size { bytes, typed })
        .ok_or_else(|| {
            "expected a size above zero in bytes or with a unit: 65536, 64M, 1G".to_owned()
        })
}

/// Returns a parser that accepts the names in `all`.
pub(crate) fn names(all: Vec<(&'static str, &'static str)>) -> PossibleValuesParser {
    PossibleValuesParser::new(all.into_iter().map(|(name, _)| name))
}

/// Returns the end of the help text of a command: lists of everything that can be selected, with
/// descriptions.
pub(crate) fn help(lists: &[(&str, Vec<(&str, &str)>)]) -> String {
    let list = |(title, all): &(&str, Vec<(&str, &str)>)| {
        let lines = all
            .iter()
            .map(|(name, about)| format!("\n  {name}: {about}"));
        format!("{title}:{}", lines.collect::<String>())
    };
    let lists: Vec<_> = lists.iter().map(list).collect();
    format!("{}\n\n{ENVIRONMENT}", lists.join("\n\n"))
}

/// Returns the entries of `all` that are `chosen`, or all if none is.
pub(crate) fn selected(
    all: Vec<(&'static str, &'static str)>,
    chosen: &[String],
) -> Vec<&'static str> {
    let names = all.into_iter().map(|(name, _)| name);
    names
        .filter(|&name| chosen.is_empty() || chosen.iter().any(|it| it == name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_whole_pages() {
        for (typed, bytes) in [("1", 4096), ("64M", 64 << 20), ("2 GiB", 2 << 30)] {
            let typed = typed.to_owned();
            assert_eq!(size(&typed), Ok(Size { bytes, typed }));
        }
        for wrong in ["", "0", "M", "-1", "1X", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
