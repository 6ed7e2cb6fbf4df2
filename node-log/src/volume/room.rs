//! Room in the data log: reserving blocks, and cleaning when there are too few.
//!
//! A thread reserves blocks before it locks any range. Cleaning locks ranges, so a thread that
//! waited for cleaning while it held one could wait for itself.

use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::atomic::Ordering;
use spanlock_sync::injected_bug;

use super::Volume;
use crate::error::Error;
use crate::file::bytes_of;
use crate::home::Home;
use crate::inode::Inode;
use crate::log::{Heat, Owner, Room};
use crate::node::{BLOCK_BYTES, Block, Place};

impl<H: Home, S: Storage, L: RawRangeLock> Volume<H, S, L> {
    /// Empties the full segment with the fewest blocks in use, while other threads read and write.
    /// Moves its blocks, and then syncs their files, which frees the old places. Returns `false` if
    /// no full segment has a free block.
    ///
    /// Calling this is optional: a write that finds no room cleans by itself.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Failed`], [`Error::Io`], and those of reading a node.
    pub fn clean(&self) -> Result<bool, Error> {
        self.check_writable()?;
        let _turn = self.cleaning.lock();
        self.clean_segment()
    }

    /// Reserves blocks, cleaning if there are too few. The caller holds no range.
    pub(crate) fn reserve(&self, blocks: u32) -> Result<Room<'_>, Error> {
        if let Some(room) = self.log.reserve(blocks, Heat::Hot) {
            return Ok(room);
        }
        let _turn = self.cleaning.lock();
        let mut is_last = false;
        loop {
            if let Some(room) = self.log.reserve(blocks, Heat::Hot) {
                return Ok(room);
            }
            // Of all heads: what the cold one gets, it needs to clean further segments.
            let before = self.log.room_of_all();
            if self.clean_segment()? && self.log.room_of_all() > before {
                continue;
            }
            if is_last {
                return Err(Error::Full {
                    needed: blocks.into(),
                    room: self.log.room(),
                });
            }
            // This frees all replaced blocks, and those of removed files.
            self.checkpoint()?;
            is_last = true;
        }
    }

    fn clean_segment(&self) -> Result<bool, Error> {
        let Some(blocks) = self.log.victim() else {
            return Ok(false);
        };
        let mut touched: Vec<Arc<Inode<L>>> = Vec::new();
        for (block, owner) in blocks {
            if let Some(inode) = self.relocate(block, owner)?
                && touched.iter().all(|it| it.nid != inode.nid)
            {
                touched.push(inode);
            }
        }
        for inode in touched {
            self.sync(&inode)?;
        }
        // Relaxed: a counter.
        self.cleaned.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Moves a block to the cold head, if a file still has it. Returns the file whose next commit
    /// frees the block.
    fn relocate(&self, block: Block, owner: Owner) -> Result<Option<Arc<Inode<L>>>, Error> {
        // A guess: the node may be gone by now, or its id reused. `move_block` checks under a lock.
        let Some(about) = self.tree.peek(owner.nid)? else {
            return Ok(None);
        };
        let inode = self.names.lock().by_nid.get(&about.inode).cloned();
        let place = Place::of(about);
        let Some(inode) = inode.filter(|_| place.names_block(owner.slot.into())) else {
            return Ok(None);
        };
        self.move_block(&inode, place.page(owner.slot.into()), block, owner)?;
        Ok(Some(inode))
    }

    /// Moves a block to the cold head if this page has it, and there is room.
    fn move_block(
        &self,
        inode: &Inode<L>,
        page: u32,
        block: Block,
        owner: Owner,
    ) -> Result<(), Error> {
        let _hold = inode.lock.write(bytes_of(page..page + 1))?;
        if inode.check_present().is_err() {
            return Ok(());
        }
        let slot = usize::from(owner.slot);
        let leaf = self.tree.leaf(inode.nid, page..page + 1)?;
        match leaf {
            Some(leaf) if leaf.nid == owner.nid && leaf.slot == owner.slot => {}
            _ => return Ok(()),
        }
        let is_unchecked = injected_bug!(
            "cleans-replaced-blocks",
            "cleaning moves a block back that a write has replaced meanwhile",
            killed_by = "node-log-block/write-clean"
        );
        if !is_unchecked && self.tree.get(owner.nid, slot)? != block {
            return Ok(());
        }
        let Some(mut room) = self.log.reserve(1, Heat::Cold) else {
            return Ok(());
        };
        let mut content = vec![0; BLOCK_BYTES];
        self.data.read(block, 0, &mut content)?;
        let (new, _) = room.allocate(1);
        let moved = self.data.write(new, &content).and_then(|()| {
            let _shared = self.share()?;
            self.log.set_owner(new, owner);
            self.tree.set(inode, owner.nid, slot, new)
        });
        match moved {
            Ok(replaced) if replaced.is_fresh => self.log.free(&[block]),
            Ok(_) => {}
            Err(error) => {
                self.log.free(&[new]);
                return Err(error);
            }
        }
        Ok(())
    }
}
