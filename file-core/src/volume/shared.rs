//! The state that all handles of a volume share, and the creation of range locks.

use core::fmt;
use std::collections::BTreeMap;

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;

use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::layout::InodeId;
use crate::object::inode_table::InodeTable;
use crate::volume::tree::Tree;

/// Creates the range lock of a file, given its capacity in bytes, or returns the reason it cannot.
pub(crate) type LockFactory<L> = Box<dyn Fn(u64) -> Result<L, String> + Send + Sync>;

/// The state shared by all handles to a volume.
pub(crate) struct Shared<P: Pmem, L> {
    pub(crate) medium: Medium<P>,
    pub(crate) tree: Tree,
    pub(crate) inodes: InodeTable<L>,
    pub(crate) locks: LockFactory<L>,
    pub(crate) is_read_only: bool,
    /// The inodes that cannot be opened, and why. Empty unless the volume is read-only.
    pub(crate) unopenable: BTreeMap<InodeId, Error>,
}

/// Boxes a factory, converting its error to a message.
pub(crate) fn boxed<L, E: fmt::Display>(
    locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
) -> LockFactory<L> {
    Box::new(move |capacity| locks(capacity).map_err(|error| error.to_string()))
}

impl<P: Pmem, L> Shared<P, L> {
    /// Checks that the volume may be changed.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        match self.is_read_only {
            true => Err(Error::ReadOnly),
            false => Ok(()),
        }
    }

    /// Checks that this inode can be opened.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn check_openable(&self, id: InodeId) -> Result<(), Error> {
        match self.unopenable.get(&id) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl<P: Pmem, L: RawRangeLock> Shared<P, L> {
    /// Creates the range lock of the file `name`.
    pub(crate) fn make_lock(&self, name: &str) -> Result<L, Error> {
        let capacity = self.medium.geometry.max_file_size;
        (self.locks)(capacity).map_err(|why| Error::NoLock {
            name: name.to_owned(),
            capacity,
            why,
        })
    }
}
