//! What the papers [F2FS] and [DNODE] measured, beside what this run has measured. The list of
//! [published numbers](crate::papers::published) names both. Testbed-I has 10 cores and a SATA SSD,
//! Testbed-II 120 cores and an NVMe SSD; both emulate persistent memory by DRAM.
//!
//! [F2FS]: https://doi.org/10.1145/3319647.3325828

use super::lookup::WAYS;
use super::rows::{Beside, Row, Times};
use super::systems::BASELINE;
use super::work::LOOKUP;
use crate::papers::published::{self, Said};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// Operations per second.
    PerSecond,
    /// Writes per second.
    Writes,
    /// Reads per second.
    Reads,
    /// Calls of `fsync` per second.
    Fsyncs,
    /// The average time of a write.
    WriteMean,
    /// The 99th percentile of the times of a write.
    WriteP99,
    /// The longest time of a write.
    WriteMax,
    /// The average time of an `fsync`.
    FsyncMean,
    /// The 99th percentile of the times of an `fsync`.
    FsyncP99,
    /// The longest time of an `fsync`.
    FsyncMax,
    /// The 99th percentile of the times of a checkpoint.
    CheckpointP99,
    /// Bytes that an `fsync` makes durable.
    Bytes,
    /// The share of a write that its lookup takes. This one is no ratio to a baseline.
    LookupShare,
}

/// The papers whose numbers these are.
const PAPERS: [&str; 2] = ["F2FS", "DNODE"];

const TESTBED_1: &str = "Testbed-I";

/// Returns the numbers of both papers.
fn said() -> impl Iterator<Item = &'static Said> {
    PAPERS.into_iter().flat_map(published::of)
}

/// Returns the paper's throughput on its smaller machine as a ratio, for a row of any number of
/// threads.
pub(super) fn ratio_of(row: &Row) -> Option<f64> {
    let is_ratio = |it: &&Said| {
        (it.case(), it.subject, it.measure) == (row.case, row.system, "per-s")
            && it.section.ends_with(TESTBED_1)
    };
    said().find(is_ratio)?.published
}

/// Adds each figure to the row of its system with the nearest number of threads.
pub(super) fn beside(rows: &mut [Row]) {
    for said in said() {
        let (case, system) = (said.case(), said.subject);
        let wanted = said.threads.unwrap_or(1);
        let of_system = |it: &&Row| (it.case, it.system) == (case, system);
        let all = rows.iter().filter(of_system).map(|it| it.threads);
        let Some(threads) = all.min_by_key(|it| it.abs_diff(wanted)) else {
            continue;
        };
        let here = Figure::named(said.measure).and_then(|it| it.of(rows, case, system, threads));
        let place = rows
            .iter_mut()
            .find(|it| (it.case, it.system, it.threads) == (case, system, threads));
        let row = place.expect("it has these threads");
        row.paper.push(Beside {
            source: said.source(),
            about: said.row,
            said: said.published,
            here,
            differs_because: said.because,
            entry: said,
        });
    }
}

impl Figure {
    /// Returns the figure that a measure of the list of published numbers names.
    fn named(measure: &str) -> Option<Self> {
        Some(match measure {
            "per-s" => Figure::PerSecond,
            "writes" => Figure::Writes,
            "reads" => Figure::Reads,
            "fsyncs" => Figure::Fsyncs,
            "write-mean" => Figure::WriteMean,
            "write-p99" => Figure::WriteP99,
            "write-max" => Figure::WriteMax,
            "fsync-mean" => Figure::FsyncMean,
            "fsync-p99" => Figure::FsyncP99,
            "fsync-max" => Figure::FsyncMax,
            "checkpoint-p99" => Figure::CheckpointP99,
            "bytes" => Figure::Bytes,
            "lookup-share" => Figure::LookupShare,
            _ => return None,
        })
    }

    /// Returns the figure of a system, as a ratio to the baseline's.
    fn of(self, rows: &[Row], case: &str, system: &str, threads: usize) -> Option<f64> {
        let row = |system: &str| {
            let mut rows = rows.iter();
            rows.find(|it| (it.case, it.system, it.threads) == (case, system, threads))
        };
        match self {
            Figure::LookupShare => row(system)?.lookup_share,
            _ => {
                let base = if case == LOOKUP { WAYS[0].0 } else { BASELINE };
                Some(self.value(row(system)?)? / self.value(row(base)?)?)
            }
        }
    }

    fn value(self, row: &Row) -> Option<f64> {
        let of = |times: &Option<Times>, value: fn(&Times) -> f64| times.as_ref().map(value);
        match self {
            Figure::PerSecond => Some(row.per_s),
            Figure::Writes => of(&row.write, |it| it.per_s),
            Figure::Reads => of(&row.read, |it| it.per_s),
            Figure::Fsyncs => of(&row.fsync, |it| it.per_s),
            Figure::WriteMean => of(&row.write, |it| it.mean_ns),
            Figure::WriteP99 => of(&row.write, |it| it.p99_ns as f64),
            Figure::WriteMax => of(&row.write, |it| it.max_ns as f64),
            Figure::FsyncMean => of(&row.fsync, |it| it.mean_ns),
            Figure::FsyncP99 => of(&row.fsync, |it| it.p99_ns as f64),
            Figure::CheckpointP99 => of(&row.checkpoint, |it| it.p99_ns as f64),
            Figure::FsyncMax => of(&row.fsync, |it| it.max_ns as f64),
            Figure::Bytes => row.bytes_per_fsync,
            Figure::LookupShare => row.lookup_share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::systems::{INTEGRATED, RL, SYSTEMS};
    use super::super::work::{CASES, DWOM_DIRECT};
    use super::*;

    /// Returns what the papers say about a row, and what is here.
    fn says(row: &Row) -> Vec<(f64, Option<f64>)> {
        let all = row.paper.iter();
        all.filter_map(|it| Some((it.said?, it.here))).collect()
    }

    #[test]
    fn a_figure_is_beside_the_nearest_number_of_threads() {
        let direct = |system, threads, per_s| Row::of_test(DWOM_DIRECT, system, threads, per_s);
        let mut rows = [
            direct(BASELINE, 8, 10.0),
            direct(BASELINE, 16, 10.0),
            direct(RL, 8, 30.0),
            direct(RL, 16, 40.0),
            direct(INTEGRATED, 2, 50.0),
        ];
        beside(&mut rows);
        // 2.7 is of 10 cores, and both 14.9 are of 15. The last row lacks its baseline.
        assert_eq!(says(&rows[2]), [(2.7, Some(3.0))]);
        assert_eq!(says(&rows[3]), [(14.9, Some(4.0)), (1.149, Some(4.0))]);
        assert_eq!(says(&rows[4]), [(2.7, None), (1.149, None)]);
        assert_eq!(ratio_of(&rows[2]), Some(2.7));
        assert_eq!(ratio_of(&rows[0]), None);
    }

    #[test]
    fn a_share_is_no_ratio_to_a_baseline() {
        let mut rows = [Row {
            lookup_share: Some(0.05),
            ..Row::of_test(LOOKUP, WAYS[0].0, 2, 1.0)
        }];
        beside(&mut rows);
        let shares = [0.16, 0.493, 0.664, 0.683, 0.676];
        assert_eq!(says(&rows[0]), shares.map(|it| (it, Some(0.05))));
    }

    #[test]
    fn each_figure_names_a_case_a_system_and_a_measure() {
        for said in said() {
            assert!(CASES.iter().any(|it| it.name == said.case()), "{said:?}");
            let systems = SYSTEMS.iter().map(|it| it.name);
            let mut names = systems.chain(WAYS.map(|it| it.0));
            assert!(names.any(|it| it == said.subject), "{said:?}");
            assert!(Figure::named(said.measure).is_some(), "{said:?}");
        }
    }
}
