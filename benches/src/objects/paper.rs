//! What the paper measured, beside what this run has measured.
//!
//! The list of [published numbers](crate::papers::published) has those of its text; its plots have
//! no numbers. Its machine had 8 cores with two threads each, and an ioDrive.

use super::rows::Row;
use super::work::SPACE;
use crate::papers::published::{self, Said};

/// The paper's short name.
const PAPER: &str = "OBJ";

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// `ratio`.
    Ratio,
    /// `to_off`.
    ToOff,
    /// The mean of `to_raw`, over all rows.
    ToRaw,
    /// `per_s`.
    PerSecond,
    /// The highest throughput of all rows, in units of 10⁶ bytes per second.
    MegabytesPerSecond,
}

/// A figure of the paper, and the same of a device here.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The paper's.
    pub paper: &'static Said,
    /// The device.
    pub device: &'static str,
    /// The number of threads here: the paper's, or the largest that was measured. `None` if the
    /// figure is of all.
    pub threads: Option<usize>,
    /// The figure.
    pub here: f64,
}

/// Returns all figures that have a counterpart in the rows.
pub fn beside(rows: &[Row], devices: &[&'static str]) -> Vec<Beside> {
    let places = published::of(PAPER).flat_map(|said| devices.iter().map(move |it| (said, *it)));
    let found = places.filter_map(|(said, device)| {
        let of_device: Vec<_> = rows
            .iter()
            .filter(|it| it.device == device && is_of(said, it))
            .collect();
        let threads = match said.threads {
            Some(threads) if of_device.iter().any(|it| it.threads == threads) => Some(threads),
            Some(_) => Some(of_device.iter().map(|it| it.threads).max()?),
            None => None,
        };
        let of_threads = |it: &&&Row| threads.is_none_or(|threads| it.threads == threads);
        let compared: Vec<_> = of_device.iter().filter(of_threads).copied().collect();
        Some(Beside {
            paper: said,
            device,
            threads,
            here: Figure::named(said.measure)?.of(&compared)?,
        })
    });
    found.collect()
}

/// Returns the ratio that the paper has for a row of these threads.
pub(super) fn ratio_of(row: &Row) -> Option<f64> {
    // The ratio to files is a target.
    let is_ratio = |it: &&Said| match Figure::named(it.measure) {
        Some(Figure::ToOff | Figure::ToRaw) => true,
        Some(Figure::Ratio) => row.layout == SPACE,
        _ => false,
    };
    let found = published::of(PAPER).filter(is_ratio);
    found
        .filter(|it| is_of(it, row))
        .find_map(|it| it.published)
}

/// Returns whether a row has what is compared with a figure. The figure's case may be the beginning
/// of the row's, and its subject is a layout, or a layout and a mode.
fn is_of(said: &Said, row: &Row) -> bool {
    let is_case = match row.case.strip_prefix(said.case()) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    };
    let mut words = said.subject.split(' ');
    is_case && words.next() == Some(row.layout) && words.next() == row.mode
}

impl Figure {
    /// Returns the figure that a measure of the list of published numbers names.
    fn named(measure: &str) -> Option<Self> {
        Some(match measure {
            "ratio" => Figure::Ratio,
            "to-off" => Figure::ToOff,
            "to-raw" => Figure::ToRaw,
            "per-s" => Figure::PerSecond,
            "mb-per-s" => Figure::MegabytesPerSecond,
            _ => return None,
        })
    }

    /// Returns the figure of rows. `None` if none of them has it.
    fn of(self, rows: &[&Row]) -> Option<f64> {
        let first = |of: fn(&Row) -> Option<f64>| rows.iter().find_map(|it| of(it));
        match self {
            Figure::Ratio => first(|it| it.ratio),
            Figure::ToOff => first(|it| it.to_off),
            Figure::PerSecond => first(|it| Some(it.per_s)),
            Figure::ToRaw => {
                let all: Vec<_> = rows.iter().filter_map(|it| it.to_raw).collect();
                (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
            }
            Figure::MegabytesPerSecond => {
                let all = rows.iter().filter_map(|it| it.mib_per_s);
                let bytes = all.map(|it| it * f64::from(1 << 20));
                bytes.max_by(f64::total_cmp).map(|it| it / 1e6)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::{GROUPS, Work, cells};
    use super::*;

    #[test]
    fn a_figure_is_of_as_many_threads_as_the_papers_or_else_of_the_most() {
        let row = |threads, ratio| Row {
            ratio: Some(ratio),
            ..Row::empty(&Work::Vectors(128), "disk", threads)
        };
        let found = |rows: &[Row]| {
            let all = beside(rows, &["pmem", "disk"]);
            let ratios = all.iter().filter(|it| it.paper.measure == "ratio");
            let found: Vec<_> = ratios.map(|it| (it.device, it.threads, it.here)).collect();
            found
        };
        let rows = [row(1, 1.0), row(32, 4.0), row(64, 5.0)];
        assert_eq!(found(&rows), [("disk", Some(32), 4.0)]);
        assert_eq!(found(&rows[..1]), [("disk", Some(1), 1.0)]);
        assert_eq!(ratio_of(&rows[0]), Some(3.0));
    }

    #[test]
    fn each_figure_has_rows_and_a_measure() {
        let works = GROUPS.iter().flat_map(|it| cells(it.0, true)).flatten();
        let rows: Vec<_> = works.map(|it| Row::empty(&it, "disk", 1)).collect();
        for said in published::of(PAPER) {
            assert!(rows.iter().any(|it| is_of(said, it)), "{said:?}");
            assert!(Figure::named(said.measure).is_some(), "{said:?}");
        }
    }
}
