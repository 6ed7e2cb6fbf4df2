//! Writing the table, cleaning, formatting, and the work of the first stamp.
//!
//! # Writing the table
//! - **NB-C1** Take the NAT blocks with changed entries, and the blocks that are held back.
//! - **NB-C2** Write each of those NAT blocks to its copy that is not current, and the pack's map.
//! - **NB-C3** Flush. Now all nodes that the NAT names are durable, too.
//! - **NB-C4** Write the head of the pack durably. This write commits the checkpoint.
//! - **NB-C5** Free the blocks that were held back.

use spanlock_journal_commit::Storage;
use spanlock_sync::atomic::Ordering::{Relaxed, Release};
use spanlock_sync::injected_bug;

use super::layout;
use super::pack::{self, NAT_ENTRIES};
use super::{BlockHome, Head, allocate, chain, full};
use crate::error::Error;
use crate::home::Identity;
use crate::log::{Heat, Owner};
use crate::node::{BLOCK_BYTES, Block};

impl<N: Storage> BlockHome<N> {
    /// Makes the NAT in memory durable, unless it already is.
    pub(super) fn write_table(&self, head: &mut Head) -> Result<(), Error> {
        // NB-C1. A removal changes the NAT under the table's mutex, so it is taken as a whole.
        let (dirty, nat, held) = {
            let mut table = self.table.lock();
            let dirty: Vec<u32> = std::mem::take(&mut table.dirty).into_iter().collect();
            let nat: Vec<pack::Bytes> = dirty.iter().map(|it| self.encode_nat(*it)).collect();
            (dirty, nat, std::mem::take(&mut table.held))
        };
        let is_new = (head.next, head.number) != (head.pack.next, head.pack.sequence);
        if dirty.is_empty() && !is_new {
            debug_assert!(
                held.is_empty(),
                "blocks are held back for changes of the NAT"
            );
            return Ok(());
        }
        head.pack.serial += 1;
        (head.pack.next, head.pack.sequence) = (head.next, head.number);
        let places: Vec<Block> = (dirty.iter())
            .map(|&number| {
                let copy = &mut head.pack.map[number as usize];
                *copy = !*copy
                    || injected_bug!(
                        "nat-overwritten",
                        "a checkpoint overwrites the current copy of a NAT block",
                        killed_by = "node-log-block/sequences-of-2"
                    );
                self.medium.layout.nat(number, *copy)
            })
            .collect();
        self.medium.write_runs(&places, nat.as_flattened())?; // NB-C2
        let map = layout::map(head.pack.serial);
        self.medium.write(map, &head.pack.map())?;
        if !injected_bug!(
            "pack-before-table",
            "a checkpoint writes the head of its pack before the table is durable",
            killed_by = "node-log-block/sequences-of-2"
        ) {
            self.medium.flush()?; // NB-C3
        }
        let at = layout::head(head.pack.serial);
        self.medium.write_durably(at, &head.pack.head())?; // NB-C4
        let blocks = places.len() as u64 + 2;
        self.table.lock().persisted.table_bytes += blocks * BLOCK_BYTES as u64;
        // NB-C5. Release [T→U]: a thread in `load` that sees the new turn (U) sees the NAT that
        // names none of these blocks.
        // equivalent(Relaxed): as in `publish`.
        self.turn.fetch_add(1, Release);
        self.log.free(&held);
        Ok(())
    }

    fn encode_nat(&self, number: u32) -> pack::Bytes {
        let first = (number * NAT_ENTRIES) as usize;
        // Relaxed: the holder of the table alone changes entries.
        let blocks = self.nat[first..].iter().map(|entry| entry.load(Relaxed));
        pack::encode_nat(number, blocks)
    }

    /// Moves the nodes out of a segment, and frees it by writing the table. Returns `false` if no
    /// segment can be emptied, or there is no room for its nodes.
    ///
    /// The moved nodes are not part of the chain, because the new NAT names them. They are copied
    /// unchecked, so a damaged one stays damaged.
    pub(super) fn clean(&self, head: &mut Head) -> Result<bool, Error> {
        let Some(victim) = self.log.victim() else {
            return Ok(false);
        };
        // Relaxed: the holder of `head` alone stores nodes, and a removal is noticed below.
        let current = |it: &(Block, Owner)| self.nat[it.1.nid as usize].load(Relaxed) == it.0;
        let nodes: Vec<(Block, Owner)> = victim.iter().copied().filter(current).collect();
        let Some(mut room) = self.log.reserve(nodes.len() as u32, Heat::Cold) else {
            return Ok(false);
        };
        // The block for the next node is in use but has no owner. Move it too if the victim has it.
        // If the victim has no other block in use, its list is empty.
        let segment = |block| self.medium.layout.segment_end(block);
        if (victim.first()).is_none_or(|it| segment(it.0) == segment(head.next)) {
            let next = head.next;
            self.take_next(head)?;
            self.table.lock().held.push(next);
        }
        let places = allocate(&mut room, nodes.len());
        let mut bytes = Vec::with_capacity(nodes.len() * BLOCK_BYTES);
        for (&(block, owner), &place) in nodes.iter().zip(&places) {
            bytes.extend_from_slice(&self.medium.read(block)?);
            self.log.set_owner(place, owner);
        }
        self.medium.write_runs(&places, &bytes)?;
        {
            let mut table = self.table.lock();
            for (node, &place) in nodes.iter().zip(&places) {
                if current(node) {
                    self.publish(&mut table, node.1.nid, place);
                } else {
                    table.held.push(place);
                }
            }
            table.persisted.nodes += nodes.len() as u64;
            table.persisted.node_bytes += bytes.len() as u64;
        }
        self.write_table(head)?;
        Ok(true)
    }

    /// Formats the medium. The superblock comes last, so an interrupted creation leaves none.
    pub(super) fn format(&self, head: &mut Head, identity: Identity) -> Result<(), Error> {
        self.take_next(head)?;
        let numbers = 0..self.medium.layout.nat_blocks();
        for number in numbers {
            let place = self.medium.layout.nat(number, false);
            self.medium.write(place, &self.encode_nat(number))?;
        }
        head.pack.next = head.next;
        let mut older = head.pack.clone();
        older.serial -= 1;
        for pack in [&older, &head.pack] {
            self.medium.write(layout::map(pack.serial), &pack.map())?;
            self.medium.write(layout::head(pack.serial), &pack.head())?;
        }
        self.medium.flush()?;
        self.medium.write_superblock(identity)
    }

    /// Allocates the first block of a new chain.
    fn take_next(&self, head: &mut Head) -> Result<(), Error> {
        let room = [Heat::Hot, Heat::Cold].into_iter();
        let room = room.filter_map(|heat| self.log.reserve(1, heat)).next();
        let mut room = room.ok_or(full(1))?;
        (head.next, _) = room.allocate(1);
        Ok(())
    }

    /// Makes durable what recovery relies on, and begins a new chain, which no node of the old one
    /// fits. Does so only once after opening.
    ///
    /// If the process was killed after a write-back had failed, the nodes of the chain and the head
    /// of the pack may be only in the page cache, and marked as clean. So they are written again:
    /// the nodes before NB-C3, and the head before blocks that only the older pack needs are
    /// overwritten. Everything else was flushed before that head was written.
    pub(super) fn settle_recovery(&self, head: &mut Head) -> Result<(), Error> {
        let Some(chain) = head.recovered.take() else {
            return Ok(());
        };
        self.take_next(head)?;
        for block in chain {
            self.medium.write(block, &self.medium.read(block)?)?;
        }
        let newest = layout::head(head.pack.serial);
        let bytes = self.medium.read(newest)?;
        self.medium.write_durably(newest, &bytes)?;
        if !injected_bug!(
            "number-repeated",
            "the numbers of nodes that a crash has cut off are used again",
            killed_by = "node-log-block/sequences-of-1"
        ) {
            head.number = chain::after(head.number, self.medium.layout.log_blocks());
        }
        self.write_table(head)
    }
}
