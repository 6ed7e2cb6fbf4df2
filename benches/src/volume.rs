//! The volume that the runs use: a temporary one, or a file of the user's.
//!
//! An existing volume is never formatted, truncated or removed. The runs put their files under
//! [`PREFIX`]. They remove such files before they begin and after they have succeeded.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use spanlock_file_core::{Error, FormatOptions, Kind, RecoveryReport};
use spanlock_pmem::{MappedFile, Options, PmemError};
use spanlock_range_lock::{RawRangeLock, RwCounter};

use crate::args::Size;
use crate::locks::Make;
use crate::temporary::{Choice, Place, file_system};

/// The prefix of the paths of all files that a run creates: a directory.
pub const PREFIX: &str = "spanlock-compare/";

const PAGE_BYTES: u64 = 4096;

/// The runs' requirements of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Total bytes, with a margin.
    pub bytes: u64,
    /// Number of files and directories at a time.
    pub files: u64,
    /// Size of the largest file in bytes.
    pub largest_file: u64,
}

/// A formatted volume that is not open.
#[derive(Debug)]
pub struct Volume {
    path: PathBuf,
    kind: Origin,
    /// A description of the volume and its location.
    description: String,
    largest_file: u64,
    /// Keeps other runs from using the volume while it exists.
    _alone: Option<UnixListener>,
}

/// The origin of the volume.
#[derive(Debug)]
enum Origin {
    /// A temporary file without a name, reached through a path that leads to this open file. It
    /// disappears however the process ends.
    Temporary { _file: File },
    /// A file at the user's path that this run has created.
    New,
    /// An existing file at the user's path.
    Existing,
}

impl Volume {
    /// Creates a temporary volume. It lies in `/dev/shm` if that is a tmpfs with enough room,
    /// otherwise in the system's folder for temporary files.
    ///
    /// # Errors
    /// There is not enough room, or no volume can have the given `size`.
    pub fn temporary(size: Option<&Size>, needs: &Needs) -> Result<Self> {
        let place = Place::memory(size.map_or(needs.bytes, |it| it.bytes), Choice::Volume);
        let folder = place.path();
        let format = FormatOptions::new()
            .inodes(u32::try_from(needs.files + 2).unwrap_or(u32::MAX))
            .max_file_size(needs.largest_file);
        let created = place.file(|path| create(path, size, needs, &format));
        let (file, path) = created
            .with_context(|| format!("creating a temporary volume in {}", folder.display()))?;
        let what = format!("temporary, in {}", folder.display());
        Self::described(path, Origin::Temporary { _file: file }, what, folder)
    }

    /// Opens the volume at `path`, or creates one if the path is unused.
    ///
    /// # Errors
    /// The existing file is not a volume, does not have `size`, or is used by another run; or no
    /// volume can be created there.
    pub fn at(path: &Path, size: Option<&Size>, needs: &Needs) -> Result<Self> {
        let (kind, what) = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    bail!(
                        "the volume {}: the path is a broken symbolic link; remove it, or choose another path",
                        path.display()
                    );
                }
                let bytes = size.map_or(needs.bytes, |it| it.bytes);
                let inodes = (bytes / (4 * PAGE_BYTES)).max(needs.files + 2);
                let format = FormatOptions::new().inodes(u32::try_from(inodes).unwrap_or(u32::MAX));
                create(path, size, needs, &format)
                    .with_context(|| format!("creating the volume {}", path.display()))?;
                (Origin::New, "new")
            }
            // Opening the volume reports all other problems.
            found => {
                let len = found.map_or(0, |it| it.len());
                if let Some(size) = size.filter(|size| len > 0 && size.bytes != len) {
                    bail!(
                        "--size {}: the volume {} exists and has {len} bytes; --size applies only to new volumes, so leave it out",
                        size.typed,
                        path.display()
                    );
                }
                (Origin::Existing, "existing")
            }
        };
        let what = format!("{}, {what}", path.display());
        Self::described(path.to_owned(), kind, what, path)
    }

    /// Returns the volume, after opening it once to learn its properties.
    fn described(path: PathBuf, kind: Origin, what: String, lies_in: &Path) -> Result<Self> {
        let alone = match kind {
            Origin::Temporary { .. } => None,
            Origin::New | Origin::Existing => alone_with(&path)?,
        };
        let mut volume = Volume {
            path,
            kind,
            description: String::new(),
            largest_file: 0,
            _alone: alone,
        };
        let (opened, report) = volume.recover(|_| Ok(RwCounter::new()))?;
        volume.largest_file = opened.max_file_size();
        let region = opened.pmem();
        let flush = match region.flush_instruction() {
            Some(instruction) => format!("flushed by {instruction}"),
            None => "not flushed".to_owned(),
        };
        let (len, durability) = (spanlock_pmem::Pmem::len(region), region.durability());
        volume.description = format!(
            "{what} ({}, {}); what is durable there {durability}; {flush}",
            file_system(lies_in),
            size_text(len),
        );
        if report.superblock_repaired {
            volume.description.push_str(
                "; one of its two superblocks was damaged and has been rewritten from the other: \
                 check the medium, and back up your data",
            );
        }
        Ok(volume)
    }

    /// Opens and recovers the volume, with locks created by `make`.
    ///
    /// # Errors
    /// The volume is damaged, in use, or no longer a volume; or a lock cannot be created.
    pub fn open<L: RawRangeLock + 'static>(
        &self,
        make: Make<L>,
    ) -> Result<spanlock_file_core::Volume<MappedFile, L>> {
        let (volume, report) = self.recover(make).map_err(|error| {
            match error.downcast_ref() {
                Some(PmemError::InUse { .. }) => error.context(
                    "another process opened the volume during this run, which reopens it for each round; \
                     let only one use it at a time",
                ),
                _ => error,
            }
        })?;
        if report.superblock_repaired {
            bail!(
                "a superblock of the volume {} was damaged during this run and has been rewritten from the other: \
                 something else writes there, or the medium is bad",
                self.path.display()
            );
        }
        Ok(volume)
    }

    /// Opens the volume for work that is not measured.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn open_plain(&self) -> Result<spanlock_file_core::Volume<MappedFile, RwCounter>> {
        self.open(|_| Ok(RwCounter::new()))
    }

    fn recover<L: RawRangeLock + 'static>(
        &self,
        make: Make<L>,
    ) -> Result<(spanlock_file_core::Volume<MappedFile, L>, RecoveryReport)> {
        let opening = || match self.kind {
            Origin::Temporary { .. } => "opening the temporary volume".to_owned(),
            Origin::New | Origin::Existing => format!(
                "opening the volume {} (an existing file is never formatted: give the path of a volume, or an unused path)",
                self.path.display()
            ),
        };
        let region = MappedFile::open(&self.path, Options::new()).with_context(opening)?;
        spanlock_file_core::Volume::try_open(region, make).with_context(opening)
    }

    /// Removes all files under [`PREFIX`]. Returns their number.
    ///
    /// # Errors
    /// The volume cannot be opened.
    pub fn clean(&self) -> Result<usize> {
        remove_under(&self.open_plain()?, PREFIX)
    }

    /// Checks that the volume allows files as large as the run's.
    ///
    /// # Errors
    /// It does not; the error says what helps.
    pub fn check_largest_file(&self, needs: &Needs) -> Result<()> {
        ensure!(
            needs.largest_file <= self.largest_file,
            "the volume allows files of at most {} bytes, but this run creates one of {}; {}",
            self.largest_file,
            needs.largest_file,
            self.larger()
        );
        Ok(())
    }

    /// Adds advice to an error that says the volume is full: how much must be free, and how to get
    /// it.
    ///
    /// # Errors
    /// The error of `result`.
    pub fn advise<T>(&self, result: Result<T>, needs: &Needs) -> Result<T> {
        result.map_err(|error| {
            let needed = match error.chain().find_map(|it| it.downcast_ref()) {
                Some(Error::NoSpace { .. }) => format!("about {} bytes", needs.bytes),
                Some(Error::NoInodes { .. }) => format!("{} inodes", needs.files),
                _ => return error,
            };
            error.context(format!(
                "the volume is full: this run needs {needed} of free space; {}",
                self.larger()
            ))
        })
    }

    /// Returns advice on how to get a larger volume.
    fn larger(&self) -> String {
        match self.kind {
            Origin::Temporary { .. } => "create a larger one with --size".to_owned(),
            Origin::New => format!(
                "remove {}, which this run has created, and create a larger one with --size",
                self.path.display()
            ),
            Origin::Existing => "its size is fixed: remove some of your files from it, \
                 or choose an unused path with --volume, where a large enough volume is created"
                .to_owned(),
        }
    }

    /// Returns whether the volume is removed when this value is dropped.
    pub fn is_temporary(&self) -> bool {
        matches!(self.kind, Origin::Temporary { .. })
    }

    /// Returns a description: what the volume is, where it lies, and what survives there.
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// Ensures that only one run at a time uses the volume at `path`. Two runs would disturb each
/// other's files, and each round closes and reopens the volume.
///
/// The lock is an abstract socket, named after the file's device and inode. It disappears with the
/// process, however that ends. It excludes runs in the same network namespace. Other runs and other
/// programs are excluded only while the volume is open, by the lock of the open volume.
///
/// # Errors
/// Another run uses the volume.
fn alone_with(path: &Path) -> Result<Option<UnixListener>> {
    let Ok(found) = fs::metadata(path) else {
        return Ok(None); // Opening the volume will report the error.
    };
    let name = format!("spanlock-compare/{}/{}", found.dev(), found.ino());
    let bound =
        SocketAddr::from_abstract_name(name).and_then(|address| UnixListener::bind_addr(&address));
    match bound {
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
            "the volume {} is in use by another `cargo compare`: wait until that one ends, or choose another --volume",
            path.display()
        ),
        // Without such sockets, the lock of the open volume must suffice.
        bound => Ok(bound.ok()),
    }
}

/// Removes all files whose paths begin with `prefix`, and the directories there. Returns the number
/// of files.
///
/// # Errors
/// None are expected, because removal takes no space.
pub fn remove_under<L: RawRangeLock>(
    volume: &spanlock_file_core::Volume<MappedFile, L>,
    prefix: &str,
) -> Result<usize> {
    let names = volume.list().into_iter().map(|(name, _)| name);
    let mut removed = 0;
    for name in names.filter(|name| name.starts_with(prefix)) {
        volume.remove(&name)?;
        removed += 1;
    }
    remove_empty(volume, "", &|path| path.starts_with(prefix))?;
    Ok(removed)
}

/// Removes the empty directories below `path`, and those that become empty. Leaves those whose
/// paths, with a slash at the end, are not `wanted`. Returns whether `path` is empty then.
///
/// # Errors
/// None are expected, because removal takes no space.
pub fn remove_empty<L: RawRangeLock>(
    volume: &spanlock_file_core::Volume<MappedFile, L>,
    path: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<bool> {
    let mut is_empty = true;
    for entry in volume.read_dir(path.trim_end_matches('/'))? {
        let below = format!("{path}{}/", entry.name);
        if entry.kind == Kind::Directory && remove_empty(volume, &below, wanted)? && wanted(&below)
        {
            volume.remove_dir(below.trim_end_matches('/'))?;
        } else {
            is_empty = false;
        }
    }
    Ok(is_empty)
}

/// Creates and formats a volume at an unused path. Leaves no file behind if that fails.
fn create(path: &Path, size: Option<&Size>, needs: &Needs, format: &FormatOptions) -> Result<()> {
    let bytes = size.map_or(needs.bytes, |it| it.bytes);
    let what = || match size {
        Some(size) => format!("--size {}", size.typed),
        None => format!("{bytes} bytes, which the runs need"),
    };
    let region = MappedFile::create(path, bytes, Options::new()).with_context(what)?;
    spanlock_file_core::Volume::format(region, format, |_| RwCounter::new())
        .with_context(what)
        .inspect_err(|_| {
            // This run has just created the file. The original error is the one to report.
            let _ = fs::remove_file(path);
        })?;
    Ok(())
}

/// Formats a number of bytes with a suitable unit.
fn size_text(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes as f64 / 1024.0;
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(number.fract() != 0.0);
    format!("{number:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::size_text;

    #[test]
    fn sizes_are_formatted_with_a_suitable_unit() {
        let description =
            [64 << 10, 1 << 20, (1 << 20) + (1 << 19), 3 << 30, 1 << 50].map(size_text);
        assert_eq!(
            description,
            ["64 KiB", "1 MiB", "1.5 MiB", "3 GiB", "1024 TiB"]
        );
    }
}
