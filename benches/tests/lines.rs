//! `compare lines`: all counts are the recorded ones, and messages for bad input tell what to do.

mod common;

use common::scene::*;
use serde_json::Value;

/// On two idle cores, this takes less than a minute, most of it for the builds.
#[test]
fn all_counts_are_the_recorded_ones() {
    let scene = Scene::new(0);
    let output = scene.compare(&["lines", "--json", "rows.json"]);
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    let rows = scene.rows("lines");
    let judged = |row: &&Value| row["targets"][0].is_object();
    for (case, least) in [("read-same", 3), ("-disjoint", 20)] {
        let rows = rows
            .iter()
            .filter(|row| row["case"].as_str().unwrap().contains(case));
        let targets: Vec<_> = rows
            .filter(judged)
            .map(|row| &row["targets"][0]["met"])
            .collect();
        assert!(
            targets.len() >= least && targets.iter().all(|&met| *met == true),
            "{case}: {told}"
        );
    }
    let layouts = rows.iter().filter(|row| row["layouts"] == 1000).count();
    assert_eq!(layouts, 12, "two cases, three locks, two numbers of cores");
}

#[test]
fn more_cores_than_the_machine_has_are_refused_at_once() {
    let scene = Scene::new(0);
    let output = scene.compare(&["lines", "--cores", "8,129"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("parameters for 1 to 128 cores"), "{said}");
}
