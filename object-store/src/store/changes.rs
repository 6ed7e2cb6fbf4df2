//! Changes to several objects in one batch, and creation with content.

use std::ops::Range;

use spanlock_range_lock::{Access, RawRangeLockBatch};
use spanlock_sync::injected_bug;

use super::Store;
use crate::error::Error;
use crate::regions::{HEAD, Head, Layout, Mode, State};
use crate::space::{Medium, Vector};

/// A change to an object, as part of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Writes `data` at `offset`. Not in [`Mode::Versions`]: see [`Error::MakesNoVersion`].
    Write {
        /// The object.
        id: u64,
        /// Where the data begins in the object.
        offset: u64,
        /// What is written.
        data: &'a [u8],
    },
    /// Deletes the object, as [`Store::delete`] does.
    Delete {
        /// The object.
        id: u64,
    },
}

impl Change<'_> {
    fn id(&self) -> u64 {
        match *self {
            Change::Write { id, .. } | Change::Delete { id } => id,
        }
    }
}

impl<M: Medium, L: RawRangeLockBatch> Store<M, L> {
    /// Changes several objects, all or nothing, durable when this returns. Each object occurs once
    /// at most. A write takes up to two of the batch's
    /// [`MAX_VECTORS`](crate::space::MAX_VECTORS), a deletion takes two.
    ///
    /// ```
    /// # use spanlock_interval_lock::IntervalLock;
    /// # use spanlock_journal_commit::testing::Recorded;
    /// # use spanlock_object_store::space::{self, Disk, Space};
    /// # use spanlock_object_store::{Change, Options, Store};
    /// # let medium = Disk::new(Recorded::new(1 << 20));
    /// # let space = Space::create(medium, &space::Options::new(), IntervalLock::new())?;
    /// # let store = Store::create(space, &Options::new())?;
    /// let [first, second] = [store.create_object()?, store.create_object()?];
    /// let data = b"moved";
    /// let write = Change::Write { id: second, offset: 0, data };
    /// store.apply(&[write, Change::Delete { id: first }])?;
    /// assert_eq!(store.list(0, 10)?, [second]);
    /// # Ok::<(), spanlock_object_store::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Repeated`], [`Error::UnknownId`], [`Error::TooLarge`], [`Error::MakesNoVersion`],
    /// [`Error::Corrupt`], [`Error::Space`].
    pub fn apply(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        self.commit(&[], changes)
    }

    /// Creates an object with content, and changes others, in one batch: all or nothing, durable
    /// when this returns. `parts` has offsets, and the bytes there; what lies between reads as
    /// zeros. Unlike an object of [`create_object`](Self::create_object), this one is always
    /// listed. Returns its id.
    ///
    /// # Errors
    /// [`Error::NoIds`], and as for [`apply`](Self::apply). No id is lost then.
    pub fn create_with(
        &self,
        parts: &[(u64, &[u8])],
        changes: &[Change<'_>],
    ) -> Result<u64, Error> {
        let ends = parts
            .iter()
            .map(|(offset, data)| offset.saturating_add(data.len() as u64));
        let (end, capacity) = (ends.max().unwrap_or(0), self.capacity());
        self.check_mode(!parts.is_empty())?;
        let size = if self.geometry.mode.has_size() {
            end
        } else {
            0
        };
        self.ids.create(&self.geometry, Some(size), |id, heads| {
            if end > capacity {
                return Err(Error::TooLarge { id, end, capacity });
            }
            let start = self.geometry.data(id).start;
            let parts = parts
                .iter()
                .map(|(offset, data)| Vector::write(start + offset, data));
            let own: Vec<_> = heads.iter().cloned().chain(parts).collect();
            self.commit(&own, changes)
        })
    }

    fn check_mode(&self, is_writing: bool) -> Result<(), Error> {
        match self.geometry.mode {
            Mode::Versions { .. } if is_writing => Err(Error::MakesNoVersion),
            _ => Ok(()),
        }
    }

    /// Commits vectors and changes in one batch.
    pub(super) fn commit(&self, own: &[Vector<'_>], changes: &[Change<'_>]) -> Result<(), Error> {
        let mut ids: Vec<u64> = changes.iter().map(Change::id).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::Repeated { id: twice[0] });
        }
        let mut ranges: Vec<Range<u64>> = own.iter().map(Vector::range).collect();
        for change in changes {
            let id = change.id();
            ranges.push(match *change {
                Change::Write { offset, data, .. } => {
                    self.check_mode(true)?;
                    self.written(id, offset, data.len())?.0
                }
                Change::Delete { .. } => {
                    self.check_id(id)?;
                    self.geometry.body(id)
                }
            });
            let head = self.geometry.head_at(id);
            ranges.push(head..head + HEAD as u64);
        }
        let mut held = (self.space).hold(ranges.into_iter().map(|it| (it, Access::Write)))?;
        let mut heads = Vec::new();
        for change in changes {
            let old = self.head(&held, change.id())?;
            let new = match *change {
                Change::Write { offset, data, .. } => {
                    self.head_after(old, offset + data.len() as u64, data.is_empty())
                }
                Change::Delete { .. } => Head::new(State::None),
            };
            heads.push((old != new).then(|| new.encode(change.id())));
        }
        let mut vectors = own.to_vec();
        for (change, head) in changes.iter().zip(&heads) {
            let id = change.id();
            let (at, body) = (self.geometry.head_at(id), self.geometry.body(id));
            let head = head.as_ref().map(|head| Vector::write(at, head));
            match *change {
                Change::Write { offset, data, .. } => {
                    vectors.extend(head);
                    vectors.push(Vector::write(body.start + offset, data));
                }
                Change::Delete { .. }
                    if injected_bug!(
                        "head-not-deleted",
                        "a deletion trims the region and leaves the head",
                        killed_by = "objects-packed/create-delete, objects-packed/delete-delete, objects-packed/sequences-of-1"
                    ) =>
                {
                    vectors.push(Vector::trim(body));
                }
                Change::Delete { .. } => {
                    vectors.extend(match self.geometry.layout {
                        Layout::Region => Some(Vector::trim(at..body.start)),
                        Layout::Packed => head,
                    });
                    vectors.push(Vector::trim(body));
                }
            }
        }
        Ok(held.write_batch(&vectors)?)
    }

    /// Returns the head of an object after a write in direct mode that ends at `end`.
    pub(super) fn head_after(&self, old: Head, end: u64, is_empty: bool) -> Head {
        let mut new = Head {
            state: State::Created,
            ..old
        };
        if self.geometry.mode.has_size() && !is_empty {
            new.size = old.size.max(end);
        }
        new
    }
}
