//! A part of a storage.

use std::io;
use std::ops::Range;

use super::{Storage, check_bounds};

/// Some bytes of a [`Storage`], as a storage of their own: offset 0 is the first of them. Several
/// parts of one storage can be used at the same time, through pointers to it. They share its
/// flushes: the flush of a part makes the writes to all parts durable.
///
/// ```
/// use std::sync::Arc;
///
/// use spanlock_journal_commit::Storage;
/// use spanlock_journal_commit::storage::Part;
/// use spanlock_journal_commit::testing::Recorded;
///
/// let device = Arc::new(Recorded::new(8192));
/// let log = Part::new(device.clone(), 0..4096)?;
/// let data = Part::new(device.clone(), 4096..8192)?;
/// data.write_at(b"here", 100)?;
/// log.flush()?;
/// assert_eq!(&device.medium()[4196..4200], b"here");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Part<S> {
    storage: S,
    range: Range<u64>,
}

impl<S: Storage> Part<S> {
    /// Uses only the bytes of the storage in `range`. Nothing else may write to them meanwhile.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the range is reversed, or if the storage
    /// does not have all of it.
    pub fn new(storage: S, range: Range<u64>) -> io::Result<Self> {
        let total = storage.len();
        if range.start > range.end || range.end > total {
            let what = format!("bytes {range:?} are no part of a storage that has {total}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(Part { storage, range })
    }

    /// Returns where `len` bytes at `offset` lie in the whole storage.
    fn place(&self, offset: u64, len: usize) -> io::Result<u64> {
        check_bounds(offset, len, self.len())?;
        Ok(self.range.start + offset)
    }
}

impl<S: Storage> Storage for Part<S> {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.storage.read_at(buf, self.place(offset, buf.len())?)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.storage.write_at(data, self.place(offset, data.len())?)
    }

    fn flush(&self) -> io::Result<()> {
        self.storage.flush()
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let at = self.place(offset, data.len())?;
        self.storage.write_fua(data, at)
    }
}
