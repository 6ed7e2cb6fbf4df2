//! Journals and logs with forged counts and lengths under correct checksums. Recovery must neither
//! panic, nor take more memory than the medium has bytes, nor read it again and again.

#![cfg(all(feature = "jbd2", feature = "compact"))]

mod rounds;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rounds::scaled;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{self, Log};
use spanlock_journal_commit::jbd2::{self, Flushes, FormatOptions, Journal, Place};
use spanlock_journal_commit::testing::Recorded;

/// The system's allocator, which counts the bytes that each thread has in use.
struct Counting;

thread_local! {
    /// The bytes that this thread has allocated and not freed, and the most of them so far.
    static IN_USE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    // While a thread ends, its count may be gone.
    let _ = IN_USE.try_with(|it| {
        let (now, most) = it.get();
        it.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A medium in memory, which counts the bytes that are read.
struct Memory {
    bytes: Mutex<Vec<u8>>,
    read: AtomicU64,
}

impl Memory {
    fn new(bytes: Vec<u8>) -> Memory {
        Memory {
            bytes: Mutex::new(bytes),
            read: AtomicU64::new(0),
        }
    }
}

impl Storage for Memory {
    fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read.fetch_add(buf.len() as u64, Relaxed);
        let bytes = self.bytes.lock().unwrap();
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let from = from.get(..buf.len()).ok_or(io::ErrorKind::InvalidInput)?;
        buf.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap();
        bytes[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)
    }
}

/// Runs a recovery of a medium with these bytes. Fails the test if it takes more than `most` bytes
/// of memory, or reads more than six times as many bytes as the medium has.
fn bounded<R>(bytes: Vec<u8>, most: usize, what: &str, run: impl FnOnce(Arc<Memory>) -> R) -> R {
    let len = bytes.len();
    let memory = Arc::new(Memory::new(bytes));
    let before = IN_USE.with(|it| {
        let (now, _) = it.get();
        it.set((now, now));
        now
    });
    let result = run(memory.clone());
    let (_, peak) = IN_USE.with(Cell::get);
    let used = (peak - before).cast_unsigned();
    assert!(used <= most, "{what}: {used} bytes for a medium of {len}");
    let read = memory.read.load(Relaxed);
    assert!(
        read <= 6 * len as u64,
        "{what}: {read} bytes read from a medium of {len}"
    );
    result
}

/// The numbers that are forged.
const NUMBERS: [u32; 12] = [
    0,
    1,
    2,
    3,
    127,
    128,
    1 << 15,
    0xFFFF,
    1 << 30,
    1 << 31,
    u32::MAX - 1,
    u32::MAX,
];

/// Recovers a journal with blocks of `block` bytes. Returns whether it was accepted.
fn recover(bytes: Vec<u8>, block: usize, what: &str) -> bool {
    let home = Memory::new(vec![0; 64 * block]);
    let most = bytes.len();
    bounded(bytes, most, what, |log| {
        jbd2::recover(log, &home, block as u32, &Place::whole()).is_ok()
    })
}

/// Returns an empty journal without checksums that must be repaired: a commit block of this format
/// may have none.
fn unchecked(block: usize, blocks: usize) -> Vec<u8> {
    let device = Recorded::new(block * blocks);
    let device = Arc::new(device);
    let options = FormatOptions::new(block as u32).flushes(Flushes::One);
    jbd2::format(device.clone(), &options).unwrap();
    let mut bytes = device.visible();
    put(&mut bytes, 0x1C, 1); // The log starts at block 1.
    put(&mut bytes, 0x28, 5); // Revoke blocks, ASYNC_COMMIT, block numbers of 32 bits.
    bytes
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

/// Puts the header of a block of the first transaction at `at`.
fn put_header(bytes: &mut [u8], at: usize, kind: u32) {
    for (at, number) in [(at, 0xC03B_3998), (at + 4, kind), (at + 8, 1)] {
        put(bytes, at, number);
    }
}

/// A journal that consists of revoke blocks only, which name a million blocks.
#[test]
fn revoked_blocks_take_no_more_memory_than_the_journal() {
    const BLOCK: usize = 4096;
    const BLOCKS: usize = 1024;
    let mut bytes = unchecked(BLOCK, BLOCKS);
    let mut name = 0;
    for block in 1..BLOCKS - 1 {
        let at = block * BLOCK;
        put_header(&mut bytes, at, 5);
        put(&mut bytes, at + 12, BLOCK as u32);
        for at in (at + 16..at + BLOCK).step_by(4) {
            put(&mut bytes, at, name);
            name += 1;
        }
    }
    put_header(&mut bytes, (BLOCKS - 1) * BLOCK, 2);
    assert!(name > 1_000_000);
    assert!(recover(bytes, BLOCK, "revoked blocks"));
}

/// A descriptor that names far more blocks than the log has, so that reading them goes round.
#[test]
fn a_descriptor_does_not_go_round_the_log() {
    const BLOCK: usize = 1 << 16;
    let mut bytes = unchecked(BLOCK, 33);
    put_header(&mut bytes, BLOCK, 1);
    for at in (BLOCK + 12..2 * BLOCK - 8).step_by(8) {
        put(&mut bytes, at, 7);
        put(&mut bytes, at + 4, 2); // No UUID follows this tag, and it is not the last.
    }
    assert!(recover(bytes, BLOCK, "a descriptor"));
}

const BLOCK: usize = 1024;

/// Returns a journal of three transactions, the last with a revoke block.
fn sample(flushes: Flushes) -> Vec<u8> {
    let log = Arc::new(Recorded::new(128 * BLOCK));
    let options = FormatOptions::new(BLOCK as u32).flushes(flushes);
    jbd2::format(log.clone(), &options).unwrap();
    let home = Recorded::new(64 * BLOCK);
    let journal = Journal::open(log.clone(), home, jbd2::Options::new(BLOCK as u32)).unwrap();
    for round in 1..=3_u8 {
        let handle = journal.begin(8).unwrap();
        for number in 0..4 {
            let mut block = handle.get_write(number * 10 + u64::from(round)).unwrap();
            block.fill(round);
            block.dirty().unwrap();
        }
        if round == 3 {
            handle.revoke(1).unwrap();
        }
        handle.stop_durable().unwrap();
    }
    drop(journal);
    log.medium()
}

/// Repairs the checksum of a block. `seed` is that of the log's checksums, or `None` if the format
/// has none that must be repaired.
fn repair(block: &mut [u8], seed: Option<u32>) {
    let kind = u32::from_be_bytes(block[4..8].try_into().unwrap());
    let (at, seed) = match (kind, seed) {
        (1 | 5, Some(seed)) => (BLOCK - 4, seed),
        (2, Some(seed)) => (16, seed),
        (3 | 4, Some(_)) => (0xFC, !0),
        (2, None) => {
            // Without a checksum, and without the marks that it has one.
            block[12..20].fill(0);
            return;
        }
        _ => return,
    };
    block[at..at + 4].fill(0);
    let sum = !crc32c::crc32c_append(!seed, block);
    block[at..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// A journal whose blocks have the checksums of its format, and their seed.
fn sealed(flushes: Flushes) -> (Vec<u8>, Option<u32>) {
    let mut image = sample(flushes);
    let uuid = &image[0x30..0x40];
    let seed = (flushes == Flushes::Two).then(|| !crc32c::crc32c_append(0, uuid));
    image
        .chunks_exact_mut(BLOCK)
        .for_each(|block| repair(block, seed));
    assert!(recover(image.clone(), BLOCK, "the sample"));
    (image, seed)
}

/// Returns where the blocks with a header begin.
fn blocks_with_headers(image: &[u8]) -> Vec<usize> {
    let starts = (0..20).map(|block| block * BLOCK);
    let has_header = |start: &usize| image[*start..start + 4] == 0xC03B_3998_u32.to_be_bytes();
    starts.filter(has_header).collect()
}

#[test]
fn every_forged_number_of_a_journal_is_harmless() {
    let (mut accepted, mut refused) = (0, 0);
    for flushes in [Flushes::Two, Flushes::One] {
        let (image, seed) = sealed(flushes);
        for start in blocks_with_headers(&image) {
            for at in (0..96).step_by(4) {
                for number in NUMBERS {
                    let mut forged = image.clone();
                    put(&mut forged, start + at, number);
                    repair(&mut forged[start..start + BLOCK], seed);
                    match recover(forged, BLOCK, &format!("{number} at byte {}", start + at)) {
                        true => accepted += 1,
                        false => refused += 1,
                    }
                }
            }
        }
    }
    assert!(accepted > 1000 && refused > 500, "{accepted} {refused}");
}

/// How many images of each kind are forged at random.
const FORGED: usize = 2_500;

/// Returns one of [`NUMBERS`], a number near `sound`, or any number.
fn number(random: &mut fastrand::Rng, sound: u32) -> u32 {
    match random.u8(..3) {
        0 => random.u32(..),
        1 => sound.wrapping_add(random.u32(..16)).wrapping_sub(8),
        _ => NUMBERS[random.usize(..NUMBERS.len())],
    }
}

/// Up to three numbers at a time, in one block.
#[test]
fn random_forged_numbers_of_a_journal_are_harmless() {
    let (mut accepted, mut refused) = (0, 0);
    let mut random = fastrand::Rng::with_seed(18);
    for flushes in [Flushes::Two, Flushes::One] {
        let (image, seed) = sealed(flushes);
        let starts = blocks_with_headers(&image);
        for _ in 0..scaled(FORGED) {
            let what = format!("{flushes:?}, seed {}", random.get_seed());
            let start = starts[random.usize(..starts.len())];
            let mut forged = image.clone();
            for _ in 0..random.usize(1..=3) {
                let at = start + random.usize(..24) * 4;
                let sound = u32::from_be_bytes(forged[at..at + 4].try_into().unwrap());
                put(&mut forged, at, number(&mut random, sound));
            }
            repair(&mut forged[start..start + BLOCK], seed);
            match recover(forged, BLOCK, &what) {
                true => accepted += 1,
                false => refused += 1,
            }
        }
    }
    let least = FORGED / 20;
    assert!(accepted > least && refused > least, "{accepted} {refused}");
}

/// A compact log with batches, and what has a checksum in it: offset and length, and the offset of
/// the checksum.
fn compact_sample() -> (Vec<u8>, Vec<(usize, usize, usize)>) {
    let storage = Recorded::new(1 << 16);
    let log = Log::create(&storage, &compact::Options::new()).unwrap();
    for number in 0..20 {
        log.append_durable(&vec![number; 700]).unwrap();
    }
    drop(log);
    let mut parts = vec![(0, 512, 12), (4096, 512, 12)];
    parts.extend((0..20).map(|batch| (8192 + batch * 1024, 56, 4)));
    (storage.visible(), parts)
}

/// Repairs the checksum of a part, and opens the log. Returns whether that succeeds.
fn opens(mut forged: Vec<u8>, (start, len, sum_at): (usize, usize, usize), what: &str) -> bool {
    // A batch's checksum covers the bytes after it.
    let from = if len == 512 { start } else { start + 8 };
    forged[start + sum_at..][..4].fill(0);
    let sum = crc32c::crc32c(&forged[from..start + len]);
    forged[start + sum_at..][..4].copy_from_slice(&sum.to_le_bytes());
    let most = 2 * forged.len();
    let opened = bounded(forged, most, what, |storage| {
        let log = Log::open(&*storage, &compact::Options::new());
        log.map(|log| log.records().count())
    });
    opened.is_ok()
}

/// The superblocks and the headers of batches.
#[test]
fn every_forged_number_of_a_compact_log_is_harmless() {
    let (image, parts) = compact_sample();
    let (mut accepted, mut refused) = (0, 0);
    for part @ (start, len, _) in parts {
        for (at, number) in (8..88.min(len))
            .step_by(4)
            .flat_map(|at| NUMBERS.map(|it| (at, it)))
        {
            let mut forged = image.clone();
            forged[start + at..][..4].copy_from_slice(&number.to_le_bytes());
            match opens(forged, part, &format!("{number} at byte {}", start + at)) {
                true => accepted += 1,
                false => refused += 1,
            }
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

/// Up to three numbers at a time, in a superblock or the header of a batch.
#[test]
fn random_forged_numbers_of_a_compact_log_are_harmless() {
    let (image, parts) = compact_sample();
    let (mut accepted, mut refused) = (0, 0);
    let mut random = fastrand::Rng::with_seed(19);
    for _ in 0..scaled(2 * FORGED) {
        let what = format!("seed {}", random.get_seed());
        // Half of them in the superblocks.
        let part @ (start, len, _) = match random.bool() {
            true => parts[random.usize(..2)],
            false => parts[random.usize(2..parts.len())],
        };
        let mut forged = image.clone();
        for _ in 0..random.usize(1..=3) {
            let at = start + random.usize(2..88.min(len) / 4) * 4;
            let sound = u32::from_le_bytes(forged[at..at + 4].try_into().unwrap());
            let forging = number(&mut random, sound);
            forged[at..at + 4].copy_from_slice(&forging.to_le_bytes());
        }
        match opens(forged, part, &what) {
            true => accepted += 1,
            false => refused += 1,
        }
    }
    let least = FORGED / 20;
    assert!(accepted > least && refused > least, "{accepted} {refused}");
}
