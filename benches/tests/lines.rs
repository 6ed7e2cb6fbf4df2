//! `compare lines`: all counts are the recorded ones, and messages for bad input tell what to do.

mod common;

use common::scene::*;

/// On two idle cores, this takes less than a minute, most of it for the builds.
#[test]
fn all_counts_are_the_recorded_ones() {
    let scene = Scene::new(0);
    let output = scene.compare(&["lines", "--json", "rows.json"]);
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    let rows = scene.rows("lines");
    let of = |case: &str| {
        rows.iter()
            .filter(|row| row["case"].as_str().unwrap().contains(case))
    };
    for row in of("-layouts") {
        assert_eq!(row["layouts"], 1000, "{row}");
    }
    let is_met = |row: &&serde_json::Value| row["targets"][0]["met"] == true;
    for case in ["read-same", "-disjoint"] {
        let judged = of(case).filter(|row| row["targets"][0].is_object());
        assert!(
            judged.clone().count() > 0 && judged.clone().all(|row| is_met(&row)),
            "{told}"
        );
    }
}

#[test]
fn more_cores_than_the_machine_has_are_refused_at_once() {
    let scene = Scene::new(0);
    let output = scene.compare(&["lines", "--cores", "8,129"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("parameters for 1 to 128 cores"), "{said}");
}
