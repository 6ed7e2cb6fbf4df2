//! Checking and repairing a volume that is not open.
//!
//! [`check`] lists all damage of a volume, and writes nothing. [`repair`] repairs it. Both read all
//! logs on the calling thread, and, in a volume with data checksums, all data.
//!
//! If the volume was [closed](crate::FileCore::close), both compare each file with the digest that
//! `close` has stored. So they also find logs that have lost words, which look intact otherwise. A
//! damaged checkpoint is itself a finding, and no file is compared with it.
//! The digests serve until the volume is opened for writing or repaired. An opening for writing
//! erases them even if it fails, so check a closed volume before it is opened, not afterwards.
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
//! If a crash interrupts a repair, the repair can be repeated. Until then, a file whose damage only
//! its digest had shown may be reported with a damaged pointer instead. (If more than 508 damaged
//! files have lost pages, a crash at the wrong moment can give one of them a page of another file's
//! old log. The format's documentation has the details.) A repair writes nothing to a volume
//! without damage.
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
    /// The checkpoint of [`close`](crate::FileCore::close) is erased. Nothing is lost. But files
    /// could not be compared with its digests: a log that has lost words may look intact.
    EraseCheckpoint,
    /// The journal is emptied. A rename, an exchange or a repair that was in it may be done in
    /// part.
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
            Repair::EraseCheckpoint => {
                "a repair erases it; files could not be compared with its digests, so a log that \
                 has lost words may look intact"
            }
            Repair::EmptyJournal => {
                "a repair empties the journal; if a crash has interrupted a rename between \
                 directories or an exchange, its names may be lost; if it has interrupted a repair, \
                 some files may have their old logs"
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

    /// Adds the damage of a later report at other places. Compares the places, not the kinds of
    /// damage: without the checkpoint, a changed log is reported as damage of another kind.
    fn add_new(&mut self, later: &Report) {
        let known: HashSet<_> = self.damage().map(|it| it.place).collect();
        let new = later.damage().filter(|it| !known.contains(&it.place));
        self.findings.extend(new.cloned());
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
/// If there is no room for a file's new log, not even after the logs of other files have been
/// replaced, that file remains damaged. If the file has also lost a page, because the page is in
/// use twice or does not match its checksum, all other damaged files remain damaged, too. The
/// volume then does not open for writing. That is so even if it opened before the repair with the
/// checkpoint of [`close`](crate::FileCore::close), because the repair erases the checkpoint. But
/// it can still grow ([`OpenOptions::grow`](crate::OpenOptions::grow)).
///
/// # Errors
/// Same as [`check`], and [`Error::ReadOnlyRegion`].
pub fn repair<P: Pmem>(pmem: &P) -> Result<Report, Error> {
    format::check_writable(pmem)?;
    let mut report = survey(pmem, true)?;
    if report.is_sound() {
        return Ok(report);
    }
    let mut left = check(pmem)?;
    report.add_new(&left);
    // A repair frees the old logs of the files that have new ones. So others may have room now.
    while !left.is_sound() {
        let before = left.damage().count();
        survey(pmem, true)?;
        left = check(pmem)?;
        report.add_new(&left);
        if left.damage().count() >= before {
            break;
        }
    }
    let remaining: HashSet<_> = left.damage().map(|it| it.place).collect();
    for finding in report.findings.iter_mut().filter(|it| it.is_damage()) {
        finding.is_repaired = !remaining.contains(&finding.place);
    }
    Ok(report)
}

fn survey<P: Pmem>(pmem: &P, mends: bool) -> Result<Report, Error> {
    let found = format::find(pmem)?;
    let geometry = found.geometry;
    let space = Arc::new(Space::new(&geometry));
    let mut recovery = Recovery::new(pmem, &geometry, &space, Damages::Noted(Vec::new()));
    recovery.note_superblock(&found)?;
    recovery.note_journal()?;
    let checkpoint = recovery.checkpoint()?;
    let live = recovery.tree()?;
    recovery.survey(&live, &|_, _| (), checkpoint.as_ref(), true)?;
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
