//! The options for formatting and opening a volume.

use crate::medium::time::{Clock, system_clock};

/// Options for formatting a volume.
///
/// ```
/// use spanlock_file_core::FormatOptions;
///
/// let options = FormatOptions::new().inodes(1024).max_file_size(1 << 30);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a volume is formatted with them"]
pub struct FormatOptions {
    pub(crate) clock: Clock,
    pub(crate) inodes: Option<u32>,
    pub(crate) max_file_size: Option<u64>,
    pub(crate) data_checksums: bool,
}

impl FormatOptions {
    /// Returns the defaults: one inode per 16 KiB of the region (at least 64), a largest file size
    /// equal to the region's size, no data checksums, and the system's clock.
    pub fn new() -> Self {
        FormatOptions {
            clock: system_clock,
            inodes: None,
            max_file_size: None,
            data_checksums: false,
        }
    }

    /// Sets the clock from which the volume takes the times of files. The setting is not stored in
    /// the volume. The clock is a function that returns nanoseconds since 1970. It must not
    /// block and must not use the volume. The default is the system's clock; on Linux it is the
    /// coarse one, whose readings are up to ten milliseconds old.
    pub fn clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the number of inodes, which is fixed for the life of the volume. The root directory
    /// takes one of them; each file and each directory takes one more. The number is rounded up to
    /// a multiple of 32. An inode takes 128 bytes.
    pub fn inodes(mut self, inodes: u32) -> Self {
        self.inodes = Some(inodes);
        self
    }

    /// Sets the largest size of a file in bytes. It is also the capacity of each file's range lock.
    ///
    /// The size is rounded up to whole pages of 4 KiB, and is at most 16 TiB. It may exceed the
    /// volume's size, because files can have holes. For each file, some range locks take memory in
    /// proportion to this size.
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = Some(bytes);
        self
    }

    /// Sets whether every write logs a CRC32C of each data page. Reads and
    /// [`check`](crate::Volume::check) then compare the data with the checksums. Metadata always
    /// has checksums.
    ///
    /// Off by default: with checksums, a write of one page is about a third slower. A long write,
    /// which mostly copies data, takes about twice as long. A read of a part of a page reads the
    /// whole page.
    pub fn data_checksums(mut self, on: bool) -> Self {
        self.data_checksums = on;
        self
    }
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of files that stay in memory although they are not open, unless the options say
/// otherwise.
pub(crate) const CACHED_FILES: usize = 1024;

/// Options for opening a volume.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a volume is opened with them"]
pub struct OpenOptions {
    pub(crate) clock: Clock,
    pub(crate) cached_files: usize,
    pub(crate) grow: bool,
    pub(crate) read_only: bool,
}

impl OpenOptions {
    /// Returns the defaults: up to 1,024 files that are not open stay in memory; the volume does
    /// not grow, and is not read-only; and the clock is the system's.
    pub fn new() -> Self {
        OpenOptions {
            clock: system_clock,
            cached_files: CACHED_FILES,
            grow: false,
            read_only: false,
        }
    }

    /// Sets how many files that are not open may stay in memory. Opening a file that is not in
    /// memory reads its log. With 0, a file may leave memory as soon as its last handle is
    /// dropped. Files leave memory when others are opened or created, up to eight each time. So if
    /// more files were open at a time, they leave one after the other.
    pub fn cached_files(mut self, files: usize) -> Self {
        self.cached_files = files;
        self
    }

    /// Sets whether the volume grows to fill its region, if the region is larger than the volume.
    /// The new pages are free at once. The number of inodes and the largest file size remain those
    /// that were chosen when the volume was formatted. A volume never shrinks.
    ///
    /// After a crash during the call, the volume opens with its old size or its new size. The
    /// volume grows before its logs are read, so it may have grown even if opening it then fails.
    pub fn grow(mut self, on: bool) -> Self {
        self.grow = on;
        self
    }

    /// Sets whether the volume is opened read-only. Nothing is then written to the region, not even
    /// to repair a superblock, and the volume does not [grow](Self::grow). Every operation that
    /// would change something returns [`Error::ReadOnly`](crate::Error::ReadOnly). So the region
    /// may be read-only itself, such as a file on a read-only file system
    /// (`MappedFile::open_read_only`).
    ///
    /// A damaged volume opens read-only, as long as one superblock is readable.
    /// [`RecoveryReport::findings`](crate::RecoveryReport::findings) lists the damage.
    ///
    /// Opening a damaged file returns [`Error::Corrupt`](crate::Error::Corrupt), and so does
    /// opening a directory whose inode is unreadable. If a directory's log is damaged, listings
    /// contain the names that are readable, and looking up any other name returns
    /// [`Error::Corrupt`](crate::Error::Corrupt), because the damage may have taken it. A word that
    /// a repair only sets to zero
    /// ([`Repair::ClearWord`](crate::medium::reports::Repair::ClearWord)) has none of these
    /// effects. All logs are read on the calling thread.
    pub fn read_only(mut self, on: bool) -> Self {
        self.read_only = on;
        self
    }

    /// Sets the clock, as [`FormatOptions::clock`] does.
    pub fn clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = clock;
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}
