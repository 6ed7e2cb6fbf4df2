//! `compare lines`: all counts are the recorded ones, the model's bands are bands, and messages for
//! bad input tell what to do.

use crate::common::scene::*;
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
fn the_model_s_bands_and_claims_follow_from_its_runs() {
    let scene = Scene::new(0);
    let filter = "file-overwrite/rw-counter,file-overwrite/srl-tree";
    let args = ["lines", "--model", "--cores", "8", "--seeds", "1"];
    let output = scene.compare(&[&args[..], &["--filter", filter, "--json", "rows.json"]].concat());
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    let rows = scene.rows("lines-model");
    assert_eq!(rows.len(), 2, "{told}");
    let is_band = |band: &Value| {
        let [low, median, high] = ["low", "median", "high"].map(|it| band[it].as_f64().unwrap());
        assert!(0.0 < low && low < median && median < high, "{band}");
        low
    };
    for row in &rows {
        assert_eq!(row["points"], 27, "{row}");
        is_band(&row["ops_per_s"]);
    }
    let ratio = &rows[1]["ratios"][0];
    // Eight writers of disjoint pages do not wait for each other, and under one lock they do.
    assert!(
        is_band(&ratio["ratio"]) > 1.03 && ratio["to"] == "rw-counter",
        "{ratio}"
    );
    assert!(
        ratio["published"].is_null(),
        "the paper has 56 cores: {ratio}"
    );
    assert!(
        told.contains("srl-tree is faster than rw-counter"),
        "{told}"
    );
    let page = std::fs::read_to_string(scene.path("report.html")).unwrap();
    assert!(page.contains("nothing was measured") && page.matches("<svg").count() == 2);
}

#[test]
fn the_model_names_what_it_has() {
    let scene = Scene::new(0);
    scene.fails(
        &["lines", "--model", "--filter", "read-same"],
        &["no cell with such a name", "file-read/srl-tree/8"],
    );
    for wrong in [
        ["--model", "--accept"],
        ["--seeds", "3"],
        ["--model", "--seeds=0"],
    ] {
        let output = scene.compare(&[&["lines"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
}

#[test]
fn more_cores_than_the_machine_has_are_refused_at_once() {
    let scene = Scene::new(0);
    for args in [
        &["lines", "--cores", "8,129"][..],
        &["lines", "--model", "--cores", "129"],
    ] {
        let output = scene.compare(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("parameters for 1 to 128 cores"), "{said}");
    }
}
