//! Tests of transactions through the public API: acknowledged changes persist, errors are clear,
//! and all ways to commit have the same result.

#![cfg(feature = "jbd2")]

mod handles;

use std::sync::Arc;
use std::time::Duration;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{
    CommitWay, Delay, Error, Flushes, FormatOptions, Handle, Journal, Options, Place, Tid, format,
};
use spanlock_journal_commit::testing::Recorded;

const BLOCK: usize = 1024;
const WAYS: [CommitWay; 3] = [
    CommitWay::Serial,
    CommitWay::Coalesced,
    CommitWay::Cooperative,
];

struct Devices {
    log: Arc<Recorded>,
    home: Arc<Recorded>,
}

impl Devices {
    fn new(log_blocks: usize, flushes: Flushes) -> Devices {
        let log = Arc::new(Recorded::new(log_blocks * BLOCK));
        format(
            log.clone(),
            &FormatOptions::new(BLOCK as u32).flushes(flushes),
        )
        .unwrap();
        let home = Arc::new(Recorded::new(256 * BLOCK));
        Devices { log, home }
    }

    fn open(&self, options: Options) -> Journal {
        Journal::open(self.log.clone(), self.home.clone(), options).unwrap()
    }

    /// Returns the devices after a crash that kept only what was durable.
    fn crashed(&self) -> Devices {
        Devices {
            log: Arc::new(Recorded::from_image(self.log.medium())),
            home: Arc::new(Recorded::from_image(self.home.medium())),
        }
    }
}

fn options() -> Options {
    Options::new(BLOCK as u32).run_bytes(BLOCK)
}

fn every_way(mut test: impl FnMut(Flushes, Options)) {
    for flushes in [Flushes::Two, Flushes::One] {
        for way in WAYS {
            let piggyback = Delay::Piggyback(Duration::from_millis(15));
            for delay in [Delay::OnTheFly, piggyback, Delay::Rendezvous] {
                test(flushes, options().way(way).delay(delay));
            }
        }
    }
}

fn fill(journal: &Journal, blocks: &[u64], byte: u8) -> Tid {
    let handle = journal.begin(blocks.len() as u32).unwrap();
    for number in blocks {
        let mut block = handle.get_write(*number).unwrap();
        block.fill(byte);
        block.dirty().unwrap();
    }
    handle.stop()
}

fn byte(journal: &Journal, block: u64) -> u8 {
    let mut bytes = vec![0; BLOCK];
    journal.read(block, &mut bytes).unwrap();
    assert!(bytes.iter().all(|it| *it == bytes[0]));
    bytes[0]
}

#[test]
fn a_durable_stop_survives_a_crash() {
    every_way(|flushes, options| {
        let devices = Devices::new(128, flushes);
        let journal = devices.open(options.clone());
        let one = fill(&journal, &[1, 2, 3], 5);
        journal.wait(one).unwrap();
        fill(&journal, &[3, 4], 6);
        assert_eq!([1, 3, 4].map(|block| byte(&journal, block)), [5, 6, 6]);
        let crashed = devices.crashed();
        drop(journal);
        let journal = crashed.open(options.clone());
        assert_eq!(journal.recovery().transactions, 1);
        assert_eq!([1, 3, 4].map(|block| byte(&journal, block)), [5, 5, 0]);
        // Check that the journal can be used after the recovery.
        let two = fill(&journal, &[9], 9);
        journal.wait(two).unwrap();
        journal.close().unwrap();
        let journal = crashed.crashed().open(options);
        assert_eq!(journal.recovery().transactions, 0);
        assert_eq!([1, 9].map(|block| byte(&journal, block)), [5, 9]);
    });
}

#[test]
fn the_log_wraps_around_many_times() {
    every_way(|flushes, options| {
        let devices = Devices::new(64, flushes);
        let journal = devices.open(options.clone());
        for round in 0..200_u64 {
            let blocks: Vec<u64> = (0..5).map(|i| (round * 3 + i) % 250).collect();
            let tid = fill(&journal, &blocks, round as u8);
            if round % 3 == 0 {
                journal.wait(tid).unwrap();
            }
        }
        let tid = fill(&journal, &[7], 77);
        journal.wait(tid).unwrap();
        let stats = journal.stats();
        assert!(stats.checkpoints > 3, "{stats:?}");
        assert_eq!(stats.handles, 201);
        let all: Vec<u8> = (0..250).map(|block| byte(&journal, block)).collect();
        let journal = devices.crashed().open(options);
        let recovered: Vec<u8> = (0..250).map(|block| byte(&journal, block)).collect();
        assert_eq!(all, recovered);
    });
}

#[test]
fn data_that_looks_like_a_journal_block_is_kept() {
    every_way(|flushes, options| {
        let devices = Devices::new(128, flushes);
        let journal = devices.open(options.clone());
        let handle = journal.begin(2).unwrap();
        let mut block = handle.get_write(3).unwrap();
        block[..4].copy_from_slice(&0xC03B_3998_u32.to_be_bytes());
        block[4..12].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 9]);
        let looks_like = block[..12].to_vec();
        block.dirty().unwrap();
        handle.stop_durable().unwrap();
        // A scan of the log must not mistake the data for a block of the journal.
        let log = devices.log.medium();
        assert!(log.chunks(BLOCK).all(|block| block[..12] != looks_like));
        let journal = devices.crashed().open(options);
        let mut found = vec![0; BLOCK];
        journal.read(3, &mut found).unwrap();
        assert_eq!(found[..4], 0xC03B_3998_u32.to_be_bytes());
    });
}

#[test]
fn revoked_blocks_are_never_written() {
    every_way(|flushes, options| {
        let devices = Devices::new(64, flushes);
        let journal = devices.open(options.clone());
        let tid = fill(&journal, &[1, 2, 3], 5);
        journal.wait(tid).unwrap();
        let handle = journal.begin(3).unwrap();
        handle.revoke(1).unwrap();
        handle.revoke(2).unwrap();
        // Block 2 is revoked, and used again in the same handle.
        let mut again = handle.get_write(2).unwrap();
        again.fill(8);
        again.dirty().unwrap();
        handle.stop_durable().unwrap();
        // From now on block 1 belongs to another owner.
        devices
            .home
            .write_fua(&[0xEE; BLOCK], BLOCK as u64)
            .unwrap();
        let recovered = devices.crashed().open(options.clone());
        assert_eq!([1, 2, 3].map(|block| byte(&recovered, block)), [0xEE, 8, 5]);
        // Checkpoints must not write block 1 either.
        for round in 0..60 {
            let tid = fill(&journal, &[20 + round % 7], round as u8);
            journal.wait(tid).unwrap();
        }
        assert!(journal.stats().checkpoints > 0);
        journal.close().unwrap();
        let closed = devices.crashed().open(options);
        assert_eq!([1, 2, 3].map(|block| byte(&closed, block)), [0xEE, 8, 5]);
    });
}

#[test]
fn an_empty_transaction_commits() {
    every_way(|flushes, options| {
        let devices = Devices::new(64, flushes);
        let journal = devices.open(options.clone());
        for _ in 0..3 {
            journal.begin(3).unwrap().stop_durable().unwrap();
        }
        let tid = fill(&journal, &[2], 1);
        journal.wait(tid).unwrap();
        let journal = devices.crashed().open(options);
        assert_eq!(journal.recovery().transactions, 4);
        assert_eq!(byte(&journal, 2), 1);
    });
}

#[test]
fn threads_share_transactions() {
    every_way(|flushes, options| {
        let devices = Devices::new(128, flushes);
        let journal = devices.open(options.clone());
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let journal = &journal;
                scope.spawn(move || {
                    for round in 1..=20 {
                        let handle = journal.begin(4).unwrap();
                        // Two blocks of its own, one shared block.
                        for number in [thread * 2, thread * 2 + 1] {
                            let mut block = handle.get_write(number).unwrap();
                            block.fill(round);
                            block.dirty().unwrap();
                        }
                        let mut shared = handle.get_write(100).unwrap();
                        let count = u16::from_be_bytes([shared[0], shared[1]]) + 1;
                        shared[..2].copy_from_slice(&count.to_be_bytes());
                        shared.dirty().unwrap();
                        if thread == 7 && round % 4 == 0 {
                            handle.revoke(50).unwrap();
                        }
                        handle.stop_durable().unwrap();
                    }
                });
            }
        });
        let stats = journal.stats();
        assert_eq!(stats.handles, 160);
        let journal = devices.crashed().open(options);
        let mut shared = vec![0; BLOCK];
        journal.read(100, &mut shared).unwrap();
        assert_eq!(u16::from_be_bytes([shared[0], shared[1]]), 160);
        assert!((0..16).all(|block| byte(&journal, block) == 20));
    });
}

#[test]
fn an_external_journal() {
    let log = Arc::new(Recorded::new(64 * BLOCK));
    let place = Place::external(BLOCK as u32);
    log.write_at(&[0xAB; 2 * BLOCK], 0).unwrap(); // A file system's superblock.
    format(
        log.clone(),
        &FormatOptions::new(BLOCK as u32).place(place.clone()),
    )
    .unwrap();
    let home = Arc::new(Recorded::new(16 * BLOCK));
    let options = options().place(place);
    let journal = Journal::open(log.clone(), home.clone(), options.clone()).unwrap();
    let tid = fill(&journal, &[1], 1);
    journal.wait(tid).unwrap();
    drop(journal);
    assert!(log.visible()[..2 * BLOCK].iter().all(|byte| *byte == 0xAB));
    let journal = Journal::open(log, home, options).unwrap();
    assert_eq!(journal.recovery().transactions, 1);
}

/// A thread with a handle panics. The handle has changed nothing, and the journal continues.
#[test]
fn a_panic_leaves_the_journal_usable() {
    let devices = Devices::new(64, Flushes::Two);
    let journal = devices.open(options());
    std::thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let handle = journal.begin(2).unwrap();
            let mut block = handle.get_write(1).unwrap();
            block.fill(1);
            panic!("planned, before the block is dirty");
        });
        assert!(panics.join().is_err());
        let tid = fill(&journal, &[1], 2);
        journal.wait(tid).unwrap();
        assert_eq!(byte(&journal, 1), 2);

        let panics = scope.spawn(|| {
            let handle = journal.begin(2).unwrap();
            handle.get_write(1).unwrap().dirty().unwrap();
            let _block = handle.get_write(2).unwrap();
            panic!("planned, midway");
        });
        assert!(panics.join().is_err());
        assert_eq!(byte(&journal, 1), 2);
        let tid = fill(&journal, &[1, 2], 3);
        journal.wait(tid).unwrap();
    });
    let journal = devices.crashed().open(options());
    assert_eq!([1, 2].map(|block| byte(&journal, block)), [3, 3]);
}

#[test]
fn ids_wrap_around() {
    let devices = Devices::new(64, Flushes::One);
    let sequence = (u32::MAX - 10).to_be_bytes();
    devices.log.write_fua(&sequence, 0x18).unwrap();
    let journal = devices.open(options());
    let mut last = journal.begin(0).unwrap().tid();
    for round in 0..30 {
        let tid = fill(&journal, &[1, 2 + u64::from(round)], round);
        journal.wait(tid).unwrap();
        assert!(last.is_before(tid) || last == tid);
        last = tid;
    }
    assert!(last.0 < 30, "{last}");
    assert_eq!(byte(&devices.crashed().open(options()), 1), 29);
}

#[test]
fn files_and_persistent_memory_hold_journals() {
    use spanlock_journal_commit::storage::{FileMode, FileStorage, PmemStorage};
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let used = |log: Arc<dyn Storage>, home: Arc<dyn Storage>| {
        format(log.clone(), &FormatOptions::new(BLOCK as u32)).unwrap();
        for way in WAYS {
            let journal = Journal::open(log.clone(), home.clone(), options().way(way)).unwrap();
            let tid = fill(&journal, &[1, 9], way as u8 + 5);
            journal.wait(tid).unwrap();
            drop(journal);
            let journal = Journal::open(log.clone(), home.clone(), options()).unwrap();
            assert_eq!(journal.recovery().transactions, 1);
            assert_eq!(byte(&journal, 9), way as u8 + 5);
            journal.close().unwrap();
        }
    };
    for mode in [FileMode::Buffered, FileMode::Direct, FileMode::Dsync] {
        let file = |name| FileStorage::create(path(&format!("{mode:?}-{name}")), 1 << 18, mode);
        match (file("log"), file("home")) {
            (Ok(log), Ok(home)) => used(Arc::new(log), Arc::new(home)),
            (log, _) => println!("SKIPPED {mode:?}: {:?}", log.err()),
        }
    }
    let region = |name: &str| {
        let options = spanlock_pmem::Options::new();
        let region = spanlock_pmem::MappedFile::create(path(name), 1 << 18, options).unwrap();
        Arc::new(PmemStorage::sectors(region).unwrap())
    };
    used(region("pm-log"), region("pm-home"));
}

#[test]
fn neighbouring_blocks_share_a_write() {
    for (way, blocks, most) in [
        (CommitWay::Serial, 20, 22),
        (CommitWay::Coalesced, 20, 2),
        // All blocks and the descriptor are one run. The commit block is written apart.
        (CommitWay::Cooperative, 20, 2),
        (CommitWay::Coalesced, 200, 2),
        // Three runs. A descriptor may be in another run than the blocks around it.
        (CommitWay::Cooperative, 200, 3 + 2 * 3 + 1),
    ] {
        let devices = Devices::new(1024, Flushes::Two);
        let journal = devices.open(options().way(way).run_bytes(64 * BLOCK));
        let handle = journal.begin(blocks).unwrap();
        for number in 0..u64::from(blocks) {
            let mut block = handle.get_write(number).unwrap();
            block.fill(7);
            block.dirty().unwrap();
        }
        let before = devices.log.writes();
        handle.stop_durable().unwrap();
        let writes = devices.log.writes() - before;
        assert!(writes <= most, "{way:?}, {blocks} blocks: {writes} writes");
        assert!(way != CommitWay::Serial || writes == most, "{writes}");
    }
}
