//! Tests with a medium that changes durable bytes. Opening distinguishes damage from a torn end
//! wherever the bytes allow, and never returns a record that was not appended.

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
    let error = open(both).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Corrupt {
                what: "both superblocks",
                ..
            }
        ),
        "{error}"
    );
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
            Err(Error::Corrupt { .. } | Error::NotALog { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 1000);
}

/// Opens logs whose superblock has absurd numbers and a correct checksum, as a fuzzer would write
/// them.
#[test]
fn absurd_superblocks_are_harmless() {
    let (image, _) = log_of_twenty(false);
    for at in (16..88).step_by(4) {
        for value in [0, 1, 511, 1 << 40, u64::MAX >> 1, u64::MAX] {
            let mut absurd = image.clone();
            for slot in [0, 4096] {
                absurd[slot + at..slot + at + 8].copy_from_slice(&u64::to_le_bytes(value));
                absurd[slot + 12..slot + 16].fill(0);
                let sum = crc32c::crc32c(&absurd[slot..slot + 512]);
                absurd[slot + 12..slot + 16].copy_from_slice(&sum.to_le_bytes());
            }
            // Whatever the numbers are, opening neither panics nor invents records.
            for (number, data) in open(absurd).unwrap_or_default() {
                assert_eq!(data, record(number));
            }
        }
    }
}
