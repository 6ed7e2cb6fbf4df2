//! Tests of the compact log through its public API. A reader gets all records unchanged and in
//! order, even after many turns of the ring. Misuse gets a clear error.

#![cfg(feature = "compact")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Error, GroupCommit, Log, Lsn, Options};
use spanlock_journal_commit::testing::Recorded;

fn create(storage: &Recorded) -> Log<&Recorded> {
    Log::create(storage, &Options::new()).unwrap()
}

fn open(storage: &Recorded) -> Log<&Recorded> {
    Log::open(storage, &Options::new()).unwrap()
}

fn records<S: Storage>(log: &Log<S>) -> Vec<(u64, Vec<u8>)> {
    log.records()
        .map(|record| record.map(|record| (record.lsn.get(), record.data)))
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Returns the content of record `number`, of length `len`. It differs from all other records.
fn record(number: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

#[test]
fn records_come_out_as_they_went_in() {
    let storage = Recorded::new(1 << 20);
    let log = create(&storage);
    let lens = [0, 1, 7, 8, 9, 447, 448, 449, 512, 4096, 70_000];
    let mut expected = Vec::new();
    for (number, len) in (1..).zip(lens) {
        let data = record(number, len);
        assert_eq!(log.append_durable(&data).unwrap().get(), number);
        expected.push((number, data));
        assert_eq!(records(&log), expected);
    }
    assert_eq!(log.stats().flushes, lens.len() as u64);
    drop(log);
    let log = open(&storage);
    assert_eq!(records(&log), expected);
    assert_eq!(log.recovery().next.get(), lens.len() as u64 + 1);
    assert!(!log.recovery().was_closed && !log.recovery().was_torn);
}

#[test]
fn one_write_and_one_flush_commit_all_collected_records() {
    let storage = Recorded::new(1 << 20);
    let log = create(&storage);
    let (writes, flushes) = (storage.writes(), storage.flushes());
    let mut last = Lsn::FIRST;
    for number in 1..=100 {
        last = log.append(&record(number, 50)).unwrap();
    }
    assert_eq!(log.durable().get(), 0);
    assert_eq!(records(&log), []);
    log.wait(last).unwrap();
    assert_eq!(
        (storage.writes(), storage.flushes()),
        (writes + 1, flushes + 1)
    );
    assert_eq!(records(&log).len(), 100);
    // Waiting for a durable record causes no further flush.
    log.wait(Lsn::FIRST).unwrap();
    log.commit().unwrap();
    assert_eq!(storage.flushes(), flushes + 1);
}

#[test]
fn a_batch_has_a_maximum_size() {
    let storage = Recorded::new(1 << 20);
    let options = Options::new().batch_bytes(4096);
    let log = Log::create(&storage, &options).unwrap();
    for number in 1..=100 {
        log.append(&record(number, 400)).unwrap();
    }
    // A record larger than a batch gets a batch of its own.
    log.append_durable(&record(101, 10_000)).unwrap();
    let stats = log.stats();
    assert_eq!(stats.records, 101);
    assert_eq!(stats.flushes, 12 + 1); // Nine records of 408 bytes fit.
    assert_eq!(records(&log).len(), 101);
}

#[test]
fn records_survive_many_turns_of_the_ring() {
    for block in [512, 1024, 4096] {
        let storage = Recorded::new(8192 + 64 * 1024 + 100);
        let options = Options::new().block_bytes(block);
        let mut log = Log::create(&storage, &options).unwrap();
        let mut random = fastrand::Rng::with_seed(block);
        let mut kept = std::collections::VecDeque::new();
        for number in 1..=2000 {
            let data = record(number, random.usize(0..3000));
            let lsn = loop {
                match log.append(&data) {
                    Ok(lsn) => break lsn,
                    Err(Error::Full { needed, free }) => {
                        assert!(needed > free && free == log.free());
                        log.commit().unwrap();
                        let keep = random.usize(0..kept.len());
                        kept.drain(..kept.len() - keep);
                        let first = kept.front().map_or(log.durable().next(), |&(lsn, _)| lsn);
                        log.truncate(first).unwrap();
                    }
                    Err(other) => panic!("{other}"),
                }
            };
            assert_eq!(lsn.get(), number);
            kept.push_back((lsn, data));
            if random.u8(0..10) == 0 {
                log.commit().unwrap();
            }
            if random.u8(0..100) == 0 {
                log.commit().unwrap();
                if random.bool() {
                    log.close().unwrap();
                } else {
                    drop(log);
                }
                log = open(&storage);
                let there = records(&log);
                assert_eq!(there.len(), kept.len());
                for (there, (lsn, data)) in there.iter().zip(&kept) {
                    assert_eq!((there.0, &there.1), (lsn.get(), data));
                }
            }
        }
    }
}

#[test]
fn reading_starts_at_any_record() {
    let storage = Recorded::new(1 << 20);
    let log = create(&storage);
    for number in 1..=1000 {
        log.append(&record(number, 100)).unwrap();
        if number % 7 == 0 {
            log.commit().unwrap();
        }
    }
    log.commit().unwrap();
    log.truncate(Lsn::new(400)).unwrap();
    for from in [400, 401, 500, 999, 1000] {
        let records = log.records_from(Lsn::new(from)).unwrap();
        let numbers = Vec::from_iter(records.map(|record| record.unwrap().lsn.get()));
        assert_eq!(numbers, Vec::from_iter(from..=1000));
    }
    assert_eq!(log.records_from(Lsn::new(1001)).unwrap().count(), 0);
    let gone = log.records_from(Lsn::new(399)).unwrap_err();
    assert!(matches!(gone, Error::Truncated { first, .. } if first.get() == 400));
    let not_yet = log.records_from(Lsn::new(1002)).unwrap_err();
    assert!(matches!(not_yet, Error::NotYet { next, .. } if next.get() == 1001));
    drop(log);
    // After the truncation, exactly the records before the given one are gone.
    assert_eq!(records(&open(&storage))[0].0, 400);
}

#[test]
fn truncation_frees_room_and_persists() {
    let storage = Recorded::new(1 << 16);
    let log = create(&storage);
    let all = log.free();
    for number in 1..=20 {
        log.append_durable(&record(number, 600)).unwrap();
    }
    let open_one = log.append(&record(21, 600)).unwrap();
    assert!(matches!(
        log.truncate(open_one.next()),
        Err(Error::NotYet { .. })
    ));
    log.wait(open_one).unwrap();
    let before = log.free();
    log.truncate(Lsn::new(11)).unwrap();
    assert_eq!(log.free(), before + 10 * 1024);
    log.truncate(Lsn::new(5)).unwrap(); // Does nothing: these records are gone.
    assert_eq!(log.first().get(), 11);
    log.truncate(log.durable().next()).unwrap();
    assert_eq!((log.free(), records(&log).len()), (all, 0));
    assert!(matches!(
        log.truncate(Lsn::new(23)),
        Err(Error::NotYet { .. })
    ));
    assert_eq!(log.append_durable(b"next").unwrap().get(), 22);
    drop(log);
    assert_eq!(records(&open(&storage)), [(22, b"next".to_vec())]);
}

#[test]
fn records_of_each_thread_stay_in_order() {
    for group_commit in [GroupCommit::Plain, GroupCommit::Rendezvous] {
        let storage = Recorded::new(4 << 20);
        let options = Options::new().group_commit(group_commit);
        let log = Log::create(&storage, &options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8_u8 {
                let log = &log;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread.into());
                    for nth in 0..100_u32 {
                        let record = [&[thread], &nth.to_le_bytes()[..]].concat();
                        let lsn = log.append(&record).unwrap();
                        if random.bool() {
                            log.wait(lsn).unwrap();
                            assert!(log.durable() >= lsn);
                        }
                    }
                    log.commit().unwrap();
                });
            }
        });
        drop(log);
        let mut next = [0_u32; 8];
        for (_, record) in records(&open(&storage)) {
            let nth = u32::from_le_bytes(record[1..].try_into().unwrap());
            let expected = &mut next[usize::from(record[0])];
            assert_eq!(nth, *expected);
            *expected += 1;
        }
        assert_eq!(next, [100; 8]);
    }
}

/// A reader iterates over the log while other threads append and truncate. It gets correct records
/// in order, or the error that they were truncated.
#[test]
fn a_reader_sees_sound_records_during_truncation() {
    let storage = Recorded::new(8192 + 32 * 1024);
    let log = create(&storage);
    let done = AtomicBool::new(false);
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let mut previous = None;
                for item in log.records() {
                    let item = match item {
                        Ok(item) => item,
                        Err(Error::Truncated { .. }) => break,
                        Err(other) => panic!("{other}"),
                    };
                    assert_eq!(item.data, record(item.lsn.get(), 300));
                    assert!(previous.is_none_or(|previous: Lsn| previous.next() == item.lsn));
                    previous = Some(item.lsn);
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // The reader may begin late, so continue until it has read some records or has panicked.
        let mut number = 0;
        let reads_more = || seen.load(Ordering::Relaxed) < 1000 && !reader.is_finished();
        while number < 3000 || reads_more() {
            number += 1;
            let data = record(number, 300);
            if let Err(Error::Full { .. }) = log.append_durable(&data) {
                log.truncate(Lsn::new(number - 10)).unwrap();
                log.append_durable(&data).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn a_full_log_loses_nothing() {
    let storage = Recorded::new(8192 + 8 * 512);
    let log = create(&storage);
    let max = log.max_record();
    let too_large = log.append(&vec![1; max as usize + 1]).unwrap_err();
    assert!(matches!(too_large, Error::RecordTooLarge { max: most, .. } if most == max));
    assert!(too_large.to_string().contains("larger log"));
    let largest = record(1, max as usize);
    log.append_durable(&largest).unwrap();
    assert_eq!(log.free(), 0);
    let full = log.append(b"").unwrap_err();
    assert!(
        matches!(
            full,
            Error::Full {
                needed: 512,
                free: 0
            }
        ),
        "{full}"
    );
    assert!(full.to_string().contains("truncate"));
    assert_eq!(records(&log), [(1, largest.clone())]);
    drop(log);
    let log = open(&storage);
    assert_eq!(records(&log), [(1, largest)]);
    log.truncate(Lsn::new(2)).unwrap();
    assert_eq!(log.append_durable(b"there is room").unwrap().get(), 2);
}

#[test]
fn waiting_for_a_record_not_yet_appended_is_an_error() {
    let storage = Recorded::new(1 << 16);
    let log = create(&storage);
    let error = log.wait(Lsn::FIRST).unwrap_err();
    assert!(matches!(error, Error::NotYet { next, .. } if next == Lsn::FIRST));
    log.commit().unwrap();
    assert!(log.wait(Lsn::new(u64::MAX)).is_err());
}

#[test]
fn a_storage_without_a_log_is_refused() {
    let options = Options::new();
    let error = |storage: &Recorded| Log::open(storage, &options).unwrap_err();
    for len in [0, 511, 8191, 1 << 16] {
        let error = error(&Recorded::new(len));
        assert!(matches!(error, Error::NotALog { .. }), "{error}");
    }
    let foreign = Recorded::from_image(record(1, 1 << 16));
    assert!(matches!(error(&foreign), Error::NotALog { .. }));
    assert!(matches!(
        Log::create(&foreign, &options),
        Err(Error::Occupied)
    ));
    assert_eq!(foreign.visible(), record(1, 1 << 16));
    Log::wipe(&foreign).unwrap();
    Log::create(&foreign, &options).unwrap();
    assert!(matches!(
        Log::create(&foreign, &options),
        Err(Error::Occupied)
    ));
    assert_eq!(records(&open(&foreign)), []);
}

#[test]
fn impossible_storages_and_options_are_refused() {
    let too_small = Recorded::new(8192 + 8 * 512 - 1);
    let error = Log::create(&too_small, &Options::new()).unwrap_err();
    assert!(
        matches!(error, Error::BadOption { found: 12287, .. }),
        "{error}"
    );
    let storage = Recorded::new(1 << 16);
    for block in [0, 1, 256, 511, 513, 1536, 8192, u64::MAX] {
        let error = Log::create(&storage, &Options::new().block_bytes(block)).unwrap_err();
        assert!(matches!(error, Error::BadOption { .. }), "{error}");
    }
    assert_eq!(storage.writes(), 0);
}

#[test]
fn another_version_or_a_short_storage_is_refused() {
    let storage = Recorded::new(1 << 16);
    create(&storage).append_durable(b"kept").unwrap();
    let image = storage.visible();

    let mut newer = image.clone();
    for at in [0, 4096] {
        newer[at + 8] = 2;
        newer[at + 12..at + 16].fill(0);
        let sum = crc32c::crc32c(&newer[at..at + 512]);
        newer[at + 12..at + 16].copy_from_slice(&sum.to_le_bytes());
    }
    let error = Log::open(&Recorded::from_image(newer), &Options::new()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Version {
                found: 2,
                supported: 1
            }
        ),
        "{error}"
    );

    let shorter = Recorded::from_image(image[..1 << 15].to_vec());
    let error = Log::open(&shorter, &Options::new()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::CutShort {
                expected: 65_536,
                found: 32_768
            }
        ),
        "{error}"
    );

    // A longer storage is harmless: the log keeps its length.
    let longer = Recorded::from_image([image, vec![7; 5000]].concat());
    assert_eq!(records(&open(&longer)), [(1, b"kept".to_vec())]);
}

/// Batches of an older log with another id are not mistaken for batches of the new log.
#[test]
fn remains_of_another_log_are_ignored() {
    let storage = Recorded::new(1 << 16);
    let log = create(&storage);
    for number in 1..=50 {
        log.append_durable(&record(number, 200)).unwrap();
    }
    drop(log);
    Log::wipe(&storage).unwrap();
    create(&storage).append_durable(b"new").unwrap();
    assert_eq!(records(&open(&storage)), [(1, b"new".to_vec())]);
}
