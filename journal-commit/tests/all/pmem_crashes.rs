//! Simulates a process that dies between two 8-byte stores to persistent memory, and opens its
//! journal of blocks again, or creates its journal or log again.

#![cfg(all(feature = "jbd2", feature = "compact"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{self, Log};
use spanlock_journal_commit::jbd2::{
    Error, Extent, Flushes, FormatOptions, Journal, Options, Place, format,
};
use spanlock_journal_commit::storage::PmemStorage;
use spanlock_pmem::{Durable, Flushed, Pmem, RegionId, Written};

const BLOCK: usize = 1024;
const BLOCKS: u64 = 8;
const LOG_BLOCKS: u64 = 36;
const ROUNDS: u8 = 12;

/// Memory that keeps a given number of stores and ignores all later ones.
struct Mortal {
    id: RegionId,
    words: Vec<AtomicU64>,
    left: AtomicI64,
}

impl Mortal {
    fn new(image: &[u64], stores: i64) -> Arc<Self> {
        Arc::new(Mortal {
            id: RegionId::new(),
            words: image.iter().copied().map(AtomicU64::new).collect(),
            left: stores.into(),
        })
    }

    fn is_alive(&self) -> bool {
        self.left.load(Relaxed) > 0
    }

    fn image(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(Relaxed)).collect()
    }
}

// SAFETY: the test defines which stores survive. Slice indexing checks every range, and all
// accesses are atomic.
unsafe impl Pmem for Mortal {
    fn len(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        for (byte, at) in into.iter_mut().zip(at as usize..) {
            *byte = self.words[at / 8].load(Relaxed).to_le_bytes()[at % 8];
        }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        assert!(at.is_multiple_of(8) && data.len().is_multiple_of(8));
        let words = &self.words[at as usize / 8..][..data.len() / 8];
        for (word, bytes) in words.iter().zip(data.chunks_exact(8)) {
            if self.left.fetch_sub(1, Relaxed) > 0 {
                word.store(u64::from_le_bytes(bytes.try_into().unwrap()), Relaxed);
            }
        }
        // SAFETY: the bytes were stored above, inside the region.
        unsafe { Written::new(self.id, at..at + data.len() as u64) }
    }

    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        // SAFETY: the caller gives the same promise.
        self.flush(unsafe { self.write(at, data) })
    }

    fn flush(&self, written: Written) -> Flushed {
        written.into_range(self.id);
        // SAFETY: there is nothing to write back.
        unsafe { Flushed::new() }
    }

    fn fence(&self, _: Flushed) -> Durable {
        // SAFETY: there is nothing to wait for.
        unsafe { Durable::new() }
    }

    fn publish(&self, at: u64, value: u64, _: Durable) -> Written {
        // SAFETY: all accesses are atomic.
        unsafe { self.write(at, &value.to_le_bytes()) }
    }

    fn load(&self, at: u64) -> u64 {
        self.words[at as usize / 8].load(Relaxed)
    }
}

fn storage(region: &Arc<Mortal>) -> Arc<PmemStorage<Arc<Mortal>>> {
    Arc::new(PmemStorage::sectors(region.clone()).unwrap())
}

fn place() -> Place {
    Place::extents([Extent {
        first: BLOCKS,
        blocks: LOG_BLOCKS,
    }])
}

fn open(region: &Arc<Mortal>) -> Journal {
    let storage = storage(region);
    let options = Options::new(BLOCK as u32).place(place());
    Journal::open(storage.clone(), storage, options).unwrap()
}

/// Runs rounds that each fill two blocks. Returns the last round that was acknowledged before the
/// memory began to ignore stores.
fn run(region: &Arc<Mortal>) -> u8 {
    let journal = open(region);
    let mut acknowledged = 0;
    for round in 1..=ROUNDS {
        let handle = journal.begin(2).unwrap();
        for number in 0..2 {
            let mut block = handle.get_write(number).unwrap();
            block.fill(round);
            block.dirty().unwrap();
        }
        handle.stop_durable().unwrap();
        if region.is_alive() {
            acknowledged = round;
        }
    }
    assert!(journal.stats().checkpoints > 0);
    journal.close().unwrap();
    acknowledged
}

#[test]
fn a_kill_between_two_stores_is_recovered() {
    let region = Mortal::new(
        &vec![0; (BLOCKS + LOG_BLOCKS + 1) as usize * BLOCK / 8],
        i64::MAX,
    );
    format(
        storage(&region),
        &FormatOptions::new(BLOCK as u32).place(place()),
    )
    .unwrap();
    let formatted = region.image();
    let region = Mortal::new(&formatted, i64::MAX);
    assert_eq!(run(&region), ROUNDS);
    let stores = i64::MAX - region.left.load(Relaxed);
    for stores in (0..stores).step_by(13) {
        let region = Mortal::new(&formatted, stores);
        let acknowledged = run(&region);
        let region = Mortal::new(&region.image(), i64::MAX);
        let journal = open(&region);
        let mut found = [[0; BLOCK]; 2];
        for (block, into) in (0..).zip(&mut found) {
            journal.read(block, into).unwrap();
        }
        assert!(found[0].iter().all(|byte| *byte == found[0][0]), "{stores}");
        assert_eq!(
            found[0], found[1],
            "half of a handle, after {stores} stores"
        );
        assert!(found[0][0] >= acknowledged, "{stores}");
        journal.close().unwrap();
    }
}

#[test]
fn a_sector_is_old_or_new() {
    let old = Mortal::new(&[0x1111; 512], i64::MAX);
    old.words[384].store(0, Relaxed); // The spare's mark.
    let image = old.image();
    for stores in 0..300 {
        let region = Mortal::new(&image, stores);
        storage(&region).write_fua(&[9; 1000], 24).unwrap();
        let region = Mortal::new(&region.image(), i64::MAX);
        let mut now = vec![0; 1536];
        storage(&region).read_at(&mut now, 0).unwrap();
        for (sector, range) in [24..512, 512..1024].into_iter().enumerate() {
            let news = now[range.clone()].iter().filter(|byte| **byte == 9).count();
            assert!(
                news == 0 || news == range.len(),
                "sector {sector} after {stores} stores: {news}"
            );
        }
        assert!(now[..24].iter().chain(&now[1024..]).all(|byte| *byte != 9));
    }
    // The end of the region holds something other than a mark.
    old.words[384].store(5, Relaxed);
    assert!(PmemStorage::sectors(old).is_err());
    assert!(PmemStorage::sectors(Mortal::new(&[0; 64], i64::MAX)).is_err());
}

/// A process dies between two stores of `format`, in a new region and over an earlier journal. With
/// the format with one flush, no checksum shows that a superblock is torn.
#[test]
fn a_kill_while_formatting_leaves_a_journal_or_none() {
    let whole = |region: &Arc<Mortal>| Arc::new(PmemStorage::new(region.clone()));
    let make = |region: &Arc<Mortal>, flushes| {
        let new = FormatOptions::new(BLOCK as u32).place(place()).overwrite();
        format(whole(region), &new.flushes(flushes)).unwrap();
    };
    let open = |region: &Arc<Mortal>| {
        let options = Options::new(BLOCK as u32).place(place());
        Journal::open(whole(region), whole(region), options)
    };
    let empty = vec![0; (BLOCKS + LOG_BLOCKS) as usize * BLOCK / 8];
    for flushes in [Flushes::One, Flushes::Two] {
        let earlier = Mortal::new(&empty, i64::MAX);
        make(&earlier, flushes);
        drop(open(&earlier).unwrap());
        for base in [&empty, &earlier.image()] {
            let region = Mortal::new(base, i64::MAX);
            make(&region, flushes);
            let all = i64::MAX - region.left.load(Relaxed);
            // In between are the stores that clear the log.
            let stores = (0..300).chain((300..all - 300).step_by(97));
            let mut none = 0;
            for stores in stores.chain(all - 300..=all) {
                let region = Mortal::new(base, stores);
                make(&region, flushes);
                let region = Mortal::new(&region.image(), i64::MAX);
                match open(&region) {
                    Ok(_) => {}
                    Err(Error::NotAJournal { .. }) => {
                        none += 1;
                        make(&region, flushes);
                        drop(open(&region).unwrap());
                    }
                    Err(error) => panic!("{stores} of {all} stores: {error}"),
                }
            }
            assert!(none > 500, "{none}");
        }
    }
}

/// The same for a compact log, over storages with and without atomic sectors.
#[test]
fn a_kill_while_a_log_is_created_leaves_a_log_or_none() {
    let run = |make: fn(&Arc<Mortal>) -> PmemStorage<Arc<Mortal>>| {
        let empty = vec![0; 16384 / 8];
        let options = compact::Options::new();
        let region = Mortal::new(&empty, i64::MAX);
        drop(Log::create(make(&region), &options).unwrap());
        let all = i64::MAX - region.left.load(Relaxed);
        for stores in 0..=all {
            let region = Mortal::new(&empty, stores);
            drop(Log::create(make(&region), &options).unwrap());
            let image = region.image();
            let reopened = || make(&Mortal::new(&image, i64::MAX));
            for log in [
                Log::open(reopened(), &options).or_else(|_| Log::create(reopened(), &options)),
                Log::create(reopened(), &options).or_else(|_| Log::open(reopened(), &options)),
                Log::open_lazily(reopened(), &options),
            ] {
                let log = log.unwrap_or_else(|error| panic!("{stores} of {all}: {error}"));
                log.append_durable(b"first").unwrap();
            }
        }
    };
    run(|region| PmemStorage::new(region.clone()));
    run(|region| PmemStorage::sectors(region.clone()).unwrap());
}
