//! `compare contention`: all rows are present, ratios follow from them, and messages for bad input
//! tell what to do.

use std::collections::BTreeSet;
use std::fs;

use crate::common::scene::*;
use serde_json::Value;
use spanlock_benches::locks;

const QUICK: [&str; 5] = ["contention", "--seconds", "0.01", "--json", "rows.json"];

/// Runs it and returns its output and its rows.
fn measured(scene: &Scene, args: &[&str]) -> (String, Vec<Value>) {
    let output = scene.compare(&[&QUICK, args].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    (told, scene.rows("contention"))
}

fn number(row: &Value, figure: &str) -> f64 {
    row[figure].as_f64().unwrap()
}

#[test]
fn every_lock_that_waits_has_a_row_for_each_case() {
    let scene = Scene::new(0);
    let (told, rows) = measured(&scene, &["--filter", "overlap-100/,threads-2"]);
    let mut wanted: BTreeSet<_> = locks::contestants().iter().map(|it| it.name).collect();
    wanted.extend(["ofd", "parking_lot-fair"]);
    wanted.remove("range-lock");
    assert_eq!(rows.len(), 4 * wanted.len());
    for rows in rows.chunks(wanted.len()) {
        let found: BTreeSet<_> = rows
            .iter()
            .map(|row| row["lock"].as_str().unwrap())
            .collect();
        assert_eq!(found, wanted);
        rows_follow_from_each_other(rows);
    }
    let first = &rows[0];
    assert_eq!(first["name"], "section-0.3us/overlap-100/reads-0/threads-2");
    let case = ["section_ns", "overlap", "reads", "threads"].map(|it| first[it].as_u64().unwrap());
    assert_eq!(case, [300, 100, 0, 2]);
    for wanted in [
        "range-lock: no rows (try-only",
        "burns cores",
        "worst ratio",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 3 * 4);
    for outside in ["<script", "<link", "<img", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// `rows` are those of one case.
fn rows_follow_from_each_other(rows: &[Value]) {
    let ops = |row: &Value| number(row, "ops_per_s");
    let contestants = locks::contestants();
    let whole_file = |row: &&Value| {
        let mut whole_file = contestants.iter().filter(|it| it.whole_file);
        whole_file.any(|it| row["lock"] == it.name)
    };
    let fastest = rows.iter().filter(whole_file);
    let fastest = fastest.max_by(|a, b| ops(a).total_cmp(&ops(b))).unwrap();
    for row in rows {
        let [p50, p99, p999, longest] =
            ["p50_ns", "p99_ns", "p999_ns", "longest_ns"].map(|it| row[it].as_u64().unwrap());
        assert!(p50 <= p99 && p99 <= p999 && p999 <= longest, "{row}");
        // Zero if the machine is so busy that no thread ran in most of the short rounds.
        assert!(number(row, "cpu_ns_per_op") >= 0.0, "{row}");
        assert_eq!(row["baseline"], fastest["lock"], "{row}");
        let ratio = number(row, "ratio");
        assert!((ratio - ops(row) / ops(fastest)).abs() < 1e-9, "{row}");
    }
}

#[test]
fn wrong_arguments_are_errors() {
    let scene = Scene::new(0);
    scene.fails(
        &["contention", "--filter", "threads-16"],
        &["--filter threads-16", "no case", "--all"],
    );
    scene.fails(
        &["contention", "--all", "--filter", "nothing"],
        &["--filter nothing", "no case"],
    );
    scene.fails(&["contention", "--locks", "nolock"], &["nolock"]);
    scene.fails(
        &["contention", "--json", "x", "--report", "./x"],
        &["both x", "two different files"],
    );
}
