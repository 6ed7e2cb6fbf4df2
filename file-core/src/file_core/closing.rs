//! Closing a volume.

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::Arc;

use super::FileCore;
use crate::close;

impl<P: Pmem, L: RawRangeLock> FileCore<P, L> {
    /// Closes the volume with a *checkpoint*, so that it opens without reading the logs of its
    /// files. Writes the checkpoint into free pages: one bit for each page of the data area, and
    /// 12 bytes for each inode. Closing a read-only volume writes nothing.
    ///
    /// A volume that is dropped instead loses nothing, but opens more slowly. This call also
    /// returns `Ok` if it writes no checkpoint, and the next opening then reads all logs. That
    /// happens if there are too few free pages, an operation has failed midway, or a file
    /// was removed whose log was damaged. A checkpoint that is damaged later is not used. After an
    /// opening with a checkpoint, damage to the log of a file is found only when the file is opened
    /// or removed.
    ///
    /// # Errors
    /// Returns the handle if there are other handles to the volume, its files or its directories.
    pub fn close(mut self) -> Result<(), Self> {
        match Arc::get_mut(&mut self.volume) {
            Some(volume) => {
                close::write(volume);
                Ok(())
            }
            None => Err(self),
        }
    }
}
