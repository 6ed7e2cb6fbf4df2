//! Ratios between rows, and the targets.

use super::limit::Bare;
use super::operations::{CLEANING, OVERWRITE_4K, OVERWRITE_64K};
use super::rows::Row;
use crate::locks;
use crate::measure::thread_count;
use crate::target::Target;

/// The lowest acceptable throughput of one thread, as a multiple of the limit's.
const TO_LIMIT: [(&str, f64); 2] = [(OVERWRITE_4K, 0.8), (OVERWRITE_64K, 0.95)];
/// The lowest acceptable throughput of two threads, as a multiple of one thread's.
const TO_ONE_THREAD: f64 = 1.6;
/// The longest acceptable stall of a writer, in nanoseconds.
const LONGEST_STALL_NS: f64 = 1e6;

/// Fills in what follows from comparing the rows.
pub fn compare(rows: &mut [Row]) {
    let contestants = locks::contestants();
    let is_whole_file = |lock: &str| {
        contestants
            .iter()
            .any(|it| it.whole_file && it.name == lock)
    };
    let all: Vec<_> = rows
        .iter()
        .map(|row| (row.case, row.lock, row.threads, row.ops_per_s))
        .collect();
    for row in rows {
        let of = |lock: &str, threads: usize| {
            let found = all
                .iter()
                .find(|it| (it.0, it.1, it.2) == (row.case, lock, threads));
            found.map(|it| it.3)
        };
        let rivals = all
            .iter()
            .filter(|it| (it.0, it.2) == (row.case, row.threads) && is_whole_file(it.1));
        let best = rivals.max_by(|a, b| a.3.total_cmp(&b.3));
        row.to_limit = of(Bare::Limit.name(), row.threads).map(|it| row.ops_per_s / it);
        row.to_one_thread = of(row.lock, 1).map(|it| row.ops_per_s / it);
        if !row.is_bare() {
            row.whole_file = best.map(|it| it.1);
            row.to_whole_file = best.map(|it| row.ops_per_s / it.3);
        }
        row.targets = targets(row);
    }
}

/// Returns the targets of a row. They are for segment range locks.
fn targets(row: &Row) -> Vec<Target> {
    let mut targets = Vec::new();
    if !row.lock.starts_with("srl-") {
        return targets;
    }
    let of = || format!("{}, {}, {}", row.case, row.lock, thread_count(row.threads));
    let limit = TO_LIMIT.into_iter().find(|it| it.0 == row.case);
    match (limit, row.threads) {
        (Some((_, asked)), 1) => {
            targets.push(Target::at_least(of(), "to_limit", asked, row.to_limit));
        }
        (Some(_), 2) => {
            let measured = row.to_one_thread;
            targets.push(Target::at_least(
                of(),
                "to_one_thread",
                TO_ONE_THREAD,
                measured,
            ));
        }
        _ => {}
    }
    if row.case == CLEANING {
        // A stall counts only if cleaning happened.
        let measured = (row.cleanings > 0).then_some(row.max_ns as f64);
        targets.push(Target::at_most(of(), "max_ns", LONGEST_STALL_NS, measured));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &'static str, lock: &'static str, threads: usize, ops_per_s: f64) -> Row {
        Row {
            ops_per_s,
            ..Row::empty(case, lock, threads)
        }
    }

    #[test]
    fn verdicts_follow_the_rows() {
        let mut rows = [
            row(OVERWRITE_4K, "srl-tree", 1, 80.0),
            row(OVERWRITE_4K, "srl-tree", 2, 120.0),
            row(OVERWRITE_4K, "std", 2, 40.0),
            row(OVERWRITE_4K, "parking_lot", 2, 60.0),
            row(OVERWRITE_4K, "limit", 1, 100.0),
            row(OVERWRITE_64K, "srl-tree", 1, 80.0),
        ];
        compare(&mut rows);
        let target = |row: &Row| (row.targets[0].measured, row.targets[0].met);
        assert_eq!(target(&rows[0]), (Some(0.8), Some(true)));
        assert_eq!(target(&rows[1]), (Some(1.5), Some(false)));
        assert_eq!(rows[1].to_limit, None);
        assert_eq!(rows[1].whole_file, Some("parking_lot"));
        assert_eq!(rows[1].to_whole_file, Some(2.0));
        assert!(rows[2].targets.is_empty() && rows[4].targets.is_empty());
        assert_eq!(rows[4].whole_file, None);
        assert_eq!(target(&rows[5]), (None, None));
    }

    #[test]
    fn a_stall_is_judged_only_if_cleaning_happened() {
        let mut rows = [row(CLEANING, "srl-tree", 1, 1.0)];
        rows[0].max_ns = 1_000_001;
        compare(&mut rows);
        assert_eq!(rows[0].targets[0].met, None);
        rows[0].cleanings = 1;
        compare(&mut rows);
        assert_eq!(rows[0].targets[0].met, Some(false));
    }
}
