//! The names in memory, and which of them are being changed.
//!
//! # Changing a name
//! A thread *claims* the names that it changes, and so waits for other changes of these names, but
//! for no others. It checks the precondition, commits one batch to the store, and then changes the
//! map. No thread holds the mutex while it commits.
//!
//! # Readers
//! A reader of content keeps the [`Arc`] of its object. If a put or a deletion finds such readers,
//! its batch only erases the object's name, and the last of them to leave *dooms* the object: the
//! next change deletes it. Otherwise the batch deletes the object. Then readers that come while the
//! batch is being committed wait for it: they could start with content that vanishes.
//!
//! | who counts in the `Arc` | created |
//! |---|---|
//! | the map | by the change that named the object |
//! | readers | from the map, under the mutex, while the object is not being deleted |
//!
//! So a count of one, under the mutex, means that there are no readers, and that none comes unless
//! it waits.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::path::Path;
use object_store::{ObjectMeta, PutMode};
use spanlock_sync::{Condvar, Mutex};

use crate::error::Error;
use crate::head::Head;

/// Objects of the store that are to be deleted.
pub(crate) type Doomed = Arc<Mutex<Vec<u64>>>;

/// An object of the store.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) id: u64,
    /// With the name only as long as the object has none yet.
    pub(crate) head: Head,
    /// Whether the last user dooms it: it has lost its name, or has none yet.
    is_doomed: AtomicBool,
    doomed: Doomed,
}

impl Object {
    pub(crate) fn doom(&self, is_doomed: bool) {
        // Relaxed: the last drop of the Arc comes after all others, and so sees this.
        self.is_doomed.store(is_doomed, Ordering::Relaxed);
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if *self.is_doomed.get_mut() {
            self.doomed.lock().push(self.id);
        }
    }
}

/// A path as a key that can be compared with text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(Path);

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.0.as_ref()
    }
}

/// The names of a store.
#[derive(Debug, Default)]
pub(crate) struct Names {
    state: Mutex<State>,
    /// Notified when claims end.
    ended: Condvar,
    pub(crate) doomed: Doomed,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Arc<Object>>,
    /// Claimed names, and what happens to their objects.
    claimed: HashMap<Path, Fate>,
}

/// What a change does with the object that has a claimed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing, as far as is decided.
    Kept,
    /// Erases its name, because it has readers.
    Erased,
    /// Deletes it.
    Deleted,
}

/// What is to be listed: see [`Names::scan`].
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) prefix: String,
    /// The first name that is listed.
    pub(crate) from: Bound<String>,
    /// Whether names with a further `/` are listed as their common prefix.
    pub(crate) is_by_folder: bool,
    pub(crate) most: usize,
}

/// What was listed.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) objects: Vec<ObjectMeta>,
    pub(crate) folders: Vec<Path>,
    /// Where to continue, unless this was all.
    pub(crate) next: Option<Bound<String>>,
}

impl Names {
    pub(crate) fn object(&self, id: u64, head: Head) -> Arc<Object> {
        let (is_doomed, doomed) = (AtomicBool::new(false), self.doomed.clone());
        Arc::new(Object {
            id,
            head,
            is_doomed,
            doomed,
        })
    }

    /// Adds a name that was found on the medium. Returns the object that already has it.
    pub(crate) fn add(&self, path: Path, object: Arc<Object>) -> Option<Arc<Object>> {
        self.state.lock().objects.insert(Key(path), object)
    }

    /// Returns the object of a name, for a reader of its content. Blocks while it is being deleted.
    pub(crate) fn get(&self, path: &Path) -> Result<Arc<Object>, Error> {
        let mut state = self.state.lock();
        while state.claimed.get(path) == Some(&Fate::Deleted) {
            state = self.ended.wait(state);
        }
        state.get(path).cloned()
    }

    /// As [`get`](Self::get), but returns `None` instead of blocking.
    pub(crate) fn try_get(&self, path: &Path) -> Option<Result<Arc<Object>, Error>> {
        let state = self.state.lock();
        (state.claimed.get(path) != Some(&Fate::Deleted)).then(|| state.get(path).cloned())
    }

    /// Returns the object of a name, for a reader that needs no content.
    pub(crate) fn peek(&self, path: &Path) -> Result<Arc<Object>, Error> {
        self.state.lock().get(path).cloned()
    }

    /// Checks the precondition of a put.
    pub(crate) fn check(&self, path: &Path, mode: &PutMode) -> Result<(), Error> {
        let found = self.state.lock().get(path).ok().map(|it| it.id);
        let path = || path.to_string();
        match (mode, found) {
            (PutMode::Overwrite, _) | (PutMode::Create, None) => Ok(()),
            (PutMode::Create, Some(id)) => Err(Error::Exists { path: path(), id }),
            (PutMode::Update(version), found) => {
                let current = found.map(e_tag);
                match current.is_some() && current == version.e_tag {
                    true => Ok(()),
                    false => Err(Error::Stale {
                        path: path(),
                        wanted: version.e_tag.clone().unwrap_or("none".to_owned()),
                        found,
                    }),
                }
            }
        }
    }

    /// Claims names for a change. Blocks while other changes have one of them.
    pub(crate) fn claim<'n>(&'n self, paths: &[&Path]) -> Claim<'n> {
        let mut state = self.state.lock();
        while paths.iter().any(|path| state.claimed.contains_key(*path)) {
            state = self.ended.wait(state);
        }
        let paths: Vec<Path> = paths.iter().map(|&path| path.clone()).collect();
        let new = paths.iter().map(|path| (path.clone(), Fate::Kept));
        state.claimed.extend(new);
        Claim { names: self, paths }
    }

    /// Lists names in ascending order. Each common prefix counts as one.
    pub(crate) fn scan(&self, scan: &Scan) -> Scanned {
        let state = self.state.lock();
        let mut found = Scanned::default();
        let prefix = &scan.prefix[..];
        let mut from = match &scan.from {
            Bound::Included(from) | Bound::Excluded(from) if &from[..] >= prefix => {
                scan.from.clone()
            }
            _ => Bound::Included(prefix.to_owned()),
        };
        loop {
            let range = (from.as_ref().map(|it| &it[..]), Bound::Unbounded);
            let next = state.objects.range::<str, _>(range).next();
            let next = next.map(|(key, object)| (&key.0, object));
            let Some((path, object)) = next.filter(|(path, _)| path.as_ref().starts_with(prefix))
            else {
                return found;
            };
            if found.objects.len() + found.folders.len() == scan.most {
                // A page of no names would have the same next page for ever.
                found.next = (scan.most > 0).then_some(from);
                return found;
            }
            let (name, rest) = (path.as_ref(), &path.as_ref()[prefix.len()..]);
            let folder = rest.find('/').filter(|_| scan.is_by_folder);
            if let Some(folder) = folder.map(|len| &name[..prefix.len() + len]) {
                found.folders.extend(Path::parse(folder).ok());
                // The first text after all names in this folder.
                from = Bound::Included(format!("{folder}0"));
            } else {
                found.objects.push(object.meta(path));
                from = Bound::Excluded(name.to_owned());
            }
        }
    }
}

impl State {
    fn get(&self, path: &Path) -> Result<&Arc<Object>, Error> {
        let found = self.objects.get::<str>(path.as_ref());
        found.ok_or_else(|| Error::NotFound {
            path: path.to_string(),
        })
    }
}

impl Object {
    pub(crate) fn meta(&self, path: &Path) -> ObjectMeta {
        ObjectMeta {
            location: path.clone(),
            last_modified: self.head.modified,
            size: self.head.size,
            e_tag: Some(e_tag(self.id)),
            version: None,
        }
    }
}

/// Returns the ETag of an object.
pub(crate) fn e_tag(id: u64) -> String {
    format!("\"{id}\"")
}

/// Names that a thread may change. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Claim<'n> {
    names: &'n Names,
    paths: Vec<Path>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.names.state.lock();
        for path in &self.paths {
            state.claimed.remove(path);
        }
        self.names.ended.notify_all();
    }
}

impl Claim<'_> {
    /// Decides what the batch does with the object that will lose a claimed name, and returns it.
    pub(crate) fn retire(&self, path: &Path) -> Option<(u64, Fate)> {
        let state = &mut *self.names.state.lock();
        let object = state.get(path).ok()?;
        let fate = match Arc::strong_count(object) {
            1 => Fate::Deleted,
            _ => Fate::Erased,
        };
        let retired = Some((object.id, fate));
        state.claimed.insert(path.clone(), fate);
        retired
    }

    /// Gives claimed names to objects, or to none, in one step. The batch is durable.
    pub(crate) fn set(&self, names: impl IntoIterator<Item = (Path, Option<Arc<Object>>)>) {
        // Dropped after the mutex.
        let mut old = Vec::new();
        let state = &mut *self.names.state.lock();
        for (path, object) in names {
            let fate = state.claimed.get(&path).copied();
            let before = match object {
                Some(object) => state.objects.insert(Key(path), object),
                None => state.objects.remove::<str>(path.as_ref()),
            };
            if let (Some(object), Some(Fate::Erased)) = (&before, fate) {
                object.doom(true);
            }
            old.push(before);
        }
    }
}
