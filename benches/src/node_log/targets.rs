//! Ratios between rows, and the targets.

use super::lookup::WAYS;
use super::paper;
use super::rows::Row;
use super::systems::{BASELINE, INTEGRATED, NL};
use super::work::{CHECKPOINT, DWSL, LOOKUP};
use crate::measure::thread_count;
use crate::target::Target;

/// The lowest acceptable throughput of NVM node logging in DWSL, as a multiple of the baseline's.
const DWSL_TO_BASELINE: f64 = 10.0;
/// The longest acceptable stall of a writer during a checkpoint, as a share of the baseline's.
const STALL_TO_BASELINE: f64 = 0.1;
/// The most bytes that the `fsync` of a file with one block may make durable, as a share of the
/// baseline's.
const BYTES_TO_BASELINE: f64 = 0.1;

/// Fills in what follows from comparing the rows.
pub fn compare(rows: &mut [Row]) {
    let all = rows.to_vec();
    for row in rows.iter_mut() {
        let baseline = if row.case == LOOKUP {
            WAYS[0].0
        } else {
            BASELINE
        };
        let found = all
            .iter()
            .find(|it| (it.case, it.threads, it.system) == (row.case, row.threads, baseline));
        let Some(base) = found else {
            continue;
        };
        row.ratio = Some(row.per_s / base.per_s);
        let stalls = row.stall_ns.zip(base.stall_ns.filter(|&it| it > 0));
        row.stall_ratio = stalls.map(|(its, of)| its as f64 / of as f64);
        let bytes = row.bytes_per_fsync.zip(base.bytes_per_fsync);
        row.bytes_ratio = bytes.map(|(its, of)| its / of);
    }
    for row in rows.iter_mut() {
        row.paper_ratio = paper::ratio_of(row);
        row.targets = targets(row);
    }
    paper::beside(rows);
}

/// Returns the targets of a row.
fn targets(row: &Row) -> Vec<Target> {
    let threads = thread_count(row.threads);
    let of = format!("{}, {}, {threads}", row.case, row.system);
    let missing = vec![BASELINE.to_owned()];
    let at_most = |figure: &str, asked, measured| {
        Target::at_most(&*of, figure, asked, measured).lacking(missing.clone())
    };
    match (row.case, row.system) {
        (DWSL, NL) => vec![
            Target::at_least(&*of, "ratio", DWSL_TO_BASELINE, row.ratio).lacking(missing.clone()),
            at_most("bytes_ratio", BYTES_TO_BASELINE, row.bytes_ratio),
        ],
        (CHECKPOINT, NL | INTEGRATED) => {
            vec![at_most("stall_ratio", STALL_TO_BASELINE, row.stall_ratio)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::systems::RL;
    use super::super::work::VARMAIL;
    use super::*;

    /// Returns what is asked of a row, what is measured, and the verdict.
    fn judged(row: &Row) -> Vec<(&str, f64, Option<f64>, Option<bool>)> {
        let targets = row.targets.iter();
        let judged = targets.map(|it| (&*it.figure, it.asked, it.measured, it.met));
        judged.collect()
    }

    #[test]
    fn verdicts_are_on_ratios_to_the_baseline_with_as_many_threads() {
        let dwsl = |system, threads, per_s, bytes| Row {
            bytes_per_fsync: Some(bytes),
            ..Row::of_test(DWSL, system, threads, per_s)
        };
        let stalled = |system, stall_ns| Row {
            stall_ns: Some(stall_ns),
            ..Row::of_test(CHECKPOINT, system, 1, 1.0)
        };
        let mut rows = [
            dwsl(BASELINE, 1, 100.0, 4096.0),
            dwsl(BASELINE, 8, 400.0, 4096.0),
            dwsl(NL, 8, 3_000.0, 1024.0),
            dwsl(NL, 16, 9_000.0, 128.0),
            stalled(BASELINE, 50_000),
            stalled(INTEGRATED, 5_000),
            stalled(RL, 5_000),
        ];
        compare(&mut rows);
        assert_eq!(
            judged(&rows[2]),
            [
                ("ratio", 10.0, Some(7.5), Some(false)),
                ("bytes_ratio", 0.1, Some(0.25), Some(false)),
            ]
        );
        let missing = ("ratio", 10.0, None, None);
        assert_eq!(judged(&rows[3])[0], missing);
        assert_eq!(rows[3].targets[0].missing, [BASELINE]);
        let stall = ("stall_ratio", 0.1, Some(0.1), Some(true));
        assert_eq!(judged(&rows[5]), [stall]);
        assert_eq!(judged(&rows[6]), []);
    }

    #[test]
    fn lookups_are_compared_with_exclusive_latches() {
        let mut rows = [
            Row::of_test(LOOKUP, WAYS[0].0, 2, 4.0),
            Row::of_test(LOOKUP, WAYS[2].0, 2, 10.0),
            Row::of_test(VARMAIL, NL, 2, 10.0),
        ];
        compare(&mut rows);
        assert_eq!(
            rows.each_ref().map(|it| it.ratio),
            [Some(1.0), Some(2.5), None]
        );
    }
}
