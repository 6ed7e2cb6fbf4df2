//! The region as a disk with a volatile cache.

use std::panic::Location;

use super::cache::{Act, Unit};
use super::{SECTOR_BYTES, Simulated};

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

    /// Makes every write durable that returned before.
    #[track_caller]
    pub fn flush_sectors(&self) {
        if self.lacks_flush() {
            return;
        }
        self.begin_step();
        // Which writes it covers depends on the order.
        self.touch(&(0..self.len), false);
        self.act(Location::caller(), Act::FlushAll);
    }

    /// Fails to make writes durable: a later [flush](Self::flush_sectors) does not cover the
    /// sectors written before, because Linux marks pages clean whose write-back has failed.
    #[track_caller]
    pub fn fail_flush(&self) {
        self.begin_step();
        self.touch(&(0..self.len), true);
        self.act(Location::caller(), Act::FailedFlush);
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
