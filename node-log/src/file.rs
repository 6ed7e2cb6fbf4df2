//! A file: reading, writing, truncating.
//!
//! # A write
//! 1. Reserve blocks, before locking any range (see `volume/room.rs`).
//! 2. Lock the pages exclusively. A write past the end also locks the last page, where it clears
//!    the bytes past the end: nothing else keeps them zero (N-F2).
//! 3. Read the rest of each page that is written in part. Write all data to new blocks.
//! 4. Set the slots of the pages, then raise the size.
//!
//! # Invariants
//! - **N-F1** A slot names a block only after the block was written. So a flush that begins after a
//!   capture makes durable what the captured images name.
//! - **N-F2** The bytes past the file's size in its last page are unspecified, also after a crash.
//!   No read returns them, and a thread that moves the size past them clears them first.
//! - **N-F3** A replaced block has no reader: its page is held exclusively.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_range_lock::{RangeLockExt, RawRangeLock, WriteHold};
use spanlock_sync::injected_bug;

use crate::error::Error;
use crate::home::Home;
use crate::inode::Inode;
use crate::log::{Owner, Room};
use crate::node::{BLOCK_BYTES, Block, MAX_PAGES};
use crate::tree::{Leaf, page_of, pages_for};
use crate::volume::Volume;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The largest size of a file in bytes: about 4.3 TB (3.9 TiB).
pub const MAX_BYTES: u64 = MAX_PAGES as u64 * BLOCK;

/// A handle to a file of a [`Volume`]. Clones are handles to the same file. Any number of threads
/// may use them at the same time.
pub struct File<'v, H: Home, S: Storage, L: RawRangeLock> {
    volume: &'v Volume<H, S, L>,
    inode: Arc<Inode<L>>,
}

/// Returns the range of bytes that the pages cover.
pub(crate) fn bytes_of(pages: Range<u32>) -> Range<u64> {
    u64::from(pages.start) * BLOCK..u64::from(pages.end) * BLOCK
}

impl<'v, H: Home, S: Storage, L: RawRangeLock> File<'v, H, S, L> {
    pub(crate) fn new(volume: &'v Volume<H, S, L>, inode: Arc<Inode<L>>) -> Self {
        File { volume, inode }
    }

    /// Returns the file's name.
    pub fn name(&self) -> &str {
        &self.inode.name
    }

    /// Returns the file's size in bytes.
    pub fn len(&self) -> u64 {
        self.inode.size()
    }

    /// Returns whether the file's size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the bytes at `offset` into `into`, up to the end of the file, and returns their
    /// number. Bytes that were never written are zero. Waits while another thread writes one of the
    /// pages.
    ///
    /// # Errors
    /// [`Error::Removed`], [`Error::Lock`], and those of reading data and nodes: [`Error::Io`],
    /// [`Error::Corrupt`], [`Error::DamagedNode`].
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Error> {
        let end = offset.saturating_add(into.len() as u64).min(self.all());
        if offset >= end {
            return Ok(0);
        }
        let pages = page_of(offset)..pages_for(end);
        let _hold = self.inode.lock.read(bytes_of(pages))?;
        self.inode.check_present()?;
        let end = end.min(self.inode.size());
        if offset >= end {
            return Ok(0);
        }
        let len = (end - offset) as usize;
        self.read_held(&mut into[..len], offset)?;
        Ok(len)
    }

    /// Writes all of `data` at `offset`. No reader sees a part of the new contents of a page. Waits
    /// while another thread uses one of the pages, for cleaning if there is no room, and for a
    /// checkpoint if the home's block writers.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Failed`], [`Error::Removed`], [`Error::TooLarge`],
    /// [`Error::Full`], [`Error::NoNodes`], [`Error::Lock`], [`Error::Io`]: nothing has changed.
    /// If a node cannot be read, some pages may have been written.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        self.write(data, Some(offset)).map(drop)
    }

    /// Writes all of `data` at the end of the file, and returns the offset at which it begins. No
    /// two appends write the same bytes.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    pub fn append(&self, data: &[u8]) -> Result<u64, Error> {
        self.write(data, None)
    }

    /// Sets the size of the file, in bytes. If it grows, the new bytes are zero. Waits as
    /// [`write_at`](Self::write_at) does, for the pages from the smaller of both sizes on.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at). If a node becomes unreadable halfway, the volume fails:
    /// see [`Error::Failed`].
    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        self.volume.check_writable()?;
        check_end(0, size)?;
        // A file that shrinks needs none.
        let room = match self.volume.reserve(1) {
            Err(error) if !matches!(error, Error::Full { .. }) => return Err(error),
            room => room,
        };
        let first = |old: u64| u64::from(page_of(old.min(size))) * BLOCK;
        // The lock refuses a size that is too large for it.
        let (_hold, old) = self.hold(|old| first(old)..self.all().max(size))?;
        self.inode.check_present()?;
        if size < old {
            self.shrink(size)
        } else if size > old {
            self.clear_end(&mut room?, old)?;
            self.inode.grow(size);
            Ok(())
        } else {
            Ok(())
        }
    }

    /// Makes durable the file's name, and every change of the file that returned before this call.
    /// Blocks until then; concurrent calls share the work. Also makes a checkpoint if one is
    /// [due](crate::Options::checkpoint_every).
    ///
    /// # Errors
    /// [`Error::Removed`], [`Error::ReadOnly`]. [`Error::Io`] and [`Error::Failed`]: nothing
    /// becomes durable from then on. [`Error::NodesFull`]: the changes stay in memory, and a later
    /// call may succeed.
    pub fn fsync(&self) -> Result<(), Error> {
        self.volume.fsync(&self.inode)
    }

    /// Finds the block of a page, as a write does. For benchmarks of the lookup. Another thread may
    /// replace the block at any time.
    #[doc(hidden)]
    pub fn locate(&self, page: u32) -> Result<Option<u32>, Error> {
        match self.volume.tree.leaf(self.inode.nid, page..page + 1)? {
            None => Ok(None),
            Some(leaf) => {
                let block = self.volume.tree.get(leaf.nid, leaf.slot.into())?;
                Ok((block != 0).then_some(block))
            }
        }
    }

    /// Returns the end of the pages that can be locked.
    fn all(&self) -> u64 {
        let capacity = self.inode.lock.capacity().min(MAX_BYTES);
        capacity - capacity % BLOCK
    }

    /// Locks exclusively the range that `wanted` returns for the file's size. Retries until the
    /// range covers what is wanted for a size that the file has had under the lock. Returns that
    /// size, too. The caller must use it: another thread may have moved the end since, by a write
    /// past the locked pages.
    fn hold(&self, wanted: impl Fn(u64) -> Range<u64>) -> Result<(WriteHold<'_, L>, u64), Error> {
        let mut tries = 0;
        loop {
            let mut range = wanted(self.inode.size());
            // The end may move while this waits. The last try locks the whole file, so it cannot.
            match tries {
                0 | 1 => {}
                2 => range.end = range.end.max(self.all()),
                _ => range = 0..range.end.max(self.all()),
            }
            let hold = self.inode.lock.write(range.clone())?;
            let size = self.inode.size();
            let now = wanted(size);
            if range.start <= now.start && now.end <= range.end {
                return Ok((hold, size));
            }
            tries += 1;
        }
    }

    /// Writes at `offset`, or at the end.
    fn write(&self, data: &[u8], offset: Option<u64>) -> Result<u64, Error> {
        let len = data.len() as u64;
        if data.is_empty() {
            return Ok(offset.unwrap_or(self.len()));
        }
        self.volume.check_writable()?;
        check_end(offset.unwrap_or(self.len()), len)?;
        // One more page if the write is not aligned, and one for the last page of the file.
        let mut room = self.volume.reserve(pages_for(len) + 2)?;
        let (_hold, size) = self.hold(|size| {
            let at = offset.unwrap_or(size);
            let first = match at > size && !size.is_multiple_of(BLOCK) {
                true => page_of(size),
                false => page_of(at),
            };
            let end = at.saturating_add(len).min(MAX_BYTES);
            bytes_of(first..pages_for(end))
        })?;
        self.inode.check_present()?;
        // N-F2: if the end has moved since into a page that is not held, then the thread that moved
        // it has cleared what is past it.
        let offset = offset.unwrap_or(size);
        let end = check_end(offset, len)?;
        if offset > size && page_of(offset) > page_of(size) {
            self.clear_end(&mut room, size)?;
        }
        let pages = page_of(offset)..pages_for(end);
        let content = self.content(data, offset, end, size)?;
        self.store(&mut room, pages, &content)?;
        self.inode.grow(end);
        Ok(offset)
    }

    /// Returns whole pages: `data`, and around it the present content of the pages.
    fn content<'d>(
        &self,
        data: &'d [u8],
        offset: u64,
        end: u64,
        size: u64,
    ) -> Result<Cow<'d, [u8]>, Error> {
        if offset.is_multiple_of(BLOCK) && end.is_multiple_of(BLOCK) {
            return Ok(Cow::Borrowed(data));
        }
        let (first, last) = (page_of(offset), pages_for(end));
        let start = u64::from(first) * BLOCK;
        let mut pages = vec![0; (last - first) as usize * BLOCK_BYTES];
        // Reads the bytes of a page that lie before `upto` and inside the file.
        let read = |at: u64, upto: u64, into: &mut [u8]| match at < upto.min(size) {
            true => self.read_held(&mut into[..(upto.min(size) - at) as usize], at),
            false => Ok(()),
        };
        let tail = u64::from(last - 1) * BLOCK;
        if !offset.is_multiple_of(BLOCK) {
            read(start, start + BLOCK, &mut pages)?;
        }
        if !end.is_multiple_of(BLOCK) && (tail > start || offset.is_multiple_of(BLOCK)) {
            let len = pages.len();
            read(tail, tail + BLOCK, &mut pages[len - BLOCK_BYTES..])?;
        }
        let at = (offset - start) as usize;
        pages[at..at + data.len()].copy_from_slice(data);
        Ok(Cow::Owned(pages))
    }

    /// Clears the bytes past the end in the last page, before the size moves past them. The caller
    /// holds the page.
    fn clear_end(&self, room: &mut Room<'_>, size: u64) -> Result<(), Error> {
        let is_left_out = injected_bug!(
            "keeps-bytes-behind-the-end",
            "a file grows without clearing what is behind the end in its page",
            killed_by = "node-log-nvm/sequences-of-2, node-log-block/sequences-of-2"
        );
        let page = page_of(size);
        if size.is_multiple_of(BLOCK) || is_left_out || self.locate(page)?.is_none() {
            return Ok(());
        }
        let mut content = vec![0; BLOCK_BYTES];
        let start = u64::from(page) * BLOCK;
        self.read_held(&mut content[..(size - start) as usize], start)?;
        self.store(room, page..page + 1, &content)
    }

    /// Writes whole pages to new blocks. The caller holds them exclusively.
    fn store(&self, room: &mut Room<'_>, pages: Range<u32>, content: &[u8]) -> Result<(), Error> {
        let volume = self.volume;
        let leaves = self.leaves(pages.clone())?;
        let mut blocks = Vec::with_capacity(pages.len());
        let mut rest = content;
        while !rest.is_empty() {
            let (first, count) = room.allocate((rest.len() / BLOCK_BYTES) as u32);
            blocks.extend(first..first + count);
            let (now, later) = rest.split_at(count as usize * BLOCK_BYTES);
            if let Err(error) = volume.data.write(first, now) {
                volume.log.free(&blocks);
                return Err(error);
            }
            rest = later;
        }
        let _shared = volume.share()?;
        let mut fresh = Vec::new();
        let mut rest = &blocks[..];
        let slots = leaves.iter().flat_map(|leaf| {
            let slots = (leaf.slot..).take(leaf.pages as usize);
            slots.map(|slot| Owner {
                nid: leaf.nid,
                slot,
            })
        });
        let mut set = |owner: Owner| {
            let (block, later) = rest.split_first().expect("a block for each page");
            volume.log.set_owner(*block, owner);
            // N-F1: the block is written.
            let slot = usize::from(owner.slot);
            let replaced = (volume.tree).set(&self.inode, owner.nid, slot, *block)?;
            if replaced.old != 0 && replaced.is_fresh {
                fresh.push(replaced.old);
            }
            rest = later;
            Ok(())
        };
        let result = { slots }.try_for_each(&mut set);
        // N-F3: they have no reader. After a failure, `rest` has the blocks that no slot names.
        volume.log.free(&fresh);
        volume.log.free(rest);
        result
    }

    /// Finds the slots of pages, and adds missing nodes.
    fn leaves(&self, pages: Range<u32>) -> Result<Vec<Leaf>, Error> {
        let tree = &self.volume.tree;
        let mut leaves = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            let leaf = match tree.leaf(self.inode.nid, page..pages.end)? {
                Some(leaf) => leaf,
                None => {
                    let _shared = self.volume.share()?;
                    tree.leaf_or_new(&self.inode, page..pages.end)?
                }
            };
            page += leaf.pages;
            leaves.push(leaf);
        }
        Ok(leaves)
    }

    /// Lowers the size. The caller holds all pages from it on.
    fn shrink(&self, size: u64) -> Result<(), Error> {
        let (volume, inode) = (self.volume, &*self.inode);
        let _shared = volume.share()?;
        let _tree = inode.tree.lock();
        // Before any other change, so that a failure changes nothing. The tree's mutex keeps
        // captures away until the end.
        volume.tree.touch(inode)?;
        let cut = volume.tree.cut(inode, pages_for(size));
        let cut = cut.map_err(|(error, is_in_part)| match is_in_part {
            true => volume.fail(error),
            false => error,
        })?;
        inode.set_size(size);
        {
            let mut changes = inode.changes.lock();
            changes.kept.extend(cut.kept);
            changes.freed.extend(cut.nodes);
        }
        volume.log.free(&cut.fresh);
        Ok(())
    }

    /// Reads bytes that the file has. The caller holds their pages.
    fn read_held(&self, into: &mut [u8], offset: u64) -> Result<(), Error> {
        let tree = &self.volume.tree;
        let end = offset + into.len() as u64;
        let pages = page_of(offset)..pages_for(end);
        // The blocks from `first` on that hold consecutive bytes, and where those begin.
        let mut run: (Block, u64, u64) = (0, 0, offset);
        let mut into = into;
        let mut read = |(first, count, from): (Block, u64, u64), upto: u64| {
            let (now, later) = std::mem::take(&mut into).split_at_mut((upto - from) as usize);
            into = later;
            match (now.is_empty(), count) {
                (true, _) => Ok(()),
                (_, 0) => {
                    now.fill(0);
                    Ok(())
                }
                _ => {
                    let inside = (from % BLOCK) as usize;
                    self.volume.data.read(first, inside, now)
                }
            }
        };
        let mut page = pages.start;
        while page < pages.end {
            let leaf = tree.leaf(self.inode.nid, page..pages.end)?;
            let count = leaf.map_or(1, |it| it.pages);
            for nth in 0..count {
                let block = match leaf {
                    Some(leaf) => tree.get(leaf.nid, usize::from(leaf.slot) + nth as usize)?,
                    None => 0,
                };
                let at = (u64::from(page + nth) * BLOCK).max(offset);
                let continues = match (run.1, block) {
                    (0, 0) => true,
                    (0, _) | (_, 0) => false,
                    (count, block) => u64::from(run.0) + count == u64::from(block),
                };
                if !continues {
                    read(run, at)?;
                    run = (block, 0, at);
                }
                run.1 += u64::from(block != 0);
            }
            page += count;
        }
        read(run, end)
    }
}

/// Returns where `len` bytes at `offset` end, if a file can have them.
fn check_end(offset: u64, len: u64) -> Result<u64, Error> {
    let end = offset.saturating_add(len);
    match end <= MAX_BYTES {
        true => Ok(end),
        false => Err(Error::TooLarge {
            end,
            most: MAX_BYTES,
        }),
    }
}

impl<H: Home, S: Storage, L: RawRangeLock> Clone for File<'_, H, S, L> {
    fn clone(&self) -> Self {
        File::new(self.volume, self.inode.clone())
    }
}

impl<H: Home, S: Storage, L: RawRangeLock> fmt::Debug for File<'_, H, S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("name", &self.name()).finish()
    }
}
