//! `compare journal` as a command: its rows, targets and pages at tiny sizes, and the messages for
//! bad input.

use std::collections::BTreeSet;
use std::fs;

use crate::common::scene::*;
use serde_json::Value;
use spanlock_benches::journal::contestants::CONTESTANTS;

const SHORT: [&str; 2] = ["--seconds", "0.01"];
const DEVICES: [&str; 2] = ["modelled-1ms", "disk"];
const ON_BOTH: [&str; 2] = ["--device", "modelled-1ms,disk"];

/// Runs it with its disk in the scene's folder. Returns its output and its rows.
fn measured(scene: &Scene, args: &[&str]) -> (String, Vec<Value>) {
    let always = ["journal", "--dir", ".", "--json", "rows.json"];
    let output = scene.compare(&[&always, args].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    (told, scene.rows("journal"))
}

fn positive(row: &Value, key: &str) -> f64 {
    let value = row[key].as_f64();
    let value = value.unwrap_or_else(|| panic!("no {key} in {row}"));
    assert!(value > 0.0, "{key} in {row}");
    value
}

/// Returns whether any commit ended during the measurement. On a busy machine there may be none,
/// and then there are no latencies.
fn did_something(row: &Value) -> bool {
    let some = row["commits_per_s"].as_f64().unwrap() > 0.0;
    assert_eq!(row["p50_us"].is_number(), some, "{row}");
    assert_eq!(row["p99_us"].is_number(), some, "{row}");
    some
}

/// Returns the contestants that are measured on both devices.
fn names() -> Vec<&'static str> {
    let all = CONTESTANTS.iter().filter(|it| it.is_on("disk"));
    all.map(|it| it.name).collect()
}

#[test]
fn every_contestant_has_a_row_in_every_cell() {
    let scene = Scene::new(0);
    let args = ["--workload", "commit", "--threads", "2,1", "--think", "0,1"];
    let args = [&args[..], &ON_BOTH].concat();
    let (told, rows) = measured(&scene, &[&args[..], &SHORT].concat());
    let mut wanted = Vec::new();
    for device in DEVICES {
        for threads in [1, 2] {
            for think in [0.0, 1.0] {
                wanted.extend(names().into_iter().map(|it| (it, device, threads, think)));
            }
        }
    }
    let cell = |row: &Value| {
        (
            row["contestant"].as_str().unwrap().to_owned(),
            row["device"].as_str().unwrap().to_owned(),
            row["threads"].as_u64().unwrap(),
            row["think"].as_f64().unwrap(),
        )
    };
    let found: Vec<_> = rows.iter().map(cell).collect();
    let found: Vec<_> = found
        .iter()
        .map(|it| (&*it.0, &*it.1, it.2, it.3))
        .collect();
    assert_eq!(found, wanted);
    for row in &rows {
        figures_follow_from_each_other(row);
    }
    targets_follow_from_the_rows(&rows);
    for wanted in names().iter().chain(&DEVICES) {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
    let mut wanted = vec!["Targets: ", "Some lack rows of: "];
    if rows.iter().all(did_something) {
        wanted.push("coalesced writes ");
        wanted.push("more than 2 % slower than plain group commit");
    }
    for wanted in wanted {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
    the_page_shows_all(&scene, 2 * (2 * 2 + 1));
    // The disk's files have been removed.
    let left = fs::read_dir(scene.folder.path()).unwrap();
    let left: BTreeSet<_> = left.map(|it| it.unwrap().file_name()).collect();
    let wanted = ["report.html", "rows.json", "source"].map(Into::into);
    assert!(left.is_subset(&BTreeSet::from(wanted)), "{left:?}");
}

fn figures_follow_from_each_other(row: &Value) {
    assert_eq!(row["workload"], "commit");
    let version = row["version"].as_str();
    let others = ["okaywal", "raft-engine", "wal-db"];
    let contestant = row["contestant"].as_str().unwrap();
    assert_eq!(version.is_some(), others.contains(&contestant), "{row}");
    if !did_something(row) {
        return;
    }
    let threads = row["threads"].as_f64().unwrap();
    let per_second = positive(row, "commits_per_s");
    let rounds = row["rounds"].as_array().unwrap();
    assert!((rounds[0].as_f64().unwrap() / per_second - 1.0).abs() < 1e-9);
    let (p50, p99) = (positive(row, "p50_us"), positive(row, "p99_us"));
    assert!(p50 <= p99, "{row}");
    // No flush ended during the measurement, although a commit did.
    if row["flush_us"].is_null() {
        assert!(row["commits_per_flush"].is_null(), "{row}");
        return;
    }
    let flush = positive(row, "flush_us");
    // A flush covers at most one commit of each thread. At the start, each thread may also have a
    // commit from an earlier flush.
    let per_flush = positive(row, "commits_per_flush");
    assert!(per_flush <= 2.0 * threads, "{row}");
    if row["device"] == DEVICES[0] {
        // Every durable commit needs a whole flush, and a thread has one commit at a time. The
        // limits allow for the histogram's rounding.
        assert!(flush >= 990.0 && p50 >= 990.0, "{row}");
        assert!(per_second <= 1010.0 * threads + 100.0, "{row}");
    }
}

/// The verdicts are computed here again; only the limits are constants.
fn targets_follow_from_the_rows(rows: &[Value]) {
    let mut seen = 0;
    for row in rows
        .iter()
        .filter(|it| it["contestant"] == "compact-rendezvous")
    {
        let plain = rows.iter().find(|it| {
            it["contestant"] == "compact"
                && ["device", "threads", "think"]
                    .iter()
                    .all(|&key| it[key] == row[key])
        });
        let plain = plain.unwrap();
        let target = &row["targets"][0];
        assert_eq!(
            (&target["bound"], &target["asked"]),
            (&"at-least".into(), &0.98.into())
        );
        if did_something(plain) {
            let measured = target["measured"].as_f64().unwrap();
            let per_second = row["commits_per_s"].as_f64().unwrap();
            let wanted = per_second / positive(plain, "commits_per_s");
            assert!((measured - wanted).abs() < 1e-9);
            assert_eq!(target["met"], measured >= 0.98);
        } else {
            assert!(target["measured"].is_null() && target["met"].is_null());
        }
        seen += 1;
    }
    assert_eq!(seen, 8);
}

fn the_page_shows_all(scene: &Scene, plots: usize) {
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), plots);
    for name in names() {
        assert!(page.contains(&format!(">{name}</td>")), "no {name}");
    }
    for wanted in [
        "<span>compare</span> <span>journal</span>",
        "<h2>Targets</h2>",
        "okaywal 0.3.1",
        "commits/s, times cooperative-on-the-fly ≥ 1.8",
        "not measured: compact-rendezvous",
    ] {
        assert!(page.contains(wanted), "no {wanted:?}");
    }
    for outside in [
        "<script", "<link", "<img", "src=", "href=", "url(", "@import",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// Counts the flushes of contestants whose flushes per commit are known.
#[test]
fn commits_and_flushes_match_the_contestant() {
    let scene = Scene::new(0);
    let few = "cooperative-on-the-fly,one-flush,compact,okaywal,raft-engine,wal-db";
    let args = [
        "--workload",
        "commit",
        "--threads",
        "1",
        "--think",
        "0",
        "--device",
        DEVICES[0],
    ];
    let args = [&args[..], &["--seconds", "0.3", "--contestant", few]].concat();
    let (_, rows) = measured(&scene, &args);
    assert_eq!(rows.len(), 6);
    for row in &rows {
        let wanted = if row["contestant"] == "cooperative-on-the-fly" {
            0.5
        } else {
            1.0
        };
        if !did_something(row) || row["commits_per_flush"].is_null() {
            continue;
        }
        let commits = positive(row, "commits_per_s") * 0.3;
        let flushes = commits / positive(row, "commits_per_flush");
        // At the start and end of a round, a flush may be counted without its commit, or a commit
        // without its flush. And okaywal's first round also flushes a folder.
        assert!((commits - wanted * flushes).abs() <= 7.5, "{row}");
    }
}

/// Other contestants than block journals have no such rows.
#[test]
fn larger_commits_are_measured_on_every_device() {
    let scene = Scene::new(0);
    let few = "coalesced,cooperative,compact";
    let args = [
        "--workload",
        "blocks",
        "--threads",
        "2",
        "--contestant",
        few,
    ];
    let (told, rows) = measured(&scene, &[&args[..], &SHORT].concat());
    // Not every file system can bypass the page cache.
    let devices = if told.contains("skipped") { 3 } else { 4 };
    assert_eq!(rows.len(), devices * 3 * 2, "{told}");
    for (nth, row) in rows.iter().enumerate() {
        assert_eq!(
            (&row["workload"], &row["think"]),
            (&"blocks".into(), &0.0.into())
        );
        assert_eq!(row["blocks"], [1, 16, 64][nth / 2 % 3], "{row}");
        let is_judged = row["contestant"] == "cooperative";
        assert_eq!(
            row["targets"].as_array().unwrap().len(),
            usize::from(is_judged)
        );
    }
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    if rows.iter().all(did_something) {
        assert!(page.contains(">cooperative, every cell, disk</td>"));
        assert!(page.contains("commits/s, times coalesced ≥ 0.9"));
    }
    assert!(told.contains("blocks"), "{told}");
}

#[test]
fn the_patterns_are_shown_with_the_numbers_of_the_thesis() {
    let scene = Scene::new(0);
    let args = [
        "--workload",
        "fio,ior",
        "--threads",
        "1,2",
        "--contestant",
        "serial,cooperative-on-the-fly,compact",
    ];
    let (told, rows) = measured(&scene, &[&args[..], &ON_BOTH, &SHORT].concat());
    // Five sizes of fio and one of ior, with two journals, on two devices.
    assert_eq!(rows.len(), 2 * (5 + 1) * 2);
    for row in &rows {
        assert!(["fio", "ior"].contains(&row["workload"].as_str().unwrap()));
        assert_eq!((&row["threads"], &row["think"]), (&2.into(), &Value::Null));
        let transfers = &row["transfers"];
        let bytes = positive(transfers, "block_bytes");
        let mb = transfers["mb_per_s"].as_f64().unwrap();
        let wanted = row["commits_per_s"].as_f64().unwrap() * bytes / 1e6;
        assert!((mb - wanted).abs() < 1e-9, "{row}");
        assert_eq!(
            transfers["transactions_per_write"].is_number(),
            did_something(row)
        );
        if let Some(delay) = transfers["startup_delay"].as_f64() {
            assert!((0.0..=100.0).contains(&delay), "{row}");
        }
        assert!(row["targets"].as_array().unwrap().is_empty());
    }
    for wanted in [
        "Figure 4.1",
        "Figure 4.2",
        "Figure 4.3",
        "1.301",
        "ior, 2 clients, 4 KiB",
        "64 KiB",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert!(page.contains("<h2>The thesis</h2>") && !page.contains("<svg"));
}

#[test]
fn invalid_arguments_are_errors() {
    let scene = Scene::new(0);
    for (args, wanted) in [
        (&["--threads", "0"][..], "--threads"),
        (&["--threads", "x"], "--threads 1,2"),
        (&["--think=-1"], "0 to 100 flushes"),
        (&["--think", "nan"], "0 to 100 flushes"),
        (&["--seconds", "0"], "0.01 to 3600"),
        (&["--device", "tape"], "modelled-1ms, disk"),
        (&["--contestant", "rocksdb"], "okaywal"),
        (&["--workload", "tpcc"], "commit, blocks, fio, ior"),
        (
            &["--workload", "fio", "--threads", "1"],
            "two or more threads",
        ),
        (
            &["--workload", "ior", "--contestant", "compact"],
            "block journals",
        ),
        (&["--micro"], "--micro"),
    ] {
        scene.fails(&[&["journal"], args].concat(), &[wanted]);
    }
    scene.fails(&["--micro", "journal"], &["--micro"]);
    scene.fails(&["--seconds", "1", "journal"], &["--seconds"]);
}

#[test]
fn folders_and_outputs_are_checked_before_anything_runs() {
    let scene = Scene::new(1);
    let nowhere = ["journal", "--device", "disk", "--dir", "nowhere"];
    scene.fails(&nowhere, &["nowhere", "with --dir"]);
    let file = [
        "journal",
        "--device",
        "disk",
        "--dir",
        "source/folder-0/file-0",
    ];
    scene.fails(&file, &["file-0", "with --dir"]);
    scene.fails(
        &["journal", "--json", "source"],
        &["--json source", "nothing was run"],
    );
    scene.fails(
        &["journal", "--json", "x", "--report", "./x"],
        &["both x", "two different files"],
    );
    assert!(!scene.path("x").exists());
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error() {
    let scene = Scene::new(0);
    let args = [
        "journal",
        "--workload",
        "commit",
        "--contestant",
        "compact",
        "--device",
        DEVICES[0],
    ];
    let args = [
        &args[..],
        &["--seconds", "0.01", "--think", "0", "--threads", "8"],
    ]
    .concat();
    fails_in_little_memory(
        &scene,
        &args,
        &["compact on modelled-1ms", "cannot be started"],
    );
    assert!(!scene.path("report.html").exists());
}

#[test]
fn the_help_describes_the_comparison() {
    let scene = Scene::new(0);
    // Lines are broken between words.
    let told = |args: &[&str]| {
        let told = String::from_utf8(scene.compare(args).stdout).unwrap();
        told.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(told(&["--help"]).contains("durable commits"));
    let told = told(&["journal", "--help"]);
    for wanted in [
        "cargo compare journal",
        "durable commits",
        "piggyback delay",
        "--think",
        "--dir",
        "modelled-1ms",
        "compact-rendezvous",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
}
