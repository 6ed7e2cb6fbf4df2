//! What the command says to people who call it wrongly, and what it shows without running anything.

use std::process::{Command, Output};

fn verify(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_verify"))
        .args(args)
        .output()
        .expect("the command runs")
}

/// Exit code 2, and every one of `words` on standard error.
#[track_caller]
fn refuses(args: &[&str], words: &[&str]) {
    let output = verify(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?}: no `{word}` in: {said}");
    }
}

#[test]
fn unknown_filter() {
    refuses(&["--filter", "no-such-lock"], &["`no-such-lock`", "--list"]);
    // One wrong filter among right ones is still wrong.
    refuses(
        &["--filter", "srl-array", "--filter", "srl-aray"],
        &["`srl-aray`"],
    );
    let slow = "rw-word/bounded-overtaking/shuttle/dfs";
    refuses(&["--quick", "--filter", slow], &["among the quick ones"]);
}

#[test]
fn stale_replay() {
    refuses(
        &["--replay", "srl-array/exclusion/loom/strong"],
        &["there is no row", "--list"],
    );
    refuses(&["--replay", "x", "--quick"], &["cannot be used with"]);
}

#[test]
fn json_that_cannot_be_written() {
    refuses(
        &["--json", "/no/such/folder/rows.json"],
        &["/no/such/folder/rows.json"],
    );
    refuses(&["--json", "/"], &["--json /", "directory"]);
}

#[test]
fn wrong_flags() {
    refuses(&["--jobs", "0"], &["--jobs"]);
    refuses(&["--limit", "soon"], &["--limit"]);
    refuses(&["--fast"], &["--fast"]);
    refuses(&["--list", "--json", "x"], &["cannot be used with"]);
}

#[test]
fn list_names_every_row_once() {
    let output = verify(&["--list"]);
    let list = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    for job in spanlock_verify::plan::jobs() {
        let cell = format!("| {} ", job.name());
        assert_eq!(list.matches(&cell).count(), 1, "{job:?}");
    }
}

#[test]
fn a_row_that_is_cut_off_is_truncated_and_no_success() {
    let output = verify(&[
        "--filter",
        "srl-packed/exclusion/shuttle/dfs",
        "--limit",
        "0",
    ]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("TRUNCATED: srl-packed/exclusion"), "{told}");
}

#[test]
fn replay_runs_one_row() {
    let output = verify(&["--replay", "litmus/load-then-store/loom/rmw-load"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("EXHAUSTED"), "{told}");
}

/// Cargo puts what it builds elsewhere when a target is named: what runs must be what was built.
#[test]
fn a_named_target_is_followed() {
    let rustc = Command::new("rustc")
        .arg("-vV")
        .output()
        .expect("rustc runs");
    let version = String::from_utf8(rustc.stdout).expect("text");
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("a host");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_verify"))
        .args(["--filter", "litmus/time-out/loom/weak"])
        .env("CARGO_BUILD_TARGET", host)
        .env("CARGO_TARGET_DIR", folder.path())
        .output()
        .expect("the command runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn json_goes_through_links_and_leaves_other_files_what_they_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, link) = (folder.path().join("rows.json"), folder.path().join("link"));
    std::fs::write(&file, "x".repeat(100_000)).expect("can write");
    std::os::unix::fs::symlink(&file, &link).expect("can link");
    let run = |json: &std::path::Path| {
        let row = "litmus/time-out/loom/weak";
        verify(&["--filter", row, "--json", json.to_str().expect("text")])
    };
    assert!(run(&link).status.success());
    assert!(link.is_symlink());
    let rows = std::fs::read_to_string(&file).expect("written");
    let rows: Vec<spanlock_verify::row::Row> =
        serde_json::from_str(&rows).expect("nothing is left of the old");
    assert_eq!(rows.len(), 1);
    assert!(run(std::path::Path::new("/dev/null")).status.success());
    assert!(!std::path::Path::new("/dev/null").is_file());
}
