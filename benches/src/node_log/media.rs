//! The disk and the persistent memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::{FileMode, FileStorage, Part, PmemStorage};
use spanlock_node_log::{BlockHome, Home, Nvm, NvmHome, Options, Volume};
use spanlock_pmem::MappedFile;
use spanlock_range_lock::{RawRangeLock, RwCounter};

use super::subjects::{Files, HostFiles};
use super::systems::{Kind, Lock, Nodes};
use crate::scratch::Scratch;
use crate::temporary::{Choice, Folder, Place};

/// A run uses `/dev/shm` only if four fifths of the free bytes there are at least this many.
const ROOM: u64 = 1 << 30;
/// Bytes of the node half.
const NODE_BYTES: u64 = 64 << 20;
/// The nodes of a volume.
const NODES: u32 = 16_384;

/// Where the halves lie.
#[derive(Debug)]
pub(super) struct Media {
    disk: Place,
    folder: Folder,
    memory: Place,
    told: [String; 2],
}

/// A part of the disk's file.
pub(super) type Disk = Part<Arc<FileStorage>>;

impl Media {
    /// Finds the places. The disk's files go into `dir`, or else into the folder for temporary
    /// files.
    ///
    /// # Errors
    /// No folder can be created there, or not flushed.
    pub(super) fn open(dir: Option<&Path>) -> Result<Self> {
        let disk = match dir {
            Some(dir) => Place::chosen(dir),
            None => Place::system(Choice::Dir),
        };
        let memory = Place::memory(ROOM, Choice::Tmpdir);
        let folder = disk.folder("node-log")?;
        let flush = folder.flush_takes()?.as_secs_f64() * 1e3;
        let (path, file_system) = (disk.path().display(), disk.file_system());
        let is_memory = match file_system.as_str() {
            "tmpfs" => "; this is memory and not a disk: choose a folder with --dir",
            _ => "",
        };
        let on_disk = format!(
            "disk: in {path} ({file_system}), where a flush takes {flush:.3} ms{is_memory}"
        );
        let region = Scratch::new(Some(memory.path()), 4096)?.description()?;
        Ok(Media {
            told: [on_disk, format!("persistent memory: {region}")],
            disk,
            folder,
            memory,
        })
    }

    /// Describes the disk, with the time that a flush takes, and the persistent memory.
    pub(super) fn told(&self) -> &[String] {
        &self.told
    }

    /// Checks that files on the disk can bypass the page cache.
    ///
    /// # Errors
    /// The file system does not allow it.
    pub(super) fn check_direct(&self) -> Result<()> {
        self.file(4096, true).map(drop)
    }

    /// Adds advice to an error that says that the disk is full.
    ///
    /// # Errors
    /// The error of `result`.
    pub(super) fn advise<T>(&self, result: Result<T>) -> Result<T> {
        self.disk.advise(result)
    }

    /// Creates an empty file system of this kind, with `data` bytes of data.
    ///
    /// # Errors
    /// There is not enough room.
    pub(super) fn create(&self, kind: Kind, data: u64, is_direct: bool) -> Result<Box<dyn Files>> {
        let options = options();
        match kind {
            Kind::Files => {
                let folder = self.folder.folder("files").context("creating a folder")?;
                Ok(Box::new(HostFiles::new(folder, is_direct)))
            }
            Kind::Volume(lock, Nodes::Disk) => {
                let file = Arc::new(self.file(data + NODE_BYTES, is_direct)?);
                let nodes = Part::new(file.clone(), data..file.len())?;
                let data = Part::new(file, 0..data)?;
                locked::<BlockHome<Disk>>(lock, data, nodes, &options)
            }
            Kind::Volume(lock, Nodes::BlocksInMemory) => {
                let nodes = PmemStorage::sectors(self.region()?)?;
                let data = self.data(data, is_direct)?;
                locked::<BlockHome<PmemStorage<MappedFile>>>(lock, data, nodes, &options)
            }
            Kind::Volume(lock, nodes) => {
                let whole_blocks = nodes == Nodes::WholeBlocks;
                let nodes = self.nvm()?.whole_blocks(whole_blocks);
                let data = self.data(data, is_direct)?;
                locked::<NvmHome<MappedFile>>(lock, data, nodes, &options)
            }
        }
    }

    /// Returns the media of a volume with nodes in persistent memory.
    pub(super) fn halves(&self, data: u64) -> Result<(Disk, Nvm<MappedFile>)> {
        Ok((self.data(data, false)?, self.nvm()?))
    }

    fn nvm(&self) -> Result<Nvm<MappedFile>> {
        Ok(Nvm::new(self.region()?))
    }

    fn region(&self) -> Result<MappedFile> {
        Scratch::new(Some(self.memory.path()), NODE_BYTES)?.map_touched()
    }

    fn data(&self, bytes: u64, is_direct: bool) -> Result<Disk> {
        Ok(Part::new(Arc::new(self.file(bytes, is_direct)?), 0..bytes)?)
    }

    fn file(&self, bytes: u64, is_direct: bool) -> Result<FileStorage> {
        let mode = match is_direct {
            true => FileMode::Direct,
            false => FileMode::Buffered,
        };
        let path = self.folder.path().join("volume");
        let file = FileStorage::create(&path, bytes, mode)?;
        // It exists while it is open.
        fs::remove_file(&path).context("removing the name of a file")?;
        Ok(file)
    }
}

/// Returns the options of every volume.
pub(super) fn options() -> Options {
    Options::new().nodes(NODES)
}

/// Creates a volume with a lock.
fn locked<H: Home + 'static>(
    lock: Lock,
    data: Disk,
    nodes: H::Medium,
    options: &Options,
) -> Result<Box<dyn Files>> {
    match lock {
        Lock::Whole => volume::<H, _>(data, nodes, options, RwCounter::new),
        Lock::Range => volume::<H, _>(data, nodes, options, IntervalLock::new),
    }
}

fn volume<H: Home + 'static, L: RawRangeLock + 'static>(
    data: Disk,
    nodes: H::Medium,
    options: &Options,
    lock: fn() -> L,
) -> Result<Box<dyn Files>> {
    let volume: Volume<H, Disk, L> = Volume::create(data, nodes, options, move |_| lock())?;
    Ok(Box::new(volume))
}
