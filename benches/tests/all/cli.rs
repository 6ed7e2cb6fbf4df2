//! `compare` as a command: the output of a good run, and the messages for bad input.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::common::scene::*;
use serde_json::Value;
use spanlock_benches::locks;

#[test]
fn a_run_writes_table_rows_and_report() {
    let scene = Scene::new(6);
    let run = [
        "--seconds",
        "0.05",
        "--threads",
        "1",
        "--import",
        "source",
        "--json",
        "rows.json",
    ];
    symlink("file-0", scene.path("source/link")).unwrap();
    let output = scene.compare(&run);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    let bytes: usize = scene.files.values().map(Vec::len).sum();
    let contestants = locks::contestants();
    let locks: Vec<_> = contestants.iter().map(|it| it.name).collect();
    let imported = format!(
        "imported 6 files, {bytes} bytes, under {} locks; recovered and verified every byte (skipped 1 symbolic links",
        locks.len()
    );
    for wanted in [
        "volume: temporary, in ",
        "flushed",
        "rw-counter",
        "parking_lot",
        &imported,
    ] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }

    let rows = scene.rows("compare");
    let workloads = ["dwom", "drbm", "mix-3-1", "mix-1-3", "import"];
    let cells = workloads
        .iter()
        .flat_map(|&workload| locks.iter().map(move |&lock| (workload, lock)));
    assert_eq!(rows.len(), workloads.len() * locks.len());
    for (row, (workload, lock)) in rows.iter().zip(cells) {
        assert_eq!(
            (&row["workload"], &row["lock"]),
            (&workload.into(), &lock.into())
        );
        assert_eq!(row["threads"], 1);
        assert!(row["ops_per_s"].as_f64().unwrap() > 1.0, "{row}");
        ratio_is_to_the_fastest_whole_file_lock(row, &rows);
        let [p50, p99, max] = ["p50_ns", "p99_ns", "max_ns"].map(|it| row[it].as_u64().unwrap());
        assert!(0 < p50 && p50 <= p99 && p99 <= max, "{row}");
    }

    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    // Figures and their units are never separated.
    let page = page.replace('\u{a0}', " ");
    assert_eq!(page.matches("<svg").count(), workloads.len());
    // Ratios with one number of threads, and the answer.
    assert_eq!(page.matches("<figure>").count(), workloads.len() + 1);
    assert!(
        page.contains("<span>compare</span> <span>--seconds</span> <span>0.05</span>")
            && page.contains(&imported)
    );
    for outside in [
        "<script", "<link", "<img", "src=", "href=", "url(", "@import",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

fn ratio_is_to_the_fastest_whole_file_lock(row: &Value, rows: &[Value]) {
    let ops = |row: &Value| row["ops_per_s"].as_f64().unwrap();
    let whole_file = |row: &&Value| {
        let contestants = locks::contestants();
        let of_row = contestants.iter().find(|it| row["lock"] == it.name);
        of_row.unwrap().whole_file
    };
    let same = rows
        .iter()
        .filter(|it| (&it["workload"], &it["threads"]) == (&row["workload"], &row["threads"]));
    let fastest = same.filter(whole_file);
    let fastest = fastest.max_by(|a, b| ops(a).total_cmp(&ops(b))).unwrap();
    assert_eq!(row["baseline"], fastest["lock"], "{row}");
    let ratio = row["ratio"].as_f64().unwrap();
    assert!((ratio - ops(row) / ops(fastest)).abs() < 0.001, "{row}");
}

#[test]
fn invalid_arguments_are_errors() {
    let scene = Scene::new(1);
    let locks: Vec<_> = locks::all().into_iter().map(|(name, _)| name).collect();
    let locks = locks.join(", ");
    let workloads = "dwom, drbm, mix-3-1, mix-1-3, import";
    scene.fails(
        &["--locks", "rw-counter,nolock"],
        &["nolock", "--locks", &locks],
    );
    scene.fails(
        &["--workloads", "fast"],
        &["fast", "--workloads", workloads],
    );
    scene.fails(&["--threads", "0"], &["--threads", "between 1 and"]);
    scene.fails(&["--threads", "1,0"], &["'0'", "between 1 and"]);
    scene.fails(&["--threads", "100000"], &["100000", "between 1 and"]);
    scene.fails(&["--threads", "two"], &["two", "--threads 1,2"]);
    scene.fails(&["--seconds", "0"], &["--seconds", "0.01 to 3600"]);
    scene.fails(&["--seconds", "nan"], &["--seconds", "0.01 to 3600"]);
    scene.fails(&["--size", "0"], &["--size", "64M"]);
    scene.fails(&["--size", "much"], &["much", "64M"]);
}

#[test]
fn outputs_are_checked_before_anything_runs() {
    let scene = Scene::new(1);
    let nowhere = ["--report", "nowhere/report.html"];
    scene.fails(
        &nowhere,
        &[
            "--report nowhere/report.html",
            "nothing was run",
            "folder that exists",
        ],
    );
    scene.fails(
        &["--json", "source"],
        &["--json source", "cannot be written"],
    );
    scene.fails(
        &["--json", "x", "--report", "./x"],
        &["both x", "two different files"],
    );
    let volume = scene.make_volume(1 << 20);
    let before = fs::read(&volume).unwrap();
    scene.fails(
        &["--volume", "volume", "--report", "./volume"],
        &["--report ./volume", "that is the volume"],
    );
    assert!(fs::read(&volume).unwrap() == before);
    // An existing report is kept if nothing is written.
    fs::write(scene.path("old.html"), "old").unwrap();
    scene.fails(
        &["--import", "nowhere", "--report", "old.html"],
        &["nowhere"],
    );
    assert_eq!(fs::read_to_string(scene.path("old.html")).unwrap(), "old");
}

#[test]
fn outputs_may_be_links_pipes_and_devices() {
    let scene = Scene::new(1);
    symlink("rows", scene.path("link")).unwrap();
    let told = scene.imports(&["--json", "link", "--report", "/dev/null"]);
    assert!(told.contains("rows: link"), "{told}");
    assert!(scene.path("link").is_symlink());
    let rows = fs::read_to_string(scene.path("rows")).unwrap();
    assert!(serde_json::from_str::<Value>(&rows).is_ok());

    let made = Command::new("mkfifo").arg(scene.path("pipe")).status();
    assert!(made.unwrap().success());
    let pipe = scene.path("pipe");
    let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
    scene.imports(&["--json", "pipe"]);
    assert!(serde_json::from_str::<Value>(&reader.join().unwrap()).is_ok());
}

/// A path that is not UTF-8 is displayed and works.
#[test]
fn unusual_paths_work() {
    let scene = Scene::new(1);
    let strange = OsStr::from_bytes(b"r\xff.html");
    let mut command = Command::new(COMPARE);
    command.args(QUICK).args(["--import", "source", "--report"]);
    let output = command
        .arg(strange)
        .current_dir(scene.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(scene.folder.path().join(strange).exists());
}

/// The run does not wait for a thread that could not be started.
#[test]
fn a_thread_that_cannot_be_started_is_an_error() {
    let scene = Scene::new(4);
    for workload in ["drbm", "import"] {
        let args = [
            "--workloads",
            workload,
            "--threads",
            "6",
            "--seconds",
            "0.1",
        ];
        let args = [&args[..], &["--locks", "rw-counter"]].concat();
        let wanted = [workload, "cannot be started: give fewer --threads"];
        fails_in_little_memory(&scene, &args, &wanted);
    }
}

#[test]
fn a_folder_that_cannot_be_imported_is_an_error() {
    let scene = Scene::new(1);
    fs::create_dir(scene.path("empty")).unwrap();
    fs::write(scene.path("file"), "x").unwrap();
    scene.fails(&["--import", "nowhere"], &["nowhere", "No such file"]);
    scene.fails(&["--import", "file"], &["file", "not a folder"]);
    scene.fails(&["--import", "empty"], &["empty", "no file to import"]);
}

#[test]
fn errors_name_unreadable_files_and_folders() {
    let scene = Scene::new(6);
    let volume = ["--volume", "volume"];
    let args = [&QUICK[..], &["--import", "source"], &volume].concat();
    // A report that is not writable is detected before anything runs.
    let old = scene.path("old.html");
    fs::write(&old, "old").unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o444)).unwrap();
    let report = [&args[..], &["--report", "old.html"]].concat();
    let Some(output) = compare_without_privileges(&scene, &report) else {
        return;
    };
    assert_fails(
        &output,
        &report,
        &["--report old.html", "nothing was run", "Permission denied"],
    );
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert!(!scene.path("volume").exists());

    // An unreadable file is detected after others have been committed.
    let secret = scene.path("source/zzz");
    fs::write(&secret, "x").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let output = compare_without_privileges(&scene, &args).expect("it did before");
    let wanted = [
        "source/zzz",
        "Permission denied",
        "were committed, recovered and verified",
    ];
    assert_fails(&output, &args, &wanted);
    assert_eq!(assert_committed_is_intact(&scene), scene.files.len());
    fs::remove_file(&secret).unwrap();

    // An unreadable folder is detected before anything is written.
    let locked = scene.path("source/locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let output = compare_without_privileges(&scene, &args).expect("it did before");
    let wanted = ["source/locked", "Permission denied", "make it readable"];
    assert_fails(&output, &args, &wanted);
    assert_eq!(assert_committed_is_intact(&scene), scene.files.len());
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
}
