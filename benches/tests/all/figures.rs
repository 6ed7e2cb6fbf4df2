//! `compare figures` as a command: the figures of this project's documents are those of its result
//! files, and comparisons are measured again.

use std::path::Path;

use crate::common::scene::*;
use clap::Parser;
use spanlock_benches::cli::Args;
use spanlock_benches::figures::measure::measure;
use spanlock_benches::figures::runs::{RUNS, Run};

/// A figure that was changed by hand, or a result file without its documents, fails here.
#[test]
fn the_documents_agree_with_the_result_files() {
    let scene = Scene::new(0);
    let output = scene.compare(&["figures", "--check"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        told.contains("rewritten: 0") && !told.contains("blocks: 0"),
        "{told}"
    );
}

#[test]
fn the_comparisons_of_documents_have_valid_arguments_and_take_forty_minutes() {
    for run in &RUNS {
        let words = run.arguments.split_whitespace();
        let args = Args::try_parse_from(["compare"].into_iter().chain(words)).unwrap();
        let name = match (&args.command, args.micro) {
            (None, true) => "micro",
            (None, false) => "compare",
            _ => run.arguments.split(' ').next().unwrap(),
        };
        assert_eq!(name, run.name);
    }
    let total: u64 = RUNS.iter().map(|it| it.seconds).sum();
    assert!(total <= 40 * 60, "{total} s");
}

#[test]
fn a_comparison_writes_its_result_file_when_it_is_measured() {
    let scene = Scene::new(0);
    let run = Run {
        name: "micro",
        arguments: "--micro --seconds 0.01 --locks parking_lot,srl-array",
        seconds: 1,
    };
    let said = std::cell::RefCell::new(String::new());
    let say = |line: &str| said.borrow_mut().push_str(line);
    let dir = scene.path("new/figures");
    measure(Path::new(COMPARE), &[&run], &dir, say).unwrap();
    assert!(said.borrow().contains("1 of 1: cargo compare --micro"));
    assert!(!rows(&dir.join("micro.json"), "micro").is_empty());

    let run = Run {
        arguments: "--micro --locks none",
        ..run
    };
    let error = measure(Path::new(COMPARE), &[&run], &dir, say).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("--locks none failed: exit status: 2")
    );
}

#[test]
fn wrong_arguments_are_errors() {
    let scene = Scene::new(0);
    scene.fails(
        &["figures", "--measure", "all"],
        &["'all'", "micro, compare"],
    );
    scene.fails(&["figures", "--measure", "--check"], &["--check"]);
    scene.fails(
        &["figures", "--check", "--dir", "docs"],
        &["docs/", "No such file", "--measure"],
    );
}
