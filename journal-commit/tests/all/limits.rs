//! Limits of devices and formats: sectors of 4096 bytes, block numbers of 32 bits, files that end
//! inside a sector.

#![cfg(all(feature = "jbd2", feature = "compact"))]

use std::io;
use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact;
use spanlock_journal_commit::jbd2::Place;
use spanlock_journal_commit::jbd2::{
    CommitWay, Error, Flushes, FormatOptions, Journal, Options, format, recover,
};
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_journal_commit::testing::Recorded;

const BLOCK: usize = 4096;

/// A device of 2³³ zeroed blocks.
struct Vast;

impl Storage for Vast {
    fn len(&self) -> u64 {
        (BLOCK as u64) << 33
    }

    fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
        buf.fill(0);
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_fua(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// If a block number were cut to 32 bits, replay would overwrite another block.
#[test]
fn far_blocks_need_numbers_of_64_bits() {
    const FAR: u64 = 1 << 32;
    let log = Arc::new(Recorded::new(64 * BLOCK));
    format(
        log.clone(),
        &FormatOptions::new(BLOCK as u32).flushes(Flushes::One),
    )
    .unwrap();
    let options = Options::new(BLOCK as u32);
    let wide = Journal::open(log.clone(), Vast, options.clone()).unwrap();
    let handle = wide.begin(1).unwrap();
    handle.get_write(FAR).unwrap().dirty().unwrap();
    handle.stop_durable().unwrap();
    wide.close().unwrap();
    // Now without the feature 64BIT, which small file systems of mke2fs do not have.
    let features = 5_u32.to_be_bytes();
    log.write_fua(&features, 0x28).unwrap();
    let narrow = Journal::open(log, Vast, options).unwrap();
    let handle = narrow.begin(2).unwrap();
    handle.get_write(FAR - 1).unwrap().dirty().unwrap();
    let errors = [
        handle.get_write(FAR).map(|_| ()).unwrap_err(),
        handle.revoke(FAR).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::TooFar { block: FAR }), "{error}");
    }
    handle.stop_durable().unwrap();
}

/// A device that accepts only whole sectors of 4096 bytes, like a real device with such sectors
/// when the page cache is bypassed.
struct Sectors(Recorded);

impl Sectors {
    fn new(blocks: usize) -> Arc<Self> {
        Arc::new(Sectors(Recorded::new(blocks * BLOCK)))
    }

    fn check(data: &[u8], offset: u64) -> io::Result<()> {
        if data.len().is_multiple_of(BLOCK) && offset.is_multiple_of(BLOCK as u64) {
            return Ok(());
        }
        let what = format!("{} bytes at {offset}: not whole sectors", data.len());
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }
}

impl Storage for Sectors {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        Self::check(data, offset)?;
        self.0.write_at(data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        Self::check(data, offset)?;
        self.0.write_fua(data, offset)
    }
}

#[test]
fn a_journal_works_on_sectors_of_4096_bytes() {
    for flushes in [Flushes::Two, Flushes::One] {
        for way in [
            CommitWay::Serial,
            CommitWay::Coalesced,
            CommitWay::Cooperative,
        ] {
            let (log, home) = (Sectors::new(64), Sectors::new(64));
            let new = FormatOptions::new(BLOCK as u32).flushes(flushes);
            format(log.clone(), &new).unwrap();
            let options = Options::new(BLOCK as u32).way(way).run_bytes(1);
            let journal = Journal::open(log.clone(), home.clone(), options).unwrap();
            for number in 0..40 {
                let handle = journal.begin(2).unwrap();
                handle.get_write(number).unwrap().dirty().unwrap();
                handle.revoke(63).unwrap();
                handle.stop_durable().unwrap();
            }
            assert!(journal.stats().checkpoints > 0);
            drop(journal);
            recover(log, home, BLOCK as u32, &Place::whole()).unwrap();
        }
    }
}

#[test]
fn a_compact_log_works_on_sectors_of_4096_bytes() {
    let device = Sectors::new(64);
    let options = compact::Options::new().block_bytes(BLOCK as u64);
    let log = compact::Log::create(device.clone(), &options).unwrap();
    let lsn = log.append_durable(b"record").unwrap();
    log.truncate(lsn).unwrap();
    log.close().unwrap();
    let log = compact::Log::open(device.clone(), &options).unwrap();
    assert_eq!(log.records().count(), 1);
    drop(log);
    compact::Log::<Arc<Sectors>>::wipe(device).unwrap();
}

/// Reads the last bytes of a file whose length is not a multiple of a sector.
#[test]
fn direct_reads_reach_the_end_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [FileMode::Buffered, FileMode::Direct, FileMode::Dsync] {
        for len in [1000_u64, 4096, 5000] {
            let path = folder.path().join(format!("{mode:?}-{len}"));
            let storage = match FileStorage::create(path, len, mode) {
                Ok(storage) => storage,
                Err(error) => {
                    println!("SKIPPED {mode:?}: {error}");
                    break;
                }
            };
            let mut all = vec![1; len as usize];
            storage.read_at(&mut all, 0).unwrap();
            assert!(all.iter().all(|byte| *byte == 0), "{mode:?}, {len}");
            storage.read_at(&mut all[..1], len - 1).unwrap();
        }
    }
}
