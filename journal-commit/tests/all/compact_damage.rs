//! Tests with a medium that changes durable bytes. Opening distinguishes damage from a torn end
//! wherever the bytes allow, and never returns a record that was not appended.

#![cfg(feature = "compact")]

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Error, Log, Lsn, Options};
use spanlock_journal_commit::testing::Recorded;

const RING: usize = 8192;
const LEN: usize = RING + 64 * 512;

fn record(number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    // The last record takes several sectors.
    let least = if number == 20 { 600 } else { 0 };
    let mut bytes = vec![0; random.usize(least..1300)];
    random.fill(&mut bytes);
    bytes
}

/// Returns a log of twenty batches with one record each, and the offset of each batch. The log was
/// opened again after the first ten batches.
fn log_of_twenty(is_closed: bool) -> (Vec<u8>, Vec<usize>) {
    let storage = Recorded::new(LEN);
    let mut starts = Vec::new();
    let mut at = RING;
    for numbers in [1..=10, 11..=20] {
        let log = match Log::open(&storage, &Options::new()) {
            Ok(log) => log,
            Err(_) => Log::create(&storage, &Options::new()).unwrap(),
        };
        for number in numbers {
            starts.push(at);
            let before = log.free();
            log.append_durable(&record(number)).unwrap();
            at += (before - log.free()) as usize;
        }
        if is_closed {
            log.close().unwrap();
        }
    }
    starts.push(at);
    (storage.visible(), starts)
}

fn open(image: Vec<u8>) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let storage = Recorded::from_image(image);
    Ok(records(&Log::open(&storage, &Options::new())?))
}

fn records<S: Storage>(log: &Log<S>) -> Vec<(u64, Vec<u8>)> {
    let records = log.records().map(Result::unwrap);
    records
        .map(|record| (record.lsn.get(), record.data))
        .collect()
}

fn first(count: u64) -> Vec<(u64, Vec<u8>)> {
    (1..=count).map(|number| (number, record(number))).collect()
}

/// Damages each batch in turn: its header, a record, or all of it.
#[test]
fn a_damaged_batch_is_not_taken_for_torn() {
    for is_closed in [false, true] {
        let (image, starts) = log_of_twenty(is_closed);
        assert_eq!(open(image.clone()).unwrap(), first(20));
        for number in 1..=20_u64 {
            let start = starts[number as usize - 1];
            let end = starts[number as usize];
            for range in [
                start..start + 1,
                start + 30..start + 31,
                start + 56..start + 57,
                start..end,
            ] {
                let mut damaged = image.clone();
                damaged[range].iter_mut().for_each(|byte| *byte ^= 0x40);
                let result = open(damaged.clone());
                if number == 20 && !is_closed {
                    // No batch follows the last one, so it looks torn.
                    assert_eq!(result.unwrap(), first(19));
                    continue;
                }
                let error = result.unwrap_err();
                let Error::Corrupt { at, lsn, .. } = &error else {
                    panic!("{number}: {error}");
                };
                assert_eq!((*at, lsn.get()), (start as u64, number), "{error}");
                salvaged(damaged, number);
            }
        }
    }
}

/// Checks that `salvage` keeps the records before the damage and discards the others, and that the
/// log can be continued.
fn salvaged(damaged: Vec<u8>, number: u64) {
    let storage = Recorded::from_image(damaged);
    let log = Log::salvage(&storage, &Options::new()).unwrap();
    assert_eq!(records(&log), first(number - 1));
    assert!(matches!(log.recovery().damage, Some(Error::Corrupt { .. })));
    assert_eq!(log.append_durable(b"on").unwrap(), Lsn::new(number));
    drop(log);
    let log = Log::open(&storage, &Options::new()).unwrap();
    assert!(log.recovery().damage.is_none());
    let mut expected = first(number - 1);
    expected.push((number, b"on".to_vec()));
    assert_eq!(records(&log), expected);
}

#[test]
fn a_torn_batch_is_detected() {
    let (mut image, starts) = log_of_twenty(false);
    let last = starts[19];
    assert!(starts[20] - last > 512, "it takes several sectors");
    image[last + 512..starts[20]].fill(0);
    let log = Recorded::from_image(image);
    let log = Log::open(&log, &Options::new()).unwrap();
    assert!(log.recovery().was_torn);
    assert_eq!(records(&log), first(19));
}

#[test]
fn either_superblock_suffices() {
    let (image, _) = log_of_twenty(false);
    for at in [0, 4096] {
        for how in [0, 1] {
            let mut damaged = image.clone();
            match how {
                0 => damaged[at..at + 512].fill(0),
                _ => damaged[at + 60] ^= 1,
            }
            let storage = Recorded::from_image(damaged);
            assert_eq!(
                records(&Log::open(&storage, &Options::new()).unwrap()),
                first(20)
            );
            // Opening rewrote the damaged copy, so the log now survives the loss of the other copy.
            let mut other = storage.visible();
            other[4096 - at..4096 - at + 512].fill(0xFF);
            assert_eq!(open(other).unwrap(), first(20));
        }
    }
    let mut both = image.clone();
    both[60] ^= 1;
    both[4096 + 60] ^= 1;
    // The advice works: salvaging does not, and so is not advised.
    let storage = Recorded::from_image(both);
    let options = Options::new();
    for refused in [
        Log::open(&storage, &options).unwrap_err(),
        Log::salvage(&storage, &options).unwrap_err(),
        Log::open_lazily(&storage, &options).unwrap_err(),
    ] {
        assert!(matches!(refused, Error::BadSuperblock { .. }), "{refused}");
        let advice = refused.to_string();
        assert!(advice.contains("`Log::wipe`") && !advice.contains("salvage"));
    }
    Log::wipe(&storage).unwrap();
    Log::create(&storage, &options).unwrap();
}

/// A truncation writes only one copy of the superblock, and that copy is then lost. The log starts
/// where it did before.
#[test]
fn a_half_written_truncation_is_undone() {
    let (image, _) = log_of_twenty(false);
    let storage = Recorded::from_image(image);
    let log = Log::open(&storage, &Options::new()).unwrap();
    let before = storage.visible();
    log.truncate(Lsn::new(15)).unwrap();
    drop(log);
    let after = storage.visible();
    let mut half = after.clone();
    half[4096..4608].copy_from_slice(&before[4096..4608]);
    assert_eq!(open(half.clone()).unwrap(), first(20)[14..]);
    half[..512].fill(0);
    assert_eq!(open(half).unwrap(), first(20));
}

/// Changes the image at random: zeroes sectors, fills them with random bytes, overwrites them with
/// copies of other sectors, and flips bits. The log opens with a prefix of its records or reports
/// damage.
#[test]
fn random_damage_invents_no_records() {
    let (image, _) = log_of_twenty(false);
    let (closed, _) = log_of_twenty(true);
    let mut random = fastrand::Rng::with_seed(11);
    let mut refused = 0;
    for round in 0..20_000 {
        let mut damaged = if round % 2 == 0 { &image } else { &closed }.clone();
        for _ in 0..random.usize(1..4) {
            let sector = random.usize(0..LEN / 512) * 512;
            match random.u8(0..4) {
                0 => damaged[sector..sector + 512].fill(0),
                1 => random.fill(&mut damaged[sector..sector + 512]),
                2 => {
                    let other = random.usize(0..LEN / 512) * 512;
                    damaged.copy_within(other..other + 512, sector);
                }
                _ => damaged[sector + random.usize(0..512)] ^= 1 << random.u8(0..8),
            }
        }
        match open(damaged) {
            Ok(records) => assert_eq!(records, first(20)[..records.len()]),
            Err(Error::Corrupt { .. } | Error::BadSuperblock { .. } | Error::NotALog { .. }) => {
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 1000);
}

/// Opens a log and appends the records with these numbers. Returns the image afterwards.
fn grown(image: Vec<u8>, numbers: std::ops::RangeInclusive<u64>, is_closed: bool) -> Vec<u8> {
    let storage = Recorded::from_image(image);
    let log = Log::open(&storage, &Options::new()).unwrap();
    for number in numbers {
        if log.free() < 4096 {
            log.truncate(Lsn::new(number - 3)).unwrap();
        }
        assert_eq!(log.append_durable(&record(number)).unwrap().get(), number);
    }
    if is_closed {
        log.close().unwrap();
    }
    storage.visible()
}

/// Both superblocks are as they were some openings ago. The batches written since show that.
#[test]
fn stale_superblocks_are_damage() {
    for is_closed in [false, true] {
        let before = log_of_twenty(is_closed).0;
        let mut image = before.clone();
        // Up to several turns of the ring, and up to four openings.
        for (openings, last) in (1..).zip([21, 22, 50, 200]) {
            let next = [21, 22, 23, 51][openings - 1];
            image = grown(image, next..=last, is_closed);
            let mut stale = image.clone();
            stale[..RING].copy_from_slice(&before[..RING]);
            let error = open(stale.clone()).unwrap_err();
            let Error::Corrupt { what, at, lsn } = error else {
                panic!("{error}");
            };
            assert!(what.contains("stale"), "{what}");
            assert_eq!(&stale[at as usize..][..4], b"SpWB");
            let sound = lsn.get() - 1;
            // The batches that later ones have not overwritten are still there.
            assert!(sound == 20 || last > 30 && sound < 20, "{sound}");

            let storage = Recorded::from_image(stale);
            let log = Log::salvage(&storage, &Options::new()).unwrap();
            assert_eq!(records(&log), first(sound));
            // The same record as the one that is stale there: its batch fits before the next.
            log.append_durable(&record(sound + 1)).unwrap();
            drop(log);
            let log = Log::open(&storage, &Options::new()).unwrap();
            assert_eq!(records(&log), first(sound + 1), "nothing comes back");
        }
    }
}

/// A batch with correct checksums that reaches around the ring into the log's head.
#[test]
fn a_batch_over_the_head_is_damage() {
    let (image, starts) = log_of_twenty(false);
    let next = starts[19];
    let mut forged = image.clone();
    // As long as the ring, in one record. It covers the header too, so put that in place first.
    let length = (LEN - RING - 56) as u32;
    forged[next + 40..next + 44].copy_from_slice(&length.to_le_bytes());
    forged[next + 44..next + 48].copy_from_slice(&1_u32.to_le_bytes());
    let ring: Vec<u8> = [&forged[next + 64..], &forged[RING..next]].concat();
    let sum = crc32c::crc32c(&ring);
    let record = [length - 8, sum].map(u32::to_le_bytes).concat();
    forged[next + 56..next + 64].copy_from_slice(&record);
    forged[next + 48..next + 52].copy_from_slice(&crc32c::crc32c(&record).to_le_bytes());
    let sum = crc32c::crc32c(&forged[next + 8..next + 56]);
    forged[next + 4..next + 8].copy_from_slice(&sum.to_le_bytes());
    let error = open(forged).unwrap_err();
    let Error::Corrupt { what, at, lsn } = &error else {
        panic!("{error}");
    };
    assert!(what.contains("longer than the free part"), "{error}");
    assert_eq!((*at, lsn.get()), (next as u64, 20));
}

/// Puts numbers into both superblocks, at these offsets, and repairs their checksums.
fn with_numbers(image: &[u8], numbers: &[(usize, u64)]) -> Vec<u8> {
    let mut forged = image.to_vec();
    for slot in [0, 4096] {
        for (at, number) in numbers {
            forged[slot + at..slot + at + 8].copy_from_slice(&number.to_le_bytes());
        }
        forged[slot + 12..slot + 16].fill(0);
        let sum = crc32c::crc32c(&forged[slot..slot + 512]);
        forged[slot + 12..slot + 16].copy_from_slice(&sum.to_le_bytes());
    }
    forged
}

/// However large the numbers in a superblock are: if the log opens once, it opens again, with every
/// record that was acknowledged.
#[test]
fn a_log_that_opens_opens_again() {
    let storage = Recorded::new(LEN);
    drop(Log::create(&storage, &Options::new()).unwrap());
    let image = storage.visible();
    let (mut writable, mut readable, mut refused) = (0, 0, 0);
    // Serial, epoch, head and settled, head record and first record.
    for fields in [&[24][..], &[48], &[56, 80], &[64, 72]] {
        for power in [61, 62, 63] {
            for distance in -5..=5_i64 {
                // Positions are multiples of the block.
                let unit = if fields == [56, 80] { 512 } else { 1 };
                let number = (1_u64 << power).wrapping_add_signed(distance * unit);
                let numbers: Vec<_> = fields.iter().map(|at| (*at, number)).collect();
                let storage = Recorded::from_image(with_numbers(&image, &numbers));
                let options = Options::new();
                let Ok(log) = Log::open(&storage, &options) else {
                    refused += 1;
                    assert!(Log::open(&storage, &options).is_err());
                    continue;
                };
                drop(log);
                let mut expected = Vec::new();
                for round in 0..8 {
                    let log = Log::open(&storage, &options).unwrap_or_else(|error| {
                        panic!("{fields:?} = {number}, round {round}: {error}")
                    });
                    assert_eq!(records(&log), expected, "{fields:?} = {number}");
                    match log.append_durable(b"acknowledged") {
                        Ok(lsn) => {
                            writable += 1;
                            expected.push((lsn.get(), b"acknowledged".to_vec()));
                        }
                        Err(error) => {
                            readable += 1;
                            assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
                            let error = log.truncate(log.durable().next().next()).unwrap_err();
                            assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
                            let error = log.close().unwrap_err();
                            assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
                        }
                    }
                }
            }
        }
    }
    assert!(writable > 100 && readable > 100 && refused > 10);
}

/// Opens logs whose superblock has absurd numbers and a correct checksum, as a fuzzer would write
/// them.
#[test]
fn absurd_superblocks_are_harmless() {
    let (image, _) = log_of_twenty(false);
    for at in (16..88).step_by(4) {
        for value in [0, 1, 511, 1 << 40, u64::MAX >> 1, u64::MAX] {
            let absurd = with_numbers(&image, &[(at, value)]);
            // Whatever the numbers are, opening neither panics nor invents records.
            for (number, data) in open(absurd).unwrap_or_default() {
                assert_eq!(data, record(number));
            }
        }
    }
}
