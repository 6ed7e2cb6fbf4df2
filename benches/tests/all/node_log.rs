//! `compare node-log`: all rows are present, ratios and verdicts follow from them, and messages for
//! bad input tell what to do.

use std::fs;

use crate::common::scene::*;
use serde_json::Value;

/// Runs it on files in memory, where a flush takes no time. Returns its output and its rows.
fn measured(scene: &Scene, args: &[&str]) -> (String, Vec<Value>) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let dir = folder.path().to_str().unwrap();
    let own = [
        "node-log",
        "--json",
        "rows.json",
        "--dir",
        dir,
        "--seconds",
        "0.02",
    ];
    let output = scene.compare(&[&own[..], args].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    (told, scene.rows("node-log"))
}

fn number(row: &Value, figure: &str) -> f64 {
    let number = row[figure].as_f64();
    number.unwrap_or_else(|| panic!("no {figure} in {row}"))
}

fn find<'a>(rows: &'a [Value], case: &str, system: &str, threads: u64) -> &'a Value {
    let is_it =
        |row: &&Value| row["case"] == case && row["system"] == system && row["threads"] == threads;
    let mut found = rows.iter().filter(is_it);
    let row = found.next();
    let row = row.unwrap_or_else(|| panic!("no {case}, {system}, {threads}"));
    assert!(found.next().is_none(), "{row} twice");
    row
}

/// A ratio of a row is that of its figure to the figure of another row.
fn follows(row: &Value, ratio: &str, figure: &str, of: &Value) {
    let wanted = number(row, figure) / number(of, figure);
    let found = number(row, ratio);
    assert!((found - wanted).abs() < 1e-9 * wanted, "{ratio}: {row}");
}

/// What every row has, and the verdicts.
fn is_sound(row: &Value) {
    assert!(number(row, "per_s") > 0.0, "{row}");
    assert_eq!(row["rounds"].as_array().unwrap().len(), 5);
    for kind in ["write", "read", "fsync", "checkpoint"] {
        let times = &row[kind];
        if !times.is_null() {
            assert!(number(times, "mean_ns") <= number(times, "max_ns"), "{row}");
            assert!(number(times, "p99_ns") <= number(times, "max_ns"), "{row}");
        }
    }
    for target in row["targets"].as_array().unwrap() {
        let measured = &row[target["figure"].as_str().unwrap()];
        assert_eq!(target["measured"], *measured, "{row}");
        let met = measured.as_f64().map(|it| match target["bound"].as_str() {
            Some("at-least") => it >= number(target, "asked"),
            _ => it <= number(target, "asked"),
        });
        assert_eq!(target["met"].as_bool(), met, "{row}");
    }
}

fn asked(row: &Value) -> Vec<(&str, f64)> {
    let targets = row["targets"].as_array().unwrap().iter();
    let all = targets.map(|it| (it["figure"].as_str().unwrap(), number(it, "asked")));
    all.collect()
}

/// Which times a row of a case has.
fn times(case: &str) -> &'static [&'static str] {
    match case {
        "dwsl" => &["write", "fsync"],
        "oltp" | "varmail" => &["write", "read", "fsync"],
        "checkpoint" => &["write", "fsync", "checkpoint"],
        _ => &["write"],
    }
}

#[test]
fn all_cases_are_compared_with_the_baseline() {
    let scene = Scene::new(0);
    let args = ["--systems", "baseline,integrated,files", "--threads", "2"];
    let (told, rows) = measured(&scene, &args);
    let is_left_out = told.contains("dwom-direct is left out");
    // Three systems, two of which have checkpoints; and three latches.
    let cases = if is_left_out { 4 } else { 5 };
    assert_eq!(rows.len(), cases * 3 + 2 + 3, "{told}");
    for row in &rows {
        is_sound(row);
        let case = row["case"].as_str().unwrap();
        let base = if case == "lookup" {
            "exclusive"
        } else {
            "baseline"
        };
        let base = find(&rows, case, base, 2);
        follows(row, "ratio", "per_s", base);
        for kind in ["write", "read", "fsync", "checkpoint"] {
            assert_eq!(!row[kind].is_null(), times(case).contains(&kind), "{row}");
        }
        if !row["stall_ratio"].is_null() {
            follows(row, "stall_ratio", "stall_ns", base);
        }
        assert_eq!(row["lookup_share"].is_null(), case != "lookup", "{row}");
        let wanted: &[_] = match (case, row["system"].as_str().unwrap()) {
            ("checkpoint", "integrated") => &[("stall_ratio", 0.1)],
            _ => &[],
        };
        assert_eq!(asked(row), wanted, "{row}");
    }
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), cases * 2 - 2 + 3 + 1 + 2);
    for outside in ["<script", "<link", "<img", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// An fsync of a file with one block makes one inode durable: 4 KiB of it, or two lines, and no
/// NAT block, but perhaps 8 bytes.
#[test]
fn each_system_makes_the_bytes_durable_that_it_must() {
    let scene = Scene::new(0);
    let (told, rows) = measured(&scene, &["--case", "dwsl", "--threads", "1,2"]);
    assert_eq!(rows.len(), 7 * 2);
    for threads in [1, 2] {
        let of = |system| find(&rows, "dwsl", system, threads);
        for row in &rows {
            is_sound(row);
        }
        for system in ["baseline", "rl", "nvm-blocks"] {
            let bytes = number(of(system), "bytes_per_fsync");
            // A full log of nodes makes the home write its table.
            assert!((4096.0..4200.0).contains(&bytes), "{system}: {bytes}");
        }
        assert_eq!(number(of("nvm-pin-point"), "bytes_per_fsync"), 4104.0);
        for system in ["nl", "integrated"] {
            assert_eq!(number(of(system), "bytes_per_fsync"), 136.0, "{system}");
            follows(of(system), "bytes_ratio", "bytes_per_fsync", of("baseline"));
        }
        assert!(of("files")["bytes_per_fsync"].is_null());
        assert_eq!(asked(of("nl")), [("ratio", 10.0), ("bytes_ratio", 0.1)]);
        assert_eq!(number(of("nl"), "paper_ratio"), 39.6);
    }
    // The paper's 10 cores are nearer to 2 threads than to 1.
    let says = |threads| {
        find(&rows, "dwsl", "nl", threads)["paper"]
            .as_array()
            .unwrap()
    };
    let said = |threads| {
        says(threads)
            .iter()
            .map(|it| number(it, "said"))
            .collect::<Vec<_>>()
    };
    assert_eq!((said(1), said(2)), (vec![0.1], vec![39.6, 1.358]));
    let here = number(find(&rows, "dwsl", "nl", 2), "ratio");
    assert_eq!(number(&says(2)[0], "here"), here);
    for wanted in [
        "Targets",
        "Beside the papers",
        "They differ because",
        "a flush takes",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
}

#[test]
fn wrong_arguments_are_errors() {
    let scene = Scene::new(0);
    scene.fails(&["node-log", "--case", "none"], &["--case", "dwsl"]);
    scene.fails(
        &["node-log", "--systems", "none"],
        &["--systems", "integrated"],
    );
    scene.fails(
        &["node-log", "--dir", "missing"],
        &["in missing", "another folder with --dir"],
    );
}
