//! The region, or a part of it, as a disk with a volatile cache.

use std::ops::Range;
use std::panic::Location;

use super::cache::{Act, Unit};
use super::{SECTOR_BYTES, Simulated};

/// Returns the numbers of the sectors that lie in these bytes.
fn sectors(disk: &Range<u64>) -> Range<u32> {
    (disk.start / SECTOR_BYTES) as u32..disk.end.div_ceil(SECTOR_BYTES) as u32
}

impl Simulated {
    /// Writes to a disk with a volatile cache: a crash keeps any of the sectors, each as a whole.
    ///
    /// # Panics
    /// If the bytes are not all inside the region.
    #[track_caller]
    pub fn write_sectors(&self, at: u64, data: &[u8]) {
        let sector = |at| Unit::Sector((at / SECTOR_BYTES) as u32);
        self.store(at, data, Location::caller(), sector);
    }

    /// Makes every write to the sectors of `disk` durable that returned before.
    #[track_caller]
    pub fn flush_sectors(&self, disk: Range<u64>) {
        if self.lacks_flush() {
            return;
        }
        self.begin_step();
        // Which writes it covers depends on the order.
        self.touch(&disk, false);
        self.act(Location::caller(), Act::FlushDisk(sectors(&disk)));
    }

    /// Fails to make writes durable: a later [flush](Self::flush_sectors) does not cover the
    /// sectors written before, because Linux marks pages clean whose write-back has failed.
    #[track_caller]
    pub fn fail_flush(&self, disk: Range<u64>) {
        self.begin_step();
        self.touch(&disk, true);
        self.act(Location::caller(), Act::FailedFlush(sectors(&disk)));
    }

    /// Writes durably, as a disk does with forced unit access. Earlier writes to other sectors do
    /// not become durable.
    ///
    /// # Panics
    /// If the bytes are not all inside the region.
    #[track_caller]
    pub fn write_sectors_through(&self, at: u64, data: &[u8]) {
        self.write_sectors(at, data);
        self.flush_range(at..at + data.len() as u64, SECTOR_BYTES, |at| {
            Unit::Sector(at as u32)
        });
        if self.lacks_flush() {
            return;
        }
        self.begin_step();
        self.act(Location::caller(), Act::Fence);
    }
}
