//! The options a volume is formatted with, and the reports it returns.

use core::time::Duration;

/// Options for formatting a volume.
///
/// ```
/// use spanlock_file_core::FormatOptions;
///
/// let options = FormatOptions::new().inodes(1024).max_file_size(1 << 30);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until a volume is formatted with them"]
pub struct FormatOptions {
    pub(crate) inodes: Option<u32>,
    pub(crate) max_file_size: Option<u64>,
    pub(crate) data_checksums: bool,
}

impl FormatOptions {
    /// Returns the defaults: one inode per 16 KiB (at least 64), a largest file size equal to the
    /// volume's size, and no data checksums.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of inodes, which is fixed for the life of the volume. The root directory
    /// takes one of them; each file takes one more. The number is rounded up to a multiple of 32.
    /// An inode takes 128 bytes.
    pub fn inodes(mut self, inodes: u32) -> Self {
        self.inodes = Some(inodes);
        self
    }

    /// Sets the largest size of a file in bytes. It is also the capacity of each file's range lock.
    ///
    /// The size is rounded up to whole pages of 4 KiB and is at most 16 TiB. It may exceed the
    /// volume's size because files can have holes. Some range locks take memory in proportion to
    /// it, for each file.
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = Some(bytes);
        self
    }

    /// Sets whether every write logs a CRC32C of each data page, for
    /// [`check`](crate::FileCore::check) to compare. Metadata is always checksummed.
    ///
    /// Off by default: with checksums, a write of one page is about a third slower. A long write,
    /// which consists almost only of copying, takes about twice as long.
    pub fn data_checksums(mut self, on: bool) -> Self {
        self.data_checksums = on;
        self
    }
}

/// The result of the recovery that [`FileCore::open`](crate::FileCore::open) performs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Inodes in the table, including the root directory's.
    pub inodes: u64,
    /// Files in the directory.
    pub files: u64,
    /// Log groups with a valid commit mark.
    pub committed_groups: u64,
    /// Slots of 64 bytes that are not empty and belong to no committed group. They were left by
    /// operations that never returned, or held the names of removed files.
    pub uncommitted_slots: u64,
    /// Pages of 4 KiB in all logs.
    pub log_pages: u64,
    /// Pages of 4 KiB used by logs and data.
    pub pages_used: u64,
    /// Whether one of the two superblocks was damaged and has been rewritten from the other.
    pub superblock_repaired: bool,
    /// Pages of 4 KiB by which the volume has grown, because
    /// [the options asked for it](crate::OpenOptions::grow).
    pub pages_grown: u64,
    /// Wall-clock time of the recovery.
    pub duration: Duration,
}

/// A snapshot of a volume's counters.
///
/// The values are exact and describe one instant only if no thread changes the volume meanwhile.
/// The numbers of free pages are sums, so a concurrent change can make each of them inexact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pages of 4 KiB for data and logs.
    pub pages_total: u64,
    /// Free pages, including the reserve.
    pub pages_free: u64,
    /// Free pages that only overwrites and cleanings may take.
    pub pages_reserved: u64,
    /// Inodes available to files.
    pub inodes_total: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
    /// Pages in all logs.
    pub log_pages: u64,
    /// Cleanings since the volume was opened that copied what was live in a log's oldest pages.
    pub compactions: u64,
    /// Log pages that cleanings have unlinked since the volume was opened, because nothing in them
    /// was live.
    pub unlinked_pages: u64,
}

/// The result of [`FileCore::check`](crate::FileCore::check).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Files checked.
    pub files: u64,
    /// Data pages read and compared.
    pub pages: u64,
    /// Pages whose content does not match their checksum. Empty for an undamaged volume.
    pub damaged: Vec<DamagedPage>,
}

/// A data page that does not match its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedPage {
    /// The file.
    pub name: String,
    /// Byte offset of the page in the file.
    pub offset: u64,
    /// Byte offset of the page in the region.
    pub at: u64,
}
