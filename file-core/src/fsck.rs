//! Checking and repairing a volume that is not open.
//!
//! [`check`] lists all damage of a volume, and writes nothing. [`repair`] repairs it. Both read all
//! logs on the calling thread, and, in a volume with data checksums, all data.
//!
//! # What a repair keeps
//! A repair keeps everything that is readable, except pages that another file also claims. In
//! particular:
//! - A damaged group is dropped alone. In the log of a directory, that loses one name. In the log
//!   of a file, it loses one change: where the change had replaced data, the older data reappears,
//!   or a hole if another file has the older page by now. In a volume without data checksums, what
//!   reappears may be data of a file that was removed since.
//! - A log ends before its first damaged page. Later changes and names are lost.
//! - A page of data that does not match its checksum becomes a hole, which reads as zeros.
//! - A damaged journal is emptied. If a crash had interrupted a rename from one directory to
//!   another or an exchange, each of the names may be there or not.
//! - A name is erased if its inode is missing. If an inode's line in the table is damaged, but its
//!   head pointer is readable, the inode is restored from its name; its creation time is lost.
//!
//! A file or directory that has lost its name is gone: nothing on the medium distinguishes it from
//! a removed one. [`check`] lists inodes without names, but they are not damage.
//!
//! A repair can be repeated, even after a crash has interrupted it. A volume without damage is not
//! written to.
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
    /// The journal is emptied. If it had a rename or an exchange, that may be there in part.
    EmptyJournal,
    /// The inode is restored from its name.
    RewriteInode,
    /// The name is erased.
    EraseName,
    /// The damaged part of a directory's log is erased.
    EraseGroup,
    /// The directory's log is cut off before the damage.
    CutLog,
    /// The file's log is rewritten from what is readable.
    RewriteLog,
    /// The bytes of the file become a hole. Its log is rewritten.
    MakeHole,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Repair::None => "needs no repair",
            Repair::RewriteSuperblock => "a repair writes it from the other superblock",
            Repair::EmptyJournal => {
                "a repair empties the journal; if a crash has interrupted a rename between \
                 directories or an exchange, one of its names may be lost"
            }
            Repair::RewriteInode => {
                "a repair writes the inode from its name; its time of creation is lost"
            }
            Repair::EraseName => "a repair erases the name",
            Repair::EraseGroup => "a repair erases this entry; the name in it is lost",
            Repair::CutLog => "a repair cuts the directory's log off here; later names are lost",
            Repair::RewriteLog => {
                "a repair writes the file's log anew without this; what it had replaced reappears"
            }
            Repair::MakeHole => "a repair makes these bytes a hole, which reads as zeros",
        })
    }
}

/// Damage that a check has found, or something else that it has noted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub what: &'static str,
    /// Where it is.
    pub place: Place,
    /// A path of the inode, if it has one.
    pub path: Option<String>,
    /// The number of bytes of the file that are affected, from the place's offset on; 0 if the
    /// place has no offset.
    pub bytes: u64,
    /// How it is repaired.
    pub repair: Repair,
    /// Whether it has been repaired.
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
    /// All damage, and what else was noted.
    pub findings: Vec<Finding>,
    /// Files that names refer to.
    pub files: u64,
    /// Directories that names refer to, without the root.
    pub directories: u64,
}

impl Report {
    /// Returns the damage, without what else was noted.
    pub fn damage(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|it| it.is_damage())
    }

    /// Returns whether there was no damage.
    pub fn is_sound(&self) -> bool {
        self.damage().next().is_none()
    }

    /// Returns whether no damage is left.
    pub fn is_repaired(&self) -> bool {
        self.damage().all(|it| it.is_repaired)
    }
}

/// Lists all damage of the volume, and writes nothing. No volume may be open on the region.
///
/// # Errors
/// [`Error::NotAVolume`], [`Error::Version`], [`Error::Truncated`], and [`Error::Corrupt`] if both
/// superblocks are unreadable.
pub fn check<P: Pmem>(pmem: &P) -> Result<Report, Error> {
    survey(pmem, false)
}

/// Repairs all damage of the volume, durably, and lists it. No volume may be open on the region.
/// Afterwards, the volume opens if [`Report::is_repaired`] returns `true`. Damage to a file remains
/// if there is no room for the file's new log.
///
/// # Errors
/// Same as [`check`].
pub fn repair<P: Pmem>(pmem: &P) -> Result<Report, Error> {
    let mut report = survey(pmem, true)?;
    if report.is_sound() {
        return Ok(report);
    }
    let left = check(pmem)?;
    for finding in report.findings.iter_mut().filter(|it| it.is_damage()) {
        let is_same = |it: &&Finding| (it.what, it.place) == (finding.what, finding.place);
        finding.is_repaired = left.damage().find(is_same).is_none();
    }
    let is_new = |it: &&Finding| {
        let mut known = report.findings.iter();
        !known.any(|known| (known.what, known.place) == (it.what, it.place))
    };
    let new: Vec<Finding> = left.damage().filter(is_new).cloned().collect();
    report.findings.extend(new);
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
