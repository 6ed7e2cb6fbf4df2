//! The volume: formatting, opening, names, numbers.

use core::convert::Infallible;
use core::fmt;
use std::collections::BTreeMap;
use std::time::Instant;

use spanlock_pmem::Pmem;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::Arc;

use crate::alloc::{Allocator, Extent};
use crate::directory::{self, Directory, check_name};
use crate::error::Error;
use crate::file::File;
use crate::format;
use crate::index::Index;
use crate::inode::Inode;
use crate::layout::{Chain, Geometry, PAGE, PAGE_BYTES, ROOT, ROOT_GENERATION, page_at};
use crate::log::Log;
use crate::medium::{Medium, Space};
use crate::options::{CheckReport, DamagedPage, FormatOptions, RecoveryReport, Stats};
use crate::recover::Recovery;

/// Makes the range lock of a file that must have the given capacity in bytes, or says why not.
type LockFactory<L> = Box<dyn Fn(u64) -> Result<L, String> + Send + Sync>;

/// What all handles to a volume share.
pub(crate) struct Volume<P, L> {
    pub(crate) medium: Medium<P>,
    directory: Directory<L>,
    locks: LockFactory<L>,
}

/// A volume: a flat directory of files in a region of persistent memory.
///
/// Clones are handles to the same volume, for any number of threads. Nothing needs to be done at
/// the end: what has returned is durable, and dropping the last handle writes nothing.
///
/// `P` is the region, `L` the range lock of each file; `Box<dyn RawRangeLock>` is one, for a choice
/// at run time. At most one volume may be open on a region at a time; the region's type has to see
/// to that.
///
/// ```
/// use spanlock_range_lock::RwCounter;
/// use spanlock_file_core::{FileCore, FormatOptions};
/// use spanlock_pmem::{MappedFile, Options};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("volume");
/// let region = MappedFile::create(&path, 1 << 20, Options::default())?;
/// let volume = FileCore::format(region, &FormatOptions::new(), |_| RwCounter::new())?;
/// let file = volume.create("greeting")?;
/// file.write_at(b"hello", 0)?;
/// drop((volume, file));
///
/// let region = MappedFile::open(&path, Options::default())?;
/// let (volume, report) = FileCore::open(region, |_| RwCounter::new())?;
/// assert_eq!(report.files, 1);
/// assert_eq!(volume.list(), [("greeting".to_owned(), 5)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileCore<P: Pmem, L: RawRangeLock> {
    volume: Arc<Volume<P, L>>,
}

impl<P: Pmem, L: RawRangeLock> FileCore<P, L> {
    /// Makes an empty volume of the whole region; what the region held is lost.
    ///
    /// `locks` makes the range lock of a file. It is called for each file that the volume opens or
    /// creates, with the capacity in bytes that the lock must have: the volume's
    /// [`max_file_size`](Self::max_file_size). It is called while nothing is locked and before
    /// anything is changed: so it may take its time, use the volume, and panic, and then the file was
    /// not created. If two threads create one file at once, the slower one's lock is dropped. For
    /// locks that can fail there is [`try_format`](Self::try_format).
    ///
    /// A crash before this returns leaves what was there before, no volume, or the empty volume.
    ///
    /// # Errors
    /// [`Error::BadFormat`]: the region has less than 64 KiB or too much, or an option does not fit it. Nothing was written.
    pub fn format(
        pmem: P,
        options: &FormatOptions,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::try_format(pmem, options, move |capacity| {
            Ok::<_, Infallible>(locks(capacity))
        })
    }

    /// As [`format`](Self::format), with a factory that may fail: creating a file then returns
    /// [`Error::NoLock`], with what its error prints.
    ///
    /// # Errors
    /// As [`format`](Self::format): this makes no lock yet.
    pub fn try_format<E: fmt::Display>(
        pmem: P,
        options: &FormatOptions,
        locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let geometry = format::plan(pmem.len(), options)?;
        format::write(&pmem, &geometry);
        let alloc = Allocator::new(geometry.data_start(), geometry.data_pages());
        alloc.give(Extent {
            start: geometry.data_start(),
            len: geometry.data_pages(),
        });
        let chain = Chain {
            inode: ROOT,
            generation: ROOT_GENERATION,
            epoch: 0,
        };
        let directory = Directory::new(
            Log::new(chain, Vec::new(), 0),
            directory::State::new(BTreeMap::new(), 0, ROOT_GENERATION),
        );
        let free_inodes = (ROOT + 1..geometry.inodes).rev().collect();
        let space = Arc::new(Space::new(alloc, free_inodes));
        let medium = Medium {
            pmem,
            geometry,
            space,
        };
        Ok(Self::assemble(medium, directory, boxed(locks)))
    }

    /// Opens a formatted volume: everything that has returned before is there, nothing that has not
    /// is there in part.
    ///
    /// `locks` as in [`format`](Self::format); for locks that can fail there is
    /// [`try_open`](Self::try_open). Reads all logs, in time proportional to their size. Writes
    /// nothing, except one superblock over the other if one is damaged.
    ///
    /// # Errors
    /// [`Error::NotAVolume`], [`Error::Version`], [`Error::Truncated`], [`Error::Corrupt`].
    pub fn open(
        pmem: P,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), Error> {
        Self::try_open(pmem, move |capacity| Ok::<_, Infallible>(locks(capacity)))
    }

    /// As [`open`](Self::open), with a factory that may fail.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`Error::NoLock`] for the first file that the factory makes no
    /// lock for. Later, creating a file may return it.
    pub fn try_open<E: fmt::Display>(
        pmem: P,
        locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), Error> {
        let locks = boxed(locks);
        let started = Instant::now();
        let (geometry, repaired) = format::read(&pmem)?;
        let mut recovery = Recovery::new(&pmem, &geometry);
        recovery.report.superblock_repaired = repaired;
        let (root_log, live) = recovery.directory()?;
        let alloc = Allocator::new(geometry.data_start(), geometry.data_pages());
        let free_inodes = (ROOT + 1..geometry.inodes)
            .rev()
            .filter(|i| !live.names.contains_key(i));
        let space = Arc::new(Space::new(alloc, free_inodes.collect()));

        let mut files = BTreeMap::new();
        for (number, file) in live.names {
            let raw = recovery.live_inode(number, file.generation)?;
            let content = recovery.file(&raw)?;
            let id = (number, file.generation);
            let lock = make_lock(&locks, &geometry, &file.name)?;
            let checksums = geometry.data_checksums;
            let inode = Arc::new(Inode::new(id, lock, content, checksums, Arc::clone(&space)));
            let slot = file.slot;
            if files
                .insert(file.name, directory::Entry { inode, slot })
                .is_some()
            {
                let at = geometry.inode_at(number);
                return Err(Error::corrupt("two files of one name", number, at));
            }
        }
        recovery.free_extents(&mut |extent| space.alloc.give(extent));
        space.count_log_pages(recovery.report.log_pages);
        let mut report = recovery.report;
        report.files = files.len() as u64;
        let state = directory::State::new(files, root_log.epoch(), live.last_generation);
        let directory = Directory::new(root_log, state);
        let volume = Self::assemble(
            Medium {
                pmem,
                geometry,
                space,
            },
            directory,
            locks,
        );
        report.duration = started.elapsed();
        Ok((volume, report))
    }

    fn assemble(medium: Medium<P>, directory: Directory<L>, locks: LockFactory<L>) -> Self {
        FileCore {
            volume: Arc::new(Volume {
                medium,
                directory,
                locks,
            }),
        }
    }

    /// Creates an empty file, durably. Blocks while another operation on names is under way.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NameInvalid`], [`Error::NameTooLong`], [`Error::NoInodes`],
    /// [`Error::NoSpace`], [`Error::NoLock`], [`Error::Poisoned`].
    pub fn create(&self, name: &str) -> Result<File<P, L>, Error> {
        check_name(name)?;
        let exists = || Error::Exists {
            name: name.to_owned(),
        };
        if self.exists(name) {
            return Err(exists());
        }
        // The factory is the caller's: not under the directory's mutex.
        let lock = self.make_lock(name)?;
        let mut state = self.volume.directory.lock();
        if state.files.contains_key(name) {
            return Err(exists());
        }
        self.add(&mut state, name, lock)
    }

    /// Opens a file. Blocks while another operation on names is under way.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NameInvalid`], [`Error::NameTooLong`].
    pub fn open_file(&self, name: &str) -> Result<File<P, L>, Error> {
        check_name(name)?;
        match self.volume.directory.lock().files.get(name) {
            Some(entry) => Ok(self.handle(Arc::clone(&entry.inode))),
            None => Err(Error::NotFound {
                name: name.to_owned(),
            }),
        }
    }

    /// Opens a file, and creates it first if there is none.
    ///
    /// # Errors
    /// As [`create`](Self::create), except [`Error::Exists`].
    pub fn open_or_create(&self, name: &str) -> Result<File<P, L>, Error> {
        match self.open_file(name) {
            Err(Error::NotFound { .. }) => {}
            found => return found,
        }
        // As in `create`.
        let lock = self.make_lock(name)?;
        let mut state = self.volume.directory.lock();
        if let Some(entry) = state.files.get(name) {
            return Ok(self.handle(Arc::clone(&entry.inode)));
        }
        self.add(&mut state, name, lock)
    }

    /// Removes a file, durably.
    ///
    /// As in POSIX, handles that are open keep working, on a file without a name: its pages and its
    /// inode become free when the last of them is dropped, or when the volume is opened again. The
    /// name can be used at once. Blocks while another operation on names is under way.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NameInvalid`], [`Error::NameTooLong`]. A full volume is none: removing takes no space.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let mut state = self.volume.directory.lock();
        let inode = self
            .volume
            .directory
            .remove(&mut state, &self.volume.medium, name)?;
        // Freeing a large file takes a while: not under the directory's lock.
        drop(state);
        drop(inode);
        Ok(())
    }

    /// Whether there is a file of this name.
    pub fn exists(&self, name: &str) -> bool {
        self.volume.directory.lock().files.contains_key(name)
    }

    /// All files with their sizes in bytes, in the order of their names' bytes. The names are of
    /// one instant.
    pub fn list(&self) -> Vec<(String, u64)> {
        let state = self.volume.directory.lock();
        state
            .files
            .iter()
            .map(|(name, entry)| (name.clone(), entry.inode.size()))
            .collect()
    }

    /// The volume's numbers.
    pub fn stats(&self) -> Stats {
        let Medium {
            geometry, space, ..
        } = &self.volume.medium;
        let (pages_free, pages_reserved) = space.alloc.free_pages();
        let (log_pages, compactions) = space.log_numbers();
        Stats {
            pages_total: geometry.data_pages() as u64,
            pages_free,
            pages_reserved,
            inodes_total: geometry.inodes as u64 - 1,
            inodes_free: space.free_inodes(),
            log_pages,
            compactions,
        }
    }

    /// Reads every data page of every file and compares it with its checksum. (Metadata needs no
    /// such pass: opening checks all of it.)
    ///
    /// Runs beside readers and writers; holds one page at a time. In a volume without data
    /// checksums it reads nothing.
    ///
    /// # Errors
    /// [`Error::Lock`] if a file's range lock is too small. Damaged pages are no error, but in the report.
    pub fn check(&self) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        if !self.volume.medium.geometry.data_checksums {
            return Ok(report);
        }
        let files: Vec<_> = {
            let state = self.volume.directory.lock();
            let files = state.files.iter();
            files
                .map(|(name, entry)| (name.clone(), Arc::clone(&entry.inode)))
                .collect()
        };
        for (name, inode) in files {
            self.check_file(&name, &inode, &mut report)?;
            report.files += 1;
        }
        Ok(report)
    }

    fn check_file(
        &self,
        name: &str,
        inode: &Inode<L>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        // Which pages there are is a hint, as nothing is held yet. Holes of a sparse file cost
        // nothing so.
        let mut pages = Vec::new();
        inode
            .index
            .for_each(&mut |file_page, _| pages.push(file_page));
        let mut content = [0; PAGE];
        for file_page in pages {
            let offset = page_at(file_page);
            let _hold = inode.lock.read(offset..offset + PAGE_BYTES)?;
            let Some(mapping) = inode.index.get(file_page) else {
                continue;
            };
            self.volume.medium.load_data(mapping.page, 0, &mut content);
            report.pages += 1;
            if crc32c::crc32c(&content) != mapping.checksum {
                let at = page_at(mapping.page);
                report.damaged.push(DamagedPage {
                    name: name.to_owned(),
                    offset,
                    at,
                });
            }
        }
        Ok(())
    }

    /// The region.
    pub fn pmem(&self) -> &P {
        &self.volume.medium.pmem
    }

    /// The size in bytes that no file of this volume can exceed; chosen when it was formatted.
    pub fn max_file_size(&self) -> u64 {
        self.volume.medium.geometry.max_file_size
    }

    fn make_lock(&self, name: &str) -> Result<L, Error> {
        make_lock(&self.volume.locks, &self.volume.medium.geometry, name)
    }

    fn add(
        &self,
        state: &mut directory::State<L>,
        name: &str,
        lock: L,
    ) -> Result<File<P, L>, Error> {
        let Volume {
            medium, directory, ..
        } = &*self.volume;
        let inode = directory.add(state, medium, name, |number, generation| {
            let chain = Chain {
                inode: number,
                generation,
                epoch: 0,
            };
            let empty = (Index::new(), 0, Log::new(chain, Vec::new(), 0));
            let (checksums, space) = (medium.geometry.data_checksums, Arc::clone(&medium.space));
            Inode::new((number, generation), lock, empty, checksums, space)
        })?;
        Ok(self.handle(inode))
    }

    fn handle(&self, inode: Arc<Inode<L>>) -> File<P, L> {
        File::new(Arc::clone(&self.volume), inode)
    }
}

/// A factory that may fail, as a volume keeps it.
fn boxed<L, E: fmt::Display>(
    locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
) -> LockFactory<L> {
    Box::new(move |capacity| locks(capacity).map_err(|error| error.to_string()))
}

/// The lock of the file `name`.
fn make_lock<L>(locks: &LockFactory<L>, geometry: &Geometry, name: &str) -> Result<L, Error> {
    let capacity = geometry.max_file_size;
    locks(capacity).map_err(|why| Error::NoLock {
        name: name.to_owned(),
        capacity,
        why,
    })
}

impl<P: Pmem, L: RawRangeLock> Clone for FileCore<P, L> {
    fn clone(&self) -> Self {
        FileCore {
            volume: Arc::clone(&self.volume),
        }
    }
}

impl<P: Pmem, L: RawRangeLock> fmt::Debug for FileCore<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCore")
            .field("geometry", &self.volume.medium.geometry)
            .finish_non_exhaustive()
    }
}
