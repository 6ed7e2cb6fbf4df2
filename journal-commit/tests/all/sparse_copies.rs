//! Files that were copied sparsely (`cp --sparse`, `tar -S`, `rsync -S`) to a disk that then fills
//! up: opening them fails, or nothing later fails for lack of room. If the holes stay, a failure
//! loses nothing.
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
use spanlock_journal_commit::testing::Recorded;

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

fn open_sparse(path: &Path) -> FileStorage {
    FileStorage::open_sparse(path, FileMode::Buffered).unwrap()
}

/// Makes a file that is one hole, and a journal of its blocks in memory.
fn make_home(path: &Path, len: u64) -> Arc<Recorded> {
    File::create(path).unwrap().set_len(len).unwrap();
    let log = Arc::new(Recorded::new(64 * PAGE));
    jbd2::format(log.clone(), &FormatOptions::new(PAGE as u32)).unwrap();
    log
}

fn change(journal: &Journal, block: u64, byte: u8) {
    let handle = journal.begin(1).unwrap();
    let mut buffer = handle.get_write(block).unwrap();
    buffer.fill(byte);
    buffer.dirty().unwrap();
    handle.stop_durable().unwrap();
}

/// A block cannot be written into a hole at home, because the disk is full. Nothing is lost.
fn a_home_with_holes(folder: &Path) {
    let path = folder.join("home");
    let log = make_home(&path, LEN);
    let open = || {
        let options = jbd2::Options::new(PAGE as u32);
        Journal::open(log.clone(), open_sparse(&path), options)
    };
    let journal = open().unwrap();
    fill(folder);
    change(&journal, 7, 1);
    let full = |error: jbd2::Error, doing| {
        let text = format!("{error:?}");
        assert!(
            text.contains(doing) && text.contains("StorageFull"),
            "{text}"
        );
    };
    full(journal.close().unwrap_err(), "writing a block home");
    full(open().unwrap_err(), "bringing a block home");
    fs::remove_file(folder.join("filler")).unwrap();
    open().unwrap().close().unwrap();
    assert_eq!(fs::read(&path).unwrap()[7 * PAGE..][..PAGE], [1; PAGE]);
    fs::remove_file(&path).unwrap();
}

/// The child's part, in a file system of 3 MiB.
#[test]
fn child_on_a_small_disk() {
    let Some(folder) = std::env::var_os(MOUNTED) else {
        return;
    };
    let folder = Path::new(&folder);
    a_home_with_holes(folder);

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
    let home = Recorded::new(16 * PAGE);
    let journal = Journal::open(log, home, jbd2::Options::new(PAGE as u32)).unwrap();
    while journal.stats().checkpoints == 0 {
        change(&journal, 3, 1);
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
fn a_sparse_home_stays_sparse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    let log = make_home(&path, 64 * LEN);
    let home = open_sparse(&path);
    let journal = Journal::open(log, home, jbd2::Options::new(PAGE as u32)).unwrap();
    change(&journal, 63 * LEN / PAGE as u64, 1);
    journal.close().unwrap();
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < LEN);
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
        .args([
            "--exact",
            "sparse_copies::child_on_a_small_disk",
            "--nocapture",
        ])
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
