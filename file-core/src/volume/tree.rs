//! The tree of directories, and a name in one of them. `paths.rs` walks along paths; `changes.rs`,
//! `rename.rs` and `across.rs` change the tree.
//!
//! # Properties
//! - Every directory is an inode with a log of its own; the root is inode 0. All directories are in
//!   memory; a file enters memory when it is opened.
//! - Walking a path takes no directory's mutex, as long as every name on it exists and is not being
//!   replaced or moved at that moment. A walk is not atomic: directories may be renamed or removed
//!   meanwhile, and each step sees a different moment. If a name is missing in a directory that was
//!   removed meanwhile, the walk is repeated, because another directory may have replaced the
//!   removed one.
//! - Creating, linking, removing and renaming take the mutex of the directory concerned, and hold
//!   it across their fences. Operations on different directories do not wait for each other, except
//!   that only one thread at a time renames or links from one directory to another, exchanges two
//!   names, or removes or renames a directory.
//! - A walk that has passed a name goes on in the directory for which the name stood, even if that
//!   directory is moved meanwhile.
//!
//! # Invariants
//! - **F-T1** The directories form a tree: each but the root has one name. So a directory is
//!   reached by one path, and recovery meets each once.
//! - **F-T2** The name of a directory is removed, replaced or renamed only under the tree's mutex.
//! - **F-T3** Mutexes are taken in this order: the tree's, then those of directories, then those of
//!   logs, files and tables. A thread takes those of several directories only while it holds the
//!   tree's, so no two threads wait for each other's.
//! - **F-T4** A directory is in the table as long as it has a name. It enters and leaves the table
//!   under the mutex of the directory that names it.
//! - **F-T5** A directory that was removed is empty and stays empty: a thread that locks it learns
//!   that it was removed. So its log is not used any more, and its pages are free.
//! - **F-T6** A directory gets another parent only under the tree's mutex. A new one enters the
//!   table, with its parent, before a walk enters it (F-T4). So while a thread holds the tree's
//!   mutex, it can tell whether one directory that was not removed is below another.
//! - **F-T7** If a panic of the region or an error of the journal interrupts a change that goes
//!   through the journal, the journal may keep its record, which names pages of the directories'
//!   logs. Those logs are poisoned, so they keep their pages. From then on, the state under the
//!   tree's mutex says that a change was interrupted: no directory is removed or moved until the
//!   volume is reopened.

use std::collections::HashMap;

use spanlock_sync::{Arc, Mutex, MutexGuard};

use crate::medium::error::Error;
use crate::medium::layout::{InodeId, Kind, ROOT};
use crate::object::directory::{Directory, State};
use crate::object::names::Entry;

/// The directories of a volume.
pub(crate) struct Tree {
    pub(crate) root: Arc<Directory>,
    /// All directories but the root (F-T4).
    directories: Mutex<HashMap<u32, Child>>,
    /// See F-T2 and F-T7.
    mutex: Mutex<InterruptedChange>,
}

/// A directory, and the number of the one that names it.
struct Child {
    directory: Arc<Directory>,
    /// See F-T6.
    parent: u32,
}

/// The number of a directory of which a thread has begun, but not finished, a change that goes
/// through the journal (F-T7).
type InterruptedChange = Option<u32>;

impl Tree {
    /// Creates the tree from all of its directories.
    ///
    /// # Panics
    /// If the root is not among them.
    pub(crate) fn new(directories: impl Iterator<Item = Directory>) -> Tree {
        let mut parents = HashMap::new();
        let each = directories.map(|it| {
            it.names.for_each(|_, entry| {
                parents.insert(entry.id.number, it.id.number);
            });
            (it.id.number, Arc::new(it))
        });
        let mut directories: HashMap<_, _> = each.collect();
        let root = directories.remove(&ROOT).expect("every volume has a root");
        let child = |(number, directory)| {
            let parent = parents[&number];
            (number, Child { directory, parent })
        };
        Tree {
            root,
            directories: Mutex::new(directories.into_iter().map(child).collect()),
            mutex: Mutex::new(None),
        }
    }

    /// Takes the tree's mutex.
    ///
    /// # Errors
    /// [`Error::Poisoned`], as F-T7 says.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, InterruptedChange>, Error> {
        let guard = self.mutex.lock();
        match *guard {
            Some(inode) => Err(Error::Poisoned { inode }),
            None => Ok(guard),
        }
    }

    /// Returns all directories, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Directory>> {
        let mut all = vec![Arc::clone(&self.root)];
        let directories = self.directories.lock();
        all.extend(directories.values().map(|it| Arc::clone(&it.directory)));
        drop(directories);
        all.sort_unstable_by_key(|it| it.id.number);
        all
    }

    /// Returns the directory, unless it was removed.
    pub(super) fn get(&self, id: InodeId) -> Option<Arc<Directory>> {
        let directories = self.directories.lock();
        let found = directories.get(&id.number).map(|it| &it.directory);
        found.filter(|it| it.id == id).cloned()
    }

    pub(super) fn add(&self, directory: Directory, parent: u32) -> Arc<Directory> {
        let directory = Arc::new(directory);
        let child = Child {
            directory: Arc::clone(&directory),
            parent,
        };
        self.directories.lock().insert(directory.id.number, child);
        directory
    }

    /// Records which directory names `id` from now on, if `id` is a directory. The caller holds the
    /// tree's mutex (F-T6).
    pub(super) fn set_parent(&self, id: InodeId, parent: u32) {
        if id.kind == Kind::Directory
            && let Some(child) = self.directories.lock().get_mut(&id.number)
        {
            child.parent = parent;
        }
    }

    /// Returns whether directory `number` is directory `above`, or lies in it at any depth. The
    /// caller holds the tree's mutex (F-T6).
    pub(super) fn is_at_or_below(&self, mut number: u32, above: u32) -> bool {
        let directories = self.directories.lock();
        while number != above {
            match directories.get(&number) {
                Some(child) => number = child.parent,
                None => return false,
            }
        }
        true
    }

    pub(super) fn forget(&self, number: u32) {
        self.directories.lock().remove(&number);
    }

    /// Calls `each` with the path of every name of a file. The names of one directory are those of
    /// one moment.
    pub(super) fn walk(&self, each: &mut dyn FnMut(String, InodeId)) {
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
pub(crate) struct NameAt<'p> {
    pub(crate) directory: Arc<Directory>,
    /// The name, which is valid.
    pub(crate) name: &'p str,
    /// The path or the name that the caller gave, for messages.
    pub(crate) path: &'p str,
}

impl NameAt<'_> {
    /// Returns the error for a name that the directory does not have: damage may have taken it.
    pub(super) fn not_found(&self) -> Error {
        let damage = self.directory.damage.clone();
        damage.unwrap_or_else(|| not_found(self.path))
    }

    pub(super) fn exists(&self) -> Error {
        Error::Exists {
            name: self.path.to_owned(),
        }
    }

    /// Locks the directory.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was removed.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        self.directory.lock().ok_or_else(|| self.not_found())
    }

    /// Returns what the name stands for.
    ///
    /// # Errors
    /// [`Error::NotFound`], or [`Error::Corrupt`] if the directory is damaged; [`Error::Poisoned`]
    /// if its removal has panicked midway.
    pub(crate) fn look(&self) -> Result<Entry, Error> {
        let entry = self.directory.look(self.name);
        sound(entry.ok_or_else(|| self.not_found())?)
    }

    /// As [`look`](Self::look). The caller holds the directory's mutex.
    pub(super) fn find(&self) -> Result<Entry, Error> {
        sound(self.find_any()?)
    }

    /// Returns what the name stands for, even if it is doubtful. The caller holds the directory's
    /// mutex.
    pub(super) fn find_any(&self) -> Result<Entry, Error> {
        let entry = self.directory.names.get(self.name);
        entry.ok_or_else(|| self.not_found())
    }

    /// Checks that the name stands for something of this kind.
    pub(super) fn expect(&self, kind: Kind, wanted: Kind) -> Result<(), Error> {
        let name = || self.path.to_owned();
        match (kind, wanted) {
            (Kind::Directory, Kind::File) => Err(Error::IsADirectory { name: name() }),
            (Kind::File, Kind::Directory) => Err(Error::NotADirectory { name: name() }),
            _ => Ok(()),
        }
    }
}

pub(super) fn not_found(path: &str) -> Error {
    Error::NotFound {
        name: path.to_owned(),
    }
}

pub(super) fn sound(entry: Entry) -> Result<Entry, Error> {
    match entry.is_doubtful {
        true => Err(Error::Poisoned {
            inode: entry.id.number,
        }),
        false => Ok(entry),
    }
}
