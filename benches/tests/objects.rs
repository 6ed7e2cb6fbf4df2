//! `compare objects`: all rows are present, ratios and verdicts follow from them, and messages for
//! bad input tell what to do.

mod common;

use std::fs;

use common::scene::*;
use serde_json::Value;

const QUICK: [&str; 7] = [
    "objects",
    "--seconds",
    "0.01",
    "--threads",
    "1,2",
    "--json",
    "rows.json",
];

/// Runs it on files in memory, where a flush takes no time. Returns its output and its rows.
fn measured(scene: &Scene, args: &[&str]) -> (String, Vec<Value>) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let dir = ["--dir", folder.path().to_str().unwrap()];
    let output = scene.compare(&[&QUICK[..], &dir, args].concat());
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

/// A ratio of a row is that of its `per_s` to another row's.
fn follows(rows: &[Value], row: &Value, figure: &str, layout: &str, case: &str, device: &str) {
    let mode = match layout {
        "packed" | "region" => row["mode"].as_str(),
        _ => None,
    };
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
    let (told, rows) = measured(&scene, &["--case", "create,put", "--device", "pmem,disk"]);
    let creations = ["skip-1", "skip-1024", "skip-128", "batch-64"];
    // Creations and files, puts and files, on two devices with two numbers of threads.
    assert_eq!(rows.len(), (4 * 2 + 2 + 2 + 2) * 2 * 2);
    for device in ["pmem", "disk"] {
        for threads in [1, 2] {
            for layout in ["packed", "region"] {
                for creation in creations {
                    let case = format!("create/{creation}");
                    let row = find(&rows, (&case, layout, Some("direct"), device, threads));
                    is_sound(row);
                    follows(&rows, row, "ratio", "files-synced", "create/files", "disk");
                    follows(
                        &rows,
                        row,
                        "to_not_durable",
                        "files",
                        "create/files",
                        device,
                    );
                    match creation {
                        "skip-1024" => {
                            follows(&rows, row, "to_off", layout, "create/skip-1", device)
                        }
                        "batch-64" => {
                            follows(&rows, row, "to_off", layout, "create/skip-128", device)
                        }
                        _ => assert!(row["to_off"].is_null(), "{row}"),
                    }
                    let wanted: &[_] = match (creation, layout) {
                        ("batch-64", "packed") => {
                            follows(&rows, row, "to_region", "region", &case, device);
                            &[("ratio", 12.0), ("per_s", 1e5), ("to_region", 8.0)]
                        }
                        ("batch-64", _) => &[("ratio", 12.0)],
                        _ => &[],
                    };
                    assert_eq!(asked(row), wanted, "{row}");
                }
                let put = find(
                    &rows,
                    ("put/4k", layout, Some("direct-sized"), device, threads),
                );
                is_sound(put);
                follows(
                    &rows,
                    put,
                    "ratio",
                    "local-file-system-synced",
                    "put/4k",
                    "disk",
                );
                follows(
                    &rows,
                    put,
                    "to_not_durable",
                    "local-file-system",
                    "put/4k",
                    device,
                );
                let wanted: &[_] = if layout == "packed" {
                    &[("ratio", 20.0)]
                } else {
                    &[]
                };
                assert_eq!(asked(put), wanted, "{put}");
            }
        }
    }
    let batch = find(
        &rows,
        ("create/batch-64", "region", Some("direct"), "pmem", 2),
    );
    assert_eq!(number(batch, "paper"), 2.84);
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
    let args = ["--case", "vectors,write,read", "--device", "pmem,disk"];
    let (_, rows) = measured(&scene, &args);
    assert_eq!(rows.len(), (5 + 2 * 2 * 4 * 3) * 2 * 2);
    for device in ["pmem", "disk"] {
        for threads in [1, 2] {
            for count in [1, 2, 8, 32, 128] {
                let case = format!("vectors/{count}");
                let row = find(&rows, (&case, "space", None, device, threads));
                is_sound(row);
                follows(&rows, row, "ratio", "space", "vectors/1", device);
            }
            for access in [
                "write/sequential",
                "write/random",
                "read/sequential",
                "read/random",
            ] {
                for (size, bytes) in [
                    ("4k", 4096.0),
                    ("64k", 65_536.0),
                    ("256k", 262_144.0),
                    ("1m", 1_048_576.0),
                ] {
                    let case = format!("{access}/{size}");
                    for mode in ["direct", "direct-sized"] {
                        let row = find(&rows, (&case, "packed", Some(mode), device, threads));
                        is_sound(row);
                        follows(&rows, row, "to_raw", "raw", &case, device);
                        let mebibytes = number(row, "per_s") * bytes / f64::from(1 << 20);
                        assert!(
                            (number(row, "mib_per_s") / mebibytes - 1.0).abs() < 1e-9,
                            "{row}"
                        );
                        let wanted: &[_] = if size == "4k" {
                            &[]
                        } else {
                            &[("to_raw", 0.977)]
                        };
                        assert_eq!(asked(row), wanted, "{row}");
                    }
                    is_sound(find(&rows, (&case, "raw", None, device, threads)));
                }
            }
        }
    }
}

/// Enough objects are created for checkpoints to be made.
#[test]
fn the_longest_creation_is_measured_across_checkpoints() {
    let scene = Scene::new(0);
    let args = [
        "--case",
        "checkpoints",
        "--device",
        "disk",
        "--seconds",
        "0.5",
    ];
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let dir = ["--dir", folder.path().to_str().unwrap()];
    let args = [&QUICK[..1], &QUICK[3..], &args, &dir].concat();
    let output = scene.compare(&args);
    assert!(output.status.success(), "{output:?}");
    let rows = scene.rows("objects");
    assert_eq!(rows.len(), 2 * 2);
    for layout in ["packed", "region"] {
        for threads in [1, 2] {
            let row = find(
                &rows,
                (
                    "create/checkpoints",
                    layout,
                    Some("direct"),
                    "disk",
                    threads,
                ),
            );
            is_sound(row);
            assert!(number(row, "checkpoints") >= 5.0, "{row}");
        }
    }
}

#[test]
fn a_disk_that_cannot_bypass_the_page_cache_is_left_out() {
    let scene = Scene::new(0);
    let (told, rows) = measured(&scene, &["--case", "put"]);
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
