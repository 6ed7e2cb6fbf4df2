//! The operations on named objects, which block.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, SubsecRound, Utc};
use object_store::path::Path;
use object_store::{Attributes, PutMode};
use spanlock_object_store::space::{Error as SpaceError, Medium};
use spanlock_object_store::{Change, Error as StoreError, Mode, Store};
use spanlock_range_lock::RawRangeLockBatch;

use crate::error::Error;
use crate::head::{self, Found, Head};
use crate::names::{Fate, Names, Object};

/// Content up to this many bytes is written together with its name, in one batch. More would make
/// other creations wait that share the thread's slot of ids. Copies read as much at a time.
const AT_ONCE: u64 = 8 << 20;
/// Objects that one batch deletes.
const DELETIONS: usize = 16;

/// A store, and the names of its objects.
pub(crate) struct Objects<M: Medium, L: RawRangeLockBatch> {
    pub(crate) store: Store<M, L>,
    pub(crate) names: Names,
}

impl<M: Medium, L: RawRangeLockBatch> Objects<M, L> {
    /// Reads all name blocks, in several threads, and deletes the objects without names.
    pub(crate) fn open(store: Store<M, L>) -> Result<Self, Error> {
        if let Mode::Versions { .. } = store.mode() {
            let what = "a store in `Mode::Versions`: use one in `Mode::DirectSized`".to_owned();
            return Err(Error::Unsupported { what });
        }
        let ids = store.list(0, usize::MAX)?;
        let names = Names::default();
        let objects = Objects { store, names };
        let threads = std::thread::available_parallelism().map_or(1, |it| it.get().min(16));
        let share = ids.len().div_ceil(threads).max(1);
        let nameless: Result<Vec<Vec<u64>>, Error> = std::thread::scope(|scope| {
            let read = |ids| objects.add(ids);
            let threads: Vec<_> = ids
                .chunks(share)
                .map(|ids| scope.spawn(move || read(ids)))
                .collect();
            let joined = threads.into_iter().map(|it| it.join().expect("no panic"));
            joined.collect()
        });
        *objects.names.doomed.lock() = nameless?.concat();
        objects.sweep();
        Ok(objects)
    }

    /// Adds the names of objects. Returns the objects that have none.
    fn add(&self, ids: &[u64]) -> Result<Vec<u64>, Error> {
        let mut nameless = Vec::new();
        for &id in ids {
            match self.read_head(id)? {
                Found::Named(mut head) => {
                    let path = std::mem::take(&mut head.name);
                    let object = self.names.object(id, head);
                    if let Some(other) = self.names.add(path.clone(), object) {
                        let why = format!("has the name {path}, like object {}", other.id);
                        return Err(Error::Unsound { id, why });
                    }
                }
                Found::Nameless => nameless.push(id),
                Found::Unsound => {
                    let why = "has no sound name block".to_owned();
                    return Err(Error::Unsound { id, why });
                }
            }
        }
        Ok(nameless)
    }

    fn read_head(&self, id: u64) -> Result<Found, Error> {
        let mut bytes = vec![0; self.block() as usize];
        let mut read = self.store.read(id, 0, &mut bytes)?;
        let Some(len) = head::len(&bytes[..read]) else {
            return Ok(Found::Unsound);
        };
        if len > bytes.len() {
            bytes.resize(len, 0);
            read = self.store.read(id, 0, &mut bytes)?;
        }
        match head::decode(&bytes[..read.min(len)]) {
            Found::Named(head) if !self.is_inside(id, len as u64, &head)? => Ok(Found::Unsound),
            found => Ok(found),
        }
    }

    /// Returns whether the content is in the object, at a block, after a name block of `len` bytes.
    fn is_inside(&self, id: u64, len: u64, head: &Head) -> Result<bool, Error> {
        let size = match head.size {
            0 => None,
            _ => self.store.size(id)?,
        };
        let end = head.start.saturating_add(head.size);
        let is_at_block = head.start >= len && head.start.is_multiple_of(self.block());
        Ok(is_at_block && end <= size.unwrap_or(self.store.capacity()))
    }

    fn block(&self) -> u64 {
        self.store.space().block().into()
    }

    /// Reads all of `range` of an object's content.
    pub(crate) fn read(&self, object: &Object, range: Range<u64>) -> Result<Bytes, Error> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let at = object.head.start + range.start;
        let read = self.store.read(object.id, at, &mut bytes)?;
        if read < bytes.len() {
            let (id, why) = (object.id, "ends before its content does".to_owned());
            return Err(Error::Unsound { id, why });
        }
        Ok(bytes.into())
    }

    /// Deletes the doomed objects. A failure only leaves some of them to the next change, which may
    /// be the deletion that makes room in a full store. A smaller batch may fit where a larger one
    /// does not, because each object's head may take a block.
    pub(crate) fn sweep(&self) {
        let mut most = DELETIONS;
        while most > 0 {
            let mut doomed = self.names.doomed.lock();
            let rest = doomed.len().saturating_sub(most);
            let ids = doomed.split_off(rest);
            drop(doomed);
            if ids.is_empty() {
                return;
            }
            let changes: Vec<_> = ids.iter().map(|&id| Change::Delete { id }).collect();
            if self.store.apply(&changes).is_err() {
                self.names.doomed.lock().extend(ids);
                most /= 2;
            }
        }
    }

    fn check_size(&self, head: &Head, size: u64) -> Result<(), Error> {
        let capacity = self.store.capacity();
        match head.start.saturating_add(size) > capacity {
            false => Ok(()),
            true => Err(Error::TooLarge {
                path: head.name.to_string(),
                size,
                capacity,
            }),
        }
    }

    /// Puts content under a name. Returns the id.
    pub(crate) fn put(
        &self,
        path: &Path,
        content: &Bytes,
        attributes: Attributes,
        mode: &PutMode,
    ) -> Result<u64, Error> {
        let mut head = head(path, attributes.clone(), content.len() as u64);
        let block = head.encode(self.block())?;
        self.check_size(&head, head.size)?;
        self.sweep();
        if head.size <= AT_ONCE {
            let parts = [(0, &block[..]), (head.start, content)];
            let create = |changes: &[Change<'_>]| self.store.create_with(&parts, changes);
            match self.publish(head, mode, create) {
                Err(Error::Store(StoreError::Space(SpaceError::TooLong { .. }))) => {}
                result => return result,
            }
        }
        self.names.check(path, mode)?;
        let object = self.nameless(path, attributes)?;
        self.write(&object, 0, content)?;
        self.name(&object, content.len() as u64, mode)
    }

    /// Gives an object a name, by a batch with `commit`, which returns the object's id. The batch
    /// retires the object that had the name.
    fn publish(
        &self,
        mut head: Head,
        mode: &PutMode,
        commit: impl FnOnce(&[Change<'_>]) -> Result<u64, StoreError>,
    ) -> Result<u64, Error> {
        let path = std::mem::take(&mut head.name);
        let claim = self.names.claim(&[&path]);
        self.names.check(&path, mode)?;
        let nameless = head::nameless();
        let retired = claim.retire(&path).map(|it| change(it, &nameless));
        let id = commit(retired.as_slice())?;
        claim.set([(path, Some(self.names.object(id, head)))]);
        Ok(id)
    }

    /// Creates an object that has no name yet. It is doomed, unless it is [named](Self::name).
    pub(crate) fn nameless(
        &self,
        path: &Path,
        attributes: Attributes,
    ) -> Result<Arc<Object>, Error> {
        let mut head = head(path, attributes, 0);
        head.encode(self.block())?;
        self.check_size(&head, 0)?;
        self.sweep();
        let id = self.store.create_with(&[(0, &head::nameless())], &[])?;
        let object = self.names.object(id, head);
        object.doom(true);
        Ok(object)
    }

    /// Writes at `offset` of a nameless object's content, in several batches if free places are so
    /// scattered that the record of one would be too long.
    pub(crate) fn write(&self, object: &Object, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.check_size(&object.head, offset.saturating_add(data.len() as u64))?;
        match self
            .store
            .write(object.id, object.head.start + offset, data)
        {
            Err(StoreError::Space(SpaceError::TooLong { .. })) if data.len() > 1 => {
                let (first, second) = data.split_at(data.len() / 2);
                self.write(object, offset, first)?;
                self.write(object, offset + first.len() as u64, second)
            }
            result => Ok(result?),
        }
    }

    /// Copies the first `size` bytes of `from` to `offset` of a nameless object's content.
    pub(crate) fn fill(
        &self,
        object: &Object,
        offset: u64,
        from: &Object,
        size: u64,
    ) -> Result<(), Error> {
        for start in (0..size).step_by(AT_ONCE as usize) {
            let data = self.read(from, start..size.min(start + AT_ONCE))?;
            self.write(object, offset + start, &data)?;
        }
        Ok(())
    }

    /// Gives a nameless object its name. It has `size` bytes of content. Returns its id.
    pub(crate) fn name(&self, object: &Object, size: u64, mode: &PutMode) -> Result<u64, Error> {
        let id = object.id;
        let mut head = Head {
            size,
            modified: now(),
            ..object.head.clone()
        };
        let block = head.encode(self.block())?;
        self.publish(head, mode, |retired| {
            let (offset, data) = (0, &block[..]);
            let mut changes = vec![Change::Write { id, offset, data }];
            changes.extend(retired);
            self.store.apply(&changes).map(|()| id)
        })?;
        object.doom(false);
        Ok(id)
    }

    /// Copies an object. Returns the id of the copy.
    pub(crate) fn copy(&self, from: &Path, to: &Path, mode: &PutMode) -> Result<u64, Error> {
        let source = self.names.get(from)?;
        self.names.check(to, mode)?;
        let size = source.head.size;
        if size <= AT_ONCE {
            let content = self.read(&source, 0..size)?;
            return self.put(to, &content, source.head.attributes.clone(), mode);
        }
        self.name(&*self.nameless_copy(&source, to)?, size, mode)
    }

    /// Returns a nameless copy of an object, for the name `to`.
    fn nameless_copy(&self, from: &Object, to: &Path) -> Result<Arc<Object>, Error> {
        let object = self.nameless(to, from.head.attributes.clone())?;
        self.check_size(&object.head, from.head.size)?;
        self.fill(&object, 0, from, from.head.size)?;
        Ok(object)
    }

    /// Moves an object to another name, in one batch. It stays the same object, with its ETag. If
    /// the new name does not fit before the content, the batch names a copy.
    pub(crate) fn rename(&self, from: &Path, to: &Path, mode: &PutMode) -> Result<(), Error> {
        self.sweep();
        // The id of the object that was copied, and the copy.
        let mut copied: Option<(u64, Arc<Object>)> = None;
        loop {
            let claim = self.names.claim(&[from, to]);
            let object = self.names.get(from)?;
            self.names.check(to, mode)?;
            if from == to {
                return Ok(());
            }
            let mut head = Head {
                name: to.clone(),
                ..object.head.clone()
            };
            let mut block = head.encode(self.block())?;
            let copy = match &copied {
                _ if block.len() as u64 <= head.start => None,
                Some((id, copy)) if *id == object.id => Some(copy),
                _ => {
                    // Copying takes long, so others may change the names meanwhile.
                    drop(claim);
                    copied = Some((object.id, self.nameless_copy(&object, to)?));
                    continue;
                }
            };
            let moved = match copy {
                None => object,
                Some(copy) => {
                    // It counts as a reader.
                    drop(object);
                    head.start = copy.head.start;
                    block = head.encode(self.block())?;
                    head.name = Path::default();
                    self.names.object(copy.id, head)
                }
            };
            let nameless = head::nameless();
            let mut changes = vec![Change::Write {
                id: moved.id,
                offset: 0,
                data: &block,
            }];
            changes.extend(claim.retire(to).map(|it| change(it, &nameless)));
            if copy.is_some() {
                changes.extend(claim.retire(from).map(|it| change(it, &nameless)));
            }
            self.store.apply(&changes)?;
            claim.set([(from.clone(), None), (to.clone(), Some(moved))]);
            if let Some(copy) = copy {
                copy.doom(false);
            }
            return Ok(());
        }
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, path: &Path) -> Result<(), Error> {
        self.sweep();
        let claim = self.names.claim(&[path]);
        let nameless = head::nameless();
        let Some(retired) = claim.retire(path) else {
            let path = path.to_string();
            return Err(Error::NotFound { path });
        };
        self.store.apply(&[change(retired, &nameless)])?;
        claim.set([(path.clone(), None)]);
        Ok(())
    }
}

/// Returns a new head, as of now.
fn head(path: &Path, attributes: Attributes, size: u64) -> Head {
    Head {
        name: path.clone(),
        start: 0,
        size,
        modified: now(),
        attributes,
    }
}

/// Returns the time, as precisely as it is stored.
fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}

/// Returns the change to an object that loses its name.
fn change((id, fate): (u64, Fate), nameless: &[u8]) -> Change<'_> {
    match fate {
        Fate::Deleted => Change::Delete { id },
        Fate::Kept | Fate::Erased => Change::Write {
            id,
            offset: 0,
            data: nameless,
        },
    }
}
