//! What `compare` puts into folders for temporary files: no two parts of a run and no two runs
//! share a name, nothing is left behind, and an error names the folder and what to set.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::scene::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// All workloads of `compare journal` with contestants of each kind. On two threads there are rows
/// of all four workloads.
const JOURNAL: [&str; 11] = [
    "journal",
    "--seconds",
    "0.01",
    "--threads",
    "2",
    "--think",
    "0",
    "--contestant",
    "serial,cooperative,compact,wal-db",
    "--json",
    "rows.json",
];

/// Returns a folder in memory if possible, so that flushes take no time.
fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn workloads_and_devices_share_no_name() {
    let (scene, dir) = (Scene::new(0), memory());
    let output = scene.compare(&[&JOURNAL[..], &["--dir", text(dir.path())]].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    let rows = scene.rows("journal");
    let count = |workload: &str, device: &str| {
        let is_it = |row: &&Value| row["workload"] == workload && row["device"] == device;
        rows.iter().filter(is_it).count()
    };
    for device in ["modelled-1ms", "disk"] {
        let counts = ["commit", "blocks", "fio", "ior"].map(|it| count(it, device));
        assert_eq!(counts, [4, 3 * 2, 5 * 2, 2], "{device}");
    }
    // Not every file system can bypass the page cache.
    let is_direct = !told.contains("disk-direct: in") || !told.contains("skipped");
    assert_eq!(count("blocks", "disk-direct") > 0, is_direct, "{told}");
    assert!(is_empty(dir.path()));
}

#[test]
fn two_runs_at_a_time_share_no_name() {
    let dir = memory();
    let run = |args: &[&str]| {
        let scene = Scene::new(0);
        let args = [args, &["--dir", text(dir.path())]].concat();
        let output = scene.compare(&args);
        assert!(output.status.success(), "{output:?}");
    };
    let journal = [&JOURNAL[..9], &["--workload", "commit", "--device", "disk"]].concat();
    let recovery = ["recovery", "--files", "50", "--threads", "1"];
    std::thread::scope(|scope| {
        for args in [&journal[..], &journal, &recovery, &recovery] {
            scope.spawn(move || run(args));
        }
    });
    assert!(is_empty(dir.path()));
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let (scene, dir) = (Scene::new(0), memory());
        // A shell starts a background job with SIGINT ignored, and its children inherit that.
        let mut child = Command::new("env")
            .args(["--default-signal=INT,TERM", COMPARE])
            .args(["journal", "--device", "disk", "--dir", text(dir.path())])
            .current_dir(scene.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("disk: ") {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "it ended");
        }
        assert!(!is_empty(dir.path()));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        assert!(is_empty(dir.path()));
    }
}

/// Runs `compare` with a tmpfs of 1 MiB as the folder `full` for temporary files. Returns `None` if
/// this user may not mount one. What is left in the folder comes after the output.
fn compare_in_full_folder(scene: &Scene, args: &[&str]) -> Option<Output> {
    let script = "mount -t tmpfs -o size=1m full full || exit 99\n\
                  TMPDIR=full \"$@\"; status=$?; ls full; exit $status";
    fs::create_dir_all(scene.path("full")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
    command.arg(COMPARE).args(args);
    let output = command.current_dir(scene.folder.path()).output();
    match output {
        Ok(output) if output.status.code() != Some(99) && !said_by_unshare(&output) => Some(output),
        refused => {
            println!("skipped: cannot mount a tmpfs: {refused:?}");
            None
        }
    }
}

fn said_by_unshare(output: &Output) -> bool {
    output.stderr.starts_with(b"unshare:")
}

#[test]
fn a_full_folder_is_an_error_that_names_it() {
    let scene = Scene::new(0);
    let short = ["--seconds", "0.01", "--threads", "1"];
    let disk = ["journal", "--device", "disk", "--contestant"];
    for (args, wanted) in [
        (&["failures", "--contestant", "compact"][..], "set TMPDIR"),
        (
            &["recovery", "--files", "50", "--dir", "full"],
            "with --dir",
        ),
        (&[&disk[..], &["serial"], &short].concat(), "with --dir"),
        (&[&disk[..], &["okaywal"], &short].concat(), "with --dir"),
    ] {
        let Some(output) = compare_in_full_folder(&scene, args) else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().filter(|it| it.starts_with("error: "));
        let said = said.collect::<Vec<_>>().join("\n");
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(said.contains("folder full "), "{args:?}: {output:?}");
        assert!(said.contains(wanted), "{args:?}: {output:?}");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(!told.contains("spanlock-"), "{args:?} left {told}");
        assert!(!scene.path("report.html").exists());
    }
}

#[test]
fn a_missing_folder_is_an_error_that_names_it() {
    let scene = Scene::new(0);
    let compare = |args: &[&str]| {
        let mut command = Command::new(COMPARE);
        command.args(args).env("TMPDIR", "nowhere");
        command.current_dir(scene.folder.path()).output().unwrap()
    };
    for (args, wanted) in [
        (&["failures", "--plan", "none"][..], "set TMPDIR"),
        (&["journal", "--device", "disk"], "with --dir"),
    ] {
        assert_fails(&compare(args), args, &["in nowhere failed", wanted]);
    }
    // Other locks are measured nevertheless.
    let args = ["--micro", "--seconds", "0.01", "--locks", "ofd,rw-counter"];
    let output = compare(&args);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("in nowhere failed: set TMPDIR"), "{told}");
}
