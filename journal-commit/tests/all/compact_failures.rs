//! Fails each write and each flush of a run once. The tests check that no thread hangs, that every
//! acknowledged record is on the medium, and that nothing is acknowledged after the failure.

#![cfg(feature = "compact")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Error, GroupCommit, Log, Lsn, Options};
use spanlock_journal_commit::testing::{Fault, FaultAt, FaultKind, Recorded};

const THREADS: u64 = 8;
const RECORDS: u64 = 6;
const LEN: usize = 128 << 10;

/// Returns the content of a thread's `nth` record. Some take several sectors.
fn record(thread: u64, nth: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(thread << 32 | nth);
    let mut bytes = vec![0; random.usize(0..1500)];
    random.fill(&mut bytes);
    [&thread.to_le_bytes()[..], &nth.to_le_bytes(), &bytes].concat()
}

/// The acknowledged records.
type Acknowledged = Vec<(Lsn, Vec<u8>)>;

/// Lets eight threads commit until all is done or something fails. The first thread also truncates
/// sometimes. If a thread hangs, the test hangs.
fn run(storage: &Recorded, group_commit: GroupCommit) -> Result<Acknowledged, Error> {
    let options = Options::new().group_commit(group_commit);
    let log = Log::create(storage, &options)?;
    let acknowledged = Mutex::new(Vec::new());
    let thread = |thread| {
        for nth in 0..RECORDS {
            let record = record(thread, nth);
            // A panic of the storage reaches one thread; the others get an error.
            let result = catch_unwind(AssertUnwindSafe(|| log.append_durable(&record)));
            let Ok(Ok(lsn)) = result else {
                return;
            };
            acknowledged.lock().unwrap().push((lsn, record));
            if thread == 0 && nth % 3 == 2 {
                // This frees almost nothing; its purpose is to write the superblock.
                let _ = catch_unwind(AssertUnwindSafe(|| log.truncate(Lsn::new(nth / 3 + 1))));
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || thread(number));
        }
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    if storage.failures() > 0 {
        stays_poisoned(&log, &acknowledged);
    }
    Ok(acknowledged)
}

/// Checks that every later call gets the error, and that nothing more is acknowledged.
fn stays_poisoned(log: &Log<&Recorded>, acknowledged: &Acknowledged) {
    let durable = log.durable();
    let last = acknowledged.iter().map(|(lsn, _)| *lsn).max();
    assert!(last.is_none_or(|last| last <= durable));
    let error = log.append_durable(b"late").unwrap_err();
    assert!(
        matches!(error, Error::Poisoned { .. } | Error::Panicked),
        "{error}"
    );
    if let Error::Poisoned { cause, .. } = &error {
        assert!(cause.to_string().contains("planned"), "{error}");
    }
    for _ in 0..2 {
        let said = log.append(b"later").unwrap_err().to_string();
        assert_eq!(said, error.to_string());
        assert_eq!(log.truncate(durable.next()).unwrap_err().to_string(), said);
        if log.wait(durable.next()).is_ok() {
            panic!("acknowledged after the failure");
        }
    }
    assert_eq!(log.durable(), durable);
}

/// Checks that the image has every acknowledged record that was not truncated, with its number, and
/// that all its other records were appended.
fn check(image: Vec<u8>, acknowledged: &Acknowledged, what: &str) {
    let storage = Recorded::from_image(image);
    let log = match Log::open(&storage, &Options::new()) {
        Ok(log) => log,
        // The creation failed.
        Err(Error::NotALog { .. }) if acknowledged.is_empty() => return,
        Err(error) => panic!("{what}: {error}"),
    };
    let first = log.first();
    let there = Vec::from_iter(log.records().map(Result::unwrap));
    for (lsn, record) in acknowledged.iter().filter(|(lsn, _)| *lsn >= first) {
        let at = (lsn.get() - first.get()) as usize;
        let found = there
            .get(at)
            .unwrap_or_else(|| panic!("{what}: {lsn} was acknowledged and is lost"));
        assert_eq!((found.lsn, &found.data), (*lsn, record), "{what}");
    }
    for found in there {
        let number = |at: usize| u64::from_le_bytes(found.data[at..at + 8].try_into().unwrap());
        assert_eq!(
            found.data,
            record(number(0), number(8)),
            "{what}: never appended"
        );
    }
}

/// Fails each write or flush in the given way.
fn fail_each(kind: FaultKind, for_ever: bool, drop_dirty: bool) {
    let device = || Recorded::new(LEN).flush_takes(Duration::from_micros(50));
    for group_commit in [GroupCommit::Plain, GroupCommit::Rendezvous] {
        let smooth = device();
        let acknowledged = run(&smooth, group_commit).unwrap();
        assert_eq!(acknowledged.len() as u64, THREADS * RECORDS);
        let writes = (0..smooth.writes()).map(FaultAt::Write);
        let flushes = (0..smooth.flushes()).map(FaultAt::Flush);
        for at in writes.chain(flushes) {
            let what = format!(
                "{group_commit:?}, {at:?}, {kind:?}, for ever {for_ever}, dropping {drop_dirty}"
            );
            let storage = device();
            storage.plan(Fault {
                at,
                kind,
                for_ever,
                drop_dirty,
            });
            let result = catch_unwind(AssertUnwindSafe(|| run(&storage, group_commit)));
            let acknowledged = match result {
                Ok(result) => result.unwrap_or_default(),
                Err(payload) => {
                    // `Log::create` panicked, before the threads that catch panics.
                    let text = payload.downcast_ref::<String>().map_or("", |text| text);
                    assert!(text.contains("planned"), "{what}: {text}");
                    Vec::new()
                }
            };
            check(storage.medium(), &acknowledged, &what);
            check(storage.visible(), &acknowledged, &what);
        }
    }
}

#[test]
fn each_operation_fails_once() {
    fail_each(FaultKind::Error, false, false);
}

#[test]
fn each_operation_fails_once_and_drops_dirty_data() {
    fail_each(FaultKind::Error, false, true);
}

#[test]
fn each_operation_fails_and_all_after_it() {
    fail_each(FaultKind::Error, true, true);
}

#[test]
fn each_write_is_short() {
    fail_each(FaultKind::Short, false, false);
}

#[test]
fn each_operation_panics() {
    fail_each(FaultKind::Panic, false, true);
}

/// A page cache like Linux's. A failed write-back leaves the data in the cache, marks it clean, and
/// never writes it.
struct Cache {
    cached: Mutex<Vec<u8>>,
    medium: Mutex<Vec<u8>>,
    dirty: Mutex<Vec<std::ops::Range<usize>>>,
    fails: std::sync::atomic::AtomicBool,
}

impl Storage for Cache {
    fn len(&self) -> u64 {
        self.cached.lock().unwrap().len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let at = offset as usize;
        buf.copy_from_slice(&self.cached.lock().unwrap()[at..at + buf.len()]);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let range = offset as usize..offset as usize + data.len();
        self.cached.lock().unwrap()[range.clone()].copy_from_slice(data);
        self.dirty.lock().unwrap().push(range);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let dirty = std::mem::take(&mut *self.dirty.lock().unwrap());
        if self.fails.swap(false, std::sync::atomic::Ordering::Relaxed) {
            return Err(io::Error::other("the disk is gone for a moment"));
        }
        for range in dirty {
            let data = &self.cached.lock().unwrap()[range.clone()];
            self.medium.lock().unwrap()[range].copy_from_slice(data);
        }
        Ok(())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)?;
        self.flush()
    }
}

/// When the log is opened again, it finds the batch of a failed flush in the cache. It writes the
/// batch again before it returns its records.
#[test]
fn a_batch_in_the_cache_only_is_written_again() {
    let cache = Cache {
        cached: Mutex::new(vec![0; 1 << 16]),
        medium: Mutex::new(vec![0; 1 << 16]),
        dirty: Mutex::default(),
        fails: false.into(),
    };
    let log = Log::create(&cache, &Options::new()).unwrap();
    log.append_durable(b"first").unwrap();
    cache
        .fails
        .store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(
        log.append_durable(b"second"),
        Err(Error::Poisoned { .. })
    ));
    assert!(log.wait(Lsn::new(1)).is_ok(), "acknowledged before");
    drop(log);
    let log = Log::open(&cache, &Options::new()).unwrap();
    assert_eq!(log.records().count(), 2, "a complete batch is kept");
    log.append_durable(b"third").unwrap();
    // Now the machine stops.
    let after = Recorded::from_image(cache.medium.lock().unwrap().clone());
    let log = Log::open(&after, &Options::new()).unwrap();
    let data = Vec::from_iter(log.records().map(|record| record.unwrap().data));
    assert_eq!(data, [&b"first"[..], b"second", b"third"]);
}

/// Every thread gets the error of a failure, whether the thread sleeps or is about to append.
#[test]
fn a_failed_flush_reaches_sleeping_threads() {
    let storage = Recorded::new(LEN).flush_takes(Duration::from_millis(5));
    let log = Log::create(&storage, &Options::new()).unwrap();
    storage.plan(Fault {
        at: FaultAt::Flush(3),
        kind: FaultKind::Error,
        for_ever: false,
        drop_dirty: true,
    });
    let errors = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let error = loop {
                    if let Err(error) = log.append_durable(&[1; 64]) {
                        break error;
                    }
                };
                assert!(
                    error
                        .to_string()
                        .contains("flushing a batch failed: planned"),
                    "{error}"
                );
                *errors.lock().unwrap() += 1;
            });
        }
    });
    assert_eq!(*errors.lock().unwrap(), 16);
    assert_eq!(
        storage.flushes(),
        4,
        "a flush that failed is not tried again"
    );
}
