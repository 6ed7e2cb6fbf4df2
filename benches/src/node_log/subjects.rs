//! Volumes, and files of the disk's file system, behind traits.

use std::fs::{self, File as HostFile, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use spanlock_journal_commit::Storage;
use spanlock_node_log::{File, Home, Volume};
use spanlock_range_lock::RawRangeLock;
use tempfile::TempDir;

use crate::workloads::Bytes;

/// A flat directory of files.
pub(super) trait Files: Send + Sync {
    /// Creates an empty file.
    fn create(&self, name: &str) -> Result<Box<dyn Opened + '_>>;

    /// Opens a file.
    fn open(&self, name: &str) -> Result<Box<dyn Opened + '_>>;

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the names of all files.
    fn names(&self) -> Result<Vec<String>>;

    /// Makes everything durable.
    fn checkpoint(&self) -> Result<()>;

    /// Returns the bytes of metadata that were made durable since the creation, if that is known.
    fn persisted(&self) -> Option<u64>;
}

/// An open file.
pub(super) trait Opened: Bytes {
    /// Writes at the end. No other thread writes to the file meanwhile.
    fn append(&self, data: &[u8]) -> Result<()>;

    /// Makes the file durable.
    fn fsync(&self) -> Result<()>;
}

impl<H: Home, S: Storage, L: RawRangeLock> Files for Volume<H, S, L> {
    fn create(&self, name: &str) -> Result<Box<dyn Opened + '_>> {
        Ok(Box::new(self.create_file(name)?))
    }

    fn open(&self, name: &str) -> Result<Box<dyn Opened + '_>> {
        Ok(Box::new(self.open_file(name)?))
    }

    fn remove(&self, name: &str) -> Result<()> {
        Ok(Volume::remove(self, name)?)
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(Volume::names(self))
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(Volume::checkpoint(self)?)
    }

    fn persisted(&self) -> Option<u64> {
        let persisted = self.statistics().persisted;
        Some(persisted.node_bytes + persisted.table_bytes)
    }
}

impl<H: Home, S: Storage, L: RawRangeLock> Bytes for File<'_, H, S, L> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        Ok(File::read_at(self, into, offset)?)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        Ok(File::write_at(self, data, offset)?)
    }
}

impl<H: Home, S: Storage, L: RawRangeLock> Opened for File<'_, H, S, L> {
    fn append(&self, data: &[u8]) -> Result<()> {
        Ok(File::append(self, data).map(drop)?)
    }

    fn fsync(&self) -> Result<()> {
        Ok(File::fsync(self)?)
    }
}

/// A folder of the disk's file system.
#[derive(Debug)]
pub(super) struct HostFiles {
    folder: TempDir,
    flags: OFlags,
}

impl HostFiles {
    pub(super) fn new(folder: TempDir, is_direct: bool) -> Self {
        let flags = match is_direct {
            true => OFlags::DIRECT,
            false => OFlags::empty(),
        };
        HostFiles { folder, flags }
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(self.flags.bits().cast_signed());
        options
    }
}

impl Files for HostFiles {
    fn create(&self, name: &str) -> Result<Box<dyn Opened + '_>> {
        let path = self.folder.path().join(name);
        Ok(Box::new(self.options().create_new(true).open(path)?))
    }

    fn open(&self, name: &str) -> Result<Box<dyn Opened + '_>> {
        let path = self.folder.path().join(name);
        Ok(Box::new(self.options().open(path)?))
    }

    fn remove(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.folder.path().join(name))?)
    }

    fn names(&self) -> Result<Vec<String>> {
        let all = fs::read_dir(self.folder.path())?;
        all.map(|it| Ok(it?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn checkpoint(&self) -> Result<()> {
        let folder = HostFile::open(self.folder.path())?;
        rustix::fs::syncfs(folder).context("flushing a file system")
    }

    fn persisted(&self) -> Option<u64> {
        None
    }
}

impl Bytes for HostFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        Ok(FileExt::read_at(self, into, offset)?)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        Ok(self.write_all_at(data, offset)?)
    }
}

impl Opened for HostFile {
    fn append(&self, data: &[u8]) -> Result<()> {
        Ok(self.write_all_at(data, self.metadata()?.len())?)
    }

    fn fsync(&self) -> Result<()> {
        Ok(self.sync_data()?)
    }
}
