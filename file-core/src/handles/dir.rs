//! The public handle to a directory.

use core::fmt;

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::Arc;

use crate::handles::file::File;
use crate::medium::error::Error;
use crate::medium::layout::Kind;
use crate::medium::reports::CleanReport;
use crate::object::directory::{Directory, check_name};
use crate::volume::shared::Shared;
use crate::volume::tree::NameAt;

/// A name in a directory, as [`Dir::read`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirEntry {
    /// The name.
    pub name: String,
    /// Whether the name stands for a file or a directory.
    pub kind: Kind,
}

/// An open directory. Its methods take names, not paths. A handle stays valid when the directory is
/// renamed or moved. Clones are handles to the same directory.
///
/// An open directory can be removed. Operations on a removed directory return
/// [`Error::NotFound`].
///
/// ```
/// # use spanlock_range_lock::RwCounter;
/// # use spanlock_file_core::{FormatOptions, Volume};
/// # use spanlock_pmem::{MappedFile, Options};
/// # let folder = tempfile::tempdir()?;
/// # let region = MappedFile::create(folder.path().join("volume"), 1 << 20, Options::default())?;
/// let volume = Volume::format(region, &FormatOptions::new(), |_| RwCounter::new())?;
/// volume.create_dir("drafts")?;
/// let drafts = volume.open_dir("drafts")?;
/// volume.rename("drafts", "letters")?;
/// drafts.create("to a friend")?;
/// assert!(volume.exists("letters/to a friend"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Dir<P: Pmem, L: RawRangeLock> {
    shared: Arc<Shared<P, L>>,
    directory: Arc<Directory>,
}

impl<P: Pmem, L: RawRangeLock> Dir<P, L> {
    pub(crate) fn new(shared: Arc<Shared<P, L>>, directory: Arc<Directory>) -> Self {
        Dir { shared, directory }
    }

    fn at<'n>(&self, name: &'n str) -> Result<NameAt<'n>, Error> {
        check_name(name, name)?;
        Ok(NameAt {
            directory: Arc::clone(&self.directory),
            name,
            path: name,
        })
    }

    /// Creates an empty file, as [`Volume::create`](crate::Volume::create) does.
    ///
    /// # Errors
    /// Same as there.
    pub fn create(&self, name: &str) -> Result<File<P, L>, Error> {
        let at = self.at(name)?;
        File::create_at(&self.shared, &at)
    }

    /// Creates a directory, as [`Volume::create_dir`](crate::Volume::create_dir) does, and
    /// opens it.
    ///
    /// # Errors
    /// Same as there.
    pub fn create_dir(&self, name: &str) -> Result<Self, Error> {
        let at = self.at(name)?;
        let created = self.shared.create_directory(&at)?;
        Ok(Dir::new(Arc::clone(&self.shared), created))
    }

    /// Opens a file, as [`Volume::open_file`](crate::Volume::open_file) does.
    ///
    /// # Errors
    /// Same as there.
    pub fn open_file(&self, name: &str) -> Result<File<P, L>, Error> {
        File::open_at(&self.shared, &self.at(name)?)
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::Poisoned`], [`Error::NameInvalid`],
    /// [`Error::NameTooLong`].
    pub fn open_dir(&self, name: &str) -> Result<Self, Error> {
        let directory = self.shared.child(&self.at(name)?)?;
        Ok(Dir::new(Arc::clone(&self.shared), directory))
    }

    /// Removes a file's name, as [`Volume::remove`](crate::Volume::remove) does.
    ///
    /// # Errors
    /// Same as there.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.shared.remove_file(&self.at(name)?)
    }

    /// Removes an empty directory, as [`Volume::remove_dir`](crate::Volume::remove_dir) does.
    ///
    /// # Errors
    /// Same as there.
    pub fn remove_dir(&self, name: &str) -> Result<(), Error> {
        self.shared.remove_directory(&self.at(name)?)
    }

    /// Renames within this directory, as [`Volume::rename`](crate::Volume::rename) does.
    ///
    /// # Errors
    /// Same as there.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (self.at(from)?, self.at(to)?);
        self.shared.rename(&from, &to)
    }

    /// Renames into another directory of the same volume, as
    /// [`Volume::rename`](crate::Volume::rename) does.
    ///
    /// # Errors
    /// Same as there, and [`Error::OtherVolume`].
    pub fn rename_into(&self, from: &str, into: &Self, to: &str) -> Result<(), Error> {
        self.expect_same_volume(into)?;
        let (from, to) = (self.at(from)?, into.at(to)?);
        self.shared.rename(&from, &to)
    }

    /// Exchanges what a name of this directory and one of `other` stand for, as
    /// [`Volume::exchange`](crate::Volume::exchange) does.
    ///
    /// # Errors
    /// Same as there, and [`Error::OtherVolume`].
    pub fn exchange(&self, name: &str, other: &Self, other_name: &str) -> Result<(), Error> {
        self.expect_same_volume(other)?;
        let (one, other) = (self.at(name)?, other.at(other_name)?);
        self.shared.exchange(&one, &other)
    }

    /// Gives a file of this directory another name in `into`, as
    /// [`Volume::link`](crate::Volume::link) does. `into` is this directory or another one of
    /// the same volume.
    ///
    /// # Errors
    /// Same as there, and [`Error::OtherVolume`].
    pub fn link(&self, name: &str, into: &Self, new: &str) -> Result<(), Error> {
        self.expect_same_volume(into)?;
        let (at, new) = (self.at(name)?, into.at(new)?);
        self.shared.link(&at, &new)
    }

    fn expect_same_volume(&self, other: &Self) -> Result<(), Error> {
        match Arc::ptr_eq(&self.shared, &other.shared) {
            true => Ok(()),
            false => Err(Error::OtherVolume),
        }
    }

    /// Returns whether this directory contains the name.
    pub fn exists(&self, name: &str) -> bool {
        self.directory.look(name).is_some()
    }

    /// Cleans the directory's log. If it has at most about 4,096 names, it then takes as few pages
    /// as possible, and none if the directory is empty. Blocks changes of the directory.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Poisoned`], and [`Error::NotFound`] with an empty name if the
    /// directory was removed.
    pub fn clean(&self) -> Result<CleanReport, Error> {
        self.shared.check_writable()?;
        let cleaned = self.shared.clean_directory(&self.directory);
        cleaned.unwrap_or_else(|| {
            let name = String::new();
            Err(Error::NotFound { name })
        })
    }

    /// Returns a snapshot of all names in this directory, sorted by their bytes. Blocks while
    /// another thread changes the directory.
    ///
    /// # Errors
    /// [`Error::NotFound`] with an empty name if the directory was removed.
    pub fn read(&self) -> Result<Vec<DirEntry>, Error> {
        let name = String::new;
        let locked = self.directory.lock();
        let _state = locked.ok_or_else(|| Error::NotFound { name: name() })?;
        let mut entries = Vec::new();
        self.directory.names.for_each(|name, entry| {
            entries.push(DirEntry {
                name: name.to_owned(),
                kind: entry.id.kind,
            });
        });
        Ok(entries)
    }
}

impl<P: Pmem, L: RawRangeLock> Clone for Dir<P, L> {
    fn clone(&self) -> Self {
        Dir {
            shared: Arc::clone(&self.shared),
            directory: Arc::clone(&self.directory),
        }
    }
}

impl<P: Pmem, L: RawRangeLock> fmt::Debug for Dir<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dir")
            .field("inode", &self.directory.id.number)
            .finish_non_exhaustive()
    }
}
