//! `compare papers` as a command: every figure has rows, ratios and winners follow from the halves,
//! and messages for bad input tell what to do.

use std::fs;

use crate::common::scene::*;
use serde_json::Value;
use spanlock_benches::papers::{PAPERS, published};

fn measured(scene: &Scene, args: &[&str]) -> (String, Vec<Value>) {
    let own = ["papers", "--json", "rows.json", "--seconds", "0.01"];
    let output = scene.compare(&[&own[..], args].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    (told, scene.rows("papers"))
}

fn number(row: &Value, key: &str) -> f64 {
    let number = row[key].as_f64();
    number.unwrap_or_else(|| panic!("no {key} in {row}"))
}

/// Recomputes what follows from a row's halves.
fn is_sound(row: &Value) {
    assert!(
        !row["differs_because"].as_str().unwrap().is_empty(),
        "{row}"
    );
    let halves = row["halves"].as_array().unwrap().iter();
    let halves: Vec<f64> = halves.map(|it| it.as_f64().unwrap()).collect();
    if halves.is_empty() {
        for key in ["ours", "ratio", "winner", "subject"] {
            assert!(row[key].is_null(), "{row}");
        }
        return;
    }
    let ours = (halves[0] * halves[1]).sqrt();
    assert!((number(row, "ours") / ours - 1.0).abs() < 1e-9, "{row}");
    if row["published"].is_number() {
        let ratio = ours / number(row, "published");
        assert!((number(row, "ratio") / ratio - 1.0).abs() < 1e-9, "{row}");
    }
    let both = |of: fn(f64) -> bool| halves.iter().all(|&it| of(it));
    let has_one_side = both(|it| it > 1.03) || both(|it| it < 1.0 / 1.03);
    if !has_one_side {
        let winner = row["winner"].as_str();
        assert!(winner.is_none_or(|it| it == "undecided"), "{row}");
    }
}

#[test]
fn the_locks_of_a_paper_are_compared() {
    let scene = Scene::new(0);
    let (told, rows) = measured(&scene, &["srl"]);
    let wanted = published::all().iter().filter(|it| it.paper == "SRL");
    assert_eq!(rows.len(), wanted.clone().count());
    for (row, said) in rows.iter().zip(wanted) {
        is_sound(row);
        assert_eq!(row["figure"], said.figure);
        let is_it = |it: f64| (it / number(row, "published") - 1.0).abs() < 1e-9;
        assert!(said.published.is_none_or(is_it), "{row}");
        assert_eq!(row["ours"].is_number(), said.case.is_some(), "{row}");
    }
    // What the locks take does not vary.
    let memory = rows
        .iter()
        .find(|it| it["row"].as_str().unwrap().contains("512 GB"));
    assert_eq!(memory.unwrap()["winner"], "srl-tree");
    assert_eq!(memory.unwrap()["halves"][0], memory.unwrap()["halves"][1]);
    for wanted in [
        "SRL, Figure 12(a)",
        "They differ because",
        "Optane",
        "Where a paper has a winner",
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert!(page.matches("<figure>").count() >= 12 && page.contains("Figure 15(b)"));
    for outside in ["<script", "<link", "<img", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn other_comparisons_measure_the_other_papers() {
    let scene = Scene::new(0);
    let dir = scene.path("source");
    fs::create_dir_all(&dir).unwrap();
    let args = [
        "F2FS",
        "OBJ",
        "DNODE",
        "--figure",
        "2,6(c),Text",
        "--dir",
        "source",
    ];
    let (_, rows) = measured(&scene, &args);
    rows.iter().for_each(is_sound);
    let ours = |paper: &str| -> Vec<&Value> {
        let all = rows.iter().filter(|it| it["paper"] == paper);
        all.filter(|it| it["ours"].is_number()).collect()
    };
    // Vectors as a ratio and as a number, on two devices.
    assert_eq!(ours("OBJ").len(), 4);
    // Node logging with and without a range lock; and bytes.
    let subjects: Vec<_> = ours("F2FS")
        .iter()
        .map(|it| it["subject"].as_str().unwrap())
        .collect();
    assert_eq!(subjects, ["nl", "integrated", "nl"]);
    let bytes = ours("F2FS")[2];
    assert_eq!(
        (&bytes["row"], &bytes["winner"]),
        (
            &"bytes of an inode that are made durable".into(),
            &"nl".into()
        )
    );
    assert!(fs::read_dir(dir).unwrap().next().is_none());
}

#[test]
fn the_thesis_is_compared_on_devices_whose_writes_take_time() {
    let scene = Scene::new(0);
    let args = [
        "papers",
        "JBD",
        "--figure",
        "4.3",
        "--seconds",
        "0.01",
        "--json",
        "rows.json",
    ];
    let output = scene.compare(&args);
    if !output.status.success() {
        // Not every file system can bypass the page cache.
        return assert_fails(
            &output,
            &args,
            &["O_DIRECT", "nothing was measured", "--dir"],
        );
    }
    let rows = scene.rows("papers");
    rows.iter().for_each(is_sound);
    // On a busy machine, `serial` may commit nothing in so short a time.
    for row in rows.iter().filter(|it| it["ours"].is_number()) {
        let subject = row["subject"].as_str().unwrap();
        assert!(subject.starts_with("cooperative-on-the-fly"), "{row}");
        let here = row["here"].as_str().unwrap();
        assert!(
            ["modelled-writes", "disk-direct"]
                .iter()
                .any(|it| here.ends_with(it)),
            "{row}"
        );
    }
    let figures = rows.iter().map(|it| it["figure"].as_str().unwrap());
    assert!(rows.len() >= 4 && figures.into_iter().all(|it| it == "Figure 4.3"));
}

#[test]
fn the_list_measures_nothing() {
    let scene = Scene::new(0);
    let output = scene.compare(&["papers", "--list"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !scene.path("report.html").exists());
    for (paper, about) in PAPERS {
        assert!(
            told.contains(&format!("{paper}: {about}")),
            "no {paper} in: {told}"
        );
    }
    for wanted in ["no, because", "Table 3.1", "fio: cooperative", "39.600"] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }
}

#[test]
fn bad_input_is_an_error_before_anything_is_measured() {
    let scene = Scene::new(0);
    scene.fails(
        &["papers", "NOVA"],
        &["'NOVA'", "SRL, F2FS, JBD, DNODE, OBJ"],
    );
    scene.fails(
        &["papers", "JBD", "--figure", "4.3,12"],
        &["--figure 12", "JBD: Figure 3.1, Table 3.1, Figure 4.1"],
    );
    scene.fails(&["papers", "--list", "--json", "x"], &["--list", "--json"]);
    scene.fails(
        &["papers", "OBJ", "--dir", "nowhere"],
        &[
            "--dir nowhere: there is no such folder",
            "nothing was measured",
        ],
    );
    scene.fails(
        &["papers", "SRL", "--json", "source/none/x"],
        &["--json source/none/x", "nothing was run"],
    );
    // A file system of the kernel, which has no room for anything.
    scene.fails(
        &["papers", "F2FS", "--figure", "6(c)", "--dir", "/proc"],
        &[
            "/proc has 0 MiB of free space",
            "nothing was measured",
            "--dir",
        ],
    );
}
