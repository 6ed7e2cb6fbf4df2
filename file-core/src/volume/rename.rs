//! Renames: within a directory here, from one directory to another in `across.rs`.

use spanlock_pmem::Pmem;
use spanlock_sync::MutexGuard;

use crate::medium::error::Error;
use crate::medium::layout::{InodeId, Kind};
use crate::object::directory::{Directory, State};
use crate::object::names::Entry;
use crate::volume::changes::{gone, lock_both, not_empty};
use crate::volume::shared::Shared;
use crate::volume::tree::{NameAt, sound};

impl<P: Pmem, L> Shared<P, L> {
    /// Renames within a directory, or [across](Self::rename_across) directories.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::NotADirectory`], [`Error::NotEmpty`],
    /// and the errors of [`Directory::rename`] and [`rename_across`](Self::rename_across). Nothing
    /// has changed, except as `rename_across` says.
    pub(crate) fn rename(&self, from: &NameAt<'_>, to: &NameAt<'_>) -> Result<(), Error> {
        self.check_writable()?;
        if from.directory.id != to.directory.id {
            return self.rename_across(from, to);
        }
        loop {
            let kind = from.look()?.id.kind;
            let tree = (kind == Kind::Directory).then(|| self.tree.lock());
            let tree = tree.transpose()?;
            // A directory can replace a directory only. F-T2: the entry stays, if there is one.
            let replaced = tree.as_ref().and_then(|_| to.directory.look(to.name));
            let child = match replaced {
                Some(entry) if entry.id.kind == Kind::Directory => Some(self.child_of(to, entry)?),
                _ => None,
            };
            let both = lock_both(&from.directory, child.as_deref(), gone(from, to))?;
            if let Some(done) = self.rename_locked(from, to, kind, child.as_deref(), both)? {
                // Freeing a large file takes a while, so the mutexes are released first.
                done.into_iter().for_each(|id| self.free(id));
                return Ok(());
            }
            // The names have changed before they were locked.
        }
    }

    /// Performs the part of a rename under the mutexes. Returns the file to free, if there is one,
    /// or `None` if the names do not stand for what the caller has locked.
    fn rename_locked(
        &self,
        from: &NameAt<'_>,
        to: &NameAt<'_>,
        kind: Kind,
        child: Option<&Directory>,
        both: (MutexGuard<'_, State>, Option<MutexGuard<'_, State>>),
    ) -> Result<Option<Option<InodeId>>, Error> {
        // Dropping a lock runs foreign code, so this is declared before the guards, which a return
        // drops first.
        let mut doomed = None;
        let (mut state, child_state) = both;
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
        if let Some(replaced) = replaced {
            if replaced.id == renamed.id {
                // An operation that has panicked may have changed the names.
                from.directory.log.check()?;
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
}
