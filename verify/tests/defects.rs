//! Each seeded defect is found by the right model, and a replay shows how.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use spanlock_verify::defects::{Defect, seeded};
use spanlock_verify::program::programs;

fn verify(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_verify"))
        .args(args)
        .output()
        .expect("the command runs")
}

#[test]
fn each_defect_is_found_by_the_right_model() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("defects.json");
    let output = verify(&["defects", "--json", json.to_str().expect("text")]);
    let told = String::from_utf8_lossy(&output.stdout);
    print!("{told}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{said}");

    let text = fs::read_to_string(&json).expect("the table is written");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("the table is JSON");
    assert_eq!(cases.len(), seeded().len());
    for (case, seeded) in cases.iter().zip(seeded()) {
        assert_eq!(case["verdict"], "KILLED", "{case}");
        assert_eq!(case["defect"], seeded.defect.name());
        let model = case["model"].as_str().expect("a row");
        let right =
            |property: &&str| model.starts_with(&format!("{}/{property}/", seeded.primitive));
        assert!(seeded.properties.iter().any(right), "{case}");
        assert!(case["executions"].as_u64() > Some(0), "{case}");
        assert!(
            !case["failure"].as_str().unwrap_or_default().is_empty(),
            "{case}"
        );
    }
}

/// The same failure in the same execution, and each step of the way there; a lost wake, a hold that nobody was to have, and one that is left behind.
#[test]
fn a_replay_shows_the_same_failure_again() {
    for (row, defect, failure) in [
        (
            "rw-counter/wakeup/loom/weak",
            "wake-before-change",
            "deadlock",
        ),
        (
            "interval-tree/cancel-reader/loom/rmw-load",
            "reader-cancel-grants",
            "Concurrent read and write",
        ),
        (
            "srl-tree/try-leaves-no-trace/shuttle/dfs",
            "try-keeps",
            "all holds are gone, yet",
        ),
    ] {
        let replay = || {
            let output = verify(&["--replay", row, "--defect", defect]);
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(1), "{told}");
            told
        };
        let told = replay();
        for words in [
            failure,
            "seen until then: ",
            &*format!("BUG {defect}"),
            &*format!("again: cargo verify --replay {row} --defect {defect}"),
        ] {
            assert!(told.contains(words), "no `{words}`: {told}");
        }
        let steps = |told: &str| -> Vec<String> {
            let is_step = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
            told.lines().filter(is_step).map(str::to_owned).collect()
        };
        assert!(steps(&told).len() > 5, "{told}");
        for step in [" T0 ", " T1 "] {
            assert!(told.contains(step), "{told}");
        }
        assert_eq!(steps(&told), steps(&replay()));
    }
}

/// Each defect is seeded somewhere, in a lock's source, and looked for by models that there are.
#[test]
fn defects_are_those_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("in the workspace");
    let mut sources = String::new();
    for lock in [
        "range-lock/src",
        "srl/src",
        "interval-lock/src",
        "sync/src",
        "journal-commit/src",
    ] {
        read(&root.join(lock), &mut sources);
    }
    let seeded = seeded();
    let readme = include_str!("../README.md");
    for defect in Defect::ALL {
        let (name, what) = (defect.name(), defect.what());
        assert!(
            readme.contains(&format!("| `{name}` | {what} | ")),
            "{name}"
        );
        assert!(sources.contains(&format!("\"{name}\"")), "{defect:?}");
        assert!(seeded.iter().any(|it| it.defect == *defect), "{defect:?}");
        assert_eq!(defect.name().parse(), Ok(*defect));
    }
    let names: BTreeSet<_> = seeded.iter().map(|it| it.name()).collect();
    assert_eq!(names.len(), seeded.len(), "one is seeded twice");
    let programs = programs();
    for it in &seeded {
        for property in it.properties {
            let is_there = programs
                .iter()
                .any(|program| (program.primitive, program.property) == (it.primitive, property));
            assert!(is_there, "{}: {property}", it.name());
        }
    }
}

fn read(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of this project") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            read(&path, text);
        } else {
            *text += &fs::read_to_string(&path).expect("readable");
        }
    }
}
