//! What a volume is asked for, and what it tells of itself.

use core::time::Duration;

/// How to format a volume.
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
    /// The defaults: an inode for each 16 KiB (at least 64), files up to the volume's size, no data
    /// checksums.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many inodes the volume has for ever, the root directory's included: one more than the
    /// files that it can hold. Rounded up to a multiple of 32. Each takes 128 bytes.
    pub fn inodes(mut self, inodes: u32) -> Self {
        self.inodes = Some(inodes);
        self
    }

    /// The size in bytes that no file can exceed; the capacity of every file's range lock. Rounded
    /// up to whole pages of 4 KiB; at most 16 TiB. May exceed the volume's size: files have holes.
    /// Some locks take memory in proportion to it, for each file.
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = Some(bytes);
        self
    }

    /// Whether a CRC32C of every data page is logged with it, for [`check`](crate::FileCore::check)
    /// to compare. Metadata is checksummed in any case. Off by default: it makes a write of one
    /// page about a third slower, and a long write, which is little but copying, about twice as
    /// slow.
    pub fn data_checksums(mut self, on: bool) -> Self {
        self.data_checksums = on;
        self
    }
}

/// What [`FileCore::open`](crate::FileCore::open) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Inodes in the table, the root directory's included.
    pub inodes: u64,
    /// Files in the directory.
    pub files: u64,
    /// Log groups with a valid commit mark.
    pub committed_groups: u64,
    /// Slots of 64 bytes that hold something and belong to no committed group: what operations that
    /// never returned left behind, and the names of removed files.
    pub uncommitted_slots: u64,
    /// Pages of 4 KiB in all logs.
    pub log_pages: u64,
    /// Pages of 4 KiB in use by logs and data.
    pub pages_used: u64,
    /// Whether one of the two superblocks was damaged and has been rewritten from the other.
    pub superblock_repaired: bool,
    /// Wall-clock time of the recovery.
    pub duration: Duration,
}

/// A snapshot of a volume's numbers. Each is right by itself; together they are of one instant only
/// while nobody writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pages of 4 KiB for data and logs.
    pub pages_total: u64,
    /// How many of them are free, the reserve included.
    pub pages_free: u64,
    /// How many of the free ones only overwrites and compactions may take.
    pub pages_reserved: u64,
    /// Inodes that files can have.
    pub inodes_total: u64,
    /// How many of them no file has.
    pub inodes_free: u64,
    /// Pages in all logs.
    pub log_pages: u64,
    /// Logs rewritten since the volume was opened.
    pub compactions: u64,
}

/// What [`FileCore::check`](crate::FileCore::check) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Files looked at.
    pub files: u64,
    /// Data pages read and compared.
    pub pages: u64,
    /// Pages whose content is not what was written; empty on a sound volume.
    pub damaged: Vec<DamagedPage>,
}

/// A data page that does not match its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedPage {
    /// The file.
    pub name: String,
    /// Where the page starts in the file, in bytes.
    pub offset: u64,
    /// Where it lies in the region, in bytes.
    pub at: u64,
}
