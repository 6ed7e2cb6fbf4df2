//! Recovery refuses a log with damage that no crash explains, and replays nothing. It does not
//! mistake the remains of a crash for damage.

#![cfg(feature = "jbd2")]

use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{
    Error, Flushes, FormatOptions, Journal, Options, Place, Recovery, format, recover,
};
use spanlock_journal_commit::testing::Recorded;

const BLOCK: usize = 1024;

/// Returns a log of three transactions. Blocks 1 to 6 are the first: a descriptor, four data blocks
/// and a commit block. The second has the same layout. The third has a revoke block before these.
fn log(flushes: Flushes) -> Vec<u8> {
    let log = Arc::new(Recorded::new(128 * BLOCK));
    format(
        log.clone(),
        &FormatOptions::new(BLOCK as u32).flushes(flushes),
    )
    .unwrap();
    let home = Recorded::new(64 * BLOCK);
    let journal = Journal::open(log.clone(), home, Options::new(BLOCK as u32)).unwrap();
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

const COMMIT: [usize; 3] = [6, 12, 19];

/// Recovers a log after changing one of its bytes.
fn recovered(image: &[u8], at: usize) -> (Result<Recovery, Error>, Vec<u8>) {
    let mut image = image.to_vec();
    image[at] ^= 0x40;
    recovered_as_is(image)
}

fn recovered_as_is(image: Vec<u8>) -> (Result<Recovery, Error>, Vec<u8>) {
    let log = Recorded::from_image(image);
    let home = Arc::new(Recorded::new(64 * BLOCK));
    let done = recover(log, home.clone(), BLOCK as u32, &Place::whole());
    (done, home.visible())
}

#[test]
fn the_log_has_the_expected_layout() {
    for flushes in [Flushes::Two, Flushes::One] {
        let image = log(flushes);
        for block in COMMIT {
            assert_eq!(image[block * BLOCK + 7], 2, "a commit block");
        }
        let (done, home) = recovered_as_is(image);
        let done = done.unwrap();
        assert_eq!((done.transactions, done.blocks, done.revoked), (3, 11, 1));
        assert_eq!(home[11 * BLOCK], 1);
        assert_eq!(home[BLOCK], 0, "revoked");
    }
}

#[test]
fn damage_is_refused_before_anything_is_replayed() {
    // Checksums of the third kind detect damage of any byte in the descriptors, data and revoke
    // blocks of each transaction.
    let image = log(Flushes::Two);
    for block in (1..19).filter(|it| !COMMIT.contains(it)) {
        // Recovery does not read the data of a block that is revoked later.
        if block == 2 {
            continue;
        }
        let (done, home) = recovered(&image, block * BLOCK + 500);
        let error = done.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{block}: {error}");
        assert!(home.iter().all(|byte| *byte == 0), "{block}");
    }
    // A damaged commit block is refused if another commit block follows.
    for flushes in [Flushes::Two, Flushes::One] {
        for block in &COMMIT[..2] {
            let (done, home) = recovered(&log(flushes), block * BLOCK + 0x11);
            let error = done.unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{block}: {error}");
            assert!(home.iter().all(|byte| *byte == 0), "{block}");
        }
    }
    // With checksums of the first kind, damaged data is refused if another transaction follows.
    let (done, _) = recovered(&log(Flushes::One), 3 * BLOCK + 9);
    assert!(matches!(done, Err(Error::Damaged { .. })));
}

#[test]
fn an_interrupted_transaction_is_dropped() {
    // In both formats, a torn last commit block drops its transaction.
    for flushes in [Flushes::Two, Flushes::One] {
        let (done, home) = recovered(&log(flushes), COMMIT[2] * BLOCK + 0x11);
        let done = done.unwrap();
        assert_eq!(done.transactions, 2);
        assert_eq!(done.dropped.map(|it| it.next()), Some(done.next));
        assert_eq!(home[BLOCK], 1, "not revoked");
    }
    // The last commit block is missing.
    let (done, _) = recovered(&log(Flushes::Two), COMMIT[2] * BLOCK + 1);
    let done = done.unwrap();
    assert_eq!((done.transactions, done.dropped), (2, None));
    // Data of the last transaction is torn, in the format with one flush.
    let (done, _) = recovered(&log(Flushes::One), 18 * BLOCK + 9);
    assert_eq!(done.unwrap().transactions, 2);
}

/// No byte of a log makes recovery panic or loop for ever.
#[test]
fn any_byte_may_be_damaged() {
    fastrand::seed(3);
    for flushes in [Flushes::Two, Flushes::One] {
        let image = log(flushes);
        for at in (0..20 * BLOCK).step_by(7) {
            let _ = recovered(&image, at);
        }
        for _ in 0..300 {
            let mut image = image.clone();
            for _ in 0..fastrand::usize(1..20) {
                let at = fastrand::usize(..20 * BLOCK);
                image[at] = fastrand::u8(..);
            }
            let _ = recovered_as_is(image);
        }
    }
}

/// A log with a block whose home is beyond the device is refused.
#[test]
fn a_home_beyond_the_device_is_refused() {
    let log = Arc::new(Recorded::from_image(log(Flushes::Two)));
    let home = Recorded::new(20 * BLOCK);
    let error = recover(log.clone(), &home, BLOCK as u32, &Place::whole()).unwrap_err();
    assert!(
        matches!(error, Error::OutOfDevice { blocks: 20, .. }),
        "{error}"
    );
    assert!(home.visible().iter().all(|byte| *byte == 0));
    let mut magic = [0; 4];
    log.read_at(&mut magic, 0).unwrap();
    assert_eq!(magic, 0xC03B_3998_u32.to_be_bytes());
}
