//! Recovery: reads the table of the newest checkpoint pack, and then follows the chain.

use std::collections::BTreeSet;

use spanlock_journal_commit::Storage;
use spanlock_sync::atomic::Ordering::Relaxed;
use spanlock_sync::injected_bug;

use super::BlockHome;
use super::chain::{self, Link};
use super::layout::{Medium, corrupt};
use super::pack::{NAT_ENTRIES, Pack, decode_nat};
use crate::error::Error;
use crate::log::Owner;
use crate::node::{Block, Nid};

/// The state that recovery found on the medium.
pub(super) struct Recovered {
    pub(super) pack: Pack,
    pub(super) nat: Vec<Block>,
    /// The NAT blocks that the chain has changed.
    pub(super) dirty: BTreeSet<u32>,
    /// The blocks of the chain.
    pub(super) chain: Vec<Block>,
    /// The sequence number that would continue the chain.
    pub(super) number: u64,
}

/// Reads the NAT, and applies the commits that came after the newest checkpoint.
pub(super) fn recover<N: Storage>(medium: &Medium<N>) -> Result<Recovered, Error> {
    let layout = &medium.layout;
    let pack = Pack::newest(layout, |block| medium.read(block))?;
    let mut nat = Vec::with_capacity((layout.nat_blocks() * NAT_ENTRIES) as usize);
    for (number, copy) in (0..).zip(&pack.map) {
        let place = layout.nat(number, *copy);
        let bytes = medium.read(place)?;
        nat.extend(decode_nat(number, &bytes).ok_or(corrupt("a NAT block", place))?);
    }
    nat.truncate(layout.nodes as usize);
    let mut recovered = Recovered {
        number: pack.sequence,
        pack,
        nat,
        dirty: BTreeSet::new(),
        chain: Vec::new(),
    };
    recovered.follow(medium)?;
    Ok(recovered)
}

impl Recovered {
    /// Follows the chain, and applies each complete commit.
    fn follow<N: Storage>(&mut self, medium: &Medium<N>) -> Result<(), Error> {
        let mut next = self.pack.next;
        let mut commit: Vec<(Nid, Block)> = Vec::new();
        while medium.layout.has(next) {
            let bytes = medium.read(next)?;
            let link = Link::of(&bytes).filter(|it| it.number == self.number);
            let Some(link) = link else {
                return self.check_end(medium, next);
            };
            if link.nid as usize >= self.nat.len() {
                return Err(corrupt("a node with an id that is too large", next));
            }
            commit.push((link.nid, next));
            if link.is_last
                || injected_bug!(
                    "half-a-commit",
                    "recovery applies a commit whose last nodes are missing",
                    killed_by = "node-log-block/sequences-of-2"
                )
            {
                for (nid, block) in commit.drain(..) {
                    self.nat[nid as usize] = block;
                    self.dirty.insert(nid / NAT_ENTRIES);
                    self.chain.push(block);
                }
            }
            self.number = chain::after(self.number, 1);
            next = link.next;
        }
        Err(corrupt(
            "the number of the next node's block",
            self.pack.next,
        ))
    }

    /// Checks that the chain ends at this block because no node was written to it, or because a
    /// crash interrupted the write. If a later node of its segment was written after this one was
    /// durable, then this one is damaged.
    fn check_end<N: Storage>(&self, medium: &Medium<N>, end: Block) -> Result<(), Error> {
        for block in end + 1..medium.layout.segment_end(end) {
            let later = Link::of(&medium.read(block)?);
            if later.is_some_and(|it| it.follows(self.number, medium.layout.log_blocks())) {
                return Err(corrupt("a node that was committed", end));
            }
        }
        Ok(())
    }
}

impl<N: Storage> BlockHome<N> {
    /// Marks the blocks of all nodes as used.
    pub(super) fn claim(&self) -> Result<(), Error> {
        for (nid, entry) in (0..).zip(&self.nat) {
            // Relaxed: no other thread has this home yet.
            let block = entry.load(Relaxed);
            if block == 0 {
                continue;
            }
            match self.log.claim(block, Owner { nid, slot: 0 }) {
                Ok(()) => {}
                Err(Some(_)) => return Err(corrupt("the NAT: two nodes in one block", block)),
                Err(None) => return Err(corrupt("the NAT: a node outside the log", block)),
            }
        }
        Ok(())
    }
}
