//! `compare file-core`: all rows are present, ratios and verdicts follow from them, counts are
//! exact, and messages for bad input tell what to do.

use std::fs;

use crate::common::scene::*;
use serde_json::Value;

const QUICK: [&str; 7] = [
    "file-core",
    "--seconds",
    "0.01",
    "--json",
    "rows.json",
    "--locks",
    "srl-tree,parking_lot",
];

/// The cases without a limit, with the flushes and fences of a usual operation.
const BATCHES: [(&str, f64, f64); 6] = [
    ("append", 2.0, 2.0),
    ("truncate", 2.0, 2.0),
    ("create", 3.0, 2.0),
    ("remove", 1.0, 1.0),
    ("rename", 3.0, 3.0),
    ("rename-across", 43.0, 7.0),
];

/// Runs it and returns its output and its rows.
fn measured(scene: &Scene, args: &[&str]) -> (String, Vec<Value>) {
    let output = scene.compare(&[&QUICK, args].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    (told, scene.rows("file-core"))
}

fn number(row: &Value, figure: &str) -> f64 {
    let number = row[figure].as_f64();
    number.unwrap_or_else(|| panic!("no {figure} in {row}"))
}

fn find<'a>(rows: &'a [Value], case: &str, lock: &str, threads: u64) -> &'a Value {
    let is_it =
        |row: &&Value| row["case"] == case && row["lock"] == lock && row["threads"] == threads;
    let found = rows.iter().find(is_it);
    found.unwrap_or_else(|| panic!("no {case} with {lock} and {threads} threads"))
}

#[test]
fn every_case_has_a_row_for_each_lock_and_its_limit() {
    let scene = Scene::new(0);
    let (told, rows) = measured(&scene, &[]);
    let mut cells = Vec::new();
    for case in ["overwrite-4k", "overwrite-64k"] {
        cells.extend([(case, 1, 4), (case, 2, 4)]);
    }
    cells.extend(BATCHES.map(|it| (it.0, 1, 2)));
    cells.push(("cleaning", 1, 4));
    assert_eq!(rows.len(), cells.iter().map(|it| it.2).sum::<usize>());
    for (case, threads, count) in cells {
        let locks = &["srl-tree", "parking_lot", "limit", "copy"][..count];
        for lock in locks {
            follows(&rows, find(&rows, case, lock, threads));
        }
    }
    for wanted in [
        "to limit",
        "rename-across",
        "cleanings",
        "Targets",
        "volume: temporary",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert!(page.contains("overwrite-64k, srl-tree, 2\u{a0}threads"));
    for outside in ["<script", "<link", "<img", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// A row's ratios and verdicts follow from the others, and its counts are plausible.
fn follows(rows: &[Value], row: &Value) {
    let (case, lock) = (row["case"].as_str().unwrap(), row["lock"].as_str().unwrap());
    let threads = row["threads"].as_u64().unwrap();
    let ops = |lock, threads| number(find(rows, case, lock, threads), "ops_per_s");
    let same = |figure: &str, wanted: f64| {
        let found = number(row, figure);
        assert!((found - wanted).abs() < 1e-9 * wanted, "{figure}: {row}");
    };
    let own = number(row, "ops_per_s");
    assert!(own > 0.0 && number(row, "fences") > 0.0, "{row}");
    assert!(number(row, "p50_ns") <= number(row, "p99_ns"), "{row}");
    assert!(number(row, "p99_ns") <= number(row, "max_ns"), "{row}");
    same("to_one_thread", own / ops(lock, 1));
    let batches = BATCHES.iter().find(|it| it.0 == case);
    let (flushes, fences) = match batches {
        Some(&(_, flushes, fences)) => {
            assert!(row["to_limit"].is_null(), "{row}");
            (flushes, fences)
        }
        None => {
            same("to_limit", own / ops("limit", threads));
            if lock == "copy" {
                (0.0, 1.0)
            } else {
                (2.0, 2.0)
            }
        }
    };
    assert_eq!(number(row, "flushes"), flushes, "{row}");
    assert_eq!(number(row, "fences"), fences, "{row}");
    if ["srl-tree", "parking_lot"].contains(&lock) {
        assert_eq!(row["whole_file"], "parking_lot");
        same("to_whole_file", own / ops("parking_lot", threads));
    }
    for target in row["targets"].as_array().unwrap() {
        assert_eq!(lock, "srl-tree");
        let figure = target["figure"].as_str().unwrap();
        let Some(measured) = target["measured"].as_f64() else {
            assert_eq!((figure, number(row, "cleanings")), ("max_ns", 0.0), "{row}");
            assert!(target["met"].is_null(), "{row}");
            continue;
        };
        assert_eq!(measured, number(row, figure), "{row}");
        let asked = number(target, "asked");
        let met = match target["bound"].as_str().unwrap() {
            "at-least" => measured >= asked,
            "at-most" => measured <= asked,
            other => panic!("{other}"),
        };
        assert_eq!(target["met"], met, "{row}");
    }
}

/// A round of this case overwrites often enough that groups are copied.
#[test]
fn cleaning_happens_and_is_counted() {
    let scene = Scene::new(0);
    let args = ["--case", "cleaning", "--seconds", "1"];
    let args = [&QUICK[..1], &QUICK[3..], &args].concat();
    let output = scene.compare(&args);
    assert!(output.status.success(), "{output:?}");
    let rows = scene.rows("file-core");
    for lock in ["srl-tree", "parking_lot"] {
        let row = find(&rows, "cleaning", lock, 1);
        assert!(number(row, "cleanings") > 0.0, "{row}");
    }
    let limit = find(&rows, "cleaning", "limit", 1);
    assert_eq!(number(limit, "cleanings"), 0.0);
}

#[test]
fn wrong_arguments_are_errors() {
    let scene = Scene::new(0);
    scene.fails(&["file-core", "--case", "nocase"], &["nocase", "append"]);
    scene.fails(&["file-core", "--locks", "nolock"], &["nolock", "srl-tree"]);
    scene.fails(
        &["file-core", "--dir", "missing"],
        &["in missing", "another folder with --dir"],
    );
    scene.fails(
        &["file-core", "--json", "x", "--report", "./x"],
        &["both x", "two different files"],
    );
}
