//! Ids: each thread takes them from a slot of its own, whose reserved part is durable.
//!
//! # The problem
//! An id must never be given out twice, not even after a crash, and giving out ids must not
//! serialize the threads that create objects. A durable counter would do the first: one block,
//! which every creation holds until its batch is durable. So each thread has a block of its own, a
//! *slot*, with the end of what it may give out.
//!
//! ```text
//!   a slot's range    given out │ pre-created │ reserved, without heads │ not reserved │
//!                               next          written                   upto           end
//! ```
//!
//! | word | changed by | survives |
//! |---|---|---|
//! | `next`, the next id | each creation | no: after a crash, the slot continues at `upto` |
//! | `written`, the end of the heads | a creation that finds `next` = `written` | no |
//! | `upto`, the end of what may have been given out | the same batch, if the heads pass it | yes |
//! | `end`, the end of the slot's range | a creation that finds `next` = `end` | yes |
//!
//! # Locks
//! A thread holds its slot's mutex while it commits, in the space. With more threads than slots,
//! some share a slot and wait for each other's flushes. Nothing in the space waits for a slot.
//!
//! `docs/format.md` has the invariants O-I1 to O-I3.

use spanlock_range_lock::{Access, RawRangeLockBatch};
use spanlock_sync::atomic::{AtomicU64, Ordering};
use spanlock_sync::{Mutex, MutexGuard, injected_bug, thread};

use crate::error::Error;
use crate::regions::{Geometry, HEAD, Head, Layout, SLOTS, Slot, State};
use crate::space::{Medium, Space, Vector};

/// Bits for the number of heads that one batch writes, which is at most 100. There are fewer than
/// 2^56 ids.
const PENDING: u32 = 8;

/// A slot in memory. See the [module](self).
#[derive(Clone, Copy, Debug)]
struct Range {
    next: u64,
    written: u64,
    upto: u64,
    end: u64,
}

/// The ids of a store.
#[derive(Debug)]
pub(crate) struct Ids {
    slots: Box<[Mutex<Range>]>,
    /// For each slot, the ids whose heads are written, but which were not given out since the store
    /// was opened: their end, and in the lowest [`PENDING`] bits their number.
    pending: Box<[AtomicU64]>,
    /// The start of the next range.
    fresh: AtomicU64,
    /// *N*: the super region is written once in so many creations.
    skip: u64,
    /// *P*: so many heads are written by one batch.
    heads: u64,
    /// The ids of a range.
    range: u64,
}

impl Ids {
    /// Reads the slots.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Space`].
    pub(crate) fn open<M: Medium, L: RawRangeLockBatch>(
        space: &Space<M, L>,
        geometry: &Geometry,
        skip: u64,
        heads: u64,
    ) -> Result<Self, Error> {
        let all = 0..geometry.slot_at(SLOTS);
        let held = space.hold([(all.clone(), Access::Read)])?;
        let mut blocks = vec![0; all.end as usize];
        held.read(0, &mut blocks)?;
        let mut fresh = 0;
        let mut slots = Vec::new();
        for number in 0..SLOTS {
            let at = geometry.slot_at(number);
            let bytes = blocks[at as usize..].first_chunk().expect("a whole block");
            let what = "a slot of the super region";
            let slot = Slot::decode(number, bytes).filter(|it| it.end <= geometry.regions + 1);
            let slot = slot.ok_or(Error::Corrupt { what, at })?;
            let ends_at_upto = injected_bug!(
                "fresh-at-upto",
                "after a crash, the next range begins at the largest `upto`",
                killed_by = "objects-packed/sequences-of-1, objects-packed/sequences-of-2, objects-packed/create-create"
            );
            fresh = fresh.max(if ends_at_upto { slot.upto } else { slot.end });
            // O-I1: ids below `upto` may have been given out.
            let (upto, end) = (slot.upto, slot.end);
            slots.push(Mutex::new(Range {
                next: upto,
                written: upto,
                upto,
                end,
            }));
        }
        Ok(Ids {
            slots: slots.into(),
            pending: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            fresh: AtomicU64::new(fresh),
            skip,
            heads,
            range: skip.next_multiple_of(geometry.heads_in_block()),
        })
    }

    /// Gives out an id. If the batch that this takes is not empty, `commit` makes it durable, alone
    /// or with others' vectors. With a `size`, it has the object's head in any case.
    ///
    /// # Errors
    /// [`Error::NoIds`], or that of `commit`. No id is lost then.
    pub(crate) fn create(
        &self,
        geometry: &Geometry,
        size: Option<u64>,
        commit: impl FnOnce(u64, &[Vector<'_>]) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let (number, mut slot) = self.slot_with_ids(geometry)?;
        let id = slot.next;
        let mut new = Range {
            next: id + 1,
            ..*slot
        };
        if id == slot.written {
            new.written = slot.end.min(id + self.heads);
            if new.written > slot.upto {
                new.upto = slot.end.min(new.written.max(id + self.skip));
            }
        }
        // Relaxed: whoever knows an id has synchronized with the thread that got it. Set before the
        // heads are there, so that nobody finds them before.
        let pending = new.written << PENDING | (new.written - new.next);
        self.pending[number as usize].store(pending, Ordering::Relaxed);
        let heads = match id == slot.written {
            true => id..new.written,
            false => id..id + u64::from(size.is_some()),
        };
        if !heads.is_empty() {
            let Range { upto, end, .. } = new;
            let is_stale = injected_bug!(
                "upto-not-raised",
                "the slot is written as it was",
                killed_by = "objects-packed/create-create, objects-packed/create-checkpoint, objects-packed/sequences-of-1"
            );
            let is_missing = injected_bug!(
                "slot-not-written",
                "an id is given out before a slot that covers it is durable",
                killed_by = "objects-packed/create-create, objects-packed/create-checkpoint, objects-packed/sequences-of-1"
            );
            let written = if is_stale { slot.upto } else { upto };
            let reserved = (upto > slot.upto && !is_missing).then(|| {
                let upto = written;
                Slot { upto, end }.encode(number)
            });
            let bytes = encode_heads(heads.clone(), size.unwrap_or(0));
            let mut vectors = head_vectors(geometry, heads, &bytes);
            let at = geometry.slot_at(number);
            vectors.extend(reserved.iter().map(|it| Vector::write(at, it)));
            // So an id is given out only when its head and the slot are durable (O-I2).
            commit(id, &vectors)?;
        }
        *slot = new;
        Ok(id)
    }

    /// Returns a slot that has ids left: that of the calling thread, unless all ranges are taken.
    fn slot_with_ids(&self, geometry: &Geometry) -> Result<(u64, MutexGuard<'_, Range>), Error> {
        let own = thread::index() as u64;
        for number in (own..own + SLOTS).map(|it| it % SLOTS) {
            let mut slot = self.slots[number as usize].lock();
            if slot.next == slot.end
                && let Some(fresh) = self.fresh_range(geometry)
            {
                *slot = fresh;
            }
            if slot.next < slot.end {
                return Ok((number, slot));
            }
        }
        let regions = geometry.regions;
        Err(Error::NoIds { regions })
    }

    /// Returns whether this id is only pre-created, and will be given out.
    pub(crate) fn is_pending(&self, id: u64) -> bool {
        self.pending.iter().any(|it| {
            // Relaxed: as where it is set.
            let pending = it.load(Ordering::Relaxed);
            let (end, count) = (pending >> PENDING, pending & ((1 << PENDING) - 1));
            (end - count..end).contains(&id)
        })
    }

    /// Takes a range that no slot has. It is not reserved yet.
    fn fresh_range(&self, geometry: &Geometry) -> Option<Range> {
        let regions = geometry.regions;
        // Relaxed: ranges are disjoint, because additions are atomic; nothing else depends on them.
        let start = if injected_bug!(
            "range-taken-twice",
            "two threads take the same range",
            killed_by = "objects-ranges/create-create"
        ) {
            let start = self.fresh.load(Ordering::Relaxed);
            self.fresh.store(start + self.range, Ordering::Relaxed);
            start
        } else {
            self.fresh.fetch_add(self.range, Ordering::Relaxed)
        };
        let end = start.saturating_add(self.range).min(regions + 1);
        if start > regions {
            // Relaxed: as above. So many failing threads cannot make the counter overflow.
            self.fresh.fetch_min(regions + 1, Ordering::Relaxed);
            return None;
        }
        // There is no object 0.
        let start = start.max(1);
        Some(Range {
            next: start,
            written: start,
            upto: start,
            end,
        })
    }

    /// Returns the end of all ids that can have been given out.
    pub(crate) fn end(&self) -> u64 {
        // Relaxed: a caller that knows of an id has synchronized with the thread that got it.
        self.fresh.load(Ordering::Relaxed)
    }
}

/// Encodes the heads of new objects. The first is created, with this size, the others are only
/// pre-created (O-I3).
fn encode_heads(ids: std::ops::Range<u64>, size: u64) -> Vec<u8> {
    let first = ids.start;
    let passes_for_created = injected_bug!(
        "pre-created-as-created",
        "the head of a pre-created object passes for one of a created object",
        killed_by = "objects-pre-created/create-create, objects-pre-created/sequences-of-1"
    );
    let head = |id| match id == first || passes_for_created {
        true => Head {
            size,
            ..Head::new(State::Created)
        },
        false => Head::new(State::PreCreated),
    };
    ids.flat_map(|id| head(id).encode(id)).collect()
}

fn head_vectors<'h>(
    geometry: &Geometry,
    ids: std::ops::Range<u64>,
    heads: &'h [u8],
) -> Vec<Vector<'h>> {
    match geometry.layout {
        Layout::Packed => vec![Vector::write(geometry.head_at(ids.start), heads)],
        Layout::Region => {
            let each = ids.zip(heads.chunks_exact(HEAD));
            each.map(|(id, head)| Vector::write(geometry.head_at(id), head))
                .collect()
        }
    }
}
