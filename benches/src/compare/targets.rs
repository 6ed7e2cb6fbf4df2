//! The targets of the locks in files, and whether a run meets them, computed from its rows.

use super::rows::Row;
use crate::locks;
use crate::measure::thread_count;
use crate::target::Target;
use crate::workloads::{IMPORT, SHARED_FILE};

/// The locks built from a word for each segment, or for several.
const WORD_FORMS: [&str; 3] = ["srl-array", "srl-packed", "srl-tree"];

/// Adds their targets to the rows: lower limits on their ratios to the fastest whole-file lock.
/// Returns all targets, with verdicts.
pub fn judge(rows: &mut [Row]) -> Vec<Target> {
    let mut all = Vec::new();
    let mut add = |workload, lock, threads: Option<usize>, at_least| {
        let is_of = |row: &Row| {
            (row.workload, row.lock) == (workload, lock)
                && threads.is_none_or(|it| it == row.threads)
        };
        let ratios = rows.iter().filter(|row| is_of(row));
        let lowest = ratios.filter_map(|row| row.ratio).reduce(f64::min);
        let threads = threads.map_or("any threads".to_owned(), thread_count);
        let of = format!("{workload}, {lock}, {threads}");
        let missing = vec![lock.to_owned()];
        let target = Target::at_least(of, "ratio", at_least, lowest).lacking(missing);
        for row in rows.iter_mut().filter(|row| is_of(row)) {
            row.targets.push(target.clone());
        }
        all.push(target);
    };
    for workload in SHARED_FILE.map(|it| it.name) {
        let gain = match workload {
            "dwom" => 1.9,
            "drbm" => 2.5,
            _ => 2.0,
        };
        for lock in ["srl-array", "srl-tree"] {
            add(workload, lock, Some(2), gain);
        }
        add(workload, "interval-tree", Some(2), 1.0);
        for lock in WORD_FORMS {
            add(workload, lock, Some(1), 0.95);
        }
    }
    for (lock, _) in locks::all() {
        add(IMPORT, lock, None, 0.9);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_rows() {
        let row = |workload, lock, threads, ratio| Row {
            ratio: Some(ratio),
            ..Row::of_test(workload, lock, threads, 1.0)
        };
        let mut rows = [
            row("dwom", "srl-array", 1, 0.96),
            row("dwom", "srl-array", 2, 1.89),
            row("drbm", "interval-tree", 2, 1.0),
            row(IMPORT, "srl-tree", 1, 1.1),
            row(IMPORT, "srl-tree", 8, 0.8),
        ];
        let all = judge(&mut rows);
        let judged = all.iter().filter(|it| it.met.is_some());
        let judged: Vec<_> = judged
            .map(|it| (&*it.of, it.asked, it.measured.unwrap(), it.met.unwrap()))
            .collect();
        let wanted = [
            ("dwom, srl-array, 2 threads", 1.9, 1.89, false),
            ("dwom, srl-array, 1 thread", 0.95, 0.96, true),
            ("drbm, interval-tree, 2 threads", 1.0, 1.0, true),
            ("import, srl-tree, any threads", 0.9, 0.8, false),
        ];
        assert_eq!(judged, wanted);
        assert_eq!(all.len(), 4 * 6 + 6);
        assert_eq!(rows[3].targets, rows[4].targets);
    }
}
