//! A region of persistent memory as a storage.

use std::io;
use std::ops::Range;

use spanlock_pmem::{Durable, LINE_BYTES, Pmem};
use spanlock_sync::{Mutex, MutexGuard};

use super::{Storage, check_bounds};

/// The number of bytes in a stripe. Each stripe has a lock.
const STRIPE_BYTES: u64 = 64 << 10;
/// The unit that [`PmemStorage::sectors`] writes atomically.
const SECTOR_BYTES: u64 = 512;
/// The high bits of a mark. Its low bits are the number of the sector that has a copy.
const MARK: u64 = 0x5370 << 48;
const MARKED: u64 = u64::MAX >> 16;
/// The largest number of locks. In a larger region, several stripes share a lock.
const STRIPES: u64 = 64;

/// A region of persistent memory, or a part of one, as a [`Storage`].
///
/// A write is durable when it returns, and a flush does nothing. The reason is that a fence orders
/// only the writes of its own thread, but a flush may come from another thread. The region defines
/// which failures durable data survives.
///
/// Threads that access the same 64 KiB take turns, so overlapping calls are safe.
///
/// A write stores and flushes each line of its bytes once and then fences once. Each access makes a
/// short list of the locks that it holds, and allocates nothing else.
///
/// # What tears
/// Persistent memory tears at 8 bytes, not at 512. The compact log detects torn writes by
/// checksums, and has two superblocks. A journal of blocks has only one superblock. If a power cut
/// or a kill interrupts a write of that superblock after the new tail and before the new checksum,
/// the journal is refused when it is opened again.
///
/// For a journal of blocks, therefore, use [`sectors`](PmemStorage::sectors), and the format with
/// two flushes, which cost nothing here. The format with one flush uses JBD2's older checksums.
/// With them, a torn commit block whose checksum fields are still zero counts as a commit block
/// without a checksum.
///
/// # Panics
/// If the region cannot write data back: for example, `msync` of a mapped file fails on a broken
/// disk. The region has no other way to report this.
#[derive(Debug)]
pub struct PmemStorage<P> {
    region: P,
    /// The offset of the storage in the region; 0 if there is a `spare`.
    start: u64,
    len: u64,
    stripes: Box<[Mutex<()>]>,
    /// Holds the copy of a sector while that sector is written durably.
    spare: Option<Spare>,
}

/// The last 1024 bytes of the region, which hold the copy of a sector. The second half contains the
/// copy. The first half begins with the sector's mark, or with 0 if the copy is not valid.
#[derive(Debug)]
struct Spare {
    at: u64,
    turn: Mutex<()>,
}

impl<P: Pmem> PmemStorage<P> {
    /// Uses the whole region.
    pub fn new(region: P) -> Self {
        let len = region.len();
        Self::at(region, 0, len)
    }

    /// Uses only the bytes of the region in `range`. The storage's offset 0 is `range.start`. Other
    /// code may use the rest of the region at the same time, for instance through a clone of the
    /// same `Arc`.
    ///
    /// No other code may access the part while this storage exists; the file system or engine that
    /// divides the region has to ensure that.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use spanlock_pmem::{MappedFile, Pmem};
    /// use spanlock_journal_commit::Storage;
    /// use spanlock_journal_commit::storage::PmemStorage;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("region");
    /// # let region = MappedFile::create(&path, 1 << 20, spanlock_pmem::Options::new())?;
    /// let region = Arc::new(region);
    /// let journal = PmemStorage::part(region.clone(), 4096..4096 + 16384)?;
    /// assert_eq!(journal.len(), 16384);
    /// assert!(PmemStorage::part(region.clone(), 0..region.len() + 64).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The range is reversed, ends beyond the region, or does not start and end at a multiple of 64
    /// bytes. A 64-byte line is written back as a whole, so it belongs to one part only.
    pub fn part(region: P, range: Range<u64>) -> io::Result<Self> {
        let (Range { start, end }, total) = (range, region.len());
        let problem = if start > end {
            "is reversed".to_owned()
        } else if end > total {
            format!("ends beyond the region, which has {total} bytes")
        } else if !start.is_multiple_of(LINE_BYTES) || !end.is_multiple_of(LINE_BYTES) {
            format!("does not start and end at a multiple of {LINE_BYTES} bytes")
        } else {
            return Ok(Self::at(region, start, end - start));
        };
        let what = format!("the part {start}..{end} {problem}");
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    }

    /// Uses `len` bytes from `start` on, which lie inside the region.
    fn at(region: P, start: u64, len: u64) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        PmemStorage {
            region,
            start,
            len,
            stripes,
            spare: None,
        }
    }

    /// Uses the region without its last 1024 bytes. While a sector is written durably, these bytes
    /// hold a copy of it, so that after a crash the 512-byte sector has its old or its new content.
    /// Writes that are not durable tear as with [`new`](Self::new).
    ///
    /// A file system in the region has to leave the last 1024 bytes free.
    ///
    /// Open a region either always with this function, or never.
    ///
    /// # Errors
    /// The region is too small; its last 1024 bytes hold other data; or it is read-only, and a
    /// crash has interrupted the write of a sector. Nothing is changed.
    pub fn sectors(region: P) -> io::Result<Self> {
        let sectors = region.len() / SECTOR_BYTES;
        let Some(len) = sectors.checked_sub(2).map(|it| it * SECTOR_BYTES) else {
            let what = "the region has fewer than 1024 bytes";
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
            let what = "the region's last 1024 bytes hold something other than a sector's copy";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.check_writable()?;
        let mut copy = [0; SECTOR_BYTES as usize];
        // SAFETY: no other thread has this storage yet.
        unsafe { self.region.read(spare + SECTOR_BYTES, &mut copy) };
        // SAFETY: as above.
        let written = unsafe { self.region.write(sector, &copy) };
        self.mark(spare, 0, self.region.persist(written));
        Ok(())
    }

    /// Checks that the region can be written to. A store to it would panic otherwise.
    fn check_writable(&self) -> io::Result<()> {
        match self.region.is_read_only() {
            true => Err(io::Error::new(
                io::ErrorKind::ReadOnlyFilesystem,
                "the region is read-only: open it writable",
            )),
            false => Ok(()),
        }
    }

    /// Durably writes the mark: the sector that the copy belongs to, or 0.
    fn mark(&self, spare: u64, mark: u64, after: Durable) {
        let marked = self.region.publish(spare, mark, after);
        self.region.persist(marked);
    }

    /// `data` begins at `offset`. Durably writes the part of it that lies in this sector. The
    /// caller holds the sector's stripe and the spare.
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

    /// Locks all stripes of the bytes, in ascending order so that two callers cannot deadlock.
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
        unsafe { self.region.read(self.start + offset, buf) };
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let _held = self.hold(offset, data.len())?;
        // SAFETY: as above.
        let written = unsafe { self.region.write(self.start + offset, data) };
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
        self.check_writable()?;
        let _held = self.hold(offset, data.len())?;
        let _turn = spare.turn.lock();
        let end = offset + data.len() as u64;
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            self.write_sector(spare.at, sector, data, offset);
        }
        Ok(())
    }
}
