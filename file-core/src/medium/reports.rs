//! What operations report: the state of a file or a volume, and the results of a recovery, a
//! cleaning and a check.

use core::fmt;
use core::time::Duration;
use std::time::SystemTime;

use crate::medium::error::Place;

/// The size and the times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The size in bytes.
    pub size: u64,
    /// The time at which the file was created.
    pub created: SystemTime,
    /// The time of the last change: the latest time of any change since it was last
    /// [set](crate::File::set_modified).
    pub modified: SystemTime,
}

/// The result of the recovery that [`Volume::open`](crate::Volume::open) performs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Inodes in the table, including the root directory's.
    pub inodes: u64,
    /// Directories, without the root.
    pub directories: u64,
    /// Files. A file with several names counts once.
    pub files: u64,
    /// Log groups with a valid commit mark.
    pub committed_groups: u64,
    /// Slots of 64 bytes that are not empty and belong to no committed group. Operations that never
    /// returned have left them, or they contained names that have been removed.
    pub uncommitted_slots: u64,
    /// Pages of 4 KiB in all logs.
    pub log_pages: u64,
    /// Pages of 4 KiB used by logs and data.
    pub pages_used: u64,
    /// Whether one of the two superblocks was damaged and has been rewritten from the other.
    pub superblock_repaired: bool,
    /// The damage, if the volume was opened [read-only](crate::OpenOptions::read_only). Does not
    /// include data that does not match its checksum, because data is not read.
    pub findings: Vec<Finding>,
    /// Pages of 4 KiB by which the volume has [grown](crate::OpenOptions::grow).
    pub pages_grown: u64,
    /// Wall-clock time of the recovery.
    pub duration: Duration,
}

/// A snapshot of a volume's counters.
///
/// The values are exact and consistent only if no thread changes the volume meanwhile. Each number
/// of free pages is a sum over the allocator's shards, so a concurrent change can make it inexact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pages of 4 KiB for data and logs.
    pub pages_total: u64,
    /// Free pages, including the reserve.
    pub pages_free: u64,
    /// Free pages in the reserve. Cleanings may take all of it, and overwrites half of it.
    pub pages_reserved: u64,
    /// Inodes available to files and directories.
    pub inodes_total: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
    /// Pages in all logs.
    pub log_pages: u64,
    /// Cleanings since the volume was opened that copied the live content of a log's oldest pages.
    pub compactions: u64,
    /// Log pages that cleanings have unlinked since the volume was opened, because nothing in them
    /// was live.
    pub unlinked_pages: u64,
}

/// The result of a cleaning of logs.
///
/// Some pages may become free only after the cleaning has returned: if a concurrent operation
/// replaces the last live group of a page, that operation frees the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanReport {
    /// Pages that were unlinked from logs because nothing in them was needed.
    pub pages_unlinked: u64,
    /// Pages whose live content was copied to fewer pages.
    pub pages_copied: u64,
    /// The number of pages by which the logs together became shorter.
    pub pages_freed: u64,
}

impl CleanReport {
    pub(crate) fn count_unlinked(&mut self, pages: usize) {
        self.pages_unlinked += pages as u64;
        self.pages_freed += pages as u64;
    }

    /// Counts `old` pages whose live groups are in `fresh` ones now, which are not more.
    pub(crate) fn count_copied(&mut self, old: usize, fresh: usize) {
        self.pages_copied += old as u64;
        self.pages_freed += old.saturating_sub(fresh) as u64;
    }

    pub(crate) fn add(&mut self, other: CleanReport) {
        self.pages_unlinked += other.pages_unlinked;
        self.pages_copied += other.pages_copied;
        self.pages_freed += other.pages_freed;
    }
}

/// The result of [`Volume::check`](crate::Volume::check).
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

/// How damage is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// There is nothing to repair: the finding is not damage.
    None,
    /// The superblock is rewritten from the other one.
    RewriteSuperblock,
    /// The journal is emptied. A rename or an exchange that was in it may be done in part.
    EmptyJournal,
    /// The inode is restored from its name.
    RewriteInode,
    /// The inode is restored from its name, as that of an empty file or directory: its head pointer
    /// is zero or, in the root's inode, unreadable. Unless it was empty before, its content is
    /// lost.
    EmptyInode,
    /// The name is erased.
    EraseName,
    /// The damaged group of a directory's log is erased.
    EraseGroup,
    /// The word becomes zero. Nothing is lost.
    ClearWord,
    /// The directory's log is cut off before the damage.
    CutLog,
    /// The file's log is rewritten from what is readable: without the damaged group, or without
    /// everything from the damaged pointer or page on.
    RewriteLog,
    /// The bytes of the file become a hole, and its log is rewritten.
    MakeHole,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Repair::None => "needs no repair",
            Repair::RewriteSuperblock => "a repair rewrites it from the other superblock",
            Repair::EmptyJournal => {
                "a repair empties the journal; if a crash has interrupted a rename between \
                 directories or an exchange, its names may be lost"
            }
            Repair::RewriteInode => {
                "a repair restores the inode from its name; its creation time is lost"
            }
            Repair::EmptyInode => {
                "a repair restores the inode from its name, as an empty one; what it contained is \
                 lost"
            }
            Repair::EraseName => "a repair erases the name",
            Repair::EraseGroup => "a repair erases this entry; the name in it is lost",
            Repair::ClearWord => "a repair sets the word to zero; nothing is lost",
            Repair::CutLog => "a repair cuts off the directory's log here; later names are lost",
            Repair::RewriteLog => {
                "a repair rewrites the file's log from what is readable; what a lost change had \
                 replaced reappears; after a damaged pointer or page, all later changes are lost"
            }
            Repair::MakeHole => "a repair makes these bytes a hole, which reads as zeros",
        })
    }
}

/// An entry of a report: damage, or something else worth knowing, such as an inode without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// A description, such as "an invalid commit mark".
    pub what: &'static str,
    /// Where it is.
    pub place: Place,
    /// The path of the name that a repair erases; but if that names a directory a second time, a
    /// path of the directory that contains it. Otherwise, a path of the inode. `None` if no name
    /// leads there.
    pub path: Option<String>,
    /// The number of bytes of the file that are affected, from the place's offset on; 0 if the
    /// place has no offset.
    pub bytes: u64,
    /// How a repair treats it.
    pub repair: Repair,
    /// Whether this repair has repaired it. Always `false` in the report of a check.
    pub is_repaired: bool,
}

impl Finding {
    /// Returns whether this is damage. An inode without a name, for example, is not.
    pub fn is_damage(&self) -> bool {
        self.repair != Repair::None
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at {}", self.what, self.place)?;
        if let Some(path) = &self.path {
            write!(f, ", path {path:?}")?;
        }
        if self.bytes > 0 {
            write!(f, ", {} bytes of the file", self.bytes)?;
        }
        match self.is_repaired {
            true => f.write_str(": repaired"),
            false => write!(f, ": {}", self.repair),
        }
    }
}
