//! The public handle to a volume: formatting, opening, file names, and statistics.

use core::convert::Infallible;
use core::fmt;
use std::collections::BTreeMap;
use std::time::Instant;

use spanlock_pmem::Pmem;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::{Arc, injected_bug};

use crate::alloc::Extent;
use crate::directory::{Directory, DirectoryState, check_name};
use crate::error::Error;
use crate::file::File;
use crate::format;
use crate::inode::{Content, Inode};
use crate::inodes::{Begin, Inodes};
use crate::layout::{LogId, PAGE, PAGE_BYTES, ROOT, ROOT_GENERATION, page_at};
use crate::log::Log;
use crate::medium::{Medium, Space};
use crate::options::{
    CACHED_FILES, CheckReport, DamagedPage, FormatOptions, OpenOptions, RecoveryReport, Stats,
};
use crate::recover::{LogReader, Recovery};
use crate::volume::{Volume, boxed, make_lock};

/// A volume: a flat directory of files in a region of persistent memory.
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
    /// Formats the whole region as an empty volume. The previous content of the region is lost.
    ///
    /// `locks` creates the range lock of a file. It is called for each file that the volume opens
    /// or creates, with the capacity in bytes that the lock must have
    /// ([`max_file_size`](Self::max_file_size)).
    ///
    /// No lock is held during the call and nothing has been changed yet. So `locks` may block and
    /// may use the volume. If it panics, the file is not created. If two threads create the same
    /// file at once, the slower thread's lock is dropped. For locks whose creation can fail, use
    /// [`try_format`](Self::try_format).
    ///
    /// After a crash during this call, the region holds its previous volume, no volume, or the
    /// empty volume.
    ///
    /// # Errors
    /// [`Error::BadFormat`] if the region is smaller than 64 KiB or too large, or if an option does
    /// not fit it. Nothing has been written then.
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
        let geometry = format::plan(pmem.len(), options)?;
        format::write(&pmem, &geometry);
        let space = Arc::new(Space::new(&geometry));
        space.alloc.release(Extent {
            start: geometry.data_start(),
            len: geometry.data_pages(),
        });
        space.add_inodes((ROOT + 1..geometry.inodes).rev());
        let root = LogId {
            inode: ROOT,
            generation: ROOT_GENERATION,
        };
        let state = DirectoryState::new(BTreeMap::new(), ROOT_GENERATION, Arc::clone(&space));
        let medium = Medium {
            pmem,
            geometry,
            space,
            clock: options.clock,
        };
        Ok(FileCore {
            volume: Arc::new(Volume {
                medium,
                directory: Directory::new(Log::empty(root), state),
                inodes: Inodes::new(geometry.inodes, CACHED_FILES),
                locks: boxed(locks),
            }),
        })
    }

    /// Opens a formatted volume. All operations that returned before are present; every other
    /// operation is present as a whole or not at all.
    ///
    /// `locks` is the same as in [`format`](Self::format); for locks whose creation can fail, use
    /// [`try_open`](Self::try_open). Opening reads all logs, so it takes time proportional to their
    /// size. It writes nothing, except that it repairs a damaged superblock from the other one.
    ///
    /// # Errors
    /// [`Error::NotAVolume`], [`Error::Version`], [`Error::Truncated`], [`Error::Corrupt`].
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

    /// Opens like [`try_open`](Self::try_open), with these options. It also writes to the region if
    /// the volume is to [grow](OpenOptions::grow).
    ///
    /// # Errors
    /// Same as [`try_open`](Self::try_open).
    pub fn open_with<E: fmt::Display>(
        pmem: P,
        options: &OpenOptions,
        locks: impl Fn(u64) -> Result<L, E> + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), Error> {
        let started = Instant::now();
        let (formatted, repaired) = format::read(&pmem)?;
        let geometry = match options.grow {
            true => format::grow(&pmem, formatted),
            false => formatted,
        };
        let space = Arc::new(Space::new(&geometry));
        let mut recovery = Recovery::new(&pmem, &geometry, &space.log_pages);
        recovery.report.superblock_repaired = repaired;
        recovery.report.pages_grown = u64::from(geometry.pages - formatted.pages);
        let live = recovery.directory()?;
        let entries = live.names.values();
        let mut numbers: Vec<_> = entries.map(|it| (it.number, it.generation)).collect();
        numbers.sort_unstable();
        let inodes = Inodes::new(geometry.inodes, options.cached_files);
        recovery.files(&numbers, &|number, size| inodes.set_size(number, size))?;

        let is_free = |it: &u32| numbers.binary_search_by_key(it, |file| file.0).is_err();
        space.add_inodes((ROOT + 1..geometry.inodes).rev().filter(is_free));
        recovery.free_extents(&mut |extent| space.alloc.release(extent));
        space.count_log_pages(recovery.report.log_pages);
        let mut report = recovery.report;
        let state = DirectoryState::new(live.names, live.last_generation, Arc::clone(&space));
        let medium = Medium {
            pmem,
            geometry,
            space,
            clock: options.clock,
        };
        report.duration = started.elapsed();
        let volume = Volume {
            medium,
            directory: Directory::new(live.log, state),
            inodes,
            locks: boxed(locks),
        };
        let volume = FileCore {
            volume: Arc::new(volume),
        };
        Ok((volume, report))
    }

    /// Creates an empty file, durably. Blocks while another thread creates, opens, removes or lists
    /// files.
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
        // The factory is user code, so it must not run under the directory's mutex.
        let lock = self.make_lock(name)?;
        let mut state = self.volume.directory.lock();
        let is_unchecked = injected_bug!(
            "create-checks-early",
            "a creation looks for the name before it locks the directory, and not again",
            killed_by = "file-core-histories/names"
        );
        if !is_unchecked && state.contains(name) {
            return Err(exists());
        }
        self.add(&mut state, name, lock)
    }

    /// Opens a file. If the file is not in memory, reads its log. Blocks while another thread
    /// creates, opens, removes or lists files, or reads the log of the same file.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NameInvalid`], [`Error::NameTooLong`], [`Error::NoLock`],
    /// [`Error::Poisoned`] if a removal of the file has panicked, and [`Error::Corrupt`] if its log
    /// was damaged since the volume was opened.
    pub fn open_file(&self, name: &str) -> Result<File<P, L>, Error> {
        check_name(name)?;
        let Volume {
            directory, inodes, ..
        } = &*self.volume;
        let number = directory.lock().find(name)?.number;
        if let Some(inode) = inodes.get(number) {
            return Ok(self.handle(inode));
        }
        // The factory is user code, so it must not run under the directory's mutex (N3).
        let lock = self.make_lock(name)?;
        loop {
            let state = directory.lock();
            let entry = state.find(name)?;
            let (number, generation) = (entry.number, entry.generation);
            let begun = inodes.begin(number);
            drop(state);
            match begun {
                Begin::Here(inode) => return Ok(self.handle(inode)),
                Begin::Wait => drop(inodes.loaded(number)),
                Begin::Load(loading) => {
                    let content = self.load(number, generation)?;
                    let inode = Arc::new(self.inode((number, generation), lock, content));
                    loading.finish(Arc::clone(&inode));
                    return Ok(self.handle(inode));
                }
            }
        }
    }

    /// Opens a file, creating it first if it does not exist.
    ///
    /// # Errors
    /// Same as [`create`](Self::create) and [`open_file`](Self::open_file), except
    /// [`Error::Exists`] and [`Error::NotFound`].
    pub fn open_or_create(&self, name: &str) -> Result<File<P, L>, Error> {
        loop {
            match self.open_file(name) {
                Err(Error::NotFound { .. }) => {}
                opened => return opened,
            }
            match self.create(name) {
                Err(Error::Exists { .. }) => {}
                created => return created,
            }
        }
    }

    /// Removes a file, durably.
    ///
    /// As in POSIX, open handles keep working on the unnamed file. Its pages and its inode become
    /// free when the last handle is dropped, or when the volume is next opened. The name can be
    /// reused at once. Blocks while another thread creates, opens, removes or lists files.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NameInvalid`], [`Error::NameTooLong`], [`Error::Poisoned`].
    /// Removal works on a full volume because it takes no space.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let Volume {
            medium,
            directory,
            inodes,
            ..
        } = &*self.volume;
        let mut state = directory.lock();
        let removed = directory.remove(&mut state, medium, name, inodes)?;
        // Freeing a large file takes a while, so release the directory's mutex first.
        drop(state);
        if removed.file.is_some() {
            return Ok(());
        }
        // No other thread can open the file, whose number is still in use. If its log was damaged
        // since the volume was opened, the next recovery frees its pages.
        if let Ok(content) = self.load(removed.number, removed.generation) {
            let id = (removed.number, removed.generation);
            self.inode(id, (), content).mark_removed();
        }
        Ok(())
    }

    /// Returns whether a file of this name exists.
    pub fn exists(&self, name: &str) -> bool {
        self.volume.directory.lock().contains(name)
    }

    /// Returns all files with their sizes in bytes, sorted by the bytes of their names. The set of
    /// names is a consistent snapshot; the sizes are not.
    pub fn list(&self) -> Vec<(String, u64)> {
        let state = self.volume.directory.lock();
        let files = state.files();
        files
            .map(|(name, entry)| (name.to_owned(), self.volume.inodes.size(entry.number)))
            .collect()
    }

    /// Returns the volume's statistics.
    pub fn stats(&self) -> Stats {
        let Medium {
            geometry, space, ..
        } = &self.volume.medium;
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

    /// Reads every data page of every file and compares it with its checksum. Metadata needs no
    /// such pass, because opening the volume checks all of it.
    ///
    /// The check runs concurrently with readers and writers and locks one page at a time. In a
    /// volume without data checksums it reads nothing.
    ///
    /// # Errors
    /// [`Error::Lock`] if a file's range lock is too small, and those of
    /// [`open_file`](Self::open_file). Damaged pages are listed in the report and are not an error.
    pub fn check(&self) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        if !self.volume.medium.geometry.data_checksums {
            return Ok(report);
        }
        let names: Vec<_> = {
            let state = self.volume.directory.lock();
            state.files().map(|(name, _)| name.to_owned()).collect()
        };
        for name in names {
            match self.open_file(&name) {
                Ok(file) => self.check_file(&name, file.inode(), &mut report)?,
                // It was removed meanwhile.
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            }
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
        // Nothing is locked yet, so the list of pages is only a hint. Collecting it first avoids
        // visiting the holes of a sparse file.
        let mut pages = Vec::new();
        inode
            .index
            .for_each(&mut |file_page, _, _| pages.push(file_page));
        let mut content = [0; PAGE];
        for file_page in pages {
            let offset = page_at(file_page);
            let _hold = inode.lock.read(offset..offset + PAGE_BYTES)?;
            // SAFETY: the page is held.
            let Some(mapping) = (unsafe { inode.index.get(file_page) }) else {
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

    /// Returns the region.
    pub fn pmem(&self) -> &P {
        &self.volume.medium.pmem
    }

    /// Returns the largest size in bytes that a file of this volume can have. It was chosen when
    /// the volume was formatted.
    pub fn max_file_size(&self) -> u64 {
        self.volume.medium.geometry.max_file_size
    }

    fn make_lock(&self, name: &str) -> Result<L, Error> {
        make_lock(&self.volume.locks, &self.volume.medium.geometry, name)
    }

    fn add(&self, state: &mut DirectoryState, name: &str, lock: L) -> Result<File<P, L>, Error> {
        let Volume {
            medium,
            directory,
            inodes,
            ..
        } = &*self.volume;
        let created = (medium.clock)();
        let (number, generation) = directory.add(state, medium, name, created)?;
        let id = LogId {
            inode: number,
            generation,
        };
        let empty = Content::empty(Log::empty(id), created);
        let inode = Arc::new(self.inode((number, generation), lock, empty));
        inodes.add(Arc::clone(&inode));
        Ok(self.handle(inode))
    }

    /// Reads the log of a file that is not in memory. No other thread uses the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    fn load(&self, number: u32, generation: u64) -> Result<Content, Error> {
        let Medium {
            pmem,
            geometry,
            space,
            ..
        } = &self.volume.medium;
        let reader = LogReader::new(pmem, geometry);
        let scan = reader.file(&reader.live_inode(number, generation)?)?;
        Ok(scan.load(&space.log_pages))
    }

    fn inode<T>(&self, id: (u32, u64), lock: T, content: Content) -> Inode<T> {
        let Medium {
            geometry, space, ..
        } = &self.volume.medium;
        Inode::new(
            id,
            lock,
            content,
            geometry.data_checksums,
            Arc::clone(space),
        )
    }

    fn handle(&self, inode: Arc<Inode<L>>) -> File<P, L> {
        File::new(Arc::clone(&self.volume), inode)
    }
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
