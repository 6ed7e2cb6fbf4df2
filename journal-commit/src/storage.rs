//! Where a journal lies: [`Storage`], with a file and a region of persistent memory as
//! implementations.

use std::io;
use std::sync::Arc;

#[cfg(target_os = "linux")]
mod file;
mod pmem;

#[cfg(target_os = "linux")]
pub use file::{FileMode, FileStorage};
pub use pmem::PmemStorage;

/// Where a journal lies: a file, a device, a region of persistent memory. Its length is fixed.
/// Several threads may call its methods at once.
#[allow(
    clippy::len_without_is_empty,
    reason = "no journal fits into an empty one"
)]
pub trait Storage: Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> u64;
    /// Fills `buf` from `offset`. Fails if that range reaches beyond the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `data`. The write is durable after a later `flush`; until then a crash may
    /// tear it into 512-byte sectors.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// Makes every write durable that returned before this call.
    fn flush(&self) -> io::Result<()>;
    /// Writes `data`, which is durable when the call returns (FUA). This implies nothing about
    /// earlier writes.
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()>;
}

/// Implements [`Storage`] for a pointer to one.
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
