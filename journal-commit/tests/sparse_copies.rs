//! Files that were copied sparsely (`cp --sparse`, `tar -S`, `rsync -S`) to a disk that then fills
//! up: opening them fails, or nothing later fails for lack of room.
//!
//! A child fills a small file system, which it mounts in a mount namespace of its own. Where that
//! is not allowed, the test prints "SKIPPED"; if `CI` is set and the user is root, it fails.

#![cfg(all(feature = "jbd2", feature = "compact"))]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use spanlock_journal_commit::compact::{self, Log};
use spanlock_journal_commit::jbd2::{self, FormatOptions, Journal};
use spanlock_journal_commit::storage::{FileMode, FileStorage};

const MOUNTED: &str = "SPANLOCK_SPARSE_COPIES_TEST_DIR";
const LEN: u64 = 1 << 20;
const PAGE: usize = 4096;

/// Replaces a file by a copy with holes where it has pages of zeros.
fn copy_sparsely(path: &Path) {
    let content = fs::read(path).unwrap();
    fs::remove_file(path).unwrap();
    let copy = File::create(path).unwrap();
    copy.set_len(content.len() as u64).unwrap();
    for (page, at) in content.chunks(PAGE).zip((0..).step_by(PAGE)) {
        if page.iter().any(|byte| *byte != 0) {
            copy.write_all_at(page, at).unwrap();
        }
    }
    assert!(copy.metadata().unwrap().blocks() * 512 < LEN / 2);
}

fn fill(folder: &Path) {
    let file = File::create(folder.join("filler")).unwrap();
    let mut at = 0;
    while file.write_all_at(&[1; PAGE], at).is_ok() {
        at += PAGE as u64;
    }
}

fn open(path: &Path) -> FileStorage {
    FileStorage::open(path, FileMode::Buffered).unwrap()
}

/// The child's part, in a file system of 3 MiB.
#[test]
fn child_on_a_small_disk() {
    let Some(folder) = std::env::var_os(MOUNTED) else {
        return;
    };
    let folder = Path::new(&folder);
    let path = folder.join("log");
    let create = || FileStorage::create(&path, LEN, FileMode::Buffered).unwrap();

    let options = compact::Options::new();
    let log = Log::create(create(), &options).unwrap();
    log.append_durable(b"before").unwrap();
    drop(log);
    copy_sparsely(&path);
    let log = Log::open(open(&path), &options).unwrap();
    fill(folder);
    for nth in 0..200 {
        log.append_durable(&[nth; 3000]).unwrap();
    }
    assert_eq!(log.records().count(), 201);
    drop(log);
    fs::remove_file(&path).unwrap();
    fs::remove_file(folder.join("filler")).unwrap();

    jbd2::format(create(), &FormatOptions::new(PAGE as u32)).unwrap();
    copy_sparsely(&path);
    let log = Arc::new(open(&path));
    fill(folder);
    let home = spanlock_journal_commit::testing::Recorded::new(16 * PAGE);
    let journal = Journal::open(log, home, jbd2::Options::new(PAGE as u32)).unwrap();
    while journal.stats().checkpoints == 0 {
        let mut handle = journal.begin(1).unwrap();
        handle.get_write(3).unwrap().dirty().unwrap();
        handle.stop_durable().unwrap();
    }
    journal.close().unwrap();

    // The disk is full already.
    fs::remove_file(&path).unwrap();
    let copy = File::create(&path).unwrap();
    copy.write_all_at(b"data", 8 * PAGE as u64).unwrap();
    copy.set_len(2 * LEN).unwrap();
    fill(folder);
    let (before, blocks) = (fs::read(&path).unwrap(), copy.metadata().unwrap().blocks());
    let error = FileStorage::open(&path, FileMode::Buffered).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    let text = error.to_string();
    let advice = "log: no room for the holes of this file: free 2093056 bytes";
    assert!(text.contains(advice), "{text}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(copy.metadata().unwrap().blocks(), blocks);
    fs::remove_file(folder.join("filler")).unwrap();
    drop(open(&path));
    assert_eq!(copy.metadata().unwrap().blocks() * 512, 2 * LEN);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_sparse_copy_does_not_fail_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    let script = "mount -t tmpfs -o size=3m spanlock \"$1\" >&2 || exit 77; shift; exec \"$@\"";
    command
        .args(["--mount", "--", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_on_a_small_disk", "--nocapture"])
        .env(MOUNTED, folder.path());
    let output = command.output();
    let complained = match &output {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let is_possible = |it: &std::process::Output| {
        it.status.code() != Some(77) && !complained.contains("unshare:")
    };
    let Some(output) = output.ok().filter(is_possible) else {
        println!("SKIPPED: no small disk can be mounted here: {complained}");
        let must = std::env::var_os("CI").is_some() && is_root;
        assert!(!must, "root can mount no tmpfs: {complained}");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "{said}");
}
