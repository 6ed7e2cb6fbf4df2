//! A region of persistent memory as a storage.

use std::io;

use spanlock_pmem::{Durable, Pmem};
use spanlock_sync::{Mutex, MutexGuard};

use super::{Storage, check_bounds};

/// Bytes that share a lock.
const STRIPE_BYTES: u64 = 64 << 10;
/// The unit that is written atomically on request.
const SECTOR_BYTES: u64 = 512;
/// The high bits of a mark, whose low bits are the number of the sector that has a copy.
const MARK: u64 = 0x5370 << 48;
const MARKED: u64 = u64::MAX >> 16;
/// The number of locks. Later stripes share them.
const STRIPES: u64 = 64;

/// A region of persistent memory as a [`Storage`].
///
/// A write is durable when it returns, and a flush does nothing: a fence counts only for the thread
/// that wrote, while a flush may come from another thread. The region defines which failures
/// "durable" survives.
///
/// Threads that access the same 64 KiB take turns, so overlapping calls are safe.
///
/// # What tears
/// Persistent memory tears at 8 bytes, not at 512. The compact log detects that by checksums, and
/// has two superblocks. A journal of blocks has one. If a power cut or a kill tears it between its
/// tail and its checksum, the journal is refused when it is opened again.
///
/// For a journal of blocks, therefore, use [`sectors`](PmemStorage::sectors), and the format with
/// two flushes, which cost nothing here. The other format has JBD2's *first* checksums, and a torn
/// commit block whose checksum fields are zero would count as unchecked.
///
/// # Panics
/// If the region refuses a write-back (a mapped file with msync, on a failing disk), which it
/// cannot report otherwise.
#[derive(Debug)]
pub struct PmemStorage<P> {
    region: P,
    len: u64,
    stripes: Box<[Mutex<()>]>,
    /// Holds the copy of a sector while that sector is written durably.
    spare: Option<Spare>,
}

/// The copy of a sector. It lies in the second half; the first half begins with the sector's mark,
/// or 0 if the copy does not count.
#[derive(Debug)]
struct Spare {
    at: u64,
    turn: Mutex<()>,
}

impl<P: Pmem> PmemStorage<P> {
    /// Uses the whole region.
    pub fn new(region: P) -> Self {
        let len = region.len();
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        PmemStorage {
            region,
            len,
            stripes,
            spare: None,
        }
    }

    /// Uses the region without its last 1024 bytes. They hold a copy of each sector while it is
    /// written durably, so that after a crash every such 512-byte sector is old or new. Other
    /// writes tear as before.
    ///
    /// Use a region in this way from the first time on, or never.
    ///
    /// # Errors
    /// The region is too small, or holds something else at its end. Nothing is changed.
    pub fn sectors(region: P) -> io::Result<Self> {
        let sectors = region.len() / SECTOR_BYTES;
        let Some(len) = sectors.checked_sub(2).map(|it| it * SECTOR_BYTES) else {
            let what = "a region of less than 1024 bytes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        };
        let turn = Mutex::new(());
        let storage = PmemStorage {
            len,
            spare: Some(Spare { at: len, turn }),
            ..Self::new(region)
        };
        storage.finish_sector(len)?;
        Ok(storage)
    }

    /// Completes the write of a sector that a crash has interrupted.
    fn finish_sector(&self, spare: u64) -> io::Result<()> {
        let mark = self.region.load(spare);
        if mark == 0 {
            return Ok(());
        }
        let sector = (mark & MARKED) * SECTOR_BYTES;
        if mark & !MARKED != MARK || sector >= self.len {
            let what = "the region's end has something other than a sector's copy";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut copy = [0; SECTOR_BYTES as usize];
        // SAFETY: no other thread has this storage yet.
        unsafe { self.region.read(spare + SECTOR_BYTES, &mut copy) };
        // SAFETY: as above.
        let written = unsafe { self.region.write(sector, &copy) };
        self.mark(spare, 0, self.region.persist(written));
        Ok(())
    }

    /// Marks the sector that the copy belongs to.
    fn mark(&self, spare: u64, mark: u64, after: Durable) {
        let marked = self.region.publish(spare, mark, after);
        self.region.persist(marked);
    }

    /// Writes the part of `data` that lies in a sector, if `data` begins at `offset`. The caller
    /// holds the sector's stripe and the spare.
    fn write_sector(&self, spare: u64, sector: u64, data: &[u8], offset: u64) {
        let mut now = [0; SECTOR_BYTES as usize];
        let at = sector * SECTOR_BYTES;
        // SAFETY: the caller holds the stripe, and this storage makes no streaming writes.
        unsafe { self.region.read(at, &mut now) };
        let mut new = now;
        let (from, to) = (
            at.max(offset),
            (at + SECTOR_BYTES).min(offset + data.len() as u64),
        );
        new[(from - at) as usize..(to - at) as usize]
            .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
        if new == now {
            return;
        }
        // SAFETY: the caller holds the spare.
        let copy = unsafe { self.region.write(spare + SECTOR_BYTES, &new) };
        self.mark(spare, MARK | sector, self.region.persist(copy));
        // SAFETY: the caller holds the stripe.
        let written = unsafe { self.region.write(at, &new) };
        self.mark(spare, 0, self.region.persist(written));
    }

    /// Locks all stripes of the bytes, in ascending order, so that no two callers deadlock.
    fn hold(&self, offset: u64, len: usize) -> io::Result<Vec<MutexGuard<'_, ()>>> {
        check_bounds(offset, len, self.len)?;
        let first = offset / STRIPE_BYTES;
        let last = (offset + len as u64).saturating_sub(1).max(offset) / STRIPE_BYTES;
        let mut stripes: Vec<u64> = (first..=last.min(first + STRIPES - 1))
            .map(|stripe| stripe % STRIPES)
            .collect();
        stripes.sort_unstable();
        Ok(stripes
            .into_iter()
            .map(|stripe| self.stripes[stripe as usize].lock())
            .collect())
    }
}

impl<P: Pmem> Storage for PmemStorage<P> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let _held = self.hold(offset, buf.len())?;
        // SAFETY: every access holds the stripes of its bytes, so no thread writes them; and this
        // storage makes no streaming writes.
        unsafe { self.region.read(offset, buf) };
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let _held = self.hold(offset, data.len())?;
        // SAFETY: as above.
        let written = unsafe { self.region.write(offset, data) };
        let _durable = self.region.persist(written);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let Some(spare) = &self.spare else {
            return self.write_at(data, offset);
        };
        let _held = self.hold(offset, data.len())?;
        let _turn = spare.turn.lock();
        let end = offset + data.len() as u64;
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            self.write_sector(spare.at, sector, data, offset);
        }
        Ok(())
    }
}
