//! The state that all handles of a volume share, and the creation of range locks.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::Arc;

use crate::error::Error;
use crate::file::File;
use crate::inodes::Inodes;
use crate::layout::InodeId;
use crate::medium::Medium;
use crate::tree::{At, Tree};

/// Creates the range lock of a file, given its capacity in bytes, or returns the reason it cannot.
pub(crate) type LockFactory<L> = Box<dyn Fn(u64) -> Result<L, String> + Send + Sync>;

/// The state shared by all handles to a volume.
pub(crate) struct Volume<P: Pmem, L> {
    pub(crate) medium: Medium<P>,
    pub(crate) tree: Tree,
    pub(crate) inodes: Inodes<L>,
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

impl<P: Pmem, L> Volume<P, L> {
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

impl<P: Pmem, L: RawRangeLock> Volume<P, L> {
    /// Creates the range lock of the file `name`.
    fn make_lock(&self, name: &str) -> Result<L, Error> {
        let capacity = self.medium.geometry.max_file_size;
        (self.locks)(capacity).map_err(|why| Error::NoLock {
            name: name.to_owned(),
            capacity,
            why,
        })
    }

    /// Creates a file, and opens it.
    pub(crate) fn create_at(this: &Arc<Self>, at: &At<'_>) -> Result<File<P, L>, Error> {
        let inode = this.create_file(at, || this.make_lock(at.path))?;
        Ok(File::new(Arc::clone(this), inode))
    }

    /// Opens a file.
    pub(crate) fn open_at(this: &Arc<Self>, at: &At<'_>) -> Result<File<P, L>, Error> {
        let inode = this.open_file(at, || this.make_lock(at.path))?;
        Ok(File::new(Arc::clone(this), inode))
    }

    /// Opens the file that has a name which was [listed](Self::files), and adds it to `seen`.
    /// Returns `None` if the path does not lead to a file any more, or if the file was in `seen`
    /// because it has several names.
    ///
    /// The file is added under the identity with which it was opened, not the one that was listed.
    /// Its other names must not be passed over if this one has been removed since, or stands for
    /// another file.
    ///
    /// # Errors
    /// Those of [`open_at`](Self::open_at), except [`Error::NotFound`], [`Error::IsADirectory`] and
    /// [`Error::NotADirectory`].
    pub(crate) fn open_listed(
        this: &Arc<Self>,
        path: &str,
        seen: &mut BTreeSet<(u32, u64)>,
    ) -> Result<Option<File<P, L>>, Error> {
        let file = match this.with(path, |at| Self::open_at(this, at)) {
            Ok(file) => file,
            // It, or a directory on its path, was removed, renamed or exchanged meanwhile.
            Err(
                Error::NotFound { .. } | Error::IsADirectory { .. } | Error::NotADirectory { .. },
            ) => return Ok(None),
            Err(error) => return Err(error),
        };
        let id = (file.inode().number, file.inode().generation);
        Ok(seen.insert(id).then_some(file))
    }
}
