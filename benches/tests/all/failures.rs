//! `compare failures` as a command: our contestants are clean, those that are wrong on purpose are
//! caught, and bad arguments are reported.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the command in a separate folder.
fn failures(folder: &tempfile::TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compare"));
    command.current_dir(folder).arg("failures").args(args);
    command.env_remove("COLUMNS").output().unwrap()
}

/// Returns the rows of a run, and whether it succeeded.
fn rows(args: &[&str]) -> (Vec<Value>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let args = [args, &["--json", "rows.json"]].concat();
    let output = failures(&folder, &args);
    println!("{}", String::from_utf8_lossy(&output.stdout));
    println!("{}", String::from_utf8_lossy(&output.stderr));
    let rows = crate::common::scene::rows(&folder.path().join("rows.json"), "failures");
    (rows, output.status.success())
}

fn number(row: &Value, column: &str) -> u64 {
    row[column]
        .as_u64()
        .unwrap_or_else(|| panic!("{column} of {row}"))
}

#[test]
fn our_contestants_are_clean() {
    let ours = ["jbd2-v3", "jbd2-v1-async", "compact"];
    let (rows, well) = rows(&["--contestant", &ours.join(","), "--records", "2"]);
    assert!(well);
    assert_eq!(rows.len(), ours.len());
    for (row, name) in rows.iter().zip(ours) {
        assert_eq!(row["contestant"], name);
        assert_eq!(row["version"], env!("CARGO_PKG_VERSION"));
        let (runs, failed) = (number(row, "runs"), number(row, "failed"));
        assert!(runs > 15 && failed <= runs && failed * 2 > runs, "{row}");
        assert_eq!(
            number(row, "told"),
            failed,
            "a caller receives an error for each failure"
        );
        for column in [
            "false_acknowledgements",
            "false_runs",
            "foreign",
            "hangs",
            "panics",
            "cannot_reopen",
        ] {
            assert_eq!(number(row, column), 0, "{column}");
        }
        assert_eq!(row["unclean"], Value::Array(Vec::new()));
    }
}

/// Checks that a wrong log is caught in its own column and in no other.
fn caught(name: &str, column: &str) -> Value {
    // One thread: with two, a failed flush may lose what the other thread has just written. The
    // other's own flush then succeeds, and its record is falsely acknowledged by any of these logs.
    let (rows, well) = rows(&["--contestant", name, "--threads", "1", "--records", "4"]);
    assert!(!well, "{name} is not clean, so the command must fail");
    let row = rows[0].clone();
    for other in ["false_runs", "hangs", "panics", "cannot_reopen"] {
        let is_seen = number(&row, other) > 0;
        assert_eq!(is_seen, other == column, "{name}, {other}: {row}");
    }
    row
}

#[test]
fn acknowledging_before_the_flush_is_caught() {
    caught("wrong-early", "false_runs");
}

#[test]
fn swallowing_the_error_of_a_flush_is_caught() {
    let row = caught("wrong-swallow", "false_runs");
    let unclean = row["unclean"].as_array().unwrap();
    // The first record must be lost. If dirty data is kept, or returns with its page, a later flush
    // makes the record durable after all.
    assert!(
        unclean.iter().any(|it| it["plan"] == "flush-0-lost"),
        "{row}"
    );
    let lost = unclean
        .iter()
        .map(|it| it["lost"].as_array().unwrap().len() as u64);
    assert_eq!(lost.sum::<u64>(), number(&row, "false_acknowledgements"));
}

#[test]
fn hangs_are_caught() {
    caught("wrong-hang", "hangs");
}

#[test]
fn panics_are_caught() {
    let row = caught("wrong-panic", "panics");
    assert!(
        row["unclean"][0]["panics"][0]
            .as_str()
            .unwrap()
            .starts_with("wrong on purpose")
    );
}

#[test]
fn logs_that_cannot_be_reopened_are_caught() {
    let row = caught("wrong-format", "cannot_reopen");
    let why = row["unclean"][0]["cannot_reopen"].as_str().unwrap();
    assert!(why.contains("the log is gone"), "{why}");
}

/// For each kind of failure, the output contains the command that repeats one run alone.
#[test]
fn one_plan_can_be_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    let all = [
        "--contestant",
        "wrong-swallow",
        "--threads",
        "1",
        "--records",
        "1",
    ];
    let output = failures(&folder, &[&all[..], &["--report", "report.html"]].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let again = "cargo compare failures --contestant wrong-swallow --plan flush-0-lost";
    assert!(told.contains(again), "{told}");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    // A page keeps each word of a command together.
    let words = again.split(' ').map(|it| format!("<span>{it}</span>"));
    let again = words.collect::<Vec<_>>().join(" ");
    assert!(
        page.contains(&again) && page.ends_with("</html>\n"),
        "{page}"
    );

    let plan = ["--plan", "flush-0-lost", "--times", "3"];
    let output = failures(&folder, &[&all[..], &plan].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.contains("flush-lost: 3 of 3 runs not clean") && !output.status.success(),
        "{told}"
    );
}

/// The harness sees every write and flush of the other projects' logs, so nothing is missing
/// without a failure.
#[test]
fn logs_of_other_projects_are_clean_without_a_failure() {
    let (rows, well) = rows(&[
        "--contestant",
        "okaywal,raft-engine,raft-engine-abort,wal-db",
        "--plan",
        "none",
    ]);
    assert!(well && rows.len() == 4);
    for row in rows {
        assert_eq!(row["unclean"], Value::Array(Vec::new()), "{row}");
        assert_eq!(number(&row, "failed") + number(&row, "told"), 0);
    }
}

/// Failures of other projects' logs are shown but are not an error of the command.
#[test]
fn failures_of_other_projects_are_not_an_error() {
    let (rows, well) = rows(&["--contestant", "raft-engine-abort", "--plan", "flush-0"]);
    assert!(well);
    assert_eq!(
        (number(&rows[0], "failed"), number(&rows[0], "panics")),
        (1, 1)
    );
    assert_eq!(rows[0]["unclean"][0]["plan"], "flush-0");
}

#[test]
fn invalid_arguments_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for (args, wanted) in [
        (&["--contestant", "nolog"][..], "jbd2-v3"),
        (&["--plan", "flush-x"], "`write-N`"),
        (&["--times", "2"], "--plan"),
        (&["--threads", "0"], "--threads"),
        (&["--records", "33"], "--records"),
        (&["--patience", "0"], "seconds"),
        (&["--jobs", "0"], "--jobs"),
        (&["--json", "no/folder/rows.json"], "--json"),
        (&["--report", "."], "--report"),
        (&["--micro"], "--micro"),
    ] {
        let output = failures(&folder, args);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && told.contains(wanted),
            "{args:?}: {told}"
        );
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let output = failures(&folder, &["--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(
        help.contains("wal-db") && !help.contains("wrong-"),
        "{help}"
    );
}
