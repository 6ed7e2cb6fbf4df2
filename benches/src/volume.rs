//! The volume that the runs use: a temporary one, or a file of the user's.
//!
//! An existing volume is never formatted, truncated or removed. The runs put their files under
//! [`PREFIX`], and remove what is there before they begin and when they have succeeded.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use spanlock_file_core::{Error, FileCore, FormatOptions, RecoveryReport};
use spanlock_pmem::{MappedFile, Options, PmemError};
use spanlock_range_lock::{RawRangeLock, RwCounter};

use crate::cli::Size;
use crate::locks::Make;

/// What the names of all files that a run makes begin with.
pub const PREFIX: &str = "spanlock-compare/";

const PAGE_BYTES: u64 = 4096;

/// What the runs need of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Bytes for everything, with a margin.
    pub bytes: u64,
    /// Files at a time.
    pub files: u64,
    /// Bytes of the largest file.
    pub largest_file: u64,
}

/// A formatted volume that nobody has open.
#[derive(Debug)]
pub struct Volume {
    path: PathBuf,
    kind: Kind,
    /// What it is and where, for people.
    told: String,
    largest_file: u64,
    /// While this lives, no other run uses the volume.
    _alone: Option<UnixListener>,
}

/// Where it comes from.
#[derive(Debug)]
enum Kind {
    /// It has no name, so that nothing is left of it however the process ends: the path leads to this
    /// file.
    Temporary { _file: File },
    /// A file of the user's, made just now.
    New,
    /// A file of the user's.
    Existing,
}

impl Volume {
    /// Makes a temporary volume, in `/dev/shm` if that is a tmpfs with room, else in the system's
    /// folder for temporary files.
    ///
    /// # Errors
    /// No room; `size` is no size for a volume.
    pub fn temporary(size: Option<&Size>, needs: &Needs) -> Result<Self> {
        let folder = temporary_folder(size.map_or(needs.bytes, |it| it.bytes));
        let place = || format!("making a temporary volume in {}", folder.display());
        let named = tempfile::Builder::new()
            .prefix("spanlock-")
            .tempdir_in(&folder)
            .with_context(place)?;
        let path = named.path().join("volume");
        let format = FormatOptions::new()
            .inodes(u32::try_from(needs.files + 2).unwrap_or(u32::MAX))
            .max_file_size(needs.largest_file);
        create(&path, size, needs, &format).with_context(place)?;
        let file = File::open(&path).with_context(place)?;
        named.close().with_context(place)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let what = format!("temporary, in {}", folder.display());
        Self::described(path, Kind::Temporary { _file: file }, what, &folder)
    }

    /// Opens the volume at `path`, or makes one there if there is nothing.
    ///
    /// # Errors
    /// What is there is no volume, or not of `size`, or another run uses it; no volume can be made there.
    pub fn at(path: &Path, size: Option<&Size>, needs: &Needs) -> Result<Self> {
        let (kind, what) = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    bail!(
                        "the volume {}: a symbolic link that leads to nothing; remove it, or give another path",
                        path.display()
                    );
                }
                let bytes = size.map_or(needs.bytes, |it| it.bytes);
                let inodes = (bytes / (4 * PAGE_BYTES)).max(needs.files + 2);
                let format = FormatOptions::new().inodes(u32::try_from(inodes).unwrap_or(u32::MAX));
                create(path, size, needs, &format)
                    .with_context(|| format!("making the volume {}", path.display()))?;
                (Kind::New, "new")
            }
            // What else can be wrong, opening it tells.
            found => {
                let len = found.map_or(0, |it| it.len());
                if let Some(size) = size.filter(|size| len > 0 && size.bytes != len) {
                    bail!(
                        "--size {}: the volume {} exists and has {len} bytes; --size is for new volumes, leave it out",
                        size.typed,
                        path.display()
                    );
                }
                (Kind::Existing, "existing")
            }
        };
        let what = format!("{}, {what}", path.display());
        Self::described(path.to_owned(), kind, what, path)
    }

    /// The volume, once it has been opened to see what it is.
    fn described(path: PathBuf, kind: Kind, what: String, lies_in: &Path) -> Result<Self> {
        let alone = match kind {
            Kind::Temporary { .. } => None,
            Kind::New | Kind::Existing => alone_with(&path)?,
        };
        let mut volume = Volume {
            path,
            kind,
            told: String::new(),
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
        volume.told = format!(
            "{what} ({}, {}); what is durable there {durability}; {flush}",
            file_system(lies_in),
            size_told(len),
        );
        if report.superblock_repaired {
            volume.told.push_str(
                "; one of its two superblocks was damaged and has been rewritten from the other: \
                 see to the medium, and copy what you need",
            );
        }
        Ok(volume)
    }

    /// Opens the volume, with locks that `make` makes; recovers it.
    ///
    /// # Errors
    /// It is no volume any more, damaged, in use; a lock cannot be made.
    pub fn open<L: RawRangeLock + 'static>(
        &self,
        make: Make<L>,
    ) -> Result<FileCore<MappedFile, L>> {
        let (volume, report) = self.recover(make).map_err(|error| {
            match error.downcast_ref() {
                Some(PmemError::InUse { .. }) => error.context(
                    "another process opened the volume in the middle of this run, which opens it anew for each round; \
                     let only one use it at a time",
                ),
                _ => error,
            }
        })?;
        if report.superblock_repaired {
            bail!(
                "a superblock of the volume {} was damaged in the middle of this run, and has been rewritten from the other: \
                 something else writes there, or the medium is bad",
                self.path.display()
            );
        }
        Ok(volume)
    }

    /// Opens the volume for something that is not measured.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_plain(&self) -> Result<FileCore<MappedFile, RwCounter>> {
        self.open(|_| Ok(RwCounter::new()))
    }

    fn recover<L: RawRangeLock + 'static>(
        &self,
        make: Make<L>,
    ) -> Result<(FileCore<MappedFile, L>, RecoveryReport)> {
        let opening = || match self.kind {
            Kind::Temporary { .. } => "opening the temporary volume".to_owned(),
            Kind::New | Kind::Existing => format!(
                "opening the volume {} (what is there is never formatted: give a volume's path, or one where nothing is)",
                self.path.display()
            ),
        };
        let region = MappedFile::open(&self.path, Options::new()).with_context(opening)?;
        FileCore::try_open(region, make).with_context(opening)
    }

    /// Removes all files under [`PREFIX`]; returns how many there were.
    ///
    /// # Errors
    /// Opening the volume fails.
    pub fn clean(&self) -> Result<usize> {
        remove_under(&self.open_plain()?, PREFIX)
    }

    /// Sees whether it takes files as large as a run's.
    ///
    /// # Errors
    /// It does not; what helps is said.
    pub fn check_largest_file(&self, needs: &Needs) -> Result<()> {
        ensure!(
            needs.largest_file <= self.largest_file,
            "the volume takes files of at most {} bytes, and this run makes one of {}; {}",
            self.largest_file,
            needs.largest_file,
            self.larger()
        );
        Ok(())
    }

    /// Adds to an error that says the volume is full what would have to be free, and what helps.
    ///
    /// # Errors
    /// That of `result`.
    pub fn advise<T>(&self, result: Result<T>, needs: &Needs) -> Result<T> {
        result.map_err(|error| {
            let needed = match error.chain().find_map(|it| it.downcast_ref()) {
                Some(Error::NoSpace { .. }) => format!("about {} bytes", needs.bytes),
                Some(Error::NoInodes { .. }) => format!("{} inodes", needs.files),
                _ => return error,
            };
            error.context(format!(
                "the volume is full: this run needs {needed} free; {}",
                self.larger()
            ))
        })
    }

    /// How to come by a larger one.
    fn larger(&self) -> String {
        match self.kind {
            Kind::Temporary { .. } => "make a larger one with --size".to_owned(),
            Kind::New => format!(
                "remove {}, which this run has made, and make a larger one with --size",
                self.path.display()
            ),
            Kind::Existing => {
                "it keeps the size that it was made with: remove files of yours from it, \
                 or give a --volume where nothing is, and one that is large enough is made there"
                    .to_owned()
            }
        }
    }

    /// Whether it goes when this value is dropped.
    pub fn is_temporary(&self) -> bool {
        matches!(self.kind, Kind::Temporary { .. })
    }

    /// What it is, where it lies, and what survives there.
    pub fn told(&self) -> &str {
        &self.told
    }
}

/// Sees to it that one run at a time uses the volume at `path`: its files would be in the other's way, and each
/// round closes and opens it.
///
/// The lock is a socket whose name, known in memory only, says which file it is: it goes with the process,
/// however that ends. It excludes runs in the same network namespace; others, and other programs, meet the lock
/// that an open volume has.
///
/// # Errors
/// Another run uses the volume.
fn alone_with(path: &Path) -> Result<Option<UnixListener>> {
    let Ok(found) = fs::metadata(path) else {
        return Ok(None); // Opening it tells why.
    };
    let name = format!("spanlock-compare/{}/{}", found.dev(), found.ino());
    let bound =
        SocketAddr::from_abstract_name(name).and_then(|address| UnixListener::bind_addr(&address));
    match bound {
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
            "the volume {} is in use by another `cargo compare`: let that one end first, or give another --volume",
            path.display()
        ),
        // Where there are no sockets, the lock of the open volume has to do.
        bound => Ok(bound.ok()),
    }
}

/// Removes all files whose names begin with `prefix`; returns how many there were.
///
/// # Errors
/// None is expected: removing takes no space.
pub fn remove_under<L: RawRangeLock>(
    volume: &FileCore<MappedFile, L>,
    prefix: &str,
) -> Result<usize> {
    let names = volume.list().into_iter().map(|(name, _)| name);
    let mut removed = 0;
    for name in names.filter(|name| name.starts_with(prefix)) {
        volume.remove(&name)?;
        removed += 1;
    }
    Ok(removed)
}

/// Makes and formats a volume where nothing is; leaves nothing if that fails.
fn create(path: &Path, size: Option<&Size>, needs: &Needs, format: &FormatOptions) -> Result<()> {
    let bytes = size.map_or(needs.bytes, |it| it.bytes);
    let what = || match size {
        Some(size) => format!("--size {}", size.typed),
        None => format!("{bytes} bytes, which is what the runs need"),
    };
    let region = MappedFile::create(path, bytes, Options::new()).with_context(what)?;
    FileCore::format(region, format, |_| RwCounter::new())
        .with_context(what)
        .inspect_err(|_| {
            // The file is ours, just made; the error that brought us here is the one to tell.
            let _ = fs::remove_file(path);
        })?;
    Ok(())
}

/// A number of bytes, in the unit that fits.
fn size_told(bytes: u64) -> String {
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

/// The folder for temporary files of `size` bytes.
pub(crate) fn temporary_folder(size: u64) -> PathBuf {
    let shared_memory = Path::new("/dev/shm");
    let room =
        rustix::fs::statvfs(shared_memory).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize));
    if file_system(shared_memory) == "tmpfs" && room / 5 * 4 >= size {
        shared_memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// The type of the file system that `path` lies in, as the kernel's table of mounts names it.
pub(crate) fn file_system(path: &Path) -> String {
    let unknown = || "unknown file system".to_owned();
    let (Ok(path), Ok(mounts)) = (
        fs::canonicalize(path),
        fs::read_to_string("/proc/self/mounts"),
    ) else {
        return unknown();
    };
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        // Spaces in names are escaped: such a mount is not recognised, the one it lies in is named.
        Some((fields.next()?, fields.next()?))
    });
    // The deepest mount; the last of those at one place hides the others.
    fields
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.len())
        .map_or_else(unknown, |(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::size_told;

    #[test]
    fn sizes_are_told_in_the_unit_that_fits() {
        let told = [64 << 10, 1 << 20, (1 << 20) + (1 << 19), 3 << 30, 1 << 50].map(size_told);
        assert_eq!(told, ["64 KiB", "1 MiB", "1.5 MiB", "3 GiB", "1024 TiB"]);
    }
}
