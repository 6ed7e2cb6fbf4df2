//! The store: objects in regions of a space.

mod changes;
mod check;
mod versions;

use std::fmt;
use std::ops::Range;
use std::time::UNIX_EPOCH;

pub use changes::Change;
pub use check::Report;
pub use versions::Version;

use spanlock_range_lock::{Access, RawRangeLockBatch};
use spanlock_sync::{injected_bug, time};

use crate::error::Error;
use crate::ids::Ids;
use crate::regions::{Geometry, HEAD, Head, Layout, Mode, State, StoreBlock, VERSION};
use crate::space::{Held, Medium, Space, Vector};

/// Options of a store. The layout, the mode and the size of the regions are fixed when it is
/// created; opening it ignores them, and uses the others, which may differ from the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    layout: Layout,
    mode: Mode,
    region: u64,
    skip: u64,
    heads: u64,
    versions: u64,
}

impl Options {
    /// The most objects whose heads one batch writes.
    const MOST_HEADS: u64 = 100;

    /// Returns the defaults: the packed layout, the mode with the stored size, regions of 1 GiB, a
    /// skip number of 64, and no pre-creation.
    pub fn new() -> Self {
        Options {
            layout: Layout::default(),
            mode: Mode::default(),
            region: 1 << 30,
            skip: 64,
            heads: 1,
            versions: u64::MAX,
        }
    }

    /// Sets where the heads of objects are.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets what the store keeps of an object.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the size of a region in bytes, a multiple of the space's block. An object has room for
    /// the region, less a block in [`Layout::Region`], less the log in [`Mode::Versions`]. The size
    /// of the space divided by this is the number of ids that can ever be given out.
    pub fn region(mut self, bytes: u64) -> Self {
        self.region = bytes;
        self
    }

    /// Sets the skip number *N*, from 1 to 2^32: the super region is written once in *N* creations,
    /// and a crash skips at most *N* ids of each slot (or as many as are pre-created). There are 64
    /// slots, which threads share.
    pub fn skip_number(mut self, creations: u64) -> Self {
        self.skip = creations;
        self
    }

    /// Sets how many objects' heads one batch writes, from 1 to 100: the created one's and those of
    /// the next. Later creations then write nothing. An object that was created so, but never
    /// written, is not [listed](Store::list).
    pub fn pre_create(mut self, heads: u64) -> Self {
        self.heads = heads;
        self
    }

    /// Sets how old a version may be, in [`Mode::Versions`]: a write reclaims those whose number is
    /// smaller than its own by more than `most`. Retained versions stay. Rollbacks leave gaps
    /// between numbers, so these may be fewer than `most` versions. The version that the write
    /// itself replaces always stays. Without this, versions stay until the log is full.
    pub fn keep_versions(mut self, most: u64) -> Self {
        self.versions = most;
        self
    }

    fn check(&self) -> Result<(), Error> {
        let (what, found) = ("the number of heads of a batch", self.heads);
        if !(1..=Self::MOST_HEADS).contains(&found) {
            return Err(Error::BadOption {
                what,
                found,
                wanted: "from 1 to 100",
            });
        }
        let (what, found) = ("the skip number", self.skip);
        if !(1..=1 << 32).contains(&found) {
            return Err(Error::BadOption {
                what,
                found,
                wanted: "from 1 to 2^32",
            });
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

/// A flat store of objects.
///
/// ```
/// use spanlock_interval_lock::IntervalLock;
/// use spanlock_journal_commit::testing::Recorded;
/// use spanlock_object_store::space::{self, Disk, Space};
/// use spanlock_object_store::{Options, Store};
///
/// let medium = Disk::new(Recorded::new(1 << 20));
/// let space = Space::create(medium, &space::Options::new(), IntervalLock::new())?;
/// let store = Store::create(space, &Options::new())?;
/// let id = store.create_object()?;
/// store.write(id, 0, b"hello, ")?;
/// store.write(id, 7, b"world")?;
/// let mut found = [0; 100];
/// assert_eq!(store.read(id, 0, &mut found)?, 12);
/// assert_eq!(&found[..12], b"hello, world");
/// assert_eq!(store.list(0, 10)?, [id]);
/// store.delete(id)?;
/// assert!(store.read(id, 0, &mut found).is_err());
/// # Ok::<(), spanlock_object_store::Error>(())
/// ```
pub struct Store<M: Medium, L: RawRangeLockBatch> {
    space: Space<M, L>,
    geometry: Geometry,
    ids: Ids,
    /// The versions that a write keeps.
    keep: u64,
}

impl<M: Medium, L: RawRangeLockBatch> Store<M, L> {
    /// Creates an empty store in an empty space.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::Occupied`], [`Error::Space`]. Nothing was written, except as
    /// [`space::Error::Failed`](crate::space::Error::Failed) says.
    pub fn create(space: Space<M, L>, options: &Options) -> Result<Self, Error> {
        options.check()?;
        let Options {
            layout,
            mode,
            region,
            ..
        } = *options;
        let geometry = Geometry::new(layout, mode, region, space.block(), space.size())?;
        let stats = space.stats();
        if stats.free < stats.places {
            return Err(Error::Occupied);
        }
        space.write_batch(&[Vector::write(0, &geometry.encode())])?;
        Self::with(space, geometry, options)
    }

    /// Opens a store. Of `options`, it uses the skip number, the pre-creation and how old versions
    /// may be.
    ///
    /// # Errors
    /// [`Error::NotAStore`], [`Error::Version`], [`Error::Corrupt`], [`Error::BadOption`],
    /// [`Error::Space`].
    pub fn open(space: Space<M, L>, options: &Options) -> Result<Self, Error> {
        options.check()?;
        let mut bytes = [0; HEAD];
        space.read(0, &mut bytes)?;
        let geometry = match Geometry::decode(&bytes, space.block(), space.size()) {
            StoreBlock::Sound(geometry) => geometry,
            StoreBlock::Zero => return Err(Error::NotAStore),
            StoreBlock::OtherVersion(found) => {
                return Err(Error::Version {
                    found,
                    supported: VERSION,
                });
            }
            StoreBlock::Unsound => {
                let what = "the store block of the super region";
                return Err(Error::Corrupt { what, at: 0 });
            }
        };
        Self::with(space, geometry, options)
    }

    fn with(space: Space<M, L>, geometry: Geometry, options: &Options) -> Result<Self, Error> {
        let ids = Ids::open(&space, &geometry, options.skip, options.heads)?;
        Ok(Store {
            space,
            geometry,
            ids,
            keep: options.versions,
        })
    }

    /// Returns the space. Do not write to it: the store's regions are there.
    pub fn space(&self) -> &Space<M, L> {
        &self.space
    }

    /// Returns the most bytes that an object can have.
    pub fn capacity(&self) -> u64 {
        self.geometry.capacity()
    }

    /// Returns what the store keeps of each object.
    pub fn mode(&self) -> Mode {
        self.geometry.mode
    }

    /// Creates an empty object, durably, and returns its id. No other object ever gets this id.
    ///
    /// # Errors
    /// [`Error::NoIds`], [`Error::Space`]. No id is lost then.
    pub fn create_object(&self) -> Result<u64, Error> {
        (self.ids).create(&self.geometry, None, |_, heads| self.commit(heads, &[]))
    }

    /// Reads at byte `offset` of an object. Returns how many bytes of `into` were read: fewer than
    /// all only at the end of the object. Without the stored size, reads all of them: bytes that
    /// were never written are zero, up to the [capacity](Self::capacity).
    ///
    /// # Errors
    /// [`Error::UnknownId`], [`Error::Corrupt`], [`Error::Space`].
    pub fn read(&self, id: u64, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let data = self.bytes(id, offset, into.len())?;
        let held = self.hold(id, Access::Read, data.clone(), Access::Read)?;
        let head = self.head(&held, id)?;
        let end = match self.geometry.mode.has_size() {
            true => head.size,
            false => self.capacity(),
        };
        let len = end.saturating_sub(offset).min(data.end - data.start) as usize;
        held.read(data.start, &mut into[..len])?;
        Ok(len)
    }

    /// Writes at byte `offset` of an object: all of `data` or nothing, durable when this returns. A
    /// gap before `offset` reads as zeros. In [`Mode::Versions`], this makes a version, with the
    /// system's time; see [`write_version`](Self::write_version).
    ///
    /// # Errors
    /// [`Error::UnknownId`], [`Error::TooLarge`], [`Error::Corrupt`], [`Error::Space`]; those of
    /// `write_version`.
    pub fn write(&self, id: u64, offset: u64, data: &[u8]) -> Result<(), Error> {
        if let Mode::Versions { .. } = self.geometry.mode {
            return self.write_version(id, offset, data, now()).map(drop);
        }
        let (bytes, end) = self.written(id, offset, data.len())?;
        // Most writes leave the head as it is, and so may go on beside writes to its neighbours.
        for access in [Access::Read, Access::Write] {
            let early = injected_bug!(
                "head-read-early",
                "a write reads the head before it holds it",
                killed_by = "objects-packed/grow-grow, objects-packed/grow-delete, objects-packed/span-delete"
            );
            let early = early.then(|| self.hold(id, access, 0..0, Access::Read));
            let early = early.map(|held| self.head(&held?, id)).transpose()?;
            let mut held = self.hold(id, access, bytes.clone(), Access::Write)?;
            let old = early.map_or_else(|| self.head(&held, id), Ok)?;
            let mut new = self.head_after(old, end, data.is_empty());
            if injected_bug!(
                "head-stays-pre-created",
                "the first write of a pre-created object leaves its head as it is",
                killed_by = "objects-pre-created/create-other, objects-pre-created/sequences-of-1"
            ) {
                new.state = old.state;
            }
            let mut vectors = vec![Vector::write(bytes.start, data)];
            let encoded = new.encode(id);
            if new != old {
                if access == Access::Read {
                    continue;
                }
                vectors.push(Vector::write(self.geometry.head_at(id), &encoded));
            }
            held.write_batch(&vectors)?;
            break;
        }
        Ok(())
    }

    /// Deletes an object, durably. Its id is not given out again.
    ///
    /// # Errors
    /// [`Error::UnknownId`], [`Error::Corrupt`], [`Error::Space`].
    pub fn delete(&self, id: u64) -> Result<(), Error> {
        self.apply(&[Change::Delete { id }])
    }

    /// Returns an object's size in bytes, or `None` if the store does not keep it.
    ///
    /// # Errors
    /// [`Error::UnknownId`], [`Error::Corrupt`], [`Error::Space`].
    pub fn size(&self, id: u64) -> Result<Option<u64>, Error> {
        self.check_id(id)?;
        let held = self.hold(id, Access::Read, 0..0, Access::Read)?;
        let head = self.head(&held, id)?;
        Ok(self.geometry.mode.has_size().then_some(head.size))
    }

    /// Returns up to `most` ids of objects, in ascending order, from `from` on: the next page
    /// begins after the last id. Reads the heads of all ids between, also of deleted objects.
    /// Objects that are created or deleted meanwhile may be among them or not. Objects that were
    /// only [pre-created](Options::pre_create) are not, until they are written.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Space`].
    pub fn list(&self, from: u64, most: usize) -> Result<Vec<u64>, Error> {
        let (mut found, mut next) = (Vec::new(), from.max(1));
        let end = self.ids.end().min(self.geometry.regions + 1);
        while next < end && found.len() < most {
            let ids = next..end.min(self.geometry.neighbours(next));
            let at = self.geometry.head_at(next)..self.geometry.head_at(ids.end - 1) + HEAD as u64;
            let mut bytes = vec![0; (at.end - at.start) as usize];
            self.space.read(at.start, &mut bytes)?;
            next = ids.end;
            for (id, bytes) in ids.zip(bytes.as_chunks().0) {
                let (what, at) = ("the head of an object", self.geometry.head_at(id));
                let head = Head::decode(id, bytes).ok_or(Error::Corrupt { what, at })?;
                if head.state == State::Created {
                    found.push(id);
                }
            }
        }
        found.truncate(most);
        Ok(found)
    }

    fn check_id(&self, id: u64) -> Result<(), Error> {
        match (1..=self.geometry.regions).contains(&id) {
            true => Ok(()),
            false => Err(Error::UnknownId { id }),
        }
    }

    /// Returns where the bytes of an object lie in the space, as far as they lie in its region.
    fn bytes(&self, id: u64, offset: u64, len: usize) -> Result<Range<u64>, Error> {
        self.check_id(id)?;
        let all = self.geometry.data(id);
        let start = all.start.saturating_add(offset).min(all.end);
        Ok(start..start.saturating_add(len as u64).min(all.end))
    }

    /// Returns where bytes to be written lie in the space, and where they end in the object.
    fn written(&self, id: u64, offset: u64, len: usize) -> Result<(Range<u64>, u64), Error> {
        let capacity = self.capacity();
        let end = offset.saturating_add(len as u64);
        if end > capacity {
            self.check_id(id)?;
            return Err(Error::TooLarge { id, end, capacity });
        }
        Ok((self.bytes(id, offset, len)?, end))
    }

    /// Holds an object's head, and bytes of its data.
    fn hold(
        &self,
        id: u64,
        head: Access,
        data: Range<u64>,
        access: Access,
    ) -> Result<Held<'_, M, L>, Error> {
        let at = self.geometry.head_at(id);
        Ok(self
            .space
            .hold([(at..at + HEAD as u64, head), (data, access)])?)
    }

    fn read_head(&self, held: &Held<'_, M, L>, id: u64) -> Result<Head, Error> {
        let at = self.geometry.head_at(id);
        let mut bytes = [0; HEAD];
        held.read_kept(at, &mut bytes)?;
        let what = "the head of an object";
        Head::decode(id, &bytes).ok_or(Error::Corrupt { what, at })
    }

    /// Reads the head of an object that exists.
    fn head(&self, held: &Held<'_, M, L>, id: u64) -> Result<Head, Error> {
        let head = self.read_head(held, id)?;
        match head.state {
            State::None => Err(Error::UnknownId { id }),
            // The creation that gives it out later must find it as it is.
            State::PreCreated if self.ids.is_pending(id) => Err(Error::UnknownId { id }),
            State::PreCreated | State::Created => Ok(head),
        }
    }
}

/// Returns the nanoseconds since 1970, or 0 if the target has no clock.
fn now() -> u64 {
    let now = time::of_day().and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    now.map_or(0, |it| it.as_nanos() as u64)
}

impl<M: Medium, L: RawRangeLockBatch> fmt::Debug for Store<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("geometry", &self.geometry)
            .field("space", &self.space)
            .finish_non_exhaustive()
    }
}
