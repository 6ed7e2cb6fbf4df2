//! `compare --micro`: all rows are present, ratios and verdicts follow from the rows, and messages
//! for bad input tell what to do.

use std::collections::BTreeSet;
use std::fs;

use crate::common::scene::*;
use serde_json::Value;
use spanlock_benches::locks::{self, Entry, Visitor};
use spanlock_range_lock::RawRangeLock;

const CASES: [&str; 10] = [
    "write/1-segment",
    "read/1-segment",
    "write/16-segments",
    "write/256-segments",
    "write/full-range",
    "write/full-range-by-segment",
    "write/held-10",
    "write/held-10000",
    "contended/2-threads",
    "contended/8-threads",
];

/// The properties of a lock that its rows depend on.
#[derive(Clone, Copy, Debug)]
struct Lock {
    name: &'static str,
    covers: u64,
    ranges: bool,
    shares: bool,
    waits: bool,
}

const LARGEST: u64 = 1_500_000_000_000;

const PEERS: [Lock; 6] = [
    peer("parking_lot", LARGEST, false, true, true),
    peer("parking_lot-fair", LARGEST, false, true, true),
    peer("std", LARGEST, false, true, true),
    peer("range-lock", 1 << 30, true, false, false),
    peer("range-mutex", 1 << 30, true, false, true),
    peer("ofd", LARGEST, true, true, true),
];

const fn peer(name: &'static str, covers: u64, ranges: bool, shares: bool, waits: bool) -> Lock {
    Lock {
        name,
        covers,
        ranges,
        shares,
        waits,
    }
}

/// Returns the registry's locks, with the properties they report, followed by the locks of other
/// projects.
fn all_locks() -> Vec<Lock> {
    struct List(Vec<Lock>);
    impl Visitor for List {
        fn visit<L: RawRangeLock + 'static>(&mut self, entry: Entry<L>) {
            let covers = entry.reach.min(LARGEST);
            let ranges = (entry.make)(1 << 20).unwrap().granularity() <= 4096;
            self.0.push(peer(entry.name, covers, ranges, true, true));
        }
    }
    let mut list = List(Vec::new());
    locks::visit_all(&mut list);
    list.0.extend(PEERS);
    list.0
}

/// Returns whether the lock's interface allows the case.
fn has_row(case: &str, lock: Lock) -> bool {
    match case {
        _ if lock.name == "parking_lot-fair" => case.starts_with("contended/"),
        "read/1-segment" => lock.shares,
        "write/full-range-by-segment" | "write/held-10" | "write/held-10000" => lock.ranges,
        "contended/2-threads" | "contended/8-threads" => lock.waits,
        _ => true,
    }
}

/// Runs it and returns its output and its rows.
fn measured(scene: &Scene, args: &[&str]) -> (String, Vec<Value>) {
    let always = ["--micro", "--seconds", "0.01", "--json", "rows.json"];
    let output = scene.compare(&[&always, args].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    (told, scene.rows("micro"))
}

fn ns(rows: &[Value], case: &Value, lock: &Value) -> Option<f64> {
    figure_of(rows, "ns", case, lock)
}

fn figure_of(rows: &[Value], figure: &str, case: &Value, lock: &Value) -> Option<f64> {
    let row = rows
        .iter()
        .find(|row| row["case"] == *case && row["lock"] == *lock);
    row.map(|row| row[figure].as_f64().unwrap())
}

fn assert_close(found: &Value, wanted: f64) {
    let found = found.as_f64().unwrap();
    assert!((found / wanted - 1.0).abs() < 1e-9, "{found}, not {wanted}");
}

#[test]
fn every_row_is_present_and_follows_from_its_samples() {
    let scene = Scene::new(0);
    let (told, rows) = measured(&scene, &[]);
    let wanted: Vec<_> = CASES
        .iter()
        .flat_map(|&case| all_locks().into_iter().map(move |lock| (case, lock)))
        .filter(|&(case, lock)| has_row(case, lock))
        .map(|(case, lock)| (case, lock.name))
        .collect();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row["case"].as_str().unwrap(), row["lock"].as_str().unwrap()))
        .collect();
    assert_eq!(found, wanted);
    for row in &rows {
        let [least, q1, ns, q3] =
            ["min_ns", "q1_ns", "ns", "q3_ns"].map(|it| row[it].as_f64().unwrap());
        assert!(0.0 < least && least <= q1 && q1 <= ns && ns <= q3, "{row}");
        assert!(row["samples"].as_u64().unwrap() > 0, "{row}");
        let contended = row["case"].as_str().unwrap().starts_with("contended/");
        assert_eq!(row["longest_ns"].is_f64(), contended, "{row}");
    }
    for reason in [
        "std: no row write/full-range-by-segment, write/held-10, write/held-10000 (locks everything",
        "range-mutex: no row read/1-segment (exclusive locks only)",
        "range-lock: no row contended/2-threads, contended/8-threads (try-only",
    ] {
        assert!(told.contains(reason), "no {reason:?} in: {told}");
    }
    rows_report_the_length_of_their_range(&rows);
    ratios_are_to_parking_lot(&rows);
    targets_follow_from_the_rows(&rows);
    the_page_shows_all(&scene, &rows);
}

/// The full range is the lock's whole capacity.
fn rows_report_the_length_of_their_range(rows: &[Value]) {
    let locks = all_locks();
    for row in rows {
        let lock = locks.iter().find(|it| row["lock"] == it.name).unwrap();
        let bytes = match row["case"].as_str().unwrap() {
            "write/16-segments" => 16 << 12,
            "write/256-segments" => 256 << 12,
            "write/full-range" => lock.covers,
            "write/full-range-by-segment" => 1 << 30,
            _ => 4096,
        };
        assert_eq!(row["bytes"], bytes, "{row}");
    }
}

fn ratios_are_to_parking_lot(rows: &[Value]) {
    let write = ns(rows, &"write/1-segment".into(), &"parking_lot".into()).unwrap();
    for row in rows {
        if row["case"] == "write/full-range-by-segment" {
            assert_eq!(row["ratio"], Value::Null, "{row}");
            continue;
        }
        let peer = ns(rows, &row["case"], &"parking_lot".into()).unwrap_or(write);
        assert_close(&row["ratio"], row["ns"].as_f64().unwrap() / peer);
    }
}

/// The verdicts are computed here again; only the limits are constants.
fn targets_follow_from_the_rows(rows: &[Value]) {
    let mut limits = BTreeSet::new();
    for row in rows {
        for target in row["targets"].as_array().unwrap() {
            let asked = target["asked"].as_f64().unwrap();
            assert_eq!(target["bound"], "at-most");
            let (figure, times) = target["figure"]
                .as_str()
                .and_then(|it| it.split_once(", times "))
                .unwrap();
            let told = |it: &Value| it.as_str().unwrap().to_owned();
            let (own_case, own_lock) = (told(&row["case"]), told(&row["lock"]));
            let (case, lock) = match times.split_once(" of ") {
                Some(both) => both,
                None if CASES.contains(&times) => (times, &*own_lock),
                None => (&*own_case, times),
            };
            limits.insert(format!(
                "{figure} {own_case} of {own_lock} ≤ {asked} × {case} of {lock}"
            ));
            let Some(other) = figure_of(rows, figure, &case.into(), &lock.into()) else {
                assert!(target["measured"].is_null() && target["met"].is_null());
                continue;
            };
            let measured = row[figure].as_f64().unwrap() / other;
            assert_close(&target["measured"], measured);
            assert_eq!(target["met"], measured <= asked);
        }
    }
    let mut wanted = vec![
        "ns write/1-segment of srl-array ≤ 0.6 × write/1-segment of parking_lot".to_owned(),
        "ns read/1-segment of srl-array ≤ 1 × read/1-segment of parking_lot".to_owned(),
        "ns write/1-segment of interval-tree ≤ 0.95 × write/1-segment of range-mutex".to_owned(),
        "ns write/held-10000 of interval-tree ≤ 4 × write/held-10 of interval-tree".to_owned(),
    ];
    for (lock, _) in locks::all() {
        let peer = match lock {
            "interval-tree" => "range-mutex",
            _ => "parking_lot",
        };
        let (two, eight) = ("contended/2-threads", "contended/8-threads");
        wanted.extend([
            format!("ns write/1-segment of {lock} ≤ 0.05 × write/1-segment of ofd"),
            format!("ns read/1-segment of {lock} ≤ 0.05 × read/1-segment of ofd"),
            format!("ns {two} of {lock} ≤ 1.25 × {two} of {peer}"),
            format!("ns {eight} of {lock} ≤ 1.25 × {eight} of {peer}"),
            format!("ns {eight} of {lock} ≤ 1.25 × {two} of {lock}"),
            format!("longest_ns {eight} of {lock} ≤ 4 × {eight} of parking_lot-fair"),
        ]);
    }
    for wanted in wanted {
        assert!(limits.contains(&wanted), "no {wanted:?} in {limits:#?}");
    }
}

fn the_page_shows_all(scene: &Scene, rows: &[Value]) {
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert_eq!(page.matches("<figure>").count(), CASES.len() + 1);
    for row in rows {
        for cell in [&row["case"], &row["lock"]] {
            assert!(page.contains(&format!(">{}<", cell.as_str().unwrap())));
        }
    }
    let target = "ns, times parking_lot ≤ 0.6";
    for wanted in [
        "<span>compare</span> <span>--micro</span>",
        "<h2>Targets</h2>",
        "no row",
        target,
    ] {
        assert!(page.contains(wanted), "no {wanted:?}");
    }
    for outside in [
        "<script", "<link", "<img", "src=", "href=", "url(", "@import",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// A verdict needs both of its rows and names the missing one.
#[test]
fn selected_locks_are_measured_and_missing_rows_are_named() {
    let scene = Scene::new(0);
    let (told, rows) = measured(&scene, &["--locks", "ofd,srl-array"]);
    let locks: BTreeSet<_> = rows
        .iter()
        .map(|row| row["lock"].as_str().unwrap())
        .collect();
    assert_eq!(locks, BTreeSet::from(["ofd", "srl-array"]));
    assert!(rows.iter().all(|row| row["ratio"].is_null()));
    let targets = rows[0]["targets"].as_array().unwrap();
    assert_eq!(
        (&rows[0]["lock"], &targets[0]["met"]),
        (&"srl-array".into(), &Value::Null)
    );
    assert!(targets[1]["met"].is_boolean(), "{targets:?}");
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert!(page.contains("not measured: interval-tree, range-mutex"));
    for wanted in [
        "Some lack rows of: interval-tree, ",
        "parking_lot, ",
        "No ratios",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
}

#[test]
fn contradicting_arguments_are_errors() {
    let scene = Scene::new(1);
    for (option, value) in [
        ("--threads", "2"),
        ("--workloads", "dwom"),
        ("--import", "source"),
        ("--volume", "volume"),
        ("--size", "64M"),
    ] {
        let leave = format!("leave {option} out, or --micro");
        scene.fails(&["--micro", option, value], &["without files", &leave]);
    }
    assert!(!scene.path("volume").exists());
    scene.fails(
        &["--locks", "srl-array,ofd"],
        &["--locks ofd", "leave it out, or add --micro"],
    );
    let names: Vec<_> = all_locks().into_iter().map(|it| it.name).collect();
    let names = names.join(", ");
    scene.fails(&["--micro", "--locks", "nolock"], &["nolock", &names]);
    scene.fails(
        &["--micro", "--seconds", "0"],
        &["--seconds", "0.01 to 3600"],
    );
    scene.fails(&["--micro=yes"], &["--micro"]);
}

#[test]
fn outputs_are_checked_before_anything_is_measured() {
    let scene = Scene::new(1);
    scene.fails(
        &["--micro", "--json", "source"],
        &["--json source", "cannot be written", "nothing was run"],
    );
    scene.fails(
        &["--micro", "--report", "nowhere/report.html"],
        &["--report nowhere/report.html", "folder that exists"],
    );
    scene.fails(
        &["--micro", "--json", "x", "--report", "./x"],
        &["both x", "two different files"],
    );
    assert!(!scene.path("x").exists());
}

/// A lock without enough memory and a thread that cannot be started are reported as errors.
#[test]
fn too_little_memory_is_an_error() {
    let scene = Scene::new(0);
    let args = ["--micro", "--seconds", "0.01", "--locks", "rw-counter"];
    let wanted = ["contended/8-threads under rw-counter", "cannot be started"];
    fails_in_little_memory(&scene, &args, &wanted);
    assert!(!scene.path("report.html").exists());
}

#[test]
fn the_help_describes_micro() {
    let output = Scene::new(0).compare(&["--help"]);
    let told = String::from_utf8(output.stdout).unwrap();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "--micro",
        "only with --micro",
        "range-mutex",
        "each combination of case and lock",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
}
