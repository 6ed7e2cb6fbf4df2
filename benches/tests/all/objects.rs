//! `compare objects`: all rows are present, ratios and verdicts follow from them, and messages for
//! bad input tell what to do.

use std::fs;

use crate::common::scene::*;
use serde_json::Value;

const QUICK: [&str; 3] = ["objects", "--json", "rows.json"];

/// Runs it on files in memory, where a flush takes no time. Returns its output and its rows.
fn measured(scene: &Scene, seconds: &str, args: &[&str]) -> (String, Vec<Value>) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let own = [
        "--dir",
        folder.path().to_str().unwrap(),
        "--seconds",
        seconds,
    ];
    let output = scene.compare(&[&QUICK[..], &own, args].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    (told, scene.rows("objects"))
}

fn number(row: &Value, figure: &str) -> f64 {
    let number = row[figure].as_f64();
    number.unwrap_or_else(|| panic!("no {figure} in {row}"))
}

/// The places of rows: case, layout, mode, device and threads.
type Place<'a> = (&'a str, &'a str, Option<&'a str>, &'a str, u64);

fn find<'a>(rows: &'a [Value], place: Place<'_>) -> &'a Value {
    let (case, layout, mode, device, threads) = place;
    let is_it = |row: &&Value| {
        (row["case"] == case && row["layout"] == layout && row["mode"].as_str() == mode)
            && row["device"] == device
            && row["threads"] == threads
    };
    let mut found = rows.iter().filter(is_it);
    let row = found.next().unwrap_or_else(|| panic!("no {place:?}"));
    assert!(found.next().is_none(), "{place:?} twice");
    row
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    let text = row[field].as_str();
    text.unwrap_or_else(|| panic!("no {field} in {row}"))
}

/// A ratio of a row is that of its `per_s` to that of a row with another case, layout or device.
fn follows(rows: &[Value], row: &Value, figure: &str, of: (&str, &str, &str)) {
    let (case, layout, device) = of;
    let is_store = ["packed", "region"].contains(&layout);
    let mode = row["mode"].as_str().filter(|_| is_store);
    let threads = row["threads"].as_u64().unwrap();
    let other = find(rows, (case, layout, mode, device, threads));
    let wanted = number(row, "per_s") / number(other, "per_s");
    let found = number(row, figure);
    assert!((found - wanted).abs() < 1e-9 * wanted, "{figure}: {row}");
}

/// What every row has, and the verdicts.
fn is_sound(row: &Value) {
    assert!(number(row, "per_s") > 0.0, "{row}");
    assert!(number(row, "p50_ns") <= number(row, "p99_ns"), "{row}");
    assert!(number(row, "p99_ns") <= number(row, "max_ns"), "{row}");
    for target in row["targets"].as_array().unwrap() {
        let figure = target["figure"].as_str().unwrap();
        assert_eq!(target["bound"], "at-least");
        assert_eq!(target["measured"], row[figure], "{row}");
        let met = target["measured"].as_f64();
        let met = met.map(|it| it >= number(target, "asked"));
        assert_eq!(target["met"].as_bool(), met, "{row}");
    }
}

fn asked(row: &Value) -> Vec<(&str, f64)> {
    let targets = row["targets"].as_array().unwrap().iter();
    let target = |it: &'_ Value| number(it, "asked");
    let all = targets.map(|it| (it["figure"].as_str().unwrap(), target(it)));
    all.collect()
}

#[test]
fn creations_and_puts_are_compared_with_files() {
    let scene = Scene::new(0);
    let (told, rows) = measured(
        &scene,
        "0.01",
        &[
            "--case",
            "create,put",
            "--device",
            "pmem,disk",
            "--threads",
            "1,2",
        ],
    );
    // Four creations in two layouts and two modes, and files; puts in two layouts, and files; on
    // two devices, with two numbers of threads.
    assert_eq!(rows.len(), (4 * 2 * 2 + 2 + 2 + 2) * 2 * 2);
    for row in &rows {
        is_sound(row);
        let (case, layout) = (text(row, "case"), text(row, "layout"));
        let device = text(row, "device");
        let (files, plain, synced) = match case {
            "put/4k" => (case, "local-file-system", "local-file-system-synced"),
            _ => ("create/files", "files", "files-synced"),
        };
        follows(&rows, row, "ratio", (files, synced, "disk"));
        follows(&rows, row, "to_not_durable", (files, plain, device));
        match case {
            "create/skip-1024" => follows(&rows, row, "to_off", ("create/skip-1", layout, device)),
            "create/batch-64" => follows(&rows, row, "to_off", ("create/skip-128", layout, device)),
            _ => assert!(row["to_off"].is_null(), "{row}"),
        }
        if layout == "packed" {
            follows(&rows, row, "to_region", (case, "region", device));
        }
        let wanted: &[_] = match (case, layout) {
            ("create/batch-64", "packed") => &[("ratio", 12.0), ("per_s", 1e5), ("to_region", 8.0)],
            ("create/batch-64", _) => &[("ratio", 12.0)],
            ("put/4k", "packed") => &[("ratio", 20.0)],
            _ => &[],
        };
        assert_eq!(asked(row), wanted, "{row}");
    }
    for (mode, paper) in [("direct", 2.84), ("versions", 2.8)] {
        let place = ("create/batch-64", "region", Some(mode), "pmem", 2);
        assert_eq!(number(find(&rows, place), "paper"), paper);
    }
    for wanted in [
        "Targets",
        "Beside the paper",
        "740 000",
        "pmem: ",
        "disk: in ",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert!(page.contains("create/batch-64, packed, direct, pmem"));
    for outside in ["<script", "<link", "<img", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn batches_writes_and_reads_are_compared_with_raw_bytes() {
    let scene = Scene::new(0);
    let args = [
        "--case",
        "vectors,write,read",
        "--device",
        "pmem,disk",
        "--threads",
        "2",
    ];
    let (_, rows) = measured(&scene, "0.01", &args);
    // Batches; four sizes in two orders of writes in three modes and reads in two, and raw bytes;
    // on two devices.
    assert_eq!(rows.len(), (5 + 4 * 2 * (4 + 3)) * 2);
    for row in &rows {
        is_sound(row);
        let (case, layout) = (text(row, "case"), text(row, "layout"));
        let device = text(row, "device");
        if layout == "space" {
            follows(&rows, row, "ratio", ("vectors/1", layout, device));
            continue;
        }
        follows(&rows, row, "to_raw", (case, "raw", device));
        let kibibytes = match case.rsplit('/').next().unwrap() {
            "1m" => 1024.0,
            size => size.strip_suffix('k').unwrap().parse().unwrap(),
        };
        let mebibytes = number(row, "per_s") * kibibytes / 1024.0;
        assert!((number(row, "mib_per_s") / mebibytes - 1.0).abs() < 1e-9);
        let wanted: &[_] = match layout {
            "packed" if row["mode"] != "versions" && kibibytes >= 64.0 => &[("to_raw", 0.977)],
            _ => &[],
        };
        assert_eq!(asked(row), wanted, "{row}");
    }
}

/// Enough objects are created for checkpoints to be made.
#[test]
fn the_longest_creation_is_measured_across_checkpoints() {
    let scene = Scene::new(0);
    // It ends with the last of the checkpoints, or after eight times as long.
    let args = [
        "--case",
        "checkpoints",
        "--device",
        "disk",
        "--threads",
        "1,2",
    ];
    let (_, rows) = measured(&scene, "0.5", &args);
    assert_eq!(rows.len(), 2 * 2 * 2);
    for row in &rows {
        is_sound(row);
        assert_eq!(row["case"], "create/checkpoints");
        assert!(number(row, "checkpoints") > 0.0, "{row}");
    }
}

#[test]
fn a_disk_that_cannot_bypass_the_page_cache_is_left_out() {
    let scene = Scene::new(0);
    let (told, rows) = measured(&scene, "0.01", &["--case", "put", "--threads", "1,2"]);
    let of = |device: &str| rows.iter().filter(|it| it["device"] == device).count();
    let is_left_out = told.contains("disk-direct is left out");
    assert_eq!(of("disk-direct"), if is_left_out { 0 } else { 4 }, "{told}");
    assert_eq!((of("pmem"), of("disk")), (8, 8));
}

#[test]
fn wrong_arguments_are_errors() {
    let scene = Scene::new(0);
    scene.fails(&["objects", "--case", "none"], &["--case", "create"]);
    scene.fails(&["objects", "--device", "none"], &["--device", "pmem"]);
    scene.fails(
        &["objects", "--dir", "missing"],
        &["in missing", "another folder with --dir"],
    );
}
