//! The state that all handles of a volume share, and the creation of range locks.

use core::fmt;

use crate::directory::Directory;
use crate::error::Error;
use crate::inodes::Inodes;
use crate::layout::Geometry;
use crate::medium::Medium;

/// Creates the range lock of a file, given its capacity in bytes, or returns the reason it cannot.
pub(crate) type LockFactory<L> = Box<dyn Fn(u64) -> Result<L, String> + Send + Sync>;

/// The state shared by all handles to a volume.
pub(crate) struct Volume<P, L> {
    pub(crate) medium: Medium<P>,
    pub(crate) directory: Directory,
    pub(crate) inodes: Inodes<L>,
    pub(crate) locks: LockFactory<L>,
}

/// Boxes a factory, converting its error to a message.
pub(crate) fn boxed<L, E: fmt::Display>(
    locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
) -> LockFactory<L> {
    Box::new(move |capacity| locks(capacity).map_err(|error| error.to_string()))
}

/// Creates the range lock of the file `name`.
pub(crate) fn make_lock<L>(
    locks: &LockFactory<L>,
    geometry: &Geometry,
    name: &str,
) -> Result<L, Error> {
    let capacity = geometry.max_file_size;
    locks(capacity).map_err(|why| Error::NoLock {
        name: name.to_owned(),
        capacity,
        why,
    })
}
