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
//! use spanlock_file_core::{FormatOptions, Volume, fsck};
//! # use spanlock_pmem::{MappedFile, Options};
//! # use spanlock_range_lock::RwCounter;
//! # let folder = tempfile::tempdir()?;
//! # let region = MappedFile::create(folder.path().join("volume"), 1 << 20, Options::default())?;
//! let volume = Volume::format(&region, &FormatOptions::new(), |_| RwCounter::new())?;
//! drop(volume);
//! let report = fsck::repair(&region)?;
//! assert!(report.is_sound());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashSet;

use spanlock_pmem::Pmem;
use spanlock_sync::Arc;

use crate::medium::error::Error;
use crate::medium::space::Space;
use crate::recover::damage::Damages;
use crate::recover::recovery::Recovery;
use crate::volume::format;

pub use crate::medium::reports::{Finding, Repair};

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
    recovery.note_superblock(found.damaged_at)?;
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
