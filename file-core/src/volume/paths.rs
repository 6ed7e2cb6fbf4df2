//! Walks along paths, and the lists of files.

use spanlock_pmem::Pmem;
use spanlock_sync::Arc;

use crate::medium::error::Error;
use crate::medium::layout::{InodeId, Kind};
use crate::object::directory::{Directory, check_name};
use crate::volume::shared::Shared;
use crate::volume::tree::NameAt;

impl<P: Pmem, L> Shared<P, L> {
    /// Performs `act` on the last name of `path`. Repeats this if the directory was removed
    /// meanwhile.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and those of `act`.
    pub(crate) fn with<T>(
        &self,
        path: &str,
        act: impl Fn(&NameAt<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let at = self.resolve(path)?;
            match act(&at) {
                Err(Error::NotFound { .. }) if at.directory.is_removed() => {}
                result => return result,
            }
        }
    }

    /// Like [`with`](Self::with), on two paths.
    pub(crate) fn with_both<T>(
        &self,
        [one, other]: [&str; 2],
        act: impl Fn(&NameAt<'_>, &NameAt<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.with(one, |one| self.with(other, |other| act(one, other)))
    }

    /// Returns the last name of `path`, and the directory in which it is looked up.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`] for a path through a file, and the errors of
    /// [`check_name`].
    fn resolve<'p>(&self, path: &'p str) -> Result<NameAt<'p>, Error> {
        let (parents, name) = match path.rsplit_once('/') {
            Some((parents, name)) => (Some(parents), name),
            None => (None, path),
        };
        check_name(name, path)?;
        let directory = match parents {
            Some(parents) => {
                // The root has an empty path, but a path does not begin with an empty name.
                if parents.is_empty() {
                    check_name(parents, path)?;
                }
                self.directory_on(parents, path)?
            }
            None => Arc::clone(&self.tree.root),
        };
        Ok(NameAt {
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
        self.directory_on(path, path)
    }

    /// Returns the directory at `path`, which is the beginning of the path `whole`; the root if it
    /// is empty.
    fn directory_on(&self, path: &str, whole: &str) -> Result<Arc<Directory>, Error> {
        let mut directory = Arc::clone(&self.tree.root);
        let mut start = 0;
        while start < path.len() || start > 0 {
            let end = path[start..].find('/').map_or(path.len(), |it| start + it);
            let name = &path[start..end];
            check_name(name, whole)?;
            let at = NameAt {
                directory,
                name,
                path: &path[..end],
            };
            directory = match self.child(&at) {
                Err(Error::NotFound { .. }) if at.directory.is_removed() => {
                    (directory, start) = (Arc::clone(&self.tree.root), 0);
                    continue;
                }
                found => found?,
            };
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
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::Poisoned`], [`Error::Corrupt`].
    pub(crate) fn child(&self, at: &NameAt<'_>) -> Result<Arc<Directory>, Error> {
        loop {
            let entry = at.look()?;
            at.expect(entry.id.kind, Kind::Directory)?;
            if let Some(directory) = self.tree.get(entry.id) {
                return Ok(directory);
            }
            self.check_openable(entry.id)?;
            // Another thread creates or removes it, and holds this mutex (F-T4).
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
