//! The operations on named objects, which block.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use chrono::{DateTime, SubsecRound, Utc};
use object_store::path::Path;
use object_store::{Attributes, PutMode};
use spanlock_object_store::space::{Error as SpaceError, Medium};
use spanlock_object_store::{Change, Error as StoreError, Store};
use spanlock_range_lock::RawRangeLockBatch;

use crate::error::Error;
use crate::head::{self, Found, Head};
use crate::names::{Fate, Names, Object};

/// Content up to this many bytes is written together with its name, in one batch. More would make
/// other creations wait that share the thread's slot of ids.
const AT_ONCE: u64 = 8 << 20;
/// Objects that one batch deletes.
const DELETIONS: usize = 16;

/// A store, and the names of its objects.
pub(crate) struct Objects<M: Medium, L: RawRangeLockBatch> {
    store: Store<M, L>,
    pub(crate) names: Names,
}

/// An object that has no name yet. Dropping it dooms the object, unless it was named or deleted.
pub(crate) struct Nameless<M: Medium, L: RawRangeLockBatch> {
    objects: Arc<Objects<M, L>>,
    pub(crate) id: u64,
    /// Its future head, without the size.
    head: Head,
    is_settled: AtomicBool,
}

impl<M: Medium, L: RawRangeLockBatch> Drop for Nameless<M, L> {
    fn drop(&mut self) {
        if !*self.is_settled.get_mut() {
            self.objects.names.doomed.lock().push(self.id);
        }
    }
}

impl<M: Medium, L: RawRangeLockBatch> Objects<M, L> {
    /// Reads all name blocks, in several threads, and deletes the objects without names.
    pub(crate) fn open(store: Store<M, L>) -> Result<Self, Error> {
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
        objects.sweep()?;
        Ok(objects)
    }

    /// Adds the names of objects. Returns the objects that have none.
    fn add(&self, ids: &[u64]) -> Result<Vec<u64>, Error> {
        let mut nameless = Vec::new();
        for &id in ids {
            match self.read_head(id)? {
                Found::Named(head) => {
                    let (path, object) = self.names.object(id, head);
                    if let Some(other) = self.names.add(path.clone(), object) {
                        let (path, ids) = (path.to_string(), [other.id, id]);
                        return Err(Error::TwoWithOneName { path, ids });
                    }
                }
                Found::Nameless => nameless.push(id),
                Found::Unsound => return Err(Error::Unsound { id }),
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
        Ok(head::decode(&bytes[..read.min(len)]))
    }

    fn block(&self) -> u64 {
        self.store.space().block().into()
    }

    pub(crate) fn store(&self) -> &Store<M, L> {
        &self.store
    }

    /// Reads all of `range` of the content of a named object.
    pub(crate) fn read_object(&self, object: &Object, range: Range<u64>) -> Result<Bytes, Error> {
        self.read(object.id, object.head.start, range)
    }

    fn read(&self, id: u64, start: u64, range: Range<u64>) -> Result<Bytes, Error> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = self.store.read(id, start + range.start, &mut bytes)?;
        debug_assert_eq!(read, bytes.len(), "the content is there, whole");
        Ok(bytes.into())
    }

    /// Deletes the doomed objects.
    pub(crate) fn sweep(&self) -> Result<(), Error> {
        loop {
            let mut doomed = self.names.doomed.lock();
            let rest = doomed.len().saturating_sub(DELETIONS);
            let ids = doomed.split_off(rest);
            drop(doomed);
            if ids.is_empty() {
                return Ok(());
            }
            let changes: Vec<_> = ids.iter().map(|&id| Change::Delete { id }).collect();
            if let Err(error) = self.store.apply(&changes) {
                self.names.doomed.lock().extend(ids);
                return Err(error.into());
            }
        }
    }

    fn check_size(&self, head: &Head) -> Result<(), Error> {
        let (capacity, size) = (self.store.capacity(), head.size);
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
        self: &Arc<Self>,
        path: &Path,
        content: &Bytes,
        attributes: Attributes,
        mode: &PutMode,
    ) -> Result<u64, Error> {
        let mut head = head(path, attributes.clone(), content.len() as u64);
        let block = head.encode(self.block())?;
        self.check_size(&head)?;
        self.sweep()?;
        if head.size <= AT_ONCE {
            let parts = [(0, &block[..]), (head.start, content)];
            let create = |changes: &[Change<'_>]| self.store.create_with(&parts, changes);
            match self.publish(head, mode, create) {
                Err(Error::Store(StoreError::Space(SpaceError::TooLong { .. }))) => {}
                result => return result,
            }
        }
        self.names.check(path, mode)?;
        let nameless = self.nameless(path, attributes)?;
        nameless.write(0, content)?;
        nameless.name(content.len() as u64, mode)
    }

    /// Gives an object a name, by a batch with `commit`, which returns the object's id. The batch
    /// retires the object that had the name.
    fn publish(
        &self,
        head: Head,
        mode: &PutMode,
        commit: impl FnOnce(&[Change<'_>]) -> Result<u64, StoreError>,
    ) -> Result<u64, Error> {
        let path = head.name.clone();
        let claim = self.names.claim(&[&path]);
        self.names.check(&path, mode)?;
        let nameless = head::nameless();
        let retired = claim.retire(&path).map(|it| change(it, &nameless));
        let id = commit(retired.as_slice())?;
        let (path, object) = self.names.object(id, head);
        claim.set([(path, Some(object))]);
        Ok(id)
    }

    /// Creates an object that has no name yet.
    pub(crate) fn nameless(
        self: &Arc<Self>,
        path: &Path,
        attributes: Attributes,
    ) -> Result<Nameless<M, L>, Error> {
        let mut head = head(path, attributes, 0);
        head.encode(self.block())?;
        self.check_size(&head)?;
        self.sweep()?;
        let id = self.store.create_with(&[(0, &head::nameless())], &[])?;
        Ok(Nameless {
            objects: self.clone(),
            id,
            head,
            is_settled: AtomicBool::new(false),
        })
    }

    /// Copies an object. Returns the id of the copy.
    pub(crate) fn copy(
        self: &Arc<Self>,
        from: &Path,
        to: &Path,
        mode: &PutMode,
    ) -> Result<u64, Error> {
        let source = self.names.get(from)?;
        self.names.check(to, mode)?;
        let (size, attributes) = (source.head.size, source.head.attributes.clone());
        if size <= AT_ONCE {
            let content = self.read_object(&source, 0..size)?;
            return self.put(to, &content, attributes, mode);
        }
        let nameless = self.nameless(to, attributes)?;
        nameless.fill(0, size, |range| self.read_object(&source, range))?;
        nameless.name(size, mode)
    }

    /// Moves an object to another name, in one batch. It stays the same object, with its ETag.
    pub(crate) fn rename(
        self: &Arc<Self>,
        from: &Path,
        to: &Path,
        mode: &PutMode,
    ) -> Result<(), Error> {
        self.sweep()?;
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
        let block = head.encode(self.block())?;
        if block.len() as u64 > head.start {
            // The content is in the way of the longer name.
            drop(claim);
            self.copy(from, to, mode)?;
            return self.delete(from);
        }
        let (nameless, id) = (head::nameless(), object.id);
        let mut changes = vec![Change::Write {
            id,
            offset: 0,
            data: &block,
        }];
        changes.extend(claim.retire(to).map(|it| change(it, &nameless)));
        self.store.apply(&changes)?;
        claim.set([(from.clone(), None), (to.clone(), Some(object))]);
        Ok(())
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, path: &Path) -> Result<(), Error> {
        self.sweep()?;
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

impl<M: Medium, L: RawRangeLockBatch> Nameless<M, L> {
    /// Checks that content of this size fits.
    pub(crate) fn check_size(&self, size: u64) -> Result<(), Error> {
        self.objects.check_size(&Head {
            size,
            ..self.head.clone()
        })
    }

    /// Writes at `offset` of the content, in several batches if it is much.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.check_size(offset.saturating_add(data.len() as u64))?;
        let each = AT_ONCE as usize;
        for (at, data) in (offset..).step_by(each).zip(data.chunks(each)) {
            self.write_part(self.head.start + at, data)?;
        }
        Ok(())
    }

    /// Copies `size` bytes to `offset` of the content.
    pub(crate) fn fill(
        &self,
        offset: u64,
        size: u64,
        read: impl Fn(Range<u64>) -> Result<Bytes, Error>,
    ) -> Result<(), Error> {
        for start in (0..size).step_by(AT_ONCE as usize) {
            let data = read(start..size.min(start + AT_ONCE))?;
            self.write(offset + start, &data)?;
        }
        Ok(())
    }

    /// Reads content.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Bytes, Error> {
        self.objects.read(self.id, self.head.start, range)
    }

    /// Writes in one batch, or in several if free space is so scattered that one's record would be
    /// too long.
    fn write_part(&self, at: u64, data: &[u8]) -> Result<(), Error> {
        match self.objects.store.write(self.id, at, data) {
            Err(StoreError::Space(SpaceError::TooLong { .. })) if data.len() > 1 => {
                let (first, second) = data.split_at(data.len() / 2);
                self.write_part(at, first)?;
                self.write_part(at + first.len() as u64, second)
            }
            result => Ok(result?),
        }
    }

    /// Gives the object its name. It has `size` bytes of content. Returns its id.
    pub(crate) fn name(&self, size: u64, mode: &PutMode) -> Result<u64, Error> {
        let (objects, id) = (&self.objects, self.id);
        let mut head = Head {
            size,
            modified: now(),
            ..self.head.clone()
        };
        let block = head.encode(objects.block())?;
        objects.publish(head, mode, |retired| {
            let (offset, data) = (0, &block[..]);
            let mut changes = vec![Change::Write { id, offset, data }];
            changes.extend(retired);
            objects.store.apply(&changes).map(|()| id)
        })?;
        self.settle();
        Ok(id)
    }

    /// Deletes the object.
    pub(crate) fn delete(&self) -> Result<(), Error> {
        self.objects.store.delete(self.id)?;
        self.settle();
        Ok(())
    }

    fn settle(&self) {
        // Relaxed: the drop has exclusive access, and so sees this.
        self.is_settled.store(true, Ordering::Relaxed);
    }
}

impl<M: Medium, L: RawRangeLockBatch> fmt::Debug for Objects<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Objects").field(&self.store).finish()
    }
}

impl<M: Medium, L: RawRangeLockBatch> fmt::Debug for Nameless<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nameless")
            .field("id", &self.id)
            .field("head", &self.head)
            .finish()
    }
}
