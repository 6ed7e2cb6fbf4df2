//! The medium of a space: a disk or a sparse file, or persistent memory.

mod disk;
mod persistent;
#[cfg(target_os = "linux")]
mod sparse_file;

use std::io;
use std::ops::Range;

use spanlock_journal_commit::Storage;

pub use disk::Disk;
pub use persistent::Persistent;

/// The bytes of a space. Several threads may call its methods at once.
#[allow(
    clippy::len_without_is_empty,
    reason = "no space fits into an empty one"
)]
pub trait Medium: Send + Sync {
    /// The storage of a ring, which is a part of the medium. Its flushes are the medium's.
    type Ring: Storage;

    /// Returns the length in bytes.
    fn len(&self) -> u64;

    /// Fills `into` with the bytes at `at`.
    ///
    /// # Errors
    /// The medium's error, or the bytes do not lie in it.
    ///
    /// # Safety
    /// Meanwhile no other thread writes these bytes.
    unsafe fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at `at`. The bytes are durable after a later [`flush`](Self::flush).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Safety
    /// Meanwhile no other thread reads or writes these bytes.
    unsafe fn write(&self, at: u64, data: &[u8]) -> io::Result<()>;

    /// Makes durable every write of any thread that returned before this call.
    ///
    /// # Errors
    /// The medium's error. It is final: every later flush fails, too.
    fn flush(&self) -> io::Result<()>;

    /// Returns whether every write is durable when it returns, so that flushes do nothing.
    fn is_synchronous(&self) -> bool;

    /// Writes all the pieces, in any order. They are durable after a later [`flush`](Self::flush).
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    ///
    /// # Safety
    /// As for [`write`](Self::write), until this returns.
    unsafe fn write_all(&self, pieces: &[(u64, &[u8])]) -> io::Result<()>;

    /// Returns the storage of a ring in these bytes, which nothing else uses.
    ///
    /// # Errors
    /// The bytes do not lie in the medium.
    fn ring(&self, range: Range<u64>) -> io::Result<Self::Ring>;

    /// Allocates these bytes, so that no later write to them fails for lack of room.
    ///
    /// # Errors
    /// The medium's error.
    fn reserve(&self, range: Range<u64>) -> io::Result<()>;

    /// Gives these bytes, which no block has, back to the file system. Later reads of them may
    /// return anything.
    ///
    /// # Errors
    /// The medium's error. The bytes can be used nevertheless.
    fn discard(&self, range: Range<u64>) -> io::Result<()>;
}
