//! Tests of a compact log that is opened lazily, in a part of a region of persistent memory: what
//! it writes and when, what it costs, and what is refused.

#![cfg(feature = "compact")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Error, Log, Lsn, Options};
use spanlock_journal_commit::storage::PmemStorage;
use spanlock_journal_commit::testing::{Fault, FaultAt, FaultKind, Recorded};
use spanlock_pmem::simulated::Simulated;
use spanlock_pmem::{Durable, Flushed, Pmem, Written};

const PART: u64 = 16384;
const START: u64 = 4096;

/// A region that counts its operations, and refuses every access outside the part.
#[derive(Debug)]
struct Counting {
    region: Arc<Simulated>,
    writes: AtomicU64,
    flushes: AtomicU64,
    fences: AtomicU64,
}

impl Counting {
    fn new() -> Arc<Self> {
        Self::of(&vec![0; (START + PART + 4096) as usize])
    }

    fn of(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Counting {
            region: Simulated::new(bytes),
            writes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            fences: AtomicU64::new(0),
        })
    }

    /// Returns the writes, flushes and fences since the last call.
    fn cost(&self) -> [u64; 3] {
        [&self.writes, &self.flushes, &self.fences].map(|count| count.swap(0, Relaxed))
    }

    fn check(at: u64, len: usize) {
        let is_inside = at >= START && at + len as u64 <= START + PART;
        assert!(is_inside, "{len} bytes at {at} are outside the part");
    }
}

// SAFETY: every method is the simulated region's own, which keeps the contract.
unsafe impl Pmem for Counting {
    fn len(&self) -> u64 {
        self.region.len()
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        Self::check(at, into.len());
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.read(at, into) }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        Self::check(at, data.len());
        self.writes.fetch_add(1, Relaxed);
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.write(at, data) }
    }

    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        Self::check(at, data.len());
        self.writes.fetch_add(1, Relaxed);
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.write_streaming(at, data) }
    }

    fn flush(&self, written: Written) -> Flushed {
        self.flushes.fetch_add(1, Relaxed);
        self.region.flush(written)
    }

    fn fence(&self, flushed: Flushed) -> Durable {
        self.fences.fetch_add(1, Relaxed);
        self.region.fence(flushed)
    }

    fn publish(&self, at: u64, value: u64, after: Durable) -> Written {
        Self::check(at, 8);
        self.region.publish(at, value, after)
    }

    fn load(&self, at: u64) -> u64 {
        Self::check(at, 8);
        self.region.load(at)
    }
}

fn part<P: Pmem>(region: P) -> PmemStorage<P> {
    PmemStorage::part(region, START..START + PART).unwrap()
}

fn open<S: Storage>(storage: S) -> Log<S> {
    Log::open_lazily(storage, &Options::new().id(7)).unwrap()
}

fn numbers<S: Storage>(log: &Log<S>) -> Vec<u64> {
    let records = log.records();
    records.map(|record| record.unwrap().lsn.get()).collect()
}

#[test]
fn one_transaction_costs_three_fences() {
    let region = Counting::new();
    let log = open(part(region.clone()));
    assert_eq!(numbers(&log), []);
    assert_eq!(log.recovery().next, Lsn::FIRST);
    assert_eq!(region.cost(), [0; 3]);
    // The first append also writes both superblocks.
    let first = log.append_durable(&[1; 48]).unwrap();
    assert_eq!(region.cost(), [3; 3]);
    log.truncate(first.next()).unwrap();
    assert_eq!(region.cost(), [2; 3]);
    // The ring has 16 blocks, and each of these batches takes one.
    for _ in 0..40 {
        let lsn = log.append_durable(&[2; 48]).unwrap();
        assert_eq!(region.cost(), [1; 3]);
        log.truncate(lsn.next()).unwrap();
        assert_eq!(region.cost(), [2; 3]);
    }
    // 41 batches put the end into block 9. The fourth batch of two blocks crosses the ring's end,
    // which takes two writes.
    for _ in 0..3 {
        let lsn = log.append_durable(&[3; 600]).unwrap();
        assert_eq!(region.cost(), [1; 3]);
        log.truncate(lsn.next()).unwrap();
        region.cost();
    }
    log.append_durable(&[4; 600]).unwrap();
    assert_eq!(region.cost(), [2; 3]);
    drop(log);
    // Opening lazily and reading writes nothing. Then the first write costs four more: the last
    // batch, which crosses the end, and two superblocks.
    let log = open(part(region.clone()));
    assert_eq!(numbers(&log), [45]);
    log.wait(Lsn::new(45)).unwrap();
    assert_eq!(region.cost(), [0; 3]);
    log.truncate(Lsn::new(46)).unwrap();
    assert_eq!(region.cost(), [6; 3]);
    // The writes of opening are done once.
    log.finish_opening().unwrap();
    assert_eq!(region.cost(), [0; 3]);
}

#[test]
fn images_with_a_given_id_are_deterministic() {
    let image = || {
        let region = Counting::new();
        let log = open(part(&*region));
        for record in 0..20 {
            let lsn = log.append_durable(&[record; 48]).unwrap();
            log.truncate(lsn).unwrap();
        }
        log.close().unwrap();
        region.region.bytes()
    };
    let bytes = image();
    assert_eq!(bytes, image());
    assert_eq!(bytes[START as usize + 16], 7);
}

#[test]
fn parts_that_are_not_inside_the_region_are_refused() {
    let region = Counting::new();
    let len = region.len();
    #[allow(clippy::reversed_empty_ranges, reason = "it is refused")]
    let cases = [
        (4096..64, "reversed"),
        (
            4096..len + 64,
            "ends beyond the region, which has 24576 bytes",
        ),
        (len + 64..len + 128, "ends beyond"),
        (0..u64::MAX, "ends beyond"),
        (8..4096, "multiple of 64"),
        (64..4097, "multiple of 64"),
    ];
    for (range, why) in cases {
        let error = PmemStorage::part(region.clone(), range.clone()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{range:?}: {error}");
    }
    let storage = part(&*region);
    let mut bytes = [0; 64];
    storage.read_at(&mut bytes, PART - 64).unwrap();
    assert!(storage.read_at(&mut bytes, PART - 63).is_err());
    assert!(storage.write_at(&bytes, u64::MAX).is_err());
}

#[test]
fn after_a_truncation_no_recovery_returns_older_records() {
    let storage = Recorded::new(PART as usize);
    let log = Log::create(&storage, &Options::new()).unwrap();
    for record in 0..6 {
        log.append_durable(&[record; 48]).unwrap();
    }
    log.truncate(Lsn::new(4)).unwrap();
    let durable = storage.medium();
    // Either superblock suffices, and so does every way to open.
    for lost in [None, Some(0), Some(4096)] {
        let image = || {
            let mut image = durable.clone();
            if let Some(at) = lost {
                image[at..at + 512].fill(0);
            }
            Recorded::from_image(image)
        };
        let options = Options::new();
        for log in [
            Log::open(image(), &options).unwrap(),
            Log::open_lazily(image(), &options).unwrap(),
            Log::salvage(image(), &options).unwrap(),
        ] {
            assert_eq!(numbers(&log), [4, 5, 6], "{lost:?}");
        }
    }
}

#[test]
fn only_storages_of_zeros_are_created_lazily() {
    let zeros = vec![0; PART as usize];
    // A byte anywhere but in the first superblock, or one there that no creation writes.
    for at in [0, 300, 512, 4096, 9000, 16383] {
        let mut bytes = zeros.clone();
        bytes[at] = 1;
        let storage = Recorded::from_image(bytes);
        let options = Options::new().id(7);
        let error = Log::open_lazily(&storage, &options).unwrap_err();
        assert!(matches!(error, Error::NotALog { .. }), "{at}: {error}");
        let error = Log::create(&storage, &options).unwrap_err();
        assert!(matches!(error, Error::Occupied), "{at}: {error}");
        assert_eq!(storage.writes(), 0);
    }
    let small = Recorded::new(8192);
    let error = Log::open_lazily(&small, &Options::new()).unwrap_err();
    assert!(matches!(error, Error::BadOption { .. }), "{error}");
    let (storage, options) = (Recorded::new(PART as usize), Options::new().block_bytes(7));
    let error = Log::open_lazily(&storage, &options);
    assert!(matches!(error.unwrap_err(), Error::BadOption { .. }));
}

/// Every prefix of the words of the first superblock is an interrupted creation, with a given id
/// and with a random one.
#[test]
fn an_interrupted_creation_is_an_empty_log() {
    for options in [Options::new(), Options::new().id(7)] {
        let created = Recorded::new(PART as usize);
        Log::create(&created, &options).unwrap();
        let superblock = created.visible();
        for words in 0..=11 {
            let mut bytes = vec![0; PART as usize];
            bytes[..words * 8].copy_from_slice(&superblock[..words * 8]);
            let storage = Recorded::from_image(bytes);
            let log = Log::open_lazily(&storage, &options).unwrap();
            assert_eq!((numbers(&log), storage.writes()), (vec![], 0));
            log.append_durable(b"first").unwrap();
            drop(log);
            assert_eq!(numbers(&Log::open(&storage, &options).unwrap()), [1]);
        }
    }
}

/// A copy that is older may still have records that the newer one has truncated.
#[test]
fn opening_says_whether_the_copies_of_the_superblock_agreed() {
    let storage = Recorded::new(PART as usize);
    let log = open(&storage);
    assert!(log.recovery().copies_agreed);
    log.append_durable(b"first").unwrap();
    drop(log);
    let before = storage.visible();
    let log = open(&storage);
    assert!(log.recovery().copies_agreed);
    log.truncate(Lsn::new(2)).unwrap();
    drop(log);
    let after = storage.visible();
    for (old, lost) in [(0, 4096), (4096, 0)] {
        let mut bytes = after.clone();
        bytes[old..][..512].copy_from_slice(&before[old..][..512]);
        let storage = Recorded::from_image(bytes.clone());
        let log = open(&storage);
        assert_eq!(
            (numbers(&log), log.recovery().copies_agreed),
            (vec![], false)
        );
        log.finish_opening().unwrap();
        drop(log);
        bytes = storage.visible();
        bytes[lost..][..512].fill(0);
        let log = open(Recorded::from_image(bytes));
        assert_eq!(
            (numbers(&log), log.recovery().copies_agreed),
            (vec![], false)
        );
    }
}

#[test]
fn a_failed_opening_poisons_the_log_and_loses_nothing() {
    let storage = Recorded::new(PART as usize);
    let log = open(&storage);
    log.append_durable(b"first").unwrap();
    drop(log);
    for at in 0..3 {
        let log = open(&storage);
        storage.plan(Fault {
            at: FaultAt::Write(storage.writes() + at),
            kind: FaultKind::Error,
            for_ever: false,
            drop_dirty: true,
        });
        let error = log.append_durable(b"second").unwrap_err();
        assert!(matches!(error, Error::Poisoned { .. }), "{error}");
        assert!(matches!(
            log.truncate(Lsn::new(2)),
            Err(Error::Poisoned { .. })
        ));
        assert_eq!(numbers(&open(&storage)), [1]);
    }
}
