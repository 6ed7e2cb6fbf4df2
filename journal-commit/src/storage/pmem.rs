//! A region of persistent memory as a storage.

use std::io;

use spanlock_pmem::Pmem;
use spanlock_sync::{Mutex, MutexGuard};

use super::{Storage, check_bounds};

/// Bytes that share a lock.
const STRIPE_BYTES: u64 = 64 << 10;
/// Locks; stripes further on use them again.
const STRIPES: u64 = 64;

/// A region of persistent memory as a [`Storage`].
///
/// A write is durable when it returns, so a flush has nothing to do: fences count only for the thread that wrote, and a flush may come from
/// another. What "durable" survives is the region's to say.
///
/// Threads that touch the same 64 KiB take turns, so that overlapping calls are orderly, whatever the caller does.
///
/// # What tears
/// Persistent memory tears at 8 bytes, not at 512. Checksums find that out, except for one case: the commit block of JBD2's *first* checksums counts as
/// unchecked when its checksum's fields are zero. So on persistent memory use the format with two flushes: they cost nothing there.
///
/// # Panics
/// When the region refuses a write-back, which it cannot report otherwise (a mapped file with msync, on a failing disk).
#[derive(Debug)]
pub struct PmemStorage<P> {
    region: P,
    stripes: Box<[Mutex<()>]>,
}

impl<P: Pmem> PmemStorage<P> {
    /// The whole region.
    pub fn new(region: P) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        PmemStorage { region, stripes }
    }

    /// Locks all stripes of the bytes, in ascending order, so that two callers never wait for each other in a circle.
    fn hold(&self, offset: u64, len: usize) -> io::Result<Vec<MutexGuard<'_, ()>>> {
        check_bounds(offset, len, self.region.len())?;
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
        self.region.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let _held = self.hold(offset, buf.len())?;
        // SAFETY: nobody writes these bytes, since every access holds their stripes; and no streaming write is made at all.
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
        self.write_at(data, offset)
    }
}
