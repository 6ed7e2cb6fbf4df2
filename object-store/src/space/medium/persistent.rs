//! A space in persistent memory.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use spanlock_journal_commit::storage::PmemStorage;
use spanlock_pmem::{Flushed, Pmem};

use super::Medium;

/// A region of persistent memory as a medium. Blocks are stored past the cache, and one fence makes
/// all blocks of a batch durable. A flush does nothing: every write is durable when it returns.
#[derive(Debug)]
pub struct Persistent<P> {
    region: Arc<P>,
}

impl<P: Pmem> Persistent<P> {
    /// Uses all of `region`.
    pub fn new(region: P) -> Self {
        let region = Arc::new(region);
        Persistent { region }
    }

    /// Returns the region.
    pub fn region(&self) -> &P {
        &self.region
    }

    fn check(&self, at: u64, len: usize) -> io::Result<()> {
        match at.checked_add(len as u64) {
            Some(end) if end <= self.region.len() => Ok(()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.region.is_read_only() {
            true => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            false => Ok(()),
        }
    }
}

impl<P: Pmem> Medium for Persistent<P> {
    type Ring = PmemStorage<Arc<P>>;

    fn len(&self) -> u64 {
        self.region.len()
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.check(at, into.len())?;
        // SAFETY: the caller promises that no thread writes these bytes. Stores past the cache are
        // fenced before `write_all` returns.
        unsafe { self.region.read(at, into) };
        Ok(())
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.check(at, data.len())?;
        self.check_writable()?;
        // SAFETY: the caller promises the same; see `read` for stores past the cache.
        let written = unsafe { self.region.write(at, data) };
        let _durable = self.region.persist(written);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    unsafe fn write_all(&self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        self.check_writable()?;
        for (at, data) in pieces {
            self.check(*at, data.len())?;
        }
        let mut flushed = Flushed::nothing();
        for (at, data) in pieces {
            // SAFETY: the caller promises that no thread accesses these bytes before the fence.
            flushed = flushed.and(unsafe { self.region.write_streaming(*at, data) });
        }
        let _durable = self.region.fence(flushed);
        Ok(())
    }

    fn ring(&self, range: Range<u64>) -> io::Result<Self::Ring> {
        PmemStorage::part(self.region.clone(), range)
    }

    fn reserve(&self, _: Range<u64>) -> io::Result<()> {
        self.check_writable()
    }

    fn discard(&self, _: Range<u64>) -> io::Result<()> {
        Ok(())
    }
}
