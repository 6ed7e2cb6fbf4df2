//! The trait [`Storage`], the medium of a journal or log, and its implementations for files, for
//! persistent memory, and for a part of another storage.

use std::io;
use std::sync::Arc;

#[cfg(target_os = "linux")]
mod file;
mod part;
mod pmem;

#[cfg(target_os = "linux")]
pub use file::{FileMode, FileStorage};
pub use part::Part;
pub use pmem::PmemStorage;

/// The medium of a journal or log: a file, a device, or a region of persistent memory. Its length
/// is fixed. Several threads may call its methods at once.
#[allow(
    clippy::len_without_is_empty,
    reason = "no journal fits into an empty one"
)]
pub trait Storage: Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> u64;
    /// Fills `buf` with the bytes at `offset`. Fails if they reach beyond the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `data`. The write becomes durable with a later `flush`. A crash before that
    /// may keep any of its 512-byte sectors and lose the others.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// Makes every write durable that returned before this call.
    fn flush(&self) -> io::Result<()>;
    /// Writes `data` durably (FUA): it is on the medium when the call returns. Earlier writes do
    /// not become durable by this call.
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()>;
}

/// Implements [`Storage`] for a pointer to a storage.
macro_rules! forward_to_pointee {
    ($pointer:ty) => {
        impl<S: Storage + ?Sized> Storage for $pointer {
            fn len(&self) -> u64 {
                (**self).len()
            }

            fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
                (**self).read_at(buf, offset)
            }

            fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
                (**self).write_at(data, offset)
            }

            fn flush(&self) -> io::Result<()> {
                (**self).flush()
            }

            fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
                (**self).write_fua(data, offset)
            }
        }
    };
}

forward_to_pointee!(&S);
forward_to_pointee!(Arc<S>);

/// Checks that `len` bytes at `offset` lie within `total`. The error names all three.
pub(crate) fn check_bounds(offset: u64, len: usize, total: u64) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= total => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{len} bytes at offset {offset} end beyond the storage, which has {total}"),
        )),
    }
}
