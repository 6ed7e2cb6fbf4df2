//! The operations on names: creating, opening, linking and removing.

use spanlock_pmem::Pmem;
use spanlock_sync::{Arc, MutexGuard, injected_bug};

use crate::log::tail::Log;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::layout::{InodeId, Kind};
use crate::object::directory::{Directory, State};
use crate::object::inode::{Content, Inode};
use crate::object::inode_table::Presence;
use crate::object::names::{Entry, Names};
use crate::recover::reader::LogReader;
use crate::volume::shared::Shared;
use crate::volume::tree::NameAt;

/// Locks two directories, in the order of their numbers. The second may be missing.
///
/// # Errors
/// The error of `gone` for the one that was removed.
pub(super) fn lock_both<'d>(
    one: &'d Directory,
    other: Option<&'d Directory>,
    gone: impl Fn(&Directory) -> Error,
) -> Result<(MutexGuard<'d, State>, Option<MutexGuard<'d, State>>), Error> {
    let lock = |it: &'d Directory| it.lock().ok_or_else(|| gone(it));
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

/// Says which name has no directory any more.
pub(super) fn gone(one: &NameAt<'_>, other: &NameAt<'_>) -> impl Fn(&Directory) -> Error {
    move |it| match it.id == one.directory.id {
        true => one.not_found(),
        false => other.not_found(),
    }
}

impl<P: Pmem, L> Shared<P, L> {
    /// Creates a directory.
    ///
    /// # Errors
    /// [`Error::Exists`], and the errors of [`Directory::create`].
    pub(crate) fn create_directory(&self, at: &NameAt<'_>) -> Result<Arc<Directory>, Error> {
        let Shared { medium, tree, .. } = self;
        let mut state = at.lock()?;
        if at.directory.names.get(at.name).is_some() {
            return Err(at.exists());
        }
        self.check_writable()?;
        let (kind, created) = (Kind::Directory, (medium.clock)());
        let counted = |number| self.inodes.add_link(number);
        let id = (at.directory).create(&mut state, medium, at.name, (kind, created), &counted)?;
        let directory = Directory::new(id, Log::empty(id.log()), Names::new());
        Ok(tree.add(directory, at.directory.id.number))
    }

    /// Creates a file. `lock` makes its range lock: foreign code, which must not run under the
    /// directory's mutex.
    ///
    /// # Errors
    /// [`Error::Exists`], and the errors of `lock` and [`Directory::create`].
    pub(crate) fn create_file(
        &self,
        at: &NameAt<'_>,
        lock: impl FnOnce() -> Result<L, Error>,
    ) -> Result<Arc<Inode<L>>, Error> {
        if at.directory.look(at.name).is_some() {
            return Err(at.exists());
        }
        self.check_writable()?;
        let lock = lock()?;
        let mut state = at.lock()?;
        let is_unchecked = injected_bug!(
            "create-checks-early",
            "a creation looks for the name before it locks the directory, and not again",
            killed_by = "file-core-names/create-create"
        );
        if !is_unchecked && at.directory.names.get(at.name).is_some() {
            return Err(at.exists());
        }
        let medium = &self.medium;
        let created = (medium.clock)();
        let (new, counted) = ((Kind::File, created), |number| self.inodes.add_link(number));
        let id = (at.directory).create(&mut state, medium, at.name, new, &counted)?;
        let empty = Content::empty(Log::empty(id.log()), created);
        let inode = Arc::new(self.inode(id, lock, empty));
        let evicted = self.inodes.add(Arc::clone(&inode));
        // Dropping a lock runs foreign code, so not under the mutex.
        drop(state);
        drop(evicted);
        Ok(inode)
    }

    /// Opens a file, and reads its log if it is not in memory. `lock` makes its range lock: foreign
    /// code, which must not run under the directory's mutex (F-N3).
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::Poisoned`], [`Error::Corrupt`], and
    /// the errors of `lock`.
    pub(crate) fn open_file(
        &self,
        at: &NameAt<'_>,
        lock: impl FnOnce() -> Result<L, Error>,
    ) -> Result<Arc<Inode<L>>, Error> {
        let InodeId {
            number,
            generation,
            kind,
        } = at.look()?.id;
        at.expect(kind, Kind::File)?;
        let (found, evicted) = self.inodes.get(number, generation);
        drop(evicted);
        if let Some(inode) = found {
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
                Presence::InMemory(inode) => return Ok(inode),
                Presence::Loading => drop(self.inodes.loaded(id.number)),
                Presence::Absent(loading) => {
                    // An error drops `loading` before `lock`, whose destructor is foreign code.
                    let content = self.load(id)?;
                    let inode = Arc::new(self.inode(id, lock, content));
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
    pub(crate) fn link(&self, at: &NameAt<'_>, new: &NameAt<'_>) -> Result<(), Error> {
        self.check_writable()?;
        let other = (new.directory.id != at.directory.id).then_some(&*new.directory);
        let finds_early = injected_bug!(
            "link-finds-early",
            "a link finds the file before it locks the directories, and not again",
            killed_by = "file-core-links/link-remove"
        );
        let early = if finds_early { Some(at.look()?) } else { None };
        // F-T3: two directories.
        let _tree = other.map(|_| self.tree.lock()).transpose()?;
        // Both at once: between the look at the old name and the new name, neither changes.
        let (mut state, mut other_state) = lock_both(&at.directory, other, gone(at, new))?;
        let id = early.map_or_else(|| at.find(), Ok)?.id;
        at.expect(id.kind, Kind::File)?;
        if new.directory.names.get(new.name).is_some() {
            return Err(new.exists());
        }
        // F-N4: before there is the name.
        self.inodes.add_link(id.number);
        let state = other_state.as_mut().unwrap_or(&mut state);
        let linked = (new.directory).link(state, &self.medium, new.name, id);
        if linked.is_err() {
            let was_last = self.inodes.take_link(id.number);
            debug_assert!(!was_last, "the old name is still there");
        }
        linked
    }

    /// Removes the name of a file. Its pages become free with its last name and its last handle.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn remove_file(&self, at: &NameAt<'_>) -> Result<(), Error> {
        self.check_writable()?;
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
    pub(crate) fn remove_directory(&self, at: &NameAt<'_>) -> Result<(), Error> {
        self.check_writable()?;
        let _tree = self.tree.lock()?;
        // F-T2: the entry stays.
        let entry = (at.directory.look(at.name)).ok_or_else(|| at.not_found())?;
        at.expect(entry.id.kind, Kind::Directory)?;
        let child = self.child_of(at, entry)?;
        let (mut state, child_state) = lock_both(&at.directory, Some(&child), |_| at.not_found())?;
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

    /// Returns the directory that `entry` stands for. The caller holds the tree's mutex.
    pub(super) fn child_of(&self, at: &NameAt<'_>, entry: Entry) -> Result<Arc<Directory>, Error> {
        if let Some(child) = self.tree.get(entry.id) {
            return Ok(child);
        }
        // The thread that creates it holds this mutex (F-T4).
        drop(at.lock()?);
        self.tree.get(entry.id).ok_or_else(|| at.not_found())
    }

    /// Frees a directory whose name is gone, durably. The caller holds the directory's mutex.
    pub(super) fn retire(&self, child: &Directory, state: &mut State) {
        let (number, space) = (child.id.number, &self.medium.space);
        state.mark_removed();
        self.tree.forget(number);
        let was_last = self.inodes.take_link(number);
        debug_assert!(was_last, "F-T1: a directory has one name");
        // F-T5, F-M7.
        for page in child.log.take_pages() {
            space.release_log_page(page);
        }
        space.release_inode(number);
    }

    /// Frees a file whose last name is gone, durably. It becomes free once its last handle is
    /// dropped. The caller holds nothing.
    pub(super) fn free(&self, id: InodeId) {
        match self.inodes.take_out(id.number) {
            Some(file) => file.mark_removed(),
            None => self.free_absent(id),
        }
    }

    /// Frees a file that is not in memory.
    fn free_absent(&self, id: InodeId) {
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
        self.check_openable(id)?;
        let Medium {
            pmem,
            geometry,
            space,
            ..
        } = &self.medium;
        let mut reader = LogReader::new(pmem, geometry);
        if self.is_read_only {
            // A damaged journal was noted when the volume was opened.
            let _ = reader.read_journal();
        }
        let scan = reader.file(&reader.live_inode(id)?, self.is_read_only)?;
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

pub(super) fn not_empty(at: &NameAt<'_>) -> Error {
    Error::NotEmpty {
        name: at.path.to_owned(),
    }
}
