//! `compare recovery`: all rows are present, ratios and verdicts follow from them, and messages for
//! bad input tell what to do.

use std::fs;

use crate::common::scene::*;
use serde_json::Value;

fn number(row: &Value, figure: &str) -> f64 {
    let number = row[figure].as_f64();
    number.unwrap_or_else(|| panic!("no {figure} in {row}"))
}

#[test]
fn every_number_of_threads_has_a_row() {
    let scene = Scene::new(0);
    let args = ["recovery", "--files", "200", "--json", "rows.json"];
    let output = scene.compare(&args);
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    let rows = scene.rows("recovery");
    assert_eq!(rows.len(), 2);
    for (row, threads) in rows.iter().zip([1.0, 2.0]) {
        assert_eq!(
            (&row["case"], number(row, "threads")),
            (&"files".into(), threads)
        );
        assert_eq!(number(row, "files"), 200.0);
        let rounds = row["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 3);
        let per_second = 200.0 / number(row, "seconds");
        assert!((number(row, "files_per_s") - per_second).abs() < 1e-6 * per_second);
        let to_one = number(row, "files_per_s") / number(&rows[0], "files_per_s");
        assert!(
            (number(row, "to_one_thread") - to_one).abs() < 1e-9,
            "{row}"
        );
        // A name of 13 bytes is the least that is kept of a file.
        let peak = number(row, "peak_bytes");
        assert!(peak > 200.0 * 13.0, "{row}");
        let per_file = number(row, "peak_bytes_per_file");
        assert!((per_file - peak / 200.0).abs() < 1e-9, "{row}");
        let targets = row["targets"].as_array().unwrap();
        let figures = Vec::from_iter(targets.iter().map(|it| it["figure"].as_str().unwrap()));
        let wanted = ["peak_bytes_per_file", "to_one_thread"];
        assert_eq!(figures, wanted[..threads as usize]);
        assert_eq!(targets[0]["met"], per_file <= 300.0, "{row}");
    }
    for wanted in ["bytes/file", "Targets", "volume: temporary"] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    for outside in ["<script", "<link", "<img", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_heap_that_a_child_counts_repeats() {
    let scene = Scene::new(0);
    let path = scene.make_volume(1 << 20);
    let peak = || {
        let args = ["recovery-child", path.to_str().unwrap(), "1"];
        let output = scene.compare(&[&args[..], &["--count-heap"]].concat());
        assert!(output.status.success(), "{output:?}");
        let recovered: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(number(&recovered, "files"), 1.0);
        number(&recovered, "peak_bytes")
    };
    let first = peak();
    assert!(first > 0.0 && first == peak());
}

#[test]
fn wrong_arguments_are_errors() {
    let scene = Scene::new(0);
    scene.fails(&["recovery", "--files", "0"], &["--files", "0"]);
    scene.fails(
        &["recovery", "--dir", "missing"],
        &["in missing", "another folder with --dir"],
    );
    scene.fails(&["recovery-child", "missing", "1"], &["missing"]);
}
