//! Tests of the compact log on files, on persistent memory, and in a process that is killed at any
//! moment.

#![cfg(feature = "compact")]
#![cfg(target_os = "linux")]

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Log, Lsn, Options};
use spanlock_journal_commit::storage::{FileMode, FileStorage, PmemStorage};
use spanlock_pmem::MappedFile;

const LEN: u64 = 1 << 20;

/// Fills the log from eight threads, repeatedly, and opens it again.
fn exercise<S: Storage>(mut storage: impl FnMut() -> S, options: &Options) {
    let log = Log::create(storage(), options).unwrap();
    let record = |thread: u8, nth: u32| [&[thread; 700], &nth.to_le_bytes()[..]].concat();
    let write = |log: &Log<S>, thread: u8| {
        for nth in 0..20 {
            log.append_durable(&record(thread, nth)).unwrap();
        }
    };
    for _ in 0..5 {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let log = &log;
                scope.spawn(move || write(log, thread));
            }
        });
        log.truncate(log.durable().next()).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let log = &log;
            scope.spawn(move || write(log, thread));
        }
    });
    drop(log);
    let log = Log::open(storage(), options).unwrap();
    assert_eq!((log.first().get(), log.durable().get()), (801, 960));
    let mut next = [0; 8];
    for found in log.records() {
        let data = found.unwrap().data;
        let nth = &mut next[usize::from(data[0])];
        assert_eq!(data, record(data[0], *nth));
        *nth += 1;
    }
    assert_eq!(next, [20; 8]);
    log.close().unwrap();
    assert!(Log::open(storage(), options).unwrap().recovery().was_closed);
}

#[test]
fn every_file_mode_works() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [FileMode::Buffered, FileMode::Direct, FileMode::Dsync] {
        for block in [512, 4096] {
            let path = folder.path().join(format!("{mode:?}-{block}"));
            match FileStorage::create(&path, LEN, mode) {
                Ok(_) => {}
                Err(error) if mode != FileMode::Buffered => {
                    println!("SKIPPED {mode:?}: not supported by this file system: {error}");
                    continue;
                }
                Err(error) => panic!("{error}"),
            }
            let open = || FileStorage::open(&path, mode).unwrap();
            exercise(open, &Options::new().block_bytes(block));
        }
    }
}

#[test]
fn persistent_memory_works() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("region");
    MappedFile::create(&path, LEN, spanlock_pmem::Options::new()).unwrap();
    let open = || {
        let region = MappedFile::open(&path, spanlock_pmem::Options::new());
        PmemStorage::new(region.unwrap())
    };
    exercise(open, &Options::new());
}

const CHILD: &str = "SPANLOCK_JOURNAL_KILLED";

/// A process reports which records are durable, and is then killed. The log still has all records
/// that it reported.
#[test]
fn a_killed_process_loses_no_durable_record() {
    if let Ok(path) = env::var(CHILD) {
        append_for_ever(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let storage = FileStorage::create(&path, LEN, FileMode::Buffered).unwrap();
    Log::create(storage, &Options::new()).unwrap();
    for round in 0..10 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "compact_storages::a_killed_process_loses_no_durable_record",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = lines.filter_map(|line| line.unwrap().strip_prefix("durable ")?.parse().ok());
        let said: u64 = numbers.take(5 + 7 * round).max().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let storage = FileStorage::open(&path, FileMode::Buffered).unwrap();
        let log = Log::open(storage, &Options::new()).unwrap();
        assert!(log.durable() >= Lsn::new(said));
        for record in log.records() {
            let record = record.unwrap();
            assert_eq!(record.data[8..], [record.data[0]; 300]);
        }
    }
}

fn append_for_ever(path: &Path) -> ! {
    let storage = FileStorage::open(path, FileMode::Buffered).unwrap();
    let log = Log::open(storage, &Options::new()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let log = &log;
            scope.spawn(move || {
                let record = [&thread.to_le_bytes()[..], &[thread as u8; 300]].concat();
                loop {
                    match log.append_durable(&record) {
                        Ok(lsn) => println!("durable {lsn}"),
                        // The log is full: keep only the last hundred records.
                        Err(_) => log.truncate(Lsn::new(log.durable().get() - 100)).unwrap(),
                    }
                }
            });
        }
    });
    unreachable!("the threads run until the kill");
}
