//! The node cache: nodes in memory, and the three ways to look one up.
//!
//! # The problem
//! Each access to a file finds the block of a page through its nodes: inode, indirect nodes, direct
//! node. In F2FS, `get_dnode_of_data` does this. It locks one node after the other exclusively,
//! only to read one slot of each. So threads that access disjoint pages of one file wait for each
//! other at the nodes that they share. The poster "Scalability Analysis of F2FS for Concurrent
//! Writes on Shared Files on Manycore servers" (Noh and Kim, \[DNODE\]) measures the cost: 16 % of
//! the cycles of a write at 15 cores, and 67.6 % at 120. It proposes a reader-writer lock for each
//! node.
//!
//! # Properties
//! - **Lookup**: [`Lookup`] offers F2FS's way, the poster's, and one that writes no node: a slot is
//!   one word, so a thread just loads it under an epoch pin.
//! - **Cost**: finding a node takes one load from a table with 8 bytes for each node id.
//! - **Eviction**: a clock hand passes over the cached nodes. It evicts a node that is clean and
//!   was not looked up since the hand last passed it.
//!
//! # States of an entry
//! An entry is *settled* unless a captured image of it is not stored yet.
//!
//! ```text
//!   loaded ──► clean ──set──► dirty ──capture──► stored? ──settle──► clean ──evict──► gone
//!                               ▲                   │ set
//!   added ──────────────────────┴───────────────────┘  (dirty, and still not settled)
//! ```
//!
//! # Invariants
//! An entry is *linked* while the table points to it.
//!
//! - **N-C1** A thread links an entry only under the mutex of its id in `loading`, and only if the
//!   id has none. The thread that sets `is_gone` unlinks the entry before it unlocks `changes`. So
//!   an id has at most one linked entry, and a thread that has seen `is_gone` does not find the
//!   entry again.
//! - **N-C2** Slots and changes are changed only under `changes`, and not if `is_gone`. Only a
//!   clean and settled entry is evicted. So if a node is not cached, its stored image has every
//!   slot that was set.
//! - **N-C3** A thread that loads a node holds the mutex of its id from before it checks that no
//!   entry is linked until it has linked its own. No thread can set a slot of the node meanwhile,
//!   so the loaded image stays up to date.
//! - **N-C4** A thread uses an entry only while it has not linked it yet, or while it is pinned and
//!   has found it linked since. Freeing is deferred by the epoch (EP-I2 of `spanlock_sync::epoch`).
//!
//! A thread may read a slot of an entry that has just been evicted. The entry was linked at some
//! time after the call began, and its slots did not change after the eviction. So the value was
//! right at some time during the call.
//!
//! # Locks
//! A thread locks the mutex of an id in `loading`, then `changes` of an entry, then its latch. It
//! locks the mutex of the ring before `changes`.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | [`Cache::link`] | Release | B | `get-get`, `set-set` |
//! | B | [`Cache::linked`] | Acquire | A, C | `get-get`, `set-set` |
//! | C | [`Cache::unlink`] | Release | B | `evict-get` |
//! | D | [`Cache::set`]: the slot | Release | E | (`get-set-optimistic`) |
//! | E | [`Cache::get`]: the slot | Acquire | D | (`get-set-optimistic`) |
//!
//! Why D and E: the file's range lock orders accesses to blocks, but threads that hold disjoint
//! pages share the nodes above them. One thread adds a node, and sets the slot that names it. A
//! thread that reads the slot must not find the older node that had the id before. No model shows
//! this, because under a checker the fence of each deferred free orders the two accesses. As
//! shipped, not every deferred free has a fence. The model in parentheses runs both accesses.
//!
//! # Models
//! The rows `node-log-cache/…`.

use std::ptr;

use spanlock_range_lock::{RangeLockExt, RwCounter};
use spanlock_sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Exclusive, Ordering::*};
use spanlock_sync::epoch::{self, Collector, Guard};
use spanlock_sync::hint::scaled;
use spanlock_sync::{Mutex, injected_bug};

use crate::error::Error;
use crate::node::{Block, NODE_SLOTS, Nid, Place};

/// The number of mutexes for loading. Ids that share one are loaded one after the other.
const LOADING: usize = scaled(64, 2) as usize;
/// The most nodes that the clock hand passes for each node that is added.
const STEPS: usize = 32;
/// The whole range of a latch.
const ALL: std::ops::Range<u64> = 0..1;

/// How a lookup reads each node on the way from an inode to the block of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// With the node's latch held exclusively, as F2FS does.
    Exclusive,
    /// With the node's latch held shared, as the poster \[DNODE\] proposes.
    Shared,
    /// Without a latch, under an epoch pin.
    #[default]
    Optimistic,
}

/// The identity of a cached node. It never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The node.
    pub nid: Nid,
    /// The file's inode.
    pub inode: Nid,
    /// The place of the node in its file (`node::Place`, packed).
    pub place: u32,
}

/// A node in memory.
#[derive(Debug)]
struct Entry {
    about: About,
    slots: Box<[AtomicU32]>,
    /// Whether the node was looked up since the clock hand last passed it.
    is_recent: AtomicBool,
    latch: RwCounter,
    changes: Line<Mutex<Changes>>,
}

/// A value in a cache line of its own: a thread that sets a slot does not disturb lookups of other
/// slots.
#[repr(align(64))]
#[derive(Debug)]
struct Line<T>(T);

/// What has changed in a node since its last capture.
#[derive(Debug)]
struct Changes {
    is_dirty: bool,
    /// Whether the last captured image has been stored.
    is_settled: bool,
    /// Whether the entry was evicted or removed.
    is_gone: bool,
    /// A bit for each slot, set if no stored or captured image names its block.
    fresh: Box<[u64]>,
    /// Blocks that a stored or captured image names, but the node no longer does.
    replaced: Vec<Block>,
}

/// What a capture takes from a node.
#[derive(Debug, PartialEq, Eq)]
pub struct Captured {
    /// The slots, without trailing zeros.
    pub slots: Vec<u32>,
    /// Blocks to free once the image is durable. Never nodes.
    pub replaced: Vec<Block>,
}

/// Nodes in memory. The module's documentation explains the algorithm.
#[derive(Debug)]
pub struct Cache {
    lookup: Lookup,
    most: usize,
    /// The slots of each entry.
    slots: usize,
    table: Box<[AtomicPtr<Entry>]>,
    loading: [Mutex<()>; LOADING],
    ring: Mutex<Ring>,
    epochs: Collector,
}

/// The nodes that may be cached, over which the clock hand passes.
#[derive(Debug)]
struct Ring {
    /// Each node once.
    nids: Vec<Nid>,
    /// A bit for each node id that is in `nids`.
    has: Box<[u64]>,
    hand: usize,
}

impl Ring {
    fn has(&mut self, nid: Nid) -> (&mut u64, u64) {
        (&mut self.has[nid as usize / 64], 1 << (nid % 64))
    }

    fn add(&mut self, nid: Nid) {
        let (word, bit) = self.has(nid);
        if *word & bit == 0 {
            *word |= bit;
            self.nids.push(nid);
        }
    }

    fn remove(&mut self, at: usize) {
        let nid = self.nids.swap_remove(at);
        let (word, bit) = self.has(nid);
        *word &= !bit;
    }
}

/// What [`Cache::set`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The slot's value before.
    pub old: u32,
    /// Whether no stored or captured image names `old`, so that the caller frees it now. Otherwise,
    /// the node keeps it for its next capture.
    pub is_fresh: bool,
}

impl Entry {
    fn new(about: About, values: &[u32], slots: usize, is_new: bool) -> Self {
        let values = values.iter().copied().chain(std::iter::repeat(0));
        Entry {
            about,
            slots: values.take(slots).map(AtomicU32::new).collect(),
            is_recent: AtomicBool::new(false),
            latch: RwCounter::new(),
            changes: Line(Mutex::new(Changes {
                is_dirty: is_new,
                is_settled: true,
                is_gone: false,
                fresh: vec![0; slots.div_ceil(64)].into(),
                replaced: Vec::new(),
            })),
        }
    }

    /// Returns the slots, without trailing zeros.
    fn image(&self) -> Vec<u32> {
        // Relaxed: slots are stored under `changes`, which the caller holds.
        let slots = self.slots.iter().map(|slot| slot.load(Relaxed));
        let mut slots: Vec<u32> = slots.collect();
        let last = slots.iter().rposition(|&it| it != 0);
        slots.truncate(last.map_or(0, |last| last + 1));
        slots
    }

    /// Notes that the node was looked up.
    fn touch(&self) {
        // Relaxed, here and below: a hint for the clock hand.
        if !self.is_recent.load(Relaxed) {
            self.is_recent.store(true, Relaxed);
        }
    }
}

impl Changes {
    fn is_evictable(&self) -> bool {
        !self.is_dirty && self.is_settled
    }

    /// Notes that the node is changed.
    fn dirty(&mut self, about: About, dirtied: impl FnOnce(About)) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            dirtied(about);
        }
    }

    /// Notes that a slot is set.
    fn replace(&mut self, place: Place, slot: usize, old: u32, value: u32) -> Replaced {
        let (word, bit) = (&mut self.fresh[slot / 64], 1 << (slot % 64));
        // The bit is not set if `old` is 0.
        let is_fresh = *word & bit != 0;
        *word = if value == 0 {
            *word & !bit
        } else {
            *word | bit
        };
        if old != 0 && !is_fresh && place.names_block(slot) {
            self.replaced.push(old);
        }
        Replaced { old, is_fresh }
    }
}

impl Cache {
    /// Creates a cache for node ids below `nodes` that keeps about `most` nodes. Nodes that are
    /// dirty or not settled stay even beyond that.
    pub fn new(nodes: u32, lookup: Lookup, most: usize) -> Self {
        Cache::with_slots(nodes, lookup, most, NODE_SLOTS)
    }

    /// As [`new`](Self::new), for nodes with fewer slots, which are cheap to create in a model.
    pub fn with_slots(nodes: u32, lookup: Lookup, most: usize, slots: usize) -> Self {
        Cache {
            lookup,
            most: most.max(1),
            slots,
            table: (0..nodes)
                .map(|_| AtomicPtr::new(ptr::null_mut()))
                .collect(),
            loading: std::array::from_fn(|_| Mutex::new(())),
            ring: Mutex::new(Ring {
                nids: Vec::new(),
                has: vec![0; nodes.div_ceil(64) as usize].into(),
                hand: 0,
            }),
            epochs: Collector::new(),
        }
    }

    /// Returns one slot of a node. If the node is not cached, `load` returns its identity and its
    /// slots, which are then cached. `load` must not use the cache.
    pub fn get(
        &self,
        nid: Nid,
        slot: usize,
        load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
    ) -> Result<u32, Error> {
        self.with(nid, load, |entry| {
            entry.touch();
            // equivalent(Relaxed): only under a checker, see the orderings.
            // Acquire [E→D]: if the slot names a node, no older node with its id is linked.
            let value = || entry.slots[slot].load(Acquire);
            Some(match self.lookup {
                Lookup::Exclusive => {
                    let _latch = entry.latch.write(ALL).expect(WHOLE);
                    value()
                }
                Lookup::Shared => {
                    let _latch = entry.latch.read(ALL).expect(WHOLE);
                    value()
                }
                Lookup::Optimistic => value(),
            })
        })
    }

    /// Returns the identity of a node. Loads the node if it is not cached.
    pub fn about(
        &self,
        nid: Nid,
        load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
    ) -> Result<About, Error> {
        self.with(nid, load, |entry| Some(entry.about))
    }

    /// Adds a new node, which is dirty and has no slot set.
    pub fn add(&self, about: About) {
        {
            let _loading = self.loading(about.nid);
            // A thread that used the id after the node's removal may have loaded it again.
            self.remove(about.nid);
            self.link(self.entry(about, &[], true));
        }
        self.make_room(about.nid);
    }

    /// Sets one slot. If the node was clean, this calls `dirtied`, which puts it on its file's list
    /// of dirty nodes, before another thread can find it dirty. Otherwise, such a thread could rely
    /// on a capture of the file that came before the node was on the list.
    pub fn set(
        &self,
        nid: Nid,
        slot: usize,
        value: u32,
        load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
        mut dirtied: impl FnMut(About),
    ) -> Result<Replaced, Error> {
        self.with(nid, load, |entry| {
            let mut changes = entry.changes.0.lock();
            if changes.is_gone
                && !injected_bug!(
                    "set-though-gone",
                    "a slot is set in an entry that was evicted",
                    killed_by = "node-log-cache/set-evict"
                )
            {
                return None;
            }
            entry.touch();
            let cell = &entry.slots[slot];
            // Relaxed: slots are stored under `changes`.
            let old = cell.load(Relaxed);
            let latch = match self.lookup {
                Lookup::Optimistic => None,
                _ => Some(entry.latch.write(ALL).expect(WHOLE)),
            };
            // equivalent(Relaxed): only under a checker, see the orderings.
            // Release [D→E]: if the value names a node, no older node with its id is linked.
            cell.store(value, Release);
            drop(latch);
            changes.dirty(entry.about, &mut dirtied);
            Some(changes.replace(Place::of(entry.about), slot, old, value))
        })
    }

    /// Makes a node dirty, as [`set`](Self::set) does, without setting a slot.
    pub fn touch(
        &self,
        nid: Nid,
        load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
        mut dirtied: impl FnMut(About),
    ) -> Result<(), Error> {
        self.with(nid, load, |entry| {
            let mut changes = entry.changes.0.lock();
            if changes.is_gone {
                return None;
            }
            changes.dirty(entry.about, &mut dirtied);
            Some(())
        })
    }

    /// Takes the image of a dirty node, and makes the node clean, without fresh slots. The node is
    /// not evicted before [`settle`](Self::settle), because its image is not stored yet.
    ///
    /// # Panics
    /// If the node is not cached. Dirty nodes always are (N-C2).
    pub fn capture(&self, nid: Nid) -> Captured {
        let captured = self.look(nid, |entry| {
            let early = injected_bug!(
                "image-before-mutex",
                "a capture takes the slots before it has the mutex",
                killed_by = "node-log-cache/capture-set"
            )
            .then(|| entry.image());
            let mut changes = entry.changes.0.lock();
            changes.is_settled = injected_bug!(
                "settled-by-capture",
                "a node may be evicted before its captured image is stored",
                killed_by = "node-log-cache/commit-evict"
            );
            changes.is_dirty = false;
            let slots = early.unwrap_or_else(|| entry.image());
            changes.fresh.fill(0);
            let replaced = std::mem::take(&mut changes.replaced);
            Some(Captured { slots, replaced })
        });
        captured.expect("a dirty node is cached (N-C2)")
    }

    /// Allows evicting the node: its captured image has been stored.
    pub fn settle(&self, nid: Nid) {
        self.look(nid, |entry| {
            entry.changes.0.lock().is_settled = true;
            Some(())
        });
    }

    /// Drops a node that no other node names any more. Returns the blocks that it kept for its next
    /// capture.
    pub fn remove(&self, nid: Nid) -> Vec<Block> {
        let guard = self.epochs.pin();
        let replaced = self.look(nid, |entry| {
            let mut changes = entry.changes.0.lock();
            if changes.is_gone {
                return None;
            }
            self.unlink(entry, &mut changes, &guard);
            Some(std::mem::take(&mut changes.replaced))
        });
        replaced.unwrap_or_default()
    }

    /// Calls `act` with the linked entry of a node, and loads the node if there is none, or if
    /// `act` returns `None` because the entry is gone.
    fn with<R>(
        &self,
        nid: Nid,
        load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
        mut act: impl FnMut(&Entry) -> Option<R>,
    ) -> Result<R, Error> {
        if nid as usize >= self.table.len() {
            return Err(Error::Corrupt {
                what: "a node names one whose id is beyond the address table",
                half: "node half",
                at: nid.into(),
            });
        }
        loop {
            if let Some(done) = self.look(nid, &mut act) {
                return Ok(done);
            }
            let loading = self.loading(nid);
            let is_linked = !self.linked(nid).is_null();
            if is_linked
                && !injected_bug!(
                    "loaded-twice",
                    "a thread that waited for another one to load the node loads it again",
                    killed_by = "node-log-cache/set-set"
                )
            {
                continue;
            }
            let (about, values) = load()?;
            let entry = self.entry(about, &values, false);
            // No other thread can find the entry yet, so it cannot be gone.
            let done = act(&entry).expect("the entry is new");
            self.link(entry);
            drop(loading);
            self.make_room(nid);
            return Ok(done);
        }
    }

    /// Calls `act` with the linked entry of a node. Returns `None` if there is none.
    fn look<R>(&self, nid: Nid, act: impl FnOnce(&Entry) -> Option<R>) -> Option<R> {
        let _guard = self.epochs.pin();
        // SAFETY: null, or linked, and this thread is pinned until `act` has returned (N-C4).
        act(unsafe { self.linked(nid).as_ref() }?)
    }

    fn loading(&self, nid: Nid) -> spanlock_sync::MutexGuard<'_, ()> {
        self.loading[nid as usize % LOADING].lock()
    }

    fn entry(&self, about: About, values: &[u32], is_new: bool) -> Box<Entry> {
        epoch::owned(Box::new(Entry::new(about, values, self.slots, is_new)))
    }

    fn linked(&self, nid: Nid) -> *mut Entry {
        // Acquire [B→A, C]: the entry's fields are visible; or, if there is no entry, the stored
        // image is.
        self.table[nid as usize].load(Acquire)
    }

    /// Links an entry. The caller holds the id's mutex in `loading`, and the id has none (N-C1).
    fn link(&self, entry: Box<Entry>) {
        let nid = entry.about.nid;
        // Release [A→B]: publishes the entry's fields.
        self.table[nid as usize].store(Box::into_raw(entry), Release);
    }

    /// Unlinks an entry that is linked, and frees it later. `changes` are the entry's.
    fn unlink(&self, entry: &Entry, changes: &mut Changes, guard: &Guard<'_>) {
        changes.is_gone = true;
        let cell = &self.table[entry.about.nid as usize];
        // Release [C→B]: publishes that the node's image has been stored.
        let memory = cell.swap(ptr::null_mut(), Release);
        debug_assert!(ptr::eq(memory, entry));
        // SAFETY: it came from `owned` (`Cache::entry`), is unlinked, and only the thread that set
        // `is_gone` gets here (N-C1). Only pinned threads use it (N-C4).
        unsafe { guard.defer_free(memory) };
    }

    /// Evicts nodes until there is room for one more, and puts it into the ring.
    fn make_room(&self, nid: Nid) {
        let guard = self.epochs.pin();
        let mut ring = self.ring.lock();
        for _ in 0..STEPS {
            if ring.nids.len() < self.most {
                break;
            }
            let at = ring.hand % ring.nids.len();
            if self.evict(ring.nids[at], &guard) {
                ring.remove(at);
            } else {
                ring.hand = at + 1;
            }
        }
        ring.add(nid);
    }

    /// Evicts the node if that is possible now. Returns whether it is no longer cached.
    fn evict(&self, nid: Nid, guard: &Guard<'_>) -> bool {
        // SAFETY: null, or linked, and this thread is pinned (N-C4).
        let Some(entry) = (unsafe { self.linked(nid).as_ref() }) else {
            return true;
        };
        // Relaxed, here and below: a hint.
        if entry.is_recent.load(Relaxed) {
            entry.is_recent.store(false, Relaxed);
            return false;
        }
        let mut changes = entry.changes.0.lock();
        let is_evicted = !changes.is_gone && changes.is_evictable();
        if is_evicted {
            self.unlink(entry, &mut changes, guard);
        }
        changes.is_gone
    }
}

const WHOLE: &str = "a latch has no end, and the range is in order";

impl Drop for Cache {
    fn drop(&mut self) {
        for cell in &mut self.table {
            let entry = cell.value();
            if !entry.is_null() {
                // SAFETY: it came from `owned` (`Cache::entry`), and no other thread can use it.
                epoch::free(unsafe { Box::from_raw(entry) });
            }
        }
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;
