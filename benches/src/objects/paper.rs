//! What the paper measured, beside what this run has measured.
//!
//! Takatsu, Hiraga and Tatebe, "Design of object storage using OpenNVM for high-performance
//! distributed file system". Its machine had 8 cores with two threads each, and an ioDrive. The
//! figures are those of its text; its plots have no numbers.

use super::rows::Row;
use super::work::{BATCH_64, PACKED, REGION, SPACE, VERSIONS, WRITE};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
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

/// A figure of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Where it is.
    pub source: &'static str,
    /// What it says.
    pub about: &'static str,
    /// The figure.
    pub said: f64,
    /// The number of threads; `None` if it is of all.
    pub threads: Option<usize>,
    /// The case of the rows to compare with, or how it begins.
    pub case: &'static str,
    /// The layout of these rows.
    pub layout: &'static str,
    /// The mode of these rows.
    pub mode: Option<&'static str>,
    /// Which of their figures is compared.
    pub figure: Figure,
}

const DIRECT: Option<&str> = Some("direct");

/// All figures.
#[rustfmt::skip] // A figure is one line.
pub const PAPER: [Said; 10] = [
    Said { source: "V-C1, Figure 10", about: "creations, skip number 1024 to 1", said: 1.51, threads: Some(32), case: "create/skip-1024", layout: REGION, mode: DIRECT, figure: Figure::ToOff },
    Said { source: "V-C2, Figure 11(a)", about: "creations, direct mode, 64 heads a batch to 1", said: 2.84, threads: Some(16), case: BATCH_64, layout: REGION, mode: DIRECT, figure: Figure::ToOff },
    Said { source: "V-C2, Figure 11(b)", about: "creations, version mode, 64 heads a batch to 1", said: 2.80, threads: Some(16), case: BATCH_64, layout: REGION, mode: Some(VERSIONS), figure: Figure::ToOff },
    Said { source: "Figures 1 and 11(a)", about: "creations, to files of DirectFS", said: 12.0, threads: Some(16), case: BATCH_64, layout: REGION, mode: DIRECT, figure: Figure::Ratio },
    Said { source: "VII, Figure 11(a)", about: "creations per second", said: 740_000.0, threads: Some(16), case: BATCH_64, layout: REGION, mode: DIRECT, figure: Figure::PerSecond },
    Said { source: "II-B, Figure 2", about: "vectors, 128 a batch to 1", said: 3.0, threads: Some(32), case: "vectors/128", layout: SPACE, mode: None, figure: Figure::Ratio },
    Said { source: "II-B, Figure 2", about: "vectors per second, 128 a batch", said: 894_000.0, threads: Some(32), case: "vectors/128", layout: SPACE, mode: None, figure: Figure::PerSecond },
    Said { source: "V-B2, Figures 8 and 9", about: "writes, direct mode, to the raw device", said: 0.977, threads: None, case: WRITE, layout: PACKED, mode: DIRECT, figure: Figure::ToRaw },
    Said { source: "V-B2, Figure 8", about: "writes, direct mode, MB/s at best", said: 830.0, threads: None, case: WRITE, layout: PACKED, mode: DIRECT, figure: Figure::MegabytesPerSecond },
    Said { source: "V-B1, Figure 7", about: "sequential reads, direct mode, MB/s at best", said: 687.0, threads: None, case: "read/sequential", layout: PACKED, mode: DIRECT, figure: Figure::MegabytesPerSecond },
];

/// A figure of the paper, and the same of a device here.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The paper's.
    pub paper: Said,
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
    let places = PAPER
        .iter()
        .flat_map(|said| devices.iter().map(move |it| (said, *it)));
    let found = places.filter_map(|(said, device)| {
        let of_device: Vec<_> = rows
            .iter()
            .filter(|it| it.device == device && said.is_of(it))
            .collect();
        let threads = match said.threads {
            Some(threads) if of_device.iter().any(|it| it.threads == threads) => Some(threads),
            Some(_) => Some(of_device.iter().map(|it| it.threads).max()?),
            None => None,
        };
        let of_threads = |it: &&&Row| threads.is_none_or(|threads| it.threads == threads);
        let compared: Vec<_> = of_device.iter().filter(of_threads).copied().collect();
        Some(Beside {
            paper: *said,
            device,
            threads,
            here: said.figure.of(&compared)?,
        })
    });
    found.collect()
}

/// Returns the ratio that the paper has for a row of these threads.
pub(super) fn ratio_of(row: &Row) -> Option<f64> {
    // The ratio to files is a target.
    let is_ratio = |it: &&Said| match it.figure {
        Figure::ToOff | Figure::ToRaw => true,
        Figure::Ratio => it.layout == SPACE,
        Figure::PerSecond | Figure::MegabytesPerSecond => false,
    };
    let found = PAPER.iter().filter(is_ratio).find(|it| it.is_of(row));
    found.map(|it| it.said)
}

impl Said {
    fn is_of(&self, row: &Row) -> bool {
        let is_case = match row.case.strip_prefix(self.case) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        };
        is_case && row.layout == self.layout && row.mode == self.mode
    }
}

impl Figure {
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
    use super::super::work::Work;
    use super::*;

    #[test]
    fn a_figure_is_of_as_many_threads_as_the_papers_or_else_of_the_most() {
        let row = |threads, ratio| Row {
            ratio: Some(ratio),
            ..Row::empty(&Work::Vectors(128), "disk", threads)
        };
        let found = |rows: &[Row]| {
            let all = beside(rows, &["pmem", "disk"]);
            let ratios = all.iter().filter(|it| it.paper.figure == Figure::Ratio);
            let found: Vec<_> = ratios.map(|it| (it.device, it.threads, it.here)).collect();
            found
        };
        let rows = [row(1, 1.0), row(32, 4.0), row(64, 5.0)];
        assert_eq!(found(&rows), [("disk", Some(32), 4.0)]);
        assert_eq!(found(&rows[..1]), [("disk", Some(1), 1.0)]);
        assert_eq!(ratio_of(&rows[0]), Some(3.0));
    }
}
