//! What the papers measured, beside what this run has measured.
//!
//! [F2FS] is "Write Optimization of Log-structured Flash File System for Parallel I/O on Manycore
//! Servers" (Lee and others, SYSTOR'19), and [DNODE] the poster "Scalability Analysis of F2FS for
//! Concurrent Writes on Shared Files on Manycore servers" (Noh and Kim). The figures are those that
//! their texts and tables print; the plots have no numbers. Testbed-I has 10 cores and a SATA SSD,
//! Testbed-II 120 cores and an NVMe SSD; both emulate persistent memory by DRAM.
//!
//! [F2FS]: https://doi.org/10.1145/3319647.3325828

use super::lookup::WAYS;
use super::rows::{Beside, Row, Times};
use super::systems::{BASELINE, INTEGRATED, NL, RL};
use super::work::{DWOM, DWOM_DIRECT, DWSL, LOOKUP, OLTP, VARMAIL};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
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
    /// The longest time of a write.
    WriteMax,
    /// The average time of an `fsync`.
    FsyncMean,
    /// The longest time of an `fsync`.
    FsyncMax,
    /// Bytes that an `fsync` makes durable.
    Bytes,
    /// The share of a write that its lookup takes. This one is no ratio to a baseline.
    LookupShare,
}

/// A figure of a paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// Where it is.
    source: &'static str,
    /// What it is.
    about: &'static str,
    /// The case that is compared.
    case: &'static str,
    /// What is compared.
    figure: Figure,
    /// The threads or cores.
    threads: usize,
    /// The baseline's value.
    base: f64,
    /// The values of systems.
    values: &'static [(&'static str, f64)],
    /// Why this run has another.
    differs_because: &'static str,
}

const TESTBED_1: &str = "Testbed-I";

const PAGE_CACHE: &str = "the volume is one file of the host: every buffered write takes the lock of that file in the kernel, \
whichever lock the volume has, and two cores share little else";
const DIRECT: &str = "direct writes to allocated blocks share the kernel's lock of the file, so that a range lock lets as many be under way \
as the disk takes at a time; this disk and its number of cores are others";
const FLUSHES: &str = "in every system here, an fsync flushes the disk before it stores the nodes that name the data: the baseline has two \
flushes, and NVM node logging still has one. F2FS flushes once, after the nodes, and a crash may leave it nodes whose data is missing. The \
paper does not say whether its NVM systems flush the disk's cache";
const OLTP_DIFFERS: &str = "as for DWSL; besides, the writers sync one file, and concurrent fsyncs of a file share their flushes in all systems here";
const VARMAIL_DIFFERS: &str = "as for DWSL; besides, the files are smaller and fewer, so that fsyncs are a larger part of the work";
const MANY_CORES: &str = "the paper's machine has 120 cores and a disk with a higher throughput; a ratio at so many threads has no counterpart on two cores";
const BYTES: &str = "the paper counts the bytes of the inode alone; here those of its address-table entry count as well";
const POSTER: &str = "with two cores, few threads meet at a latch; besides, the poster counts cycles within the kernel, and here the time of a \
lookup alone is divided by that of a write";

/// All figures.
#[rustfmt::skip] // A figure is one line.
pub(super) static PAPER: [Said; 31] = [
    Said { source: "§4.2.1, Figure 6(a), Testbed-I", about: "DWOM buffered, throughput", case: DWOM, figure: Figure::PerSecond, threads: 10, base: 1.0, values: &[(RL, 1.41), (INTEGRATED, 1.41)], differs_because: PAGE_CACHE },
    Said { source: "§4.2.1, Figure 6(b), Testbed-I", about: "DWOM direct, throughput", case: DWOM_DIRECT, figure: Figure::PerSecond, threads: 10, base: 1.0, values: &[(RL, 2.7), (INTEGRATED, 2.7)], differs_because: DIRECT },
    Said { source: "§4.2.1, Figure 6(c), Testbed-I", about: "DWSL, throughput", case: DWSL, figure: Figure::PerSecond, threads: 10, base: 1.0, values: &[(NL, 39.6), (INTEGRATED, 39.6)], differs_because: FLUSHES },
    Said { source: "§4.2.3, Figure 8(a), Testbed-II", about: "DWOM buffered, throughput at 7 cores", case: DWOM, figure: Figure::PerSecond, threads: 7, base: 1.0, values: &[(RL, 1.44), (INTEGRATED, 1.44)], differs_because: PAGE_CACHE },
    Said { source: "§1, Testbed-II", about: "range lock, throughput (14.9 times; §4.2.3 has 14.9 %)", case: DWOM_DIRECT, figure: Figure::PerSecond, threads: 15, base: 1.0, values: &[(RL, 14.9)], differs_because: DIRECT },
    Said { source: "§4.2.3, Figure 8(b), Testbed-II", about: "DWOM direct, throughput (14.9 %; §1 has 14.9 times)", case: DWOM_DIRECT, figure: Figure::PerSecond, threads: 15, base: 1.0, values: &[(RL, 1.149), (INTEGRATED, 1.149)], differs_because: DIRECT },
    Said { source: "§1 and §4.2.3, Figure 8(c), Testbed-II", about: "DWSL, throughput", case: DWSL, figure: Figure::PerSecond, threads: 120, base: 1.0, values: &[(NL, 1.358), (INTEGRATED, 1.358)], differs_because: FLUSHES },
    Said { source: "§3.4", about: "bytes of an inode that are made durable", case: DWSL, figure: Figure::Bytes, threads: 1, base: 1.0, values: &[(NL, 0.1)], differs_because: BYTES },
    Said { source: "Table 5, Testbed-I", about: "OLTP, operations per second", case: OLTP, figure: Figure::PerSecond, threads: 16, base: 20_082.0, values: &[(RL, 33_004.0), (NL, 102_084.0), (INTEGRATED, 102_209.0)], differs_because: OLTP_DIFFERS },
    Said { source: "Table 5, Testbed-I", about: "OLTP, writes per second", case: OLTP, figure: Figure::Writes, threads: 16, base: 11_985.0, values: &[(RL, 19_692.0), (NL, 60_891.0), (INTEGRATED, 60_966.0)], differs_because: OLTP_DIFFERS },
    Said { source: "Table 5, Testbed-I", about: "OLTP, reads per second", case: OLTP, figure: Figure::Reads, threads: 16, base: 7_975.0, values: &[(RL, 13_113.0), (NL, 40_572.0), (INTEGRATED, 40_622.0)], differs_because: OLTP_DIFFERS },
    Said { source: "Table 5, Testbed-I", about: "OLTP, average latency of a database write", case: OLTP, figure: Figure::WriteMean, threads: 16, base: 0.003, values: &[(RL, 0.003), (NL, 0.002), (INTEGRATED, 0.001)], differs_because: OLTP_DIFFERS },
    Said { source: "Table 5, Testbed-I", about: "OLTP, longest latency of a database write", case: OLTP, figure: Figure::WriteMax, threads: 16, base: 39.9, values: &[(RL, 39.9), (NL, 35.7), (INTEGRATED, 39.1)], differs_because: OLTP_DIFFERS },
    Said { source: "Table 6, Testbed-I", about: "Varmail, operations per second", case: VARMAIL, figure: Figure::PerSecond, threads: 20, base: 4_703.9, values: &[(RL, 4_647.0), (NL, 5_493.1), (INTEGRATED, 5_506.2)], differs_because: VARMAIL_DIFFERS },
    Said { source: "Table 6, Testbed-I", about: "Varmail, fsyncs per second", case: VARMAIL, figure: Figure::Fsyncs, threads: 20, base: 362.0, values: &[(RL, 357.5), (NL, 422.5), (INTEGRATED, 423.5)], differs_because: VARMAIL_DIFFERS },
    Said { source: "Table 6, Testbed-I", about: "Varmail, average latency of an fsync", case: VARMAIL, figure: Figure::FsyncMean, threads: 20, base: 26.5, values: &[(RL, 26.6), (NL, 22.3), (INTEGRATED, 22.3)], differs_because: VARMAIL_DIFFERS },
    Said { source: "Table 6, Testbed-I", about: "Varmail, longest latency of an fsync", case: VARMAIL, figure: Figure::FsyncMax, threads: 20, base: 118.6, values: &[(RL, 154.2), (NL, 115.2), (INTEGRATED, 96.4)], differs_because: VARMAIL_DIFFERS },
    Said { source: "Table 7, Testbed-II", about: "OLTP, operations per second", case: OLTP, figure: Figure::PerSecond, threads: 80, base: 328_546.0, values: &[(RL, 313_570.0), (NL, 327_300.0), (INTEGRATED, 331_497.0)], differs_because: MANY_CORES },
    Said { source: "Table 7, Testbed-II", about: "OLTP, writes per second", case: OLTP, figure: Figure::Writes, threads: 80, base: 22_950.0, values: &[(RL, 23_875.0), (NL, 24_543.0), (INTEGRATED, 25_057.0)], differs_because: MANY_CORES },
    Said { source: "Table 7, Testbed-II", about: "OLTP, reads per second", case: OLTP, figure: Figure::Reads, threads: 80, base: 305_275.0, values: &[(RL, 289_370.0), (NL, 302_421.0), (INTEGRATED, 306_098.0)], differs_because: MANY_CORES },
    Said { source: "Table 7, Testbed-II", about: "OLTP, average latency of a database write", case: OLTP, figure: Figure::WriteMean, threads: 80, base: 0.01, values: &[(RL, 0.01), (NL, 0.01), (INTEGRATED, 0.01)], differs_because: MANY_CORES },
    Said { source: "Table 7, Testbed-II", about: "OLTP, longest latency of a database write", case: OLTP, figure: Figure::WriteMax, threads: 80, base: 187.5, values: &[(RL, 111.7), (NL, 199.8), (INTEGRATED, 55.8)], differs_because: MANY_CORES },
    Said { source: "Table 8, Testbed-II", about: "Varmail, operations per second", case: VARMAIL, figure: Figure::PerSecond, threads: 120, base: 8_056.2, values: &[(RL, 7_898.6), (NL, 7_780.9), (INTEGRATED, 8_007.3)], differs_because: MANY_CORES },
    Said { source: "Table 8, Testbed-II", about: "Varmail, fsyncs per second", case: VARMAIL, figure: Figure::Fsyncs, threads: 120, base: 619.5, values: &[(RL, 607.5), (NL, 598.5), (INTEGRATED, 615.5)], differs_because: MANY_CORES },
    Said { source: "Table 8, Testbed-II", about: "Varmail, average latency of an fsync", case: VARMAIL, figure: Figure::FsyncMean, threads: 120, base: 91.4, values: &[(RL, 93.7), (NL, 95.2), (INTEGRATED, 91.9)], differs_because: MANY_CORES },
    Said { source: "Table 8, Testbed-II", about: "Varmail, longest latency of an fsync", case: VARMAIL, figure: Figure::FsyncMax, threads: 120, base: 337.6, values: &[(RL, 338.3), (NL, 311.9), (INTEGRATED, 315.5)], differs_because: MANY_CORES },
    Said { source: "[DNODE], Overhead Profiling", about: "share of get_dnode_of_data in a write at 15 cores", case: LOOKUP, figure: Figure::LookupShare, threads: 15, base: 1.0, values: &[(WAYS[0].0, 0.16)], differs_because: POSTER },
    Said { source: "[DNODE], Overhead Profiling", about: "share of get_dnode_of_data in a write at 42 cores", case: LOOKUP, figure: Figure::LookupShare, threads: 42, base: 1.0, values: &[(WAYS[0].0, 0.493)], differs_because: POSTER },
    Said { source: "[DNODE], Overhead Profiling", about: "share of get_dnode_of_data in a write at 70 cores", case: LOOKUP, figure: Figure::LookupShare, threads: 70, base: 1.0, values: &[(WAYS[0].0, 0.664)], differs_because: POSTER },
    Said { source: "[DNODE], Overhead Profiling", about: "share of get_dnode_of_data in a write at 98 cores", case: LOOKUP, figure: Figure::LookupShare, threads: 98, base: 1.0, values: &[(WAYS[0].0, 0.683)], differs_because: POSTER },
    Said { source: "[DNODE], Overhead Profiling", about: "share of get_dnode_of_data in a write at 120 cores", case: LOOKUP, figure: Figure::LookupShare, threads: 120, base: 1.0, values: &[(WAYS[0].0, 0.676)], differs_because: POSTER },
];

/// Returns the paper's throughput on its smaller machine as a ratio, for a row of any number of
/// threads.
pub(super) fn ratio_of(row: &Row) -> Option<f64> {
    let is_ratio = |it: &&Said| {
        (it.case, it.figure) == (row.case, Figure::PerSecond) && it.source.ends_with(TESTBED_1)
    };
    PAPER.iter().find(is_ratio)?.ratio(row.system)
}

/// Adds each figure to the row of its system with the nearest number of threads.
pub(super) fn beside(rows: &mut [Row]) {
    for said in &PAPER {
        for (system, _) in said.values {
            let of_system = |it: &&Row| (it.case, it.system) == (said.case, *system);
            let all = rows.iter().filter(of_system).map(|it| it.threads);
            let Some(threads) = all.min_by_key(|it| it.abs_diff(said.threads)) else {
                continue;
            };
            let here = said.figure.of(rows, said.case, system, threads);
            let place = rows
                .iter_mut()
                .find(|it| (it.case, it.system, it.threads) == (said.case, *system, threads));
            let row = place.expect("it has these threads");
            row.paper.extend(said.ratio(system).map(|ratio| Beside {
                source: said.source,
                about: said.about,
                said: ratio,
                here,
                differs_because: said.differs_because,
            }));
        }
    }
}

impl Said {
    fn ratio(&self, system: &str) -> Option<f64> {
        let value = self.values.iter().find(|it| it.0 == system);
        value.map(|it| it.1 / self.base)
    }
}

impl Figure {
    /// Returns the figure of a system, as a ratio to the baseline's.
    fn of(self, rows: &[Row], case: &str, system: &str, threads: usize) -> Option<f64> {
        let row = |system: &str| {
            let mut rows = rows.iter();
            rows.find(|it| (it.case, it.system, it.threads) == (case, system, threads))
        };
        match self {
            Figure::LookupShare => row(system)?.lookup_share,
            _ => Some(self.value(row(system)?)? / self.value(row(BASELINE)?)?),
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
            Figure::WriteMax => of(&row.write, |it| it.max_ns as f64),
            Figure::FsyncMean => of(&row.fsync, |it| it.mean_ns),
            Figure::FsyncMax => of(&row.fsync, |it| it.max_ns as f64),
            Figure::Bytes => row.bytes_per_fsync,
            Figure::LookupShare => row.lookup_share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::CASES;
    use super::*;

    /// Returns what the papers say about a row, and what is here.
    fn says(row: &Row) -> Vec<(f64, Option<f64>)> {
        row.paper.iter().map(|it| (it.said, it.here)).collect()
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
    fn each_figure_names_a_case_and_its_systems() {
        for said in &PAPER {
            assert!(CASES.iter().any(|it| it.name == said.case), "{said:?}");
            assert!(!said.values.is_empty() && said.base > 0.0, "{said:?}");
        }
    }
}
