//! Checking and repairing a volume that is not open.
//!
//! [`check`] lists all damage of a volume, and writes nothing. [`repair`] repairs it. Both read all
//! logs on the calling thread, and, in a volume with data checksums, all data.
//!
//! # What a repair keeps
//! A repair keeps everything that is readable and that a name leads to, except pages that another
//! file also claims. In particular:
//! - Only the damaged group of a log is dropped. In the log of a directory, that loses one name. In
//!   the log of a file, it loses one change: where the change had replaced data, the older data
//!   reappears. If another file or a later change of the same file uses the older page by now,
//!   there is a hole instead. In a volume without data checksums, the page may also contain
//!   whatever was stored there since, in a file or at a place of the file that is gone.
//! - If the first word of one further slot of a group is not zero, the word becomes zero, and
//!   nothing is lost.
//! - A log is cut off before its first damaged page. Later changes and names are lost: all names of
//!   a directory, if the pointer to its first page is damaged.
//! - A file whose log is rewritten loses the pages that were allocated past its size.
//! - A page of data that does not match its checksum becomes a hole, which reads as zeros.
//! - A damaged journal is emptied. If a crash had interrupted a rename from one directory to
//!   another or an exchange, each old name and each new name may or may not be there afterwards.
//! - A name is erased if its inode is missing. If an inode's line in the table is damaged, but its
//!   head pointer is readable, the inode is restored from its name; its creation time is lost. If
//!   the head pointer is zero, for example because the whole line is, the file or directory is
//!   empty afterwards.
//!
//! A file or directory that has lost its name is gone: nothing on the medium distinguishes it from
//! a removed one. [`check`] lists inodes without names, but they are not damage.
//!
//! If a crash interrupts a repair, the repair can be repeated. A repair writes nothing to a volume
//! without damage.
//!
//! # What a repair does not handle
//! - If there is no room for the new logs of all damaged files, these files remain damaged.
//! - If a crash interrupts the repair of several damaged files, one of them can get a page that
//!   another one had.
//! - A word that damage has turned into zero goes unnoticed, unless a page is then in use twice.
//!   Without data checksums, the page then stays with the file whose inode has the lower number.
//! - With neither superblock readable, nothing is checked or repaired.
//!
//! ```
//! use spanlock_file_core::{FileCore, FormatOptions, fsck};
//! # use spanlock_pmem::{MappedFile, Options};
//! # use spanlock_range_lock::RwCounter;
//! # let folder = tempfile::tempdir()?;
//! # let region = MappedFile::create(folder.path().join("volume"), 1 << 20, Options::default())?;
//! let volume = FileCore::format(&region, &FormatOptions::new(), |_| RwCounter::new())?;
//! drop(volume);
//! let report = fsck::repair(&region)?;
//! assert!(report.is_sound());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;
use std::collections::HashSet;

use spanlock_pmem::Pmem;
use spanlock_sync::Arc;

use crate::error::{Error, Place};
use crate::format;
use crate::medium::Space;
use crate::recover::{Damages, Fix, Recovery};

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

/// The result of a check or a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// All damage, and whatever else was found.
    pub findings: Vec<Finding>,
    /// The number of files that have a name.
    pub files: u64,
    /// The number of directories that have a name, without the root.
    pub directories: u64,
}

impl Report {
    /// Returns only the findings that are damage.
    pub fn damage(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|it| it.is_damage())
    }

    /// Returns whether no damage was found.
    pub fn is_sound(&self) -> bool {
        self.damage().next().is_none()
    }

    /// Returns whether no damage is left: none was found, or all of it has been repaired.
    pub fn is_repaired(&self) -> bool {
        self.damage().all(|it| it.is_repaired)
    }
}

/// Lists all damage of the volume, and writes nothing. A damaged copy of the journal's superblock
/// is not listed: the other copy serves, and the journal rewrites the damaged one itself. No volume
/// may be open on the region, unless it was opened read-only. The region may be
/// [read-only](Pmem::is_read_only).
///
/// # Errors
/// [`Error::NotAVolume`] if neither superblock has the magic number, [`Error::Version`],
/// [`Error::Truncated`], and [`Error::Corrupt`] if a superblock has the magic number but neither is
/// readable.
pub fn check<P: Pmem>(pmem: &P) -> Result<Report, Error> {
    survey(pmem, false)
}

/// Repairs the damage of the volume, durably, and lists it. No volume may be open on the region. If
/// [`Report::is_repaired`] returns `true`, the volume opens afterwards.
///
/// Other damage is repaired even if there is no room for the new logs of damaged files. The volume
/// then does not open for writing, but it can still grow
/// ([`OpenOptions::grow`](crate::OpenOptions::grow)) and be repaired again.
///
/// # Errors
/// Same as [`check`], and [`Error::ReadOnlyRegion`].
pub fn repair<P: Pmem>(pmem: &P) -> Result<Report, Error> {
    format::check_writable(pmem)?;
    let mut report = survey(pmem, true)?;
    if report.is_sound() {
        return Ok(report);
    }
    let left = check(pmem)?;
    let places = |report: &Report| -> HashSet<_> { report.damage().map(|it| it.place).collect() };
    let (known, remaining) = (places(&report), places(&left));
    for finding in report.findings.iter_mut().filter(|it| it.is_damage()) {
        finding.is_repaired = !remaining.contains(&finding.place);
    }
    let uncovered = left.damage().filter(|it| !known.contains(&it.place));
    report.findings.extend(uncovered.cloned());
    Ok(report)
}

fn survey<P: Pmem>(pmem: &P, mends: bool) -> Result<Report, Error> {
    let found = format::find(pmem)?;
    let geometry = found.geometry;
    let space = Arc::new(Space::new(&geometry));
    let mut recovery = Recovery::new(pmem, &geometry, &space, Damages::Noted(Vec::new()));
    recovery.note_superblock(&found)?;
    recovery.note_journal()?;
    let live = recovery.tree()?;
    recovery.survey(&live, &|_, _| (), true)?;
    recovery.note_unnamed(&live)?;
    if mends && !recovery.is_sound() {
        recovery.mend(&live)?;
    }
    Ok(Report {
        findings: recovery.findings(&live),
        files: recovery.report.files,
        directories: recovery.report.directories,
    })
}

impl<P: Pmem> Recovery<'_, P> {
    /// Notes the superblock that is damaged, if one is.
    pub(crate) fn note_superblock(&mut self, found: &format::Found) -> Result<(), Error> {
        let Some(at) = found.damaged_at else {
            return Ok(());
        };
        let error = Error::corrupt_at("a damaged superblock", at);
        self.damages.meet(error, Fix::Superblock(at))
    }
}
