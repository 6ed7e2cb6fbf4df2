//! The options a volume is opened with, and the shorthands for opening with the defaults.

use core::convert::Infallible;
use core::fmt;

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;

use crate::error::Error;
use crate::file_core::FileCore;
use crate::options::RecoveryReport;

/// Files that are not open and stay in memory, unless the options say otherwise.
pub(crate) const CACHED_FILES: usize = 1024;

/// Options for opening a volume.
///
/// ```
/// use spanlock_file_core::OpenOptions;
///
/// let options = OpenOptions::new().cached_files(16).grow(true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a volume is opened with them"]
pub struct OpenOptions {
    pub(crate) cached_files: usize,
    pub(crate) grow: bool,
}

impl OpenOptions {
    /// Returns the defaults: up to 1,024 files that are not open stay in memory, and the volume
    /// keeps its size.
    pub fn new() -> Self {
        OpenOptions {
            cached_files: CACHED_FILES,
            grow: false,
        }
    }

    /// Sets how many files may stay in memory although nobody has them open. Opening a file that is
    /// not in memory reads its log. With 0, a file may leave memory as soon as its last handle is
    /// dropped.
    pub fn cached_files(mut self, files: usize) -> Self {
        self.cached_files = files;
        self
    }

    /// Sets whether the volume takes the whole region, if the region is larger than the volume. The
    /// new pages are free at once. The number of inodes and the largest file size stay as they were
    /// formatted. A volume never shrinks.
    ///
    /// After a crash during the call, the volume opens with its old size or its new size. The
    /// volume grows before its logs are read, so it may have grown even if opening it then fails.
    pub fn grow(mut self, on: bool) -> Self {
        self.grow = on;
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Pmem, L: RawRangeLock> FileCore<P, L> {
    /// Opens a formatted volume with the default options: see [`open_with`](Self::open_with). For
    /// locks whose creation can fail, use [`try_open`](Self::try_open).
    ///
    /// # Errors
    /// Same as [`open_with`](Self::open_with).
    pub fn open(
        pmem: P,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), Error> {
        Self::try_open(pmem, move |capacity| Ok::<_, Infallible>(locks(capacity)))
    }

    /// Opens like [`open`](Self::open), with a lock factory that may fail.
    ///
    /// # Errors
    /// Same as [`open_with`](Self::open_with).
    pub fn try_open<E: fmt::Display>(
        pmem: P,
        locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), Error> {
        Self::open_with(pmem, &OpenOptions::new(), locks)
    }
}
