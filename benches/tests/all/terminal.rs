//! What `compare` writes to a terminal or a pipe: it fits the width, has no colours if they are not
//! wanted, and a reader that leaves early changes neither the exit status nor the files.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::process::{Command, Output, Stdio};

use crate::common::scene::*;
use serde_json::Value;

/// The smallest run of every command, each with another lock or contestant to compare with.
const RUNS: [&[&str]; 10] = [
    &[
        "--workloads",
        "dwom,import",
        "--import",
        "source",
        "--threads",
        "1",
        "--seconds",
        "0.01",
    ],
    &["--micro", "--seconds", "0.01", "--locks", "std,parking_lot"],
    &[
        "contention",
        "--filter",
        "overlap-100/,threads-2",
        "--locks",
        "srl-array,std",
        "--seconds",
        "0.01",
    ],
    &[
        "journal",
        "--device",
        "modelled-1ms",
        "--contestant",
        "serial,compact,compact-rendezvous",
        "--threads",
        "1,2,4",
        "--think",
        "0",
        "--seconds",
        "0.01",
    ],
    &[
        "file-core",
        "--case",
        "overwrite-4k",
        "--locks",
        "srl-tree",
        "--threads",
        "1",
        "--seconds",
        "0.01",
    ],
    &["recovery", "--files", "50"],
    &["failures", "--contestant", "compact", "--records", "1"],
    &[
        "objects",
        "--case",
        "create",
        "--device",
        "pmem,disk",
        "--threads",
        "1",
        "--seconds",
        "0.01",
    ],
    &[
        "node-log",
        "--case",
        "dwsl,checkpoint,lookup",
        "--systems",
        "baseline,nl",
        "--threads",
        "1",
        "--seconds",
        "0.01",
    ],
    &["papers", "SRL", "--figure", "10,11", "--seconds", "0.01"],
];

/// A run that judges a log that is wrong on purpose, so that its exit status is 1.
const UNCLEAN: [&str; 7] = [
    "failures",
    "--contestant",
    "wrong-swallow",
    "--threads",
    "1",
    "--records",
    "1",
];

fn command(scene: &Scene, args: &[&str]) -> Command {
    let mut command = Command::new(COMPARE);
    command.args(args).current_dir(scene.folder.path());
    for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_output_fits_sixty_columns() {
    let scene = Scene::new(2);
    for args in RUNS.into_iter().chain([&UNCLEAN[..]]) {
        let output = command(&scene, args).env("COLUMNS", "60").output().unwrap();
        assert_eq!(
            output.status.success(),
            args != UNCLEAN,
            "{}",
            said(&output)
        );
        let told = String::from_utf8(output.stdout).unwrap();
        println!("{told}");
        for line in told.lines() {
            // A command to copy is not broken.
            let fits = line.chars().count() <= 60 || line.starts_with("    again: ");
            assert!(fits, "{args:?}: {line}");
        }
        let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_whole =
            args[0] == "failures" || words.contains("The report and the JSON have them.");
        assert!(is_whole, "{args:?} does not say what it leaves out: {told}");
    }
}

#[test]
fn a_wide_terminal_shows_all_columns() {
    let scene = Scene::new(0);
    let output = command(&scene, RUNS[6]).env("COLUMNS", "250").output();
    let told = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(
        told.contains("version") && !told.contains("Left out"),
        "{told}"
    );
}

/// A reader of the verdicts must know whether the run was disturbed.
#[test]
fn the_load_of_other_programs_comes_before_the_verdicts() {
    let scene = Scene::new(0);
    let told = command(&scene, RUNS[5]).output().unwrap().stdout;
    let told = String::from_utf8(told).unwrap();
    let place = |wanted: &str| {
        let found = told.find(wanted);
        found.unwrap_or_else(|| panic!("no {wanted:?} in {told}"))
    };
    assert!(place("other programs") < place("Targets: "), "{told}");
}

#[test]
fn there_are_no_colours_if_they_are_not_wanted() {
    let scene = Scene::new(0);
    let escapes = |args: &[&str], no_color: Option<&str>| {
        let mut command = command(&scene, args);
        // Colours even though this is no terminal.
        command.env("CLICOLOR_FORCE", "1");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let output = command.output().unwrap();
        [output.stdout, output.stderr].concat().contains(&0x1b)
    };
    let wrong = ["--no-such-option"];
    assert!(escapes(&wrong, None));
    for args in [
        &wrong[..],
        &["--help"],
        RUNS[5],
        &["recovery", "--dir", "nowhere"],
    ] {
        assert!(!escapes(args, Some("1")), "{args:?}");
    }
}

#[test]
fn every_help_names_the_files_and_the_environment() {
    let scene = Scene::new(0);
    let commands = [
        "contention",
        "journal",
        "file-core",
        "recovery",
        "objects",
        "node-log",
        "failures",
    ];
    let all = commands.map(|it| vec![it, "--help"]);
    for args in all.into_iter().chain([vec!["--help"]]) {
        let output = command(&scene, &args).env("COLUMNS", "60").output();
        let told = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(told.lines().all(|it| it.chars().count() <= 60), "{told}");
        for wanted in [
            "--json",
            "--report",
            "COLUMNS",
            "NO_COLOR",
            "TMPDIR",
            "Exit status",
        ] {
            assert!(told.contains(wanted), "{args:?}: no {wanted:?} in {told}");
        }
    }
}

/// Runs a command whose reader leaves after `bytes` bytes, and returns its result.
fn with_reader_that_leaves(scene: &Scene, args: &[&str], bytes: usize) -> Output {
    let mut command = command(scene, args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut vec![0; bytes]).unwrap();
    drop(out);
    child.wait_with_output().unwrap()
}

#[test]
fn a_reader_that_leaves_changes_neither_exit_status_nor_files() {
    let scene = Scene::new(1);
    let written = ["--json", "rows.json"];
    for (args, status) in [(RUNS[0], 0), (RUNS[5], 0), (&UNCLEAN[..], 1)] {
        for bytes in [0, 1] {
            let args = [args, &written].concat();
            let output = with_reader_that_leaves(&scene, &args, bytes);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
            assert!(!said.contains("Broken pipe"), "{args:?}: {said}");
            let page = fs::read_to_string(scene.path("report.html")).unwrap();
            assert!(page.ends_with("</html>\n"), "{args:?}");
            let rows = fs::read(scene.path("rows.json")).unwrap();
            assert!(serde_json::from_slice::<Value>(&rows).is_ok(), "{args:?}");
            for name in ["report.html", "rows.json"] {
                fs::remove_file(scene.path(name)).unwrap();
            }
        }
    }
    for (args, status) in [
        (&["--help"][..], 0),
        (&["journal", "--help"], 0),
        (&["--version"], 0),
    ] {
        let output = with_reader_that_leaves(&scene, args, 0);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
    }
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_status() {
    let scene = Scene::new(1);
    for (args, status) in [(&["--locks", "nolock"][..], 2), (&["--json", "source"], 1)] {
        let mut command = command(&scene, args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(status), "{args:?}");
    }
}

/// Unlike a reader that leaves, a full disk loses what somebody wants to read.
#[test]
fn a_full_standard_output_is_an_error_after_all_files_are_written() {
    let scene = Scene::new(0);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&scene, RUNS[5]).stdout(full).output().unwrap();
    assert_fails(&output, RUNS[5], &["standard output", "No space left"]);
    assert!(scene.path("report.html").exists());
}
