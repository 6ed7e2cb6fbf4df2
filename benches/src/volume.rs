//! The volume that the runs use: a temporary one, or a file of the user's.
//!
//! An existing volume is never formatted, truncated or removed. The runs put their files under
//! [`PREFIX`], and remove what is there before they begin and when they have succeeded.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spanlock::{RawRangeLock, RwCounter};
use spanlock_file_core::{FileCore, FormatOptions};
use spanlock_pmem::{MappedFile, Options};

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
    /// The temporary volume has no name, so that nothing is left of it however the process ends:
    /// `path` leads here.
    unnamed: Option<File>,
    /// What it is and where, for people.
    told: String,
}

impl Volume {
    /// Makes a temporary volume, in `/dev/shm` if that is a tmpfs with room, else in the system's
    /// folder for temporary files.
    ///
    /// # Errors
    /// No room; `size` is no size for a volume.
    pub fn temporary(size: Option<u64>, needs: &Needs) -> Result<Self> {
        let size = size.unwrap_or(needs.bytes);
        let folder = temporary_folder(size);
        let place = || format!("making a temporary volume in {}", folder.display());
        let named = tempfile::Builder::new()
            .prefix("spanlock-")
            .tempdir_in(&folder)
            .with_context(place)?;
        let path = named.path().join("volume");
        let format = FormatOptions::new()
            .inodes(u32::try_from(needs.files + 2).unwrap_or(u32::MAX))
            .max_file_size(needs.largest_file);
        create(&path, size, &format).with_context(place)?;
        let file = File::open(&path).with_context(place)?;
        named.close().with_context(place)?;
        Self::described(
            PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            format!("temporary, in {}", folder.display()),
            Some(file),
            &folder,
        )
    }

    /// Opens the volume at `path`, or makes one there if there is nothing.
    ///
    /// # Errors
    /// What is there is no volume, or not of `size`; no volume can be made there.
    pub fn at(path: &Path, size: Option<u64>, needs: &Needs) -> Result<Self> {
        match fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let size = size.unwrap_or(needs.bytes);
                let inodes = (size / (4 * PAGE_BYTES)).max(needs.files + 2);
                let format = FormatOptions::new().inodes(u32::try_from(inodes).unwrap_or(u32::MAX));
                create(path, size, &format)
                    .with_context(|| format!("making the volume {}", path.display()))?;
                let told = format!("{}, new", path.display());
                Self::described(path.to_owned(), told, None, path)
            }
            // What else can be wrong, opening it tells.
            found => {
                let len = found.map(|it| it.len()).unwrap_or(0);
                if let Some(size) = size.filter(|&size| len > 0 && size != len) {
                    bail!(
                        "--size {size}: the volume {} exists and has {len} bytes; --size is for new volumes, leave it out",
                        path.display()
                    );
                }
                let told = format!("{}, existing", path.display());
                Self::described(path.to_owned(), told, None, path)
            }
        }
    }

    /// The volume, once it has been opened to see what it is.
    fn described(
        path: PathBuf,
        what: String,
        unnamed: Option<File>,
        lies_in: &Path,
    ) -> Result<Self> {
        let mut volume = Volume {
            path,
            unnamed,
            told: what,
        };
        let opened = volume.open(|_| RwCounter::new())?;
        let region = opened.pmem();
        let flush = match region.flush_instruction() {
            Some(instruction) => format!("flushed by {instruction}"),
            None => "not flushed".to_owned(),
        };
        let (len, durability) = (spanlock_pmem::Pmem::len(region), region.durability());
        volume.told = format!(
            "{} ({}, {:.0} MiB); what is durable there {durability}; {}",
            volume.told,
            file_system(lies_in),
            len as f64 / (1 << 20) as f64,
            flush,
        );
        Ok(volume)
    }

    /// Opens the volume, with locks that `make` makes; recovers it.
    ///
    /// # Errors
    /// It is no volume, one of another version, damaged, cut short, in use …
    pub fn open<L: RawRangeLock + 'static>(
        &self,
        make: fn(u64) -> L,
    ) -> Result<FileCore<MappedFile, L>> {
        let opening = || {
            format!(
                "opening the volume {} (what is there is never formatted: give a volume's path, or one where nothing is)",
                self.path.display()
            )
        };
        let region = MappedFile::open(&self.path, Options::new()).with_context(opening)?;
        let (volume, _report) = FileCore::open(region, make).with_context(opening)?;
        Ok(volume)
    }

    /// Removes all files under [`PREFIX`]; returns how many there were.
    ///
    /// # Errors
    /// Opening the volume fails.
    pub fn clean(&self) -> Result<usize> {
        remove_under(&self.open(|_| RwCounter::new())?, PREFIX)
    }

    /// Whether it goes when this value is dropped.
    pub fn is_temporary(&self) -> bool {
        self.unnamed.is_some()
    }

    /// What it is, where it lies, and what survives there.
    pub fn told(&self) -> &str {
        &self.told
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
fn create(path: &Path, size: u64, format: &FormatOptions) -> Result<()> {
    let region = MappedFile::create(path, size, Options::new())?;
    FileCore::format(region, format, |_| RwCounter::new())
        .with_context(|| format!("--size {size}"))
        .inspect_err(|_| {
            // The file is ours, just made; the error that brought us here is the one to tell.
            let _ = fs::remove_file(path);
        })?;
    Ok(())
}

/// The folder for a temporary volume of `size` bytes.
fn temporary_folder(size: u64) -> PathBuf {
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
fn file_system(path: &Path) -> String {
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
