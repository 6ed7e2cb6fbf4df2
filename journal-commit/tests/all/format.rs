//! Bad input: a place without a journal, or with a journal that this build cannot read, is refused.
//! The error says why.

#![cfg(feature = "jbd2")]

use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{
    Error, Extent, Flushes, FormatOptions, Journal, Options, Place, format, recover,
};
use spanlock_journal_commit::testing::Recorded;

const BLOCK: u32 = 1024;

fn formatted(flushes: Flushes) -> Arc<Recorded> {
    let device = Arc::new(Recorded::new(64 * BLOCK as usize));
    let options = FormatOptions::new(BLOCK).flushes(flushes);
    format(device.clone(), &options).unwrap();
    device
}

/// Opens a journal after changing its superblock at one offset.
fn changed(flushes: Flushes, at: u64, bytes: &[u8]) -> Error {
    let device = formatted(flushes);
    device.write_at(bytes, at).unwrap();
    let home = Recorded::new(4096);
    recover(device, home, BLOCK, &Place::whole()).unwrap_err()
}

#[test]
fn a_new_journal_is_empty() {
    for flushes in [Flushes::Two, Flushes::One] {
        let device = formatted(flushes);
        let before = device.visible();
        let done = recover(device.clone(), Recorded::new(0), BLOCK, &Place::whole()).unwrap();
        assert_eq!((done.transactions, done.blocks, done.dropped), (0, 0, None));
        assert_eq!(before, device.visible());
    }
}

#[test]
fn a_place_without_a_usable_journal_is_refused() {
    use Error::*;
    use Flushes::{One, Two};
    let big_endian = u32::to_be_bytes;
    let foreign = changed(One, 0, b"ext4");
    assert!(
        matches!(
            foreign,
            NotAJournal {
                offset: 0,
                found: 0x6578_7434
            }
        ),
        "{foreign}"
    );
    let newer = changed(One, 0x28, &big_endian(0x27));
    assert!(
        matches!(
            newer,
            Newer {
                kind: "incompatible",
                bits: 0x20
            }
        ),
        "{newer}"
    );
    let newer = changed(One, 0x2C, &big_endian(1));
    assert!(matches!(newer, Newer { bits: 1, .. }), "{newer}");
    let other = changed(One, 0x0C, &big_endian(4096));
    assert!(
        matches!(
            other,
            BlockSize {
                found: 4096,
                expected: 1024
            }
        ),
        "{other}"
    );
    let kind = changed(One, 4, &big_endian(2));
    assert!(matches!(kind, BadSuperblock { .. }), "{kind}");
    let first = changed(One, 0x14, &big_endian(0));
    assert!(matches!(first, BadSuperblock { .. }), "{first}");
    let start = changed(One, 0x1C, &big_endian(64));
    assert!(matches!(start, BadSuperblock { .. }), "{start}");
    let cut = changed(One, 0x10, &big_endian(65));
    assert!(
        matches!(
            cut,
            Truncated {
                promised: 65,
                found: 64
            }
        ),
        "{cut}"
    );
    let small = changed(One, 0x10, &big_endian(20));
    assert!(matches!(small, TooSmall { blocks: 19, .. }), "{small}");
    let sum = changed(Two, 0x40, &[1]);
    assert!(matches!(sum, BadSuperblock { .. }), "{sum}");
    let both = changed(Two, 0x24, &big_endian(1));
    assert!(matches!(both, BadSuperblock { .. }), "{both}");
}

/// Linux stores an error in the superblock of a journal that it aborts; `dumpe2fs` shows it as
/// "Journal errno".
#[test]
fn the_error_of_an_aborted_journal_is_reported_until_cleared() {
    let device = formatted(Flushes::One);
    let recovered =
        || recover(device.clone(), Recorded::new(4096), BLOCK, &Place::whole()).unwrap();
    assert_eq!(recovered().errno, 0);
    device.write_at(&(-5_i32).to_be_bytes(), 0x20).unwrap();
    // Try an empty log and a log to recover, each with `Journal::open` and with `recover`.
    let home = Arc::new(Recorded::new(4 * BLOCK as usize));
    for recoveries in 0..2 {
        assert_eq!(recovered().errno, -5);
        let options = Options::new(BLOCK);
        let journal = Journal::open(device.clone(), home.clone(), options).unwrap();
        assert_eq!(journal.recovery().errno, -5);
        let handle = journal.begin(1).unwrap();
        handle.get_write(2).unwrap().dirty().unwrap();
        handle.stop_durable().unwrap();
        if recoveries == 0 {
            journal.close().unwrap();
        }
    }
    let last = recovered();
    assert_eq!((last.errno, last.transactions), (-5, 1));
    assert_eq!(recovered().errno, -5);
}

/// An external journal whose log would overwrite the superblock is refused.
#[test]
fn an_external_log_begins_after_its_superblock() {
    for first in [1_u32, 2] {
        let device = Arc::new(Recorded::new(64 * BLOCK as usize));
        let place = Place::external(BLOCK);
        let options = FormatOptions::new(BLOCK).flushes(Flushes::One);
        format(device.clone(), &options.place(place.clone())).unwrap();
        let at = 2 * u64::from(BLOCK) + 0x14;
        device.write_at(&first.to_be_bytes(), at).unwrap();
        let error = recover(device, Recorded::new(0), BLOCK, &place).unwrap_err();
        assert!(matches!(error, Error::BadSuperblock { .. }), "{error}");
    }
}

#[test]
fn bad_places_are_refused() {
    let device = || Recorded::new(100 * BLOCK as usize);
    let extent = |first, blocks| Extent { first, blocks };
    let made = |place| format(device(), &FormatOptions::new(BLOCK).place(place));
    let ends = made(Place::extents([extent(0, 50), extent(90, 11)])).unwrap_err();
    assert!(
        matches!(
            ends,
            Error::BadPlace {
                first: 90,
                end: 101,
                blocks: 100
            }
        ),
        "{ends}"
    );
    let wraps = made(Place::extents([extent(u64::MAX, 2)])).unwrap_err();
    assert!(matches!(wraps, Error::BadPlace { .. }), "{wraps}");
    for (one, two) in [((0, 50), (49, 20)), ((60, 20), (20, 70)), ((7, 9), (7, 9))] {
        let extents = [extent(one.0, one.1), extent(two.0, two.1)];
        let overlap = made(Place::extents(extents)).unwrap_err();
        let both = (one.0.max(two.0), (one.0 + one.1).min(two.0 + two.1));
        assert!(
            matches!(overlap, Error::Overlap { first, end } if (first, end) == both),
            "{overlap}"
        );
    }
    let small = made(Place::extents([extent(0, 32)])).unwrap_err();
    assert!(
        matches!(
            small,
            Error::TooSmall {
                blocks: 31,
                least: 32
            }
        ),
        "{small}"
    );
    made(Place::extents([extent(60, 20), extent(2, 20)])).unwrap();
    made(Place::external(BLOCK)).unwrap();
    for size in [0, 512, 1000, 3072, 1 << 17] {
        let bad = format(device(), &FormatOptions::new(size)).unwrap_err();
        assert!(matches!(bad, Error::BadBlockSize { .. }), "{bad}");
        let bad = recover(device(), device(), size, &Place::whole()).unwrap_err();
        assert!(matches!(bad, Error::BadBlockSize { .. }), "{bad}");
    }
    let empty = recover(Recorded::new(0), device(), BLOCK, &Place::whole()).unwrap_err();
    assert!(matches!(empty, Error::Io { .. }), "{empty}");
}
