//! A journal on a file whose writes are queued in the kernel. Skipped where the kernel has no
//! io_uring, or the file system does not allow direct writes.

use std::sync::Arc;

use spanlock_benches::journal::queued::QueuedStorage;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{CommitWay, FormatOptions, Journal, Options, Place};
use spanlock_journal_commit::jbd2::{format, recover};
use spanlock_journal_commit::storage::{FileMode, FileStorage};

/// Returns a folder, if queued files can be created in it.
fn folder() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    match QueuedStorage::create(folder.path().join("checked"), 4096) {
        Ok(_) => Some(folder),
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

#[test]
fn reads_see_writes_and_later_writes_win() {
    let Some(folder) = folder() else { return };
    let path = folder.path().join("file");
    let storage = QueuedStorage::create(&path, 1 << 20).unwrap();
    for round in 0..200_u64 {
        let byte = round as u8;
        storage.write_at(&[byte; 8192], round % 7 * 4096).unwrap();
    }
    let mut found = vec![0; 4096];
    storage.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [196; 4096]);
    storage.write_fua(&[9; 512], 0).unwrap();
    storage.flush().unwrap();
    drop(storage);
    let plain = FileStorage::open(&path, FileMode::Buffered).unwrap();
    let mut found = vec![0; 8 * 4096];
    plain.read_at(&mut found, 0).unwrap();
    assert_eq!((found[0], found[512]), (9, 196));
    for (page, bytes) in (0..8).zip(found.chunks(4096)) {
        let wrote = |round: &u64| round % 7 == page || round % 7 + 1 == page;
        let last = (0..200).rev().find(wrote).unwrap();
        assert_eq!(u64::from(bytes[4095]), last, "page {page}");
    }
}

#[test]
fn wrong_ranges_are_refused() {
    let Some(folder) = folder() else { return };
    let storage = QueuedStorage::create(folder.path().join("file"), 8192).unwrap();
    for (len, offset) in [(4096, 8192), (100, 0), (512, 100)] {
        let told = storage.write_at(&vec![0; len], offset).unwrap_err();
        assert_eq!(told.kind(), std::io::ErrorKind::InvalidInput, "{told}");
    }
    storage.flush().unwrap();
}

/// Several threads fill the queue more than once.
#[test]
fn many_writes_of_many_threads_are_all_there() {
    const EACH: u64 = 1000;
    let Some(folder) = folder() else { return };
    let path = folder.path().join("file");
    let storage = QueuedStorage::create(&path, 4 * EACH * 512).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let storage = &storage;
            scope.spawn(move || {
                for nth in thread * EACH..(thread + 1) * EACH {
                    let data = nth.to_le_bytes().repeat(64);
                    storage.write_at(&data, nth * 512).unwrap();
                }
                storage.flush().unwrap();
            });
        }
    });
    drop(storage);
    let bytes = std::fs::read(path).unwrap();
    for (nth, sector) in (0_u64..).zip(bytes.chunks(512)) {
        assert_eq!(sector, nth.to_le_bytes().repeat(64));
    }
}

#[test]
fn a_journal_is_recovered() {
    const BLOCK: u32 = 4096;
    for way in [
        CommitWay::Serial,
        CommitWay::Coalesced,
        CommitWay::Cooperative,
    ] {
        let Some(folder) = folder() else { return };
        let path = folder.path().join("log");
        let log = Arc::new(QueuedStorage::create(&path, 4 << 20).unwrap());
        format(log.clone(), &FormatOptions::new(BLOCK)).unwrap();
        let home = QueuedStorage::create(folder.path().join("home"), 64 * u64::from(BLOCK));
        let home = Arc::new(home.unwrap());
        let journal =
            Journal::open(log.clone(), home.clone(), Options::new(BLOCK).way(way)).unwrap();
        for round in 1..=5_u8 {
            let handle = journal.begin(40).unwrap();
            for number in 0..40 {
                let mut block = handle.get_write(number).unwrap();
                block.fill(round);
                block.dirty().unwrap();
            }
            handle.stop_durable().unwrap();
        }
        // What is durable must not depend on the end of the journal.
        let image = std::fs::read(&path).unwrap();
        drop(journal);
        let copy = folder.path().join("copy");
        std::fs::write(&copy, image).unwrap();
        let log = FileStorage::open(&copy, FileMode::Buffered).unwrap();
        let fresh = folder.path().join("fresh");
        let fresh = FileStorage::create(fresh, 64 * u64::from(BLOCK), FileMode::Buffered).unwrap();
        recover(log, &fresh, BLOCK, &Place::whole()).unwrap();
        let mut block = vec![0; BLOCK as usize];
        fresh.read_at(&mut block, 39 * u64::from(BLOCK)).unwrap();
        assert_eq!(block, vec![5; BLOCK as usize], "{way:?}");
    }
}
