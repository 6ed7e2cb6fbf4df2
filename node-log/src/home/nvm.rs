//! Nodes in persistent memory ([F2FS] §3.3 to 3.5): a node takes only as many 64-byte *lines* as it
//! needs, and an 8-byte store to its *entry* in the NAT publishes it.
//!
//! # A commit
//! The **heap** holds the nodes. A **redo slot** holds pairs of a node id and its new entry, until
//! all of them are in the NAT; its first word says whether it is in use.
//!
//! 1. Store the nodes in free places of the heap, and fence.
//! 2. Publish the entries of *new* nodes, except the inode's, and fence. No durable node names
//!    these nodes yet.
//! 3. If one entry is left, publish it. **This store is the commit.** Fence. If several are left:
//!    - Write them to a redo slot, and fence.
//!    - Set the slot's first word. **This store is the commit.** Fence.
//!    - Publish the entries, and fence. Clear the word, and fence.
//! 4. Delete the entries of nodes that the file no longer has, and fence.
//!
//! A commit omits steps 2 and 4 if they have nothing to do. So a commit of one node takes two
//! fences, and stores the node's lines and 8 bytes.
//!
//! A crash before the commit leaves the file as it was, and perhaps entries of new nodes that no
//! inode reaches. A crash between steps 3 and 4 leaves entries of old nodes. The volume
//! [forgets](Home::forget) both when it is opened. If the entries do not fit a slot, they are
//! committed in groups, the inode last, and only each group is atomic.
//!
//! # Invariants
//! A **stripe** is a mutex for all node ids with the same remainder, modulo the number of stripes.
//!
//! - **NV-I1** At most one entry names a line of the heap. If a valid slot has a pair for a node,
//!   the pair counts instead of the entry.
//! - **NV-I2** A thread writes only to lines that it has taken from the free ones and that no entry
//!   has named since.
//! - **NV-I3** An entry is read and replaced only under the stripe of its node. The place that the
//!   old entry names becomes free once the new one is durable.
//! - **NV-I4** A slot's first word is 0 when its mutex is unlocked, unless the medium failed.
//! - **NV-I5** If recovery finds damage in the NAT or in a slot, nothing is ever written: the
//!   first [`stamp`](Home::stamp) fails.
//!
//! So a thread may read a node's lines while it holds the stripe: nothing replaces the entry that
//! it found, and so nothing frees the lines.
//!
//! # Not guaranteed
//! A [`load`](Home::load) may return an image whose entry is not durable yet. The heap's free lines
//! may be too scattered for a large node. Then the commit fails with [`Error::NodesFull`], and
//! changes nothing.
//!
//! # What counts as persisted
//! For a node, all bytes of its lines. For the NAT, 8 bytes for each entry that is stored or
//! deleted. For a slot, 16 bytes for each pair, and 16 for setting and clearing the first word.
//! The superblock and the generation words do not count.
//!
//! [F2FS]: https://doi.org/10.1145/3319647.3325828

mod heap;
mod layout;
mod recovery;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use spanlock_pmem::{Durable, Flushed, LINE_BYTES, Pmem};
use spanlock_sync::hint::scaled;
use spanlock_sync::{Mutex, injected_bug, thread};

use self::heap::{BLOCK_LINES, Heap};
use self::layout::{
    Entry, GENERATIONS, Layout, check_node, corrupt, corrupt_entry, crc_of, encode_generation,
    encode_pairs, slot_word,
};
use super::{Change, Home, Identity, Persisted, Removal, Stored};
use crate::device::DataDurable;
use crate::error::Error;
use crate::node::{BLOCK_BYTES, Nid};

/// The most stripes of a volume. Under a checker there is one, because its crash searches need an
/// order of the stores to a line of entries.
const STRIPES: u32 = scaled(64, 1);

/// The medium of an [`NvmHome`]: a region of persistent memory, and how to format it. Opening a
/// region ignores these options and uses those that it was formatted with.
#[derive(Clone, Debug)]
pub struct Nvm<P> {
    region: P,
    slots: u32,
    pairs: u32,
    whole_blocks: bool,
}

impl<P: Pmem> Nvm<P> {
    /// Uses all of `region`, at most 16 TiB.
    pub fn new(region: P) -> Self {
        Nvm {
            region,
            slots: 16,
            pairs: 255,
            whole_blocks: false,
        }
    }

    /// Sets whether each node takes 4 KiB, however small it is. Off by default; for measuring what
    /// fine-grained nodes save ([F2FS] §3.4: 90 % of an inode).
    ///
    /// [F2FS]: https://doi.org/10.1145/3319647.3325828
    pub fn whole_blocks(mut self, whole_blocks: bool) -> Self {
        self.whole_blocks = whole_blocks;
        self
    }

    /// Sets the number of redo slots (1 to 65,536; 16 by default), and how many nodes fit one (2 to
    /// 65,536; 255 by default). A commit that replaces several stored nodes needs a slot. So at
    /// most `slots` such commits run at the same time, and each is atomic for up to `nodes` nodes.
    /// A slot takes 8 bytes, and 16 for each node, rounded up to a multiple of 64.
    pub fn slots(mut self, slots: u32, nodes: u32) -> Self {
        (self.slots, self.pairs) = (slots, nodes);
        self
    }
}

/// Nodes in persistent memory ([F2FS] §3.3 to 3.5). Checkpoints block no writers, and a removal is
/// durable when it returns.
///
/// A commit is all or nothing. The exception is one that replaces more stored nodes than fit a redo
/// slot ([`Nvm::slots`]). It replaces them in groups of that many, children first and the inode
/// last, and only each group is atomic.
///
/// [F2FS]: https://doi.org/10.1145/3319647.3325828
#[derive(Debug)]
pub struct NvmHome<P> {
    region: P,
    layout: Layout,
    heap: Heap,
    /// For each slot, the number of bytes that were written to it.
    slots: Box<[Mutex<u64>]>,
    stripes: Box<[Mutex<Stripe>]>,
    state: Mutex<State>,
}

/// What a stripe's mutex protects.
#[derive(Debug, Default)]
struct Stripe {
    /// Entries that valid slots have, until the first stamp puts them into the NAT.
    recovered: BTreeMap<Nid, u64>,
    persisted: Persisted,
}

#[derive(Debug)]
struct State {
    identity: Identity,
    /// Where valid slots lie, until the first stamp clears them.
    valid_slots: Vec<u64>,
    /// What recovery found damaged.
    damage: Option<Error>,
}

/// A change of a NAT entry.
#[derive(Clone, Copy, Debug)]
struct Move {
    nid: Nid,
    old: u64,
    new: u64,
}

impl<P: Pmem> NvmHome<P> {
    fn stripe(&self, nid: Nid) -> &Mutex<Stripe> {
        &self.stripes[nid as usize % self.stripes.len()]
    }

    /// Returns a node's entry, 0 if it has none. The caller holds the node's stripe.
    fn word(&self, stripe: &Stripe, nid: Nid) -> u64 {
        match stripe.recovered.get(&nid) {
            Some(&word) => word,
            None => self.region.load(self.layout.entry(nid)),
        }
    }

    /// Returns the change of a node's entry to `new`.
    fn change(&self, nid: Nid, new: u64) -> Move {
        let old = self.word(&self.stripe(nid).lock(), nid);
        Move { nid, old, new }
    }

    /// Commits a change. The blocks that it names are durable.
    fn apply(&self, change: &Change) -> Result<(), Error> {
        check_writable(&self.region)?;
        let (mut moves, mut durable) = self.store(&change.stores)?;
        let is_new = |it: &Move| it.old == 0 && it.nid != change.inode;
        let (mut new, mut replaced): (Vec<_>, Vec<_>) = moves.iter().copied().partition(is_new);
        replaced.sort_by_key(|it| it.nid == change.inode);
        let is_late = injected_bug!(
            "inode-before-children",
            "a commit publishes the inode before the new nodes that it names",
            killed_by = "node-log-nvm/sequences-of-2"
        );
        let late = if is_late {
            std::mem::take(&mut new)
        } else {
            Vec::new()
        };
        if injected_bug!(
            "place-freed-early",
            "a commit frees the places of the old nodes before it publishes the new ones",
            killed_by = "node-log-nvm/write-create"
        ) {
            self.finish(&moves);
            moves.clear();
        }
        durable = self.publish(&new, durable);
        for group in replaced.chunks(self.layout.pairs as usize) {
            let is_torn = injected_bug!(
                "several-without-a-slot",
                "a commit publishes several entries one after the other",
                killed_by = "node-log-nvm/sequences-of-2"
            );
            durable = match group {
                [_] => self.publish(group, durable),
                _ if is_torn => self.publish(group, durable),
                _ => self.publish_together(group, durable)?,
            };
        }
        durable = self.publish(&late, durable);
        let freed = self.zeros(&change.frees);
        let _durable = self.publish(&freed, durable);
        self.finish(&moves);
        self.finish(&freed);
        Ok(())
    }

    /// Stores nodes in free places, which no entry names yet.
    fn store(&self, stores: &[Stored]) -> Result<(Vec<Move>, Durable), Error> {
        let mut moves = Vec::with_capacity(stores.len());
        for Stored { nid, bytes } in stores {
            let lines = match self.layout.whole_blocks {
                true => BLOCK_LINES,
                false => (bytes.len() as u64).div_ceil(LINE_BYTES),
            };
            let Some(place) = self.heap.take(lines) else {
                moves.iter().for_each(|it: &Move| self.free(it.new));
                return Err(Error::NodesFull {
                    needed: lines * LINE_BYTES,
                });
            };
            let crc = crc_of(bytes) as u16;
            moves.push(self.change(*nid, Entry { place, crc }.encode()));
        }
        let mut flushed = Flushed::nothing();
        for (Stored { bytes, .. }, it) in stores.iter().zip(&moves) {
            let at = Entry::decode(it.new).place.line * LINE_BYTES;
            flushed = flushed.and(match self.layout.whole_blocks {
                true => {
                    let mut block = [0; BLOCK_BYTES];
                    block[..bytes.len()].copy_from_slice(bytes);
                    // SAFETY: by NV-I2, no other thread accesses these lines. This one does not
                    // before the fence below.
                    unsafe { self.region.write_streaming(at, &block) }
                }
                // SAFETY: as above.
                false => self.region.flush(unsafe { self.region.write(at, bytes) }),
            });
        }
        Ok((moves, self.region.fence(flushed)))
    }

    /// Returns the changes that delete the nodes' entries. Omits nodes that have none.
    fn zeros(&self, nids: &[Nid]) -> Vec<Move> {
        let zeros = nids.iter().map(|&nid| self.change(nid, 0));
        zeros.filter(|it| it.old != 0).collect()
    }

    /// Publishes entries, in any order, and makes them durable.
    fn publish(&self, moves: &[Move], mut after: Durable) -> Durable {
        if moves.is_empty() {
            return after;
        }
        let mut flushed = Flushed::nothing();
        for it in moves {
            let (this, others) = after.split();
            after = others;
            let published = {
                let is_open = injected_bug!(
                    "published-under-a-reader",
                    "an entry is replaced while another thread reads the node that it names",
                    killed_by = "node-log-load/load-commit"
                );
                let _stripe = (!is_open).then(|| self.stripe(it.nid).lock());
                self.region.publish(self.layout.entry(it.nid), it.new, this)
            };
            flushed = flushed.and(self.region.flush(published));
        }
        self.region.fence(flushed)
    }

    /// Publishes entries through a redo slot, all or nothing, and makes them durable. They fit one.
    fn publish_together(&self, moves: &[Move], after: Durable) -> Result<Durable, Error> {
        let slot = thread::index() % self.slots.len();
        let at = self.layout.slot(slot as u64);
        let mut written = self.slots[slot].lock();
        if self.region.load(at) != 0 {
            let first = "a write of the node half was interrupted; open the volume again".into();
            return Err(Error::Failed { first });
        }
        let pairs = encode_pairs(moves.iter().map(|it| (it.nid, it.new)));
        // SAFETY: this thread holds the slot's mutex.
        let stored = unsafe { self.region.write(at + 8, &pairs) };
        // equivalent(drop): in our programs, a slot has one line, which the flush of the word
        // writes back as well. The crash images of the unit tests need it.
        let durable = after.and(self.region.persist(stored));
        let valid = self.region.publish(at, slot_word(&pairs), durable);
        let mut valid = self.region.persist(valid);
        if injected_bug!(
            "slot-cleared-early",
            "a redo slot is cleared before its entries are in the table",
            killed_by = "node-log-nvm/sequences-of-2"
        ) {
            valid = self.region.persist(self.region.publish(at, 0, valid));
        }
        let durable = self.publish(moves, valid);
        let free = self.region.publish(at, 0, durable);
        *written += 16 + pairs.len() as u64;
        // equivalent(drop): in our programs, no commit of one entry follows one of several. The
        // crash images of the unit tests need it.
        Ok(self.region.persist(free))
    }

    /// Counts durable changes, and frees the places that they replaced.
    fn finish(&self, moves: &[Move]) {
        for it in moves {
            let persisted = &mut self.stripe(it.nid).lock().persisted;
            persisted.table_bytes += 8;
            if it.new != 0 {
                persisted.nodes += 1;
                persisted.node_bytes += Entry::decode(it.new).place.lines * LINE_BYTES;
            }
            // NV-I3: the entry is durable, and no thread reads the node by the old one.
            self.free(it.old);
        }
    }

    /// Frees the place that an entry names, if it names one.
    fn free(&self, word: u64) {
        if word != 0 {
            self.heap.free(Entry::decode(word).place);
        }
    }

    /// Deletes entries, the inode's before the others', so that no inode lacks a node.
    fn delete(&self, inode: &[Nid], others: &[Nid]) {
        let (inode, others) = (self.zeros(inode), self.zeros(others));
        let durable = self.publish(&inode, Durable::at_rest());
        let _durable = self.publish(&others, durable);
        self.finish(&inode);
        self.finish(&others);
    }

    /// Puts the entries of valid slots into the NAT, and clears the slots.
    fn replay(&self, valid_slots: &[u64]) {
        let mut durable = Durable::at_rest();
        for stripe in &self.stripes {
            let recovered = {
                let mut stripe = stripe.lock();
                let recovered = std::mem::take(&mut stripe.recovered);
                stripe.persisted.table_bytes += recovered.len() as u64 * 8;
                recovered
            };
            let moves = recovered.into_iter();
            let moves: Vec<_> = moves.map(|(nid, new)| Move { nid, old: 0, new }).collect();
            durable = self.publish(&moves, durable);
        }
        for &at in valid_slots {
            let (this, others) = durable.split();
            // equivalent(drop): our programs have no second crash after a replay and a commit.
            durable = others.and(self.region.persist(self.region.publish(at, 0, this)));
        }
    }
}

impl<P: Pmem> Home for NvmHome<P> {
    type Medium = Nvm<P>;
    const BLOCKS_WRITERS: bool = false;

    fn create(
        medium: Nvm<P>,
        volume: u128,
        nodes: u32,
        _segment_blocks: u32,
    ) -> Result<Self, Error> {
        recovery::create(&medium, volume, nodes)?;
        Self::open(medium)
    }

    fn open(medium: Nvm<P>) -> Result<Self, Error> {
        recovery::open(medium.region)
    }

    fn identity(&self) -> Identity {
        self.state.lock().identity
    }

    fn stamp(&self, identity: Identity) -> Result<(), Error> {
        let mut state = self.state.lock();
        if let Some(damage) = &state.damage {
            return Err(damage.clone());
        }
        check_writable(&self.region)?;
        self.replay(&std::mem::take(&mut state.valid_slots));
        for at in GENERATIONS {
            let word = encode_generation(identity);
            let written = self.region.publish(at, word, Durable::at_rest());
            let _durable = self.region.persist(written);
        }
        state.identity = identity;
        Ok(())
    }

    fn nodes(&self) -> u32 {
        self.layout.nodes
    }

    fn has(&self, nid: Nid) -> bool {
        self.layout.has(nid) && self.change(nid, 0).old != 0
    }

    fn load(&self, nid: Nid) -> Result<Option<Vec<u8>>, Error> {
        if !self.layout.has(nid) {
            return Ok(None);
        }
        let stripe = self.stripe(nid).lock();
        let word = self.word(&stripe, nid);
        if word == 0 {
            return Ok(None);
        }
        let entry = Entry::decode(word);
        if !self.heap.has(entry.place) {
            return Err(corrupt_entry(self.layout.entry(nid)));
        }
        let mut lines = vec![0; (entry.place.lines * LINE_BYTES) as usize];
        let at = entry.place.line * LINE_BYTES;
        // SAFETY: by NV-I3, no thread writes to these lines while this one holds the stripe, since
        // its node's entry names them. The commit that wrote them fenced before it published the
        // entry, and `word` acquires what it published. If the entry is damaged, nothing is written
        // (NV-I5).
        unsafe { self.region.read(at, &mut lines) };
        drop(stripe);
        match check_node(&lines, nid) {
            Some(used) if crc_of(&lines) as u16 == entry.crc => {
                lines.truncate(used);
                Ok(Some(lines))
            }
            _ => Err(corrupt("a node", at)),
        }
    }

    fn forget(&self, nid: Nid) -> Result<(), Error> {
        check_writable(&self.region)?;
        self.delete(&[], &[nid]);
        Ok(())
    }

    fn commit(&self, change: &Change, _data: DataDurable) -> Result<(), Error> {
        self.apply(change)
    }

    fn remove(&self, inode: Nid, others: &[Nid]) -> Result<Removal, Error> {
        check_writable(&self.region)?;
        self.delete(&[inode], others);
        Ok(Removal::Durable)
    }

    fn checkpoint(&self, changes: &[Change], _data: DataDurable) -> Result<(), Error> {
        changes.iter().try_for_each(|change| self.apply(change))
    }

    fn persisted(&self) -> Persisted {
        let mut sum = Persisted::default();
        for stripe in &self.stripes {
            let persisted = stripe.lock().persisted;
            sum.nodes += persisted.nodes;
            sum.node_bytes += persisted.node_bytes;
            sum.table_bytes += persisted.table_bytes;
        }
        sum.table_bytes += self.slots.iter().map(|it| *it.lock()).sum::<u64>();
        sum
    }
}

/// Checks that the region can be written to: a store to a read-only one panics.
fn check_writable(region: &impl Pmem) -> Result<(), Error> {
    match region.is_read_only() {
        true => {
            let source = io::ErrorKind::ReadOnlyFilesystem.into();
            Err(Error::io("writing to the node half")(source))
        }
        false => Ok(()),
    }
}
