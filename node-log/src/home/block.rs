//! Nodes in blocks, as F2FS has them: the baseline of every comparison.
//!
//! # A commit
//! A commit writes the nodes of an `fsync` to the node log, 4 KiB each, and marks the last one.
//! Each node has the block number of its successor. So they form a chain, which recovery follows
//! from the last checkpoint on: F2FS's roll-forward. Threads that commit at the same time share one
//! write and one flush. No block of the NAT is written.
//!
//! # A checkpoint
//! A checkpoint writes the changed nodes, and then the **table** ([`checkpoint`]): every NAT block
//! with a changed entry, and a **checkpoint pack**. Each NAT block has two copies on the medium,
//! and the one that is not current is written. The head of the pack makes the written copies
//! current and begins a new chain.
//!
//! # Blocks
//! When a node is stored elsewhere or freed, its old block is **held back** until the next
//! checkpoint: the NAT on the medium may name it, and the chain passes through it. A commit that
//! finds no room writes the table, which frees the blocks that were held back. If there is still no
//! room, it moves the nodes out of one segment after the other.
//!
//! # Invariants
//! - **NB-I1** Only the thread that holds `head` writes to the medium.
//! - **NB-I2** The NAT in memory names only nodes that were written. They are flushed before the
//!   head of a pack makes a NAT current that names them.
//! - **NB-I3** A block that the newest durable pack's NAT or its chain names is not overwritten.
//! - **NB-I4** `turn` is raised before held-back blocks are freed. So if `turn` has not changed
//!   since a thread looked up a node, the block that the thread read was the node's.
//!
//! # Not guaranteed
//! If the medium damages a node of the last commit since the last checkpoint, recovery cannot tell
//! it from a write that a crash has cut off, and the file is as the commit before left it. The same
//! holds for the last commit in a segment, and then for those that follow.
//!
//! # The medium
//! [`Storage::write_fua`] must write a sector as a whole or not at all: the superblock and the
//! heads of the packs rely on it. For persistent memory, use `PmemStorage::sectors`.

mod chain;
mod checkpoint;
mod layout;
mod pack;
mod recovery;
#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;

use std::collections::BTreeSet;
use std::mem;

use spanlock_journal_commit::Storage;
use spanlock_sync::atomic::Ordering::{Acquire, Relaxed, Release};
use spanlock_sync::atomic::{AtomicU32, AtomicU64};
use spanlock_sync::{Mutex, injected_bug};

use self::layout::{Medium, corrupt};
use self::pack::{NAT_ENTRIES, Pack};
use super::{Change, Home, Identity, Persisted, Removal};
use crate::device::DataDurable;
use crate::error::Error;
use crate::log::{Heat, Log, Owner, Room};
use crate::node::{BLOCK_BYTES, Block, Nid};
use crate::rendezvous::Rendezvous;

/// Nodes in blocks of 4 KiB on a [`Storage`], as F2FS has them. Checkpoints block writers, and a
/// removal is durable at the next checkpoint. Each commit is all or nothing.
///
/// The storage must write a sector of 512 bytes as a whole or not at all. For persistent memory,
/// use `PmemStorage::sectors`.
pub struct BlockHome<N> {
    medium: Medium<N>,
    identity: Mutex<Identity>,
    /// The block of each node; 0 is none.
    nat: Box<[AtomicU32]>,
    log: Log,
    head: Mutex<Head>,
    table: Mutex<Table>,
    queue: Mutex<Queue>,
    /// Where committing threads meet, so that one writes for all.
    meeting: Rendezvous,
    /// How often held-back blocks were freed (NB-I4).
    turn: AtomicU64,
}

/// The end of the chain, and the pack that it began with.
struct Head {
    /// The block for the next node, already allocated. 0: none, before the first stamp.
    next: Block,
    /// The number of the next node.
    number: u64,
    /// The newest pack on the medium.
    pack: Pack,
    /// The blocks of the recovered chain, which the first stamp makes durable.
    recovered: Option<Vec<Block>>,
    /// Why nothing more becomes durable.
    failed: Option<Box<str>>,
}

/// What the next checkpoint has to write and to free.
#[derive(Default)]
struct Table {
    /// The NAT blocks with changed entries.
    dirty: BTreeSet<u32>,
    /// The blocks that are held back.
    held: Vec<Block>,
    persisted: Persisted,
}

/// Nodes to be written.
#[derive(Default)]
struct Batch {
    /// The nodes' blocks.
    bytes: Vec<u8>,
    /// Each node, and whether it is the last one of its commit.
    nodes: Vec<(Nid, bool)>,
    frees: Vec<Nid>,
}

/// Commits that no thread has written yet.
#[derive(Default)]
struct Queue {
    batch: Batch,
    /// The number of the next commit.
    ticket: u64,
    /// The number of the first commit in the batch.
    first: u64,
    /// The numbers of the commits for which there was no room.
    refused: BTreeSet<u64>,
}

impl Head {
    fn new(number: u64, pack: Pack, recovered: Option<Vec<Block>>) -> Self {
        Head {
            next: 0,
            number,
            pack,
            recovered,
            failed: None,
        }
    }
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.frees.is_empty()
    }

    fn add(&mut self, change: &Change) {
        for stored in &change.stores {
            self.bytes.extend_from_slice(&stored.bytes);
            let end = self.bytes.len().next_multiple_of(BLOCK_BYTES);
            self.bytes.resize(end, 0);
            self.nodes.push((stored.nid, false));
        }
        if let Some((_, is_last)) = self.nodes.last_mut() {
            *is_last = true;
        }
        self.frees.extend_from_slice(&change.frees);
    }
}

impl<N> BlockHome<N> {
    /// Returns how many blocks a medium needs to hold all nodes at the same time, with room for
    /// cleaning.
    pub(crate) fn blocks_for(nodes: u32, segment_blocks: u32) -> u64 {
        layout::blocks_for(nodes, segment_blocks)
    }
}

impl<N: Storage> BlockHome<N> {
    fn new(medium: Medium<N>, identity: Identity, nat: Vec<Block>, head: Head) -> Self {
        let layout = medium.layout;
        BlockHome {
            medium,
            identity: Mutex::new(identity),
            nat: nat.into_iter().map(AtomicU32::new).collect(),
            log: Log::new(layout.log(), layout.segments, layout.segment_blocks),
            head: Mutex::new(head),
            table: Mutex::default(),
            queue: Mutex::default(),
            meeting: Rendezvous::new(),
            turn: AtomicU64::new(0),
        }
    }

    /// Calls `write` with the right to write to the medium (NB-I1). If it fails or unwinds, the
    /// home has failed. A lack of room is no such failure.
    fn alone<R>(&self, write: impl FnOnce(&mut Head) -> Result<R, Error>) -> Result<R, Error> {
        let mut head = self.head.lock();
        if let Some(first) = &head.failed {
            let first = first.as_ref().into();
            return Err(Error::Failed { first });
        }
        head.failed = Some("a thread panicked while it wrote nodes".into());
        let result = write(&mut head);
        head.failed = match &result {
            Ok(_) | Err(Error::NodesFull { .. }) => None,
            Err(error) => Some(error.to_string().into()),
        };
        result
    }

    /// Writes all commits that are queued.
    fn commit_queue(&self) -> Result<(), Error> {
        self.alone(|head| {
            let (batch, tickets) = {
                let mut queue = self.queue.lock();
                let tickets = queue.first..queue.ticket;
                queue.first = queue.ticket;
                (mem::take(&mut queue.batch), tickets)
            };
            if batch.is_empty() {
                return Ok(());
            }
            match self.room(head, batch.nodes.len() as u32) {
                Ok(room) => self.append(head, batch, room, true),
                Err(Error::NodesFull { .. }) => {
                    self.queue.lock().refused.extend(tickets);
                    Ok(())
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Writes nodes at the end of the chain, and puts them into the NAT in memory.
    fn append(
        &self,
        head: &mut Head,
        mut batch: Batch,
        mut room: Room<'_>,
        is_flushed: bool,
    ) -> Result<(), Error> {
        assert_ne!(head.next, 0, "a home is stamped before it is written to");
        let count = batch.nodes.len();
        let mut blocks = vec![head.next];
        blocks.extend(allocate(&mut room, count));
        let nodes = batch.bytes.chunks_exact_mut(BLOCK_BYTES);
        for (at, (&(nid, is_last), node)) in batch.nodes.iter().zip(nodes).enumerate() {
            self.log.set_owner(blocks[at], Owner { nid, slot: 0 });
            let number = chain::after(head.number, at as u64);
            chain::link(node, blocks[at + 1], number, at, is_last);
        }
        self.medium.write_runs(&blocks[..count], &batch.bytes)?;
        let is_early = injected_bug!(
            "block-acknowledged-early",
            "a commit of the block home returns before its nodes are flushed",
            killed_by = "node-log-block/sequences-of-1"
        );
        if is_flushed && !is_early {
            self.medium.flush()?;
        }
        head.next = blocks[count];
        head.number = chain::after(head.number, count as u64);
        let mut table = self.table.lock();
        for (&(nid, _), &block) in batch.nodes.iter().zip(&blocks) {
            self.publish(&mut table, nid, block);
        }
        for &nid in &batch.frees {
            self.publish(&mut table, nid, 0);
        }
        table.persisted.nodes += count as u64;
        table.persisted.node_bytes += batch.bytes.len() as u64;
        Ok(())
    }

    /// Changes an entry of the NAT. Returns whether the node was stored before.
    fn publish(&self, table: &mut Table, nid: Nid, block: Block) -> bool {
        // Release [N→L]: a thread that finds the block (L) sees it written. Only the holder of the
        // table changes entries, so none changes between the load and the store.
        let entry = &self.nat[nid as usize];
        // Relaxed: as above.
        let old = entry.load(Relaxed);
        // equivalent(Relaxed): the disk of our programs has a mutex, which orders as much. Another
        // storage may not have one.
        entry.store(block, Release);
        if old != block {
            table.dirty.insert(nid / NAT_ENTRIES);
        }
        if old != 0 && old != block {
            if injected_bug!(
                "block-not-held",
                "a node's old block is freed before the next checkpoint",
                killed_by = "node-log-block/churn"
            ) {
                self.log.free(&[old]);
            } else {
                table.held.push(old);
            }
        }
        old != 0
    }

    /// Returns room for this many nodes, and for the block after them.
    ///
    /// # Errors
    /// [`Error::NodesFull`], if there is none even after all segments were cleaned.
    fn room(&self, head: &mut Head, nodes: u32) -> Result<Room<'_>, Error> {
        if let Some(room) = self.log.reserve(nodes, Heat::Hot) {
            return Ok(room);
        }
        self.write_table(head)?;
        for _ in 0..self.medium.layout.segments {
            if let Some(room) = self.log.reserve(nodes, Heat::Hot) {
                return Ok(room);
            }
            if !self.clean(head)? {
                break;
            }
        }
        let room = self.log.reserve(nodes, Heat::Hot);
        room.ok_or(full(nodes as usize))
    }
}

/// Allocates `count` blocks of a room.
fn allocate(room: &mut Room<'_>, count: usize) -> Vec<Block> {
    let mut blocks = Vec::with_capacity(count);
    while blocks.len() < count {
        let (first, some) = room.allocate((count - blocks.len()) as u32);
        blocks.extend(first..first + some);
    }
    blocks
}

/// Returns the error for a commit of this many nodes.
fn full(nodes: usize) -> Error {
    let needed = (nodes * BLOCK_BYTES) as u64;
    Error::NodesFull { needed }
}

impl<N: Storage> Home for BlockHome<N> {
    type Medium = N;
    const BLOCKS_WRITERS: bool = true;

    fn create(storage: N, volume: u128, nodes: u32, segment_blocks: u32) -> Result<Self, Error> {
        let medium = Medium::create(storage, nodes, segment_blocks)?;
        let identity = Identity {
            volume,
            generation: 0,
            is_opening: false,
        };
        let pack = Pack {
            serial: 1,
            next: 0,
            sequence: chain::first(volume),
            map: vec![false; medium.layout.nat_blocks() as usize].into(),
        };
        let head = Head::new(pack.sequence, pack, None);
        let home = Self::new(medium, identity, vec![0; nodes as usize], head);
        home.alone(|head| home.format(head, identity))?;
        Ok(home)
    }

    fn open(storage: N) -> Result<Self, Error> {
        let (medium, identity) = Medium::open(storage)?;
        let recovered = recovery::recover(&medium)?;
        let head = Head::new(recovered.number, recovered.pack, Some(recovered.chain));
        let home = Self::new(medium, identity, recovered.nat, head);
        home.table.lock().dirty = recovered.dirty;
        home.claim()?;
        Ok(home)
    }

    fn identity(&self) -> Identity {
        *self.identity.lock()
    }

    fn stamp(&self, identity: Identity) -> Result<(), Error> {
        self.alone(|head| {
            self.settle_recovery(head)?;
            self.medium.write_superblock(identity)
        })?;
        *self.identity.lock() = identity;
        Ok(())
    }

    fn nodes(&self) -> u32 {
        self.nat.len() as u32
    }

    fn has(&self, nid: Nid) -> bool {
        // Relaxed: only whether there is one counts.
        (self.nat.get(nid as usize)).is_some_and(|entry| entry.load(Relaxed) != 0)
    }

    fn load(&self, nid: Nid) -> Result<Option<Vec<u8>>, Error> {
        let Some(entry) = self.nat.get(nid as usize) else {
            return Ok(None);
        };
        loop {
            // Acquire [T→U]: if blocks were freed before, the entry read below is a newer one.
            // equivalent(Relaxed): as in `publish`.
            let turn = self.turn.load(Acquire);
            // Acquire [N→L]: pairs with the Release in `publish`.
            // equivalent(Relaxed): as in `publish`.
            let block = entry.load(Acquire);
            if block == 0 {
                return Ok(None);
            }
            let bytes = self.medium.read(block)?;
            // Relaxed: if the block was overwritten, the storage orders that write, and what
            // came before it, before this read (NB-I4).
            if self.turn.load(Relaxed) != turn {
                continue;
            }
            return match chain::Link::of(&bytes).filter(|it| it.nid == nid) {
                Some(link) => Ok(Some(bytes[..link.used].to_vec())),
                None => Err(corrupt("a node", block)),
            };
        }
    }

    fn forget(&self, nid: Nid) -> Result<(), Error> {
        self.publish(&mut self.table.lock(), nid, 0);
        Ok(())
    }

    fn commit(&self, change: &Change, _data: DataDurable) -> Result<(), Error> {
        let ticket = {
            let mut queue = self.queue.lock();
            queue.batch.add(change);
            queue.ticket += 1;
            queue.ticket - 1
        };
        self.meeting.pass(|| self.commit_queue())?;
        match self.queue.lock().refused.remove(&ticket) {
            true => Err(full(change.stores.len())),
            false => Ok(()),
        }
    }

    fn remove(&self, inode: Nid, others: &[Nid]) -> Result<Removal, Error> {
        let mut table = self.table.lock();
        let mut was_stored = self.publish(&mut table, inode, 0);
        for &nid in others {
            was_stored |= self.publish(&mut table, nid, 0);
        }
        match was_stored {
            true => Ok(Removal::AtCheckpoint),
            // The medium has never had the file.
            false => Ok(Removal::Durable),
        }
    }

    fn checkpoint(&self, changes: &[Change], _data: DataDurable) -> Result<(), Error> {
        let mut batch = Batch::default();
        changes.iter().for_each(|change| batch.add(change));
        self.alone(|head| {
            if !batch.is_empty() {
                let room = self.room(head, batch.nodes.len() as u32)?;
                // The table's flush makes them durable.
                self.append(head, batch, room, false)?;
            }
            self.write_table(head)
        })
    }

    fn persisted(&self) -> Persisted {
        self.table.lock().persisted
    }
}
