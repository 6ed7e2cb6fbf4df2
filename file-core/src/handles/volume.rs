//! The public handle to a volume: formatting, opening, names, and statistics.

use core::convert::Infallible;
use core::fmt;

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::Arc;

use crate::handles::dir::{Dir, DirEntry};
use crate::handles::file::File;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::layout::Kind;
use crate::medium::reports::{RecoveryReport, Stats};
use crate::object::directory::check_name;
use crate::volume::options::{FormatOptions, OpenOptions};
use crate::volume::shared::{Shared, boxed};

/// A volume: a tree of directories and files in a region of persistent memory.
///
/// Clones are handles to the same volume and may be used by any number of threads. A volume needs
/// no shutdown: every operation is durable when it returns, and dropping the last handle writes
/// nothing.
///
/// `P` is the region and `L` is the type of each file's range lock. To choose the lock at run time,
/// use `Box<dyn RawRangeLock>`. At most one volume may be open on a region at a time; the region's
/// type must ensure that.
///
/// ```
/// use spanlock_range_lock::RwCounter;
/// use spanlock_file_core::{FormatOptions, Volume};
/// use spanlock_pmem::{MappedFile, Options};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("volume");
/// let region = MappedFile::create(&path, 1 << 20, Options::default())?;
/// let volume = Volume::format(region, &FormatOptions::new(), |_| RwCounter::new())?;
/// let file = volume.create("greeting")?;
/// file.write_at(b"hello", 0)?;
/// drop((volume, file));
///
/// let region = MappedFile::open(&path, Options::default())?;
/// let (volume, report) = Volume::open(region, |_| RwCounter::new())?;
/// assert_eq!(report.files, 1);
/// assert_eq!(volume.list(), [("greeting".to_owned(), 5)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Volume<P: Pmem, L: RawRangeLock> {
    pub(super) shared: Arc<Shared<P, L>>,
}

impl<P: Pmem, L: RawRangeLock> Volume<P, L> {
    /// Formats the whole region as an empty volume. Whatever the region contains is lost.
    ///
    /// `locks` creates the range lock of a file. It is called for each file that the volume opens
    /// or creates, with the capacity in bytes that the lock must have
    /// ([`max_file_size`](Self::max_file_size)).
    ///
    /// When `locks` is called, the volume holds no lock and has changed nothing yet. So `locks` may
    /// block and may use the volume. If it panics, the file is not created or opened. If two
    /// threads create the same file at once, the slower thread's lock is dropped. For locks whose
    /// creation can fail, use [`try_format`](Self::try_format).
    ///
    /// After a crash during this call, the region holds the previous volume, the empty volume, or
    /// none: opening then returns [`Error::NotAVolume`] or [`Error::Corrupt`].
    ///
    /// # Errors
    /// [`Error::BadFormat`] if the region is smaller than 64 KiB or too large, or if an option does
    /// not fit it. [`Error::ReadOnlyRegion`]. In these cases, nothing has been written.
    pub fn format(
        pmem: P,
        options: &FormatOptions,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::try_format(pmem, options, move |capacity| {
            Ok::<_, Infallible>(locks(capacity))
        })
    }

    /// Formats like [`format`](Self::format), with a lock factory that may fail. Creating a file
    /// then returns [`Error::NoLock`] with the factory's error message.
    ///
    /// # Errors
    /// Same as [`format`](Self::format): formatting itself creates no lock.
    pub fn try_format<E: fmt::Display>(
        pmem: P,
        options: &FormatOptions,
        locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let shared = Shared::format(pmem, options, boxed(locks))?;
        Ok(Volume {
            shared: Arc::new(shared),
        })
    }

    /// Opens a formatted volume. Every operation that had returned is present. Every other
    /// operation is present as a whole or not at all.
    ///
    /// `locks` is the same as in [`format`](Self::format); for locks whose creation can fail, use
    /// [`try_open`](Self::try_open). Opening reads all logs, so it takes time proportional to their
    /// size.
    ///
    /// Opening completes a rename or an exchange that a crash has interrupted. It repairs a damaged
    /// superblock from the other one, and rewrites the journal's superblocks if they differ. It
    /// writes nothing else.
    ///
    /// # Errors
    /// [`Error::NotAVolume`] if neither superblock has the magic number, [`Error::Version`],
    /// [`Error::Truncated`], [`Error::Corrupt`], and [`Error::ReadOnlyRegion`].
    pub fn open(
        pmem: P,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), Error> {
        Self::try_open(pmem, move |capacity| Ok::<_, Infallible>(locks(capacity)))
    }

    /// Opens like [`open`](Self::open), with a lock factory that may fail.
    ///
    /// # Errors
    /// Same as [`open`](Self::open): opening a volume creates no lock. Opening or creating a file
    /// later may return [`Error::NoLock`].
    pub fn try_open<E: fmt::Display>(
        pmem: P,
        locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), Error> {
        Self::open_with(pmem, &OpenOptions::new(), locks)
    }

    /// Opens like [`try_open`](Self::try_open), with these options. They can let the
    /// volume [grow](OpenOptions::grow), or open it [read-only](OpenOptions::read_only), which
    /// writes nothing to the region.
    ///
    /// # Errors
    /// Same as [`try_open`](Self::try_open). Read-only, a volume in a read-only region opens, too.
    pub fn open_with<E: fmt::Display>(
        pmem: P,
        options: &OpenOptions,
        locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), Error> {
        let (shared, report) = Shared::open(pmem, options, boxed(locks))?;
        let volume = Volume {
            shared: Arc::new(shared),
        };
        Ok((volume, report))
    }

    /// Creates an empty file, durably. Blocks while another thread changes its directory.
    ///
    /// A path consists of the names of the directories that lead from the root to the file, and of
    /// the file's name, separated by `/`. It does not begin with `/`.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoInodes`], [`Error::NoSpace`], [`Error::NoLock`],
    /// [`Error::Poisoned`], and the **path errors**, which every method that takes a path can
    /// return: [`Error::NotFound`] and [`Error::NotADirectory`] for the directories on it,
    /// [`Error::NameInvalid`], [`Error::NameTooLong`], and [`Error::Poisoned`] if removing or
    /// replacing a directory on the path has failed midway. If the volume is
    /// [read-only](OpenOptions::read_only), every operation that changes something returns
    /// [`Error::ReadOnly`], and a name that a damaged directory does not have is
    /// [`Error::Corrupt`], not [`Error::NotFound`].
    pub fn create(&self, path: &str) -> Result<File<P, L>, Error> {
        (self.shared).with(path, |at| File::create_at(&self.shared, at))
    }

    /// Creates an empty directory, durably. Blocks while another thread changes the parent
    /// directory.
    ///
    /// # Errors
    /// Same as [`create`](Self::create), except [`Error::NoLock`].
    pub fn create_dir(&self, path: &str) -> Result<(), Error> {
        (self.shared).with(path, |at| self.shared.create_directory(at).map(drop))
    }

    /// Creates a directory, and the directories on its path that do not exist. Each is durable as
    /// soon as it is created. Does nothing if the directory exists.
    ///
    /// # Errors
    /// Same as [`create_dir`](Self::create_dir), except [`Error::Exists`]. Directories that were
    /// created before the error remain.
    pub fn create_dir_all(&self, path: &str) -> Result<(), Error> {
        // Before anything is created.
        let mut names = path.split('/');
        names.try_for_each(|name| check_name(name, path))?;
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            match self.create_dir(&path[..end]) {
                Ok(()) | Err(Error::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.shared.directory(path).map(drop)
    }

    /// Opens a file. If the file is not in memory, this reads its log, and blocks while another
    /// thread changes its directory or reads the log of the same file. An opening may let up to
    /// eight other files leave memory. Until it has visited all of their pages, other openings
    /// wait.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::NoLock`], [`Error::Poisoned`] if
    /// removing or replacing the name has failed midway, [`Error::Corrupt`] if the file's log is
    /// damaged, and the path errors. A volume with a damaged log opens only read-only, so otherwise
    /// the damage is newer than the opening.
    pub fn open_file(&self, path: &str) -> Result<File<P, L>, Error> {
        (self.shared).with(path, |at| File::open_at(&self.shared, at))
    }

    /// Opens a file, creating it first if it does not exist.
    ///
    /// # Errors
    /// Same as [`create`](Self::create) and [`open_file`](Self::open_file), except
    /// [`Error::Exists`].
    pub fn open_or_create(&self, path: &str) -> Result<File<P, L>, Error> {
        self.shared.with(path, |at| {
            loop {
                match File::open_at(&self.shared, at) {
                    Err(Error::NotFound { .. }) => {}
                    opened => return opened,
                }
                match File::create_at(&self.shared, at) {
                    Err(Error::Exists { .. }) => {}
                    created => return created,
                }
            }
        })
    }

    /// Opens a directory. An empty path stands for the root.
    ///
    /// # Errors
    /// The path errors.
    pub fn open_dir(&self, path: &str) -> Result<Dir<P, L>, Error> {
        let directory = self.shared.directory(path)?;
        Ok(Dir::new(Arc::clone(&self.shared), directory))
    }

    /// Removes a name of a file, durably.
    ///
    /// As in POSIX, the file remains as long as it has another name, and open handles to a file
    /// without a name keep working. Its pages and its inode become free once the last name is
    /// removed and the last handle dropped, or when the volume is next opened. A cleaning or a
    /// [`check`](Self::check) counts as a handle while it visits the file. Until it has ended, a
    /// full volume may return [`Error::NoSpace`] or [`Error::NoInodes`]. The name can be reused at
    /// once. Blocks while another thread changes the directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::Poisoned`], and the path errors.
    /// Removal works on a full volume because it takes no space.
    pub fn remove(&self, path: &str) -> Result<(), Error> {
        self.shared.with(path, |at| self.shared.remove_file(at))
    }

    /// Removes an empty directory, durably. Blocks while another thread changes this directory or
    /// its parent. Also blocks while another thread removes or renames any directory, renames or
    /// links from one directory to another, or exchanges two names.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::NotEmpty`], [`Error::Poisoned`], and
    /// the path errors. Removal works on a full volume because it takes no space.
    pub fn remove_dir(&self, path: &str) -> Result<(), Error> {
        (self.shared).with(path, |at| self.shared.remove_directory(at))
    }

    /// Renames a file or a directory, durably and atomically, within a directory or from one
    /// directory to another. If the new name exists, what it stands for is replaced: a file by a
    /// file, or an empty directory by a directory. The new name then exists at every moment, even
    /// after a crash. If both names stand for the same file, nothing happens.
    ///
    /// Blocks while another thread changes one of the directories. A rename of a directory, or from
    /// one directory to another, also blocks while another thread performs such a rename, links
    /// from one directory to another, exchanges two names, or removes a directory. A rename takes
    /// three fences within a directory, and seven from one directory to another.
    ///
    /// A lookup that finds its name takes no directory's mutex, unless the name is being replaced
    /// or moved at that moment. A lookup during a rename from one directory to another finds what
    /// the name stood for before, or waits and finds what it stands for afterwards. But two lookups
    /// are not one atomic step: a thread that looks up the new name and then the old one may find
    /// neither. And [`list`](Self::list) visits one directory after the other, so it may list a
    /// file twice or not at all.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`] or [`Error::NotADirectory`] if one name stands
    /// for a file and the other for a directory, [`Error::NotEmpty`], [`Error::InsideItself`],
    /// [`Error::NoSpace`], [`Error::Poisoned`], [`Error::Corrupt`], and the path errors.
    ///
    /// [`Error::Corrupt`] can mean that the journal was damaged while the volume was open. Usually,
    /// nothing has changed then. But if the damage is found only after the rename has begun to
    /// write, the rename is on the medium as a whole or not at all. Until the volume is reopened,
    /// the old names stay in force, and changes of the two directories return
    /// [`Error::Poisoned`].
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        (self.shared).with_both([from, to], |from, to| self.shared.rename(from, to))
    }

    /// Exchanges what two names stand for, durably and atomically. Both names must exist, in one
    /// directory or in two. Each may stand for a file or a directory. If both stand for the same
    /// file, nothing happens.
    ///
    /// Takes seven fences. Blocks like a [`rename`](Self::rename) from one directory to another,
    /// and looks the same to lookups.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InsideItself`], [`Error::NoSpace`], [`Error::Poisoned`],
    /// [`Error::Corrupt`], and the path errors. [`Error::Corrupt`] has the same consequences as for
    /// a [`rename`](Self::rename) from one directory to another.
    pub fn exchange(&self, a: &str, b: &str) -> Result<(), Error> {
        (self.shared).with_both([a, b], |a, b| self.shared.exchange(a, b))
    }

    /// Gives a file another name, durably: a hard link. All names of a file are equal. Blocks while
    /// another thread changes one of the directories. A link from one directory to another also
    /// blocks while another thread renames from one directory to another, exchanges two names, or
    /// renames or removes a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::Exists`], [`Error::NoSpace`],
    /// [`Error::Poisoned`], and the path errors.
    pub fn link(&self, existing: &str, new: &str) -> Result<(), Error> {
        (self.shared).with_both([existing, new], |at, new| self.shared.link(at, new))
    }

    /// Returns the number of names that the file has. A name that another thread is just adding may
    /// be included. If another thread removes the file meanwhile, the number may be 0, or that of a
    /// file that was created since. A directory has one name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Poisoned`], and the path errors.
    pub fn links(&self, path: &str) -> Result<u32, Error> {
        let entry = self.shared.with(path, |at| at.look())?;
        Ok(self.shared.inodes.links(entry.id.number))
    }

    /// Returns whether a file or a directory exists at this path: `false` also if damage has taken
    /// the name. Takes no directory's mutex if it exists.
    pub fn exists(&self, path: &str) -> bool {
        let found = self.shared.with(path, |at| match at.look() {
            // A name whose removal has panicked exists until it is removed.
            Err(Error::Poisoned { .. }) => Ok(()),
            found => found.map(drop),
        });
        found.is_ok()
    }

    /// Returns whether the path stands for a file or a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Poisoned`], and the path errors.
    pub fn kind(&self, path: &str) -> Result<Kind, Error> {
        Ok(self.shared.with(path, |at| at.look())?.id.kind)
    }

    /// Returns the paths of all files, with their sizes in bytes, sorted by the bytes of the paths.
    /// A file is listed once for each of its names. The names of a directory are a snapshot; the
    /// sizes are not. If the volume is damaged, the list has the names that are readable.
    pub fn list(&self) -> Vec<(String, u64)> {
        self.shared.list()
    }

    /// Returns the names in a directory, sorted by their bytes: of a damaged directory, those that
    /// are readable. An empty path stands for the root. Blocks while another thread changes the
    /// directory.
    ///
    /// # Errors
    /// The path errors.
    pub fn read_dir(&self, path: &str) -> Result<Vec<DirEntry>, Error> {
        self.open_dir(path)?.read()
    }

    /// Returns the volume's counters.
    pub fn stats(&self) -> Stats {
        let Medium {
            geometry, space, ..
        } = &self.shared.medium;
        let (pages_free, pages_reserved) = space.alloc.free_pages();
        let (log_pages, compactions, unlinked_pages) = space.log_numbers();
        Stats {
            pages_total: geometry.data_pages() as u64,
            pages_free,
            pages_reserved,
            inodes_total: geometry.inodes as u64 - 1,
            inodes_free: space.free_inodes(),
            log_pages,
            compactions,
            unlinked_pages,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<P, L>> {
        &self.shared
    }

    /// Returns the region.
    pub fn pmem(&self) -> &P {
        &self.shared.medium.pmem
    }

    /// Returns the largest size in bytes that a file of this volume can have, as chosen when the
    /// volume was formatted.
    pub fn max_file_size(&self) -> u64 {
        self.shared.medium.geometry.max_file_size
    }
}

impl<P: Pmem, L: RawRangeLock> Clone for Volume<P, L> {
    fn clone(&self) -> Self {
        Volume {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<P: Pmem, L: RawRangeLock> fmt::Debug for Volume<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("geometry", &self.shared.medium.geometry)
            .finish_non_exhaustive()
    }
}
