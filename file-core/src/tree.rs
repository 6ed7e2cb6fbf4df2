//! The tree of directories, and the operations on its names.
//!
//! # Properties
//! - Every directory is an inode with a log of its own; the root is inode 0. All directories are in
//!   memory, files when they are opened.
//! - Walking a path takes no directory's mutex, as long as every name on it exists. A walk is not
//!   atomic: directories may be renamed or removed meanwhile, and each step sees its own moment.
//! - Creating, linking, removing and renaming takes the mutex of the directory concerned, held
//!   across fences. Operations on different directories do not wait for each other.
//!
//! # Invariants
//! - **T1** The directories form a tree: each but the root has one name. So a directory is reached
//!   by one path, and recovery meets each once.
//! - **T2** The name of a directory is removed, replaced or renamed only under the tree's mutex.
//! - **T3** Mutexes are taken in this order: the tree's, then those of directories, in the order of
//!   their numbers, then those of logs, files and tables.
//! - **T4** A directory is in the table as long as it has a name. It enters and leaves it under the
//!   mutex of the directory that names it.
//! - **T5** A directory that was removed is empty and stays so: whoever locks it learns that it was
//!   removed. So its log is not used any more, and its pages are free.

use std::collections::HashMap;

use spanlock_pmem::Pmem;
use spanlock_sync::{Arc, Mutex, MutexGuard, injected_bug};

use crate::directory::{Directory, State, check_name};
use crate::error::Error;
use crate::inode::{Content, Inode};
use crate::inodes::Begin;
use crate::layout::{InodeId, Kind, ROOT};
use crate::log::Log;
use crate::medium::Medium;
use crate::names::{Entry, Names};
use crate::recover::LogReader;
use crate::volume::Volume;

/// The directories of a volume.
pub(crate) struct Tree {
    pub(crate) root: Arc<Directory>,
    /// All directories but the root (T4).
    directories: Mutex<HashMap<u32, Arc<Directory>>>,
    /// See T2.
    mutex: Mutex<()>,
}

impl Tree {
    /// Creates the tree from all of its directories.
    ///
    /// # Panics
    /// If the root is not among them.
    pub(crate) fn new(directories: impl Iterator<Item = Directory>) -> Tree {
        let each = directories.map(|it| (it.id.number, Arc::new(it)));
        let mut directories: HashMap<_, _> = each.collect();
        Tree {
            root: directories.remove(&ROOT).expect("every volume has a root"),
            directories: Mutex::new(directories),
            mutex: Mutex::new(()),
        }
    }

    /// Returns the directory, unless it was removed.
    fn get(&self, id: InodeId) -> Option<Arc<Directory>> {
        let directories = self.directories.lock();
        let found = directories.get(&id.number).filter(|it| it.id == id);
        found.cloned()
    }

    fn add(&self, directory: Directory) -> Arc<Directory> {
        let directory = Arc::new(directory);
        let number = directory.id.number;
        (self.directories.lock()).insert(number, Arc::clone(&directory));
        directory
    }

    fn forget(&self, number: u32) {
        self.directories.lock().remove(&number);
    }

    /// Calls `each` with all names of files and the directories' paths before them. Each directory
    /// is seen at one moment.
    fn walk(&self, each: &mut dyn FnMut(String, InodeId)) {
        let mut left = vec![(String::new(), Arc::clone(&self.root))];
        while let Some((prefix, directory)) = left.pop() {
            let Some(state) = directory.lock() else {
                continue;
            };
            directory.names.for_each(|name, entry| {
                let path = format!("{prefix}{name}");
                match entry.id.kind {
                    Kind::File => each(path, entry.id),
                    Kind::Directory => {
                        left.extend(self.get(entry.id).map(|it| (format!("{path}/"), it)));
                    }
                }
            });
            drop(state);
        }
    }
}

/// A name in a directory.
pub(crate) struct At<'p> {
    pub(crate) directory: Arc<Directory>,
    /// The name, which is valid.
    pub(crate) name: &'p str,
    /// What the caller called it, for messages.
    pub(crate) path: &'p str,
}

impl At<'_> {
    fn not_found(&self) -> Error {
        not_found(self.path)
    }

    fn exists(&self) -> Error {
        Error::Exists {
            name: self.path.to_owned(),
        }
    }

    /// Locks the directory.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was removed.
    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.directory.lock().ok_or_else(|| self.not_found())
    }

    /// Returns what the name stands for.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Poisoned`] if its removal has panicked midway.
    pub(crate) fn look(&self) -> Result<Entry, Error> {
        let entry = self.directory.look(self.name);
        sound(entry.ok_or_else(|| self.not_found())?)
    }

    /// As [`look`](Self::look). The caller holds the directory's mutex.
    fn find(&self) -> Result<Entry, Error> {
        sound(self.find_any()?)
    }

    /// Returns what the name stands for, even if it is doubtful. The caller holds the directory's
    /// mutex.
    fn find_any(&self) -> Result<Entry, Error> {
        let entry = self.directory.names.get(self.name);
        entry.ok_or_else(|| self.not_found())
    }

    /// Checks that the name stands for something of this kind.
    fn expect(&self, kind: Kind, wanted: Kind) -> Result<(), Error> {
        let name = || self.path.to_owned();
        match (kind, wanted) {
            (Kind::Directory, Kind::File) => Err(Error::IsADirectory { name: name() }),
            (Kind::File, Kind::Directory) => Err(Error::NotADirectory { name: name() }),
            _ => Ok(()),
        }
    }
}

fn not_found(path: &str) -> Error {
    Error::NotFound {
        name: path.to_owned(),
    }
}

fn sound(entry: Entry) -> Result<Entry, Error> {
    match entry.is_doubtful {
        true => Err(Error::Poisoned {
            inode: entry.id.number,
        }),
        false => Ok(entry),
    }
}

/// Locks two directories (T3). The second may be missing.
///
/// # Errors
/// The error of `gone`, if either was removed.
fn lock_both<'d>(
    one: &'d Directory,
    other: Option<&'d Directory>,
    gone: impl Fn() -> Error,
) -> Result<(MutexGuard<'d, State>, Option<MutexGuard<'d, State>>), Error> {
    let lock = |it: &'d Directory| it.lock().ok_or_else(&gone);
    match other {
        Some(other) if other.id.number < one.id.number => {
            let second = lock(other)?;
            Ok((lock(one)?, Some(second)))
        }
        other => {
            let first = lock(one)?;
            Ok((first, other.map(lock).transpose()?))
        }
    }
}

// ── Paths ────────────────────────────────────────────────────────────────────────────────────

impl<P: Pmem, L> Volume<P, L> {
    /// Returns the directory and the name that `path` ends in.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`] for a path through a file, and the errors of
    /// [`check_name`].
    pub(crate) fn resolve<'p>(&self, path: &'p str) -> Result<At<'p>, Error> {
        let (parents, name) = match path.rsplit_once('/') {
            Some((parents, name)) => (Some(parents), name),
            None => (None, path),
        };
        check_name(name)?;
        let directory = match parents {
            Some(parents) => {
                // The root has an empty path, but a path does not begin with an empty name.
                if parents.is_empty() {
                    check_name(parents)?;
                }
                self.directory(parents)?
            }
            None => Arc::clone(&self.tree.root),
        };
        Ok(At {
            directory,
            name,
            path,
        })
    }

    /// Returns the directory at `path`; the root if it is empty.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub(crate) fn directory(&self, path: &str) -> Result<Arc<Directory>, Error> {
        let mut directory = Arc::clone(&self.tree.root);
        let mut start = 0;
        while start < path.len() || start > 0 {
            let end = path[start..].find('/').map_or(path.len(), |it| start + it);
            let name = &path[start..end];
            check_name(name)?;
            directory = self.child(&At {
                directory,
                name,
                path: &path[..end],
            })?;
            if end == path.len() {
                break;
            }
            start = end + 1;
        }
        Ok(directory)
    }

    /// Returns the directory of this name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::Poisoned`].
    pub(crate) fn child(&self, at: &At<'_>) -> Result<Arc<Directory>, Error> {
        loop {
            let entry = at.look()?;
            at.expect(entry.id.kind, Kind::Directory)?;
            if let Some(directory) = self.tree.get(entry.id) {
                return Ok(directory);
            }
            // Another thread creates or removes it, and holds this mutex (T4).
            drop(at.lock()?);
        }
    }

    /// Returns all files with their sizes in bytes, sorted by their paths.
    pub(crate) fn list(&self) -> Vec<(String, u64)> {
        let mut files = self.files();
        let with_size = |(path, id): (String, InodeId)| (path, self.inodes.size(id.number));
        files.drain(..).map(with_size).collect()
    }

    /// Returns all names of files, sorted by their paths.
    pub(crate) fn files(&self) -> Vec<(String, InodeId)> {
        let mut files = Vec::new();
        self.tree.walk(&mut |path, id| files.push((path, id)));
        files.sort_unstable();
        files
    }
}

// ── Operations on names ──────────────────────────────────────────────────────────────────────

impl<P: Pmem, L> Volume<P, L> {
    /// Creates a directory.
    ///
    /// # Errors
    /// [`Error::Exists`], and the errors of [`Directory::create`].
    pub(crate) fn create_directory(&self, at: &At<'_>) -> Result<Arc<Directory>, Error> {
        let Volume { medium, tree, .. } = self;
        let mut state = at.lock()?;
        if at.directory.names.get(at.name).is_some() {
            return Err(at.exists());
        }
        let (kind, created) = (Kind::Directory, (medium.clock)());
        let id = (at.directory).create(&mut state, medium, at.name, kind, created)?;
        self.inodes.add_link(id.number);
        let names = Names::new(Arc::clone(&medium.space));
        Ok(tree.add(Directory::new(id, Log::empty(id.log()), names)))
    }

    /// Creates a file. `lock` makes its range lock: foreign code, which must not run under the
    /// directory's mutex.
    ///
    /// # Errors
    /// [`Error::Exists`], and the errors of `lock` and [`Directory::create`].
    pub(crate) fn create_file(
        &self,
        at: &At<'_>,
        lock: impl FnOnce() -> Result<L, Error>,
    ) -> Result<Arc<Inode<L>>, Error> {
        if at.directory.look(at.name).is_some() {
            return Err(at.exists());
        }
        let lock = lock()?;
        let mut state = at.lock()?;
        let is_unchecked = injected_bug!(
            "create-checks-early",
            "a creation looks for the name before it locks the directory, and not again",
            killed_by = "file-core-histories/names"
        );
        if !is_unchecked && at.directory.names.get(at.name).is_some() {
            return Err(at.exists());
        }
        let medium = &self.medium;
        let created = (medium.clock)();
        let id = (at.directory).create(&mut state, medium, at.name, Kind::File, created)?;
        let empty = Content::empty(Log::empty(id.log()), created);
        let inode = Arc::new(self.inode(id, lock, empty));
        self.inodes.add(Arc::clone(&inode));
        Ok(inode)
    }

    /// Opens a file, and reads its log if it is not in memory. `lock` makes its range lock: foreign
    /// code, which must not run under the directory's mutex (N3).
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::Poisoned`], [`Error::Corrupt`], and
    /// the errors of `lock`.
    pub(crate) fn open_file(
        &self,
        at: &At<'_>,
        lock: impl FnOnce() -> Result<L, Error>,
    ) -> Result<Arc<Inode<L>>, Error> {
        let InodeId {
            number,
            generation,
            kind,
        } = at.look()?.id;
        at.expect(kind, Kind::File)?;
        if let Some(inode) = self.inodes.get(number, generation) {
            return Ok(inode);
        }
        let lock = lock()?;
        loop {
            let state = at.lock()?;
            let id = at.find()?.id;
            at.expect(id.kind, Kind::File)?;
            let begun = self.inodes.begin(id.number);
            drop(state);
            match begun {
                Begin::Here(inode) => return Ok(inode),
                Begin::Wait => drop(self.inodes.loaded(id.number)),
                Begin::Load(loading) => {
                    let inode = Arc::new(self.inode(id, lock, self.load(id)?));
                    loading.finish(Arc::clone(&inode));
                    return Ok(inode);
                }
            }
        }
    }

    /// Gives the file `at` another name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::Exists`], and the errors of
    /// [`Directory::link`]; nothing has changed.
    pub(crate) fn link(&self, at: &At<'_>, new: &At<'_>) -> Result<(), Error> {
        let id = {
            let _state = at.lock()?;
            let id = at.find()?.id;
            at.expect(id.kind, Kind::File)?;
            // N4. From here on, the file stays even if the name goes.
            self.inodes.add_link(id.number);
            id
        };
        let linked = new.lock().and_then(|mut state| {
            if new.directory.names.get(new.name).is_some() {
                return Err(new.exists());
            }
            (new.directory).link(&mut state, &self.medium, new.name, id)
        });
        if linked.is_err() && self.inodes.take_link(id.number) {
            self.free(id);
        }
        linked
    }

    /// Removes the name of a file. Its pages become free with its last name and its last handle.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn remove_file(&self, at: &At<'_>) -> Result<(), Error> {
        let mut state = at.lock()?;
        // A removal that has panicked may be repeated.
        let entry = at.find_any()?;
        let id = entry.id;
        at.expect(id.kind, Kind::File)?;
        let file = self.inodes.loaded(id.number);
        let doomed = file.as_ref().map(|it| &it.log);
        (at.directory).remove(&mut state, &self.medium, at.name, entry, doomed)?;
        let is_last = self.inodes.take_link(id.number);
        at.directory.trim(&state, &self.medium);
        // Freeing a large file takes a while, so release the directory's mutex first.
        drop(state);
        drop(file);
        if is_last {
            self.free(id);
        }
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::NotEmpty`], [`Error::Poisoned`];
    /// nothing has changed.
    pub(crate) fn remove_directory(&self, at: &At<'_>) -> Result<(), Error> {
        let _tree = self.tree.mutex.lock();
        // T2: the entry stays.
        let entry = (at.directory.look(at.name)).ok_or_else(|| at.not_found())?;
        at.expect(entry.id.kind, Kind::Directory)?;
        let child = self.child_of(at, entry)?;
        let (mut state, child_state) = lock_both(&at.directory, Some(&child), || at.not_found())?;
        let mut child_state = child_state.expect("two were locked");
        if !child.names.is_empty() {
            return Err(not_empty(at));
        }
        // A cleaning may have moved it.
        let entry = at.find_any()?;
        let doomed = Some(&child.log);
        (at.directory).remove(&mut state, &self.medium, at.name, entry, doomed)?;
        self.retire(&child, &mut child_state);
        at.directory.trim(&state, &self.medium);
        Ok(())
    }

    /// Renames within a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::AcrossDirectories`], those of what cannot replace what, and
    /// those of [`Directory::rename`]; nothing has changed.
    pub(crate) fn rename(&self, from: &At<'_>, to: &At<'_>) -> Result<(), Error> {
        if from.directory.id != to.directory.id {
            return Err(Error::AcrossDirectories {
                from: from.path.to_owned(),
                to: to.path.to_owned(),
            });
        }
        loop {
            let kind = from.look()?.id.kind;
            let tree = (kind == Kind::Directory).then(|| self.tree.mutex.lock());
            // A directory can replace a directory only. T2: the entry stays, if there is one.
            let replaced = tree.as_ref().and_then(|_| to.directory.look(to.name));
            let child = match replaced {
                Some(entry) if entry.id.kind == Kind::Directory => Some(self.child_of(to, entry)?),
                _ => None,
            };
            let both = lock_both(&from.directory, child.as_deref(), || from.not_found())?;
            if let Some(done) = self.rename_locked(from, to, kind, child.as_deref(), both)? {
                // Freeing a large file takes a while, so the mutexes are released first.
                done.into_iter().for_each(|id| self.free(id));
                return Ok(());
            }
            // The names have changed before they were locked.
        }
    }

    /// Performs the part of a rename under the mutexes. Returns the file that is to be freed, or
    /// `None` if the names do not stand for what the caller has locked.
    #[expect(
        clippy::type_complexity,
        reason = "the guards are what `lock_both` returns"
    )]
    fn rename_locked(
        &self,
        from: &At<'_>,
        to: &At<'_>,
        kind: Kind,
        child: Option<&Directory>,
        (mut state, child_state): (MutexGuard<'_, State>, Option<MutexGuard<'_, State>>),
    ) -> Result<Option<Option<InodeId>>, Error> {
        let renamed = from.find()?;
        let replaced = (from.directory.names.get(to.name)).map(sound).transpose()?;
        let is_child = |it: &Entry| child.is_some_and(|child| child.id == it.id);
        let is_other = match replaced {
            Some(it) => it.id.kind == Kind::Directory && kind == Kind::Directory && !is_child(&it),
            None => child.is_some(),
        };
        if renamed.id.kind != kind || is_other {
            return Ok(None);
        }
        let mut doomed = None;
        if let Some(replaced) = replaced {
            if replaced.id == renamed.id {
                return Ok(Some(None));
            }
            to.expect(replaced.id.kind, kind)?;
            if child.is_some_and(|it| !it.names.is_empty()) {
                return Err(not_empty(to));
            }
            if kind == Kind::File {
                doomed = self.inodes.loaded(replaced.id.number);
            }
        }
        let doomed_log = match child {
            Some(child) => Some(&child.log),
            None => doomed.as_ref().map(|it| &it.log),
        };
        let names = [from.name, to.name];
        (from.directory).rename(&mut state, &self.medium, names, doomed_log)?;
        if let (Some(child), Some(mut child_state)) = (child, child_state) {
            self.retire(child, &mut child_state);
        }
        from.directory.trim(&state, &self.medium);
        let file = replaced.filter(|it| it.id.kind == Kind::File);
        let file = file.filter(|it| self.inodes.take_link(it.id.number));
        Ok(Some(file.map(|it| it.id)))
    }

    /// Returns the directory that `entry` stands for. The caller holds the tree's mutex.
    fn child_of(&self, at: &At<'_>, entry: Entry) -> Result<Arc<Directory>, Error> {
        if let Some(child) = self.tree.get(entry.id) {
            return Ok(child);
        }
        // The thread that creates it holds this mutex (T4).
        drop(at.lock()?);
        self.tree.get(entry.id).ok_or_else(|| at.not_found())
    }

    /// Frees a directory whose name is gone, durably. The caller holds its mutex.
    fn retire(&self, child: &Directory, state: &mut State) {
        let (number, space) = (child.id.number, &self.medium.space);
        state.mark_removed();
        self.tree.forget(number);
        let was_last = self.inodes.take_link(number);
        debug_assert!(was_last, "T1: a directory has one name");
        // T5, M7.
        for page in child.log.take_pages() {
            space.release_log_page(page);
        }
        space.release_inode(number);
    }

    /// Frees a file whose last name is gone, durably, once its last handle is dropped.
    fn free(&self, id: InodeId) {
        if let Some(file) = self.inodes.take_out(id.number) {
            file.mark_removed();
            return;
        }
        // No other thread can open the file, whose number is still in use. If its log was damaged
        // since the volume was opened, the next recovery frees its pages.
        if let Ok(content) = self.load(id) {
            self.inode(id, (), content).mark_removed();
        }
    }

    /// Reads the log of a file that is not in memory. No other thread uses the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    fn load(&self, id: InodeId) -> Result<Content, Error> {
        let Medium {
            pmem,
            geometry,
            space,
            ..
        } = &self.medium;
        let reader = LogReader::new(pmem, geometry);
        let scan = reader.file(&reader.live_inode(id)?)?;
        Ok(scan.load(&space.log_pages))
    }

    fn inode<T>(&self, id: InodeId, lock: T, content: Content) -> Inode<T> {
        let Medium {
            geometry, space, ..
        } = &self.medium;
        let checksums = geometry.data_checksums;
        let id = (id.number, id.generation);
        Inode::new(id, lock, content, checksums, Arc::clone(space))
    }
}

fn not_empty(at: &At<'_>) -> Error {
    Error::NotEmpty {
        name: at.path.to_owned(),
    }
}
