//! Reading inodes, and walking the chains of their logs. `replay.rs` reads the slots.
//!
//! Nothing here changes the volume or its state in memory, so several threads may read logs at
//! once, and a file's log can be read again while the volume is in use.

use spanlock_pmem::Pmem;

use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::journal::{self, Word};
use crate::medium::layout::{
    Geometry, INODE_USED_BYTES, InodeId, LogId, PAGE, PageId, RawInode, T_NEXT_AT, TAIL_AT,
    WORD_BYTES, page_at, unseal,
};
use crate::medium::reports::Repair;
use crate::recover::damage::Fix;

/// Receives each page of a chain, and the byte offset of the pointer to it. An error ends the walk.
pub(super) type EachPage<'a> = dyn FnMut(u32, u64) -> Result<(), Error> + 'a;

/// Receives each piece of damage in a log, and how to repair it in place. An error ends the replay.
/// Otherwise, a chain ends before a damaged page, and a damaged group is skipped.
pub(super) type EachDamage<'a> = dyn FnMut(Error, Fix) -> Result<(), Error> + 'a;

/// The pointer to a page of a chain.
struct Pointer {
    word: u64,
    /// Its byte offset in the region.
    at: u64,
    /// The initial value of its checksum.
    seed: u32,
}

/// The chain of a log: its pages, in order. Their tails have been read, but not their slots.
pub(super) struct Chain {
    pub(super) inode: RawInode,
    pub(super) pages: Vec<PageId>,
}

/// Reads inodes and their logs.
pub(crate) struct LogReader<'a, P> {
    pub(super) pmem: &'a P,
    pub(super) geometry: &'a Geometry,
    /// The words of the journal's record, which may not be stored at their positions yet.
    pub(super) journaled: Vec<Word>,
    /// From how many pages on a log is decoded on the threads of rayon's current pool. Unlimited
    /// while the volume is in use: a thread that waits for the pool runs other tasks of it, which
    /// are foreign code (F-N3 of `inode_table.rs`).
    pub(super) long_from: usize,
}

impl<'a, P: Pmem> LogReader<'a, P> {
    pub(crate) fn new(pmem: &'a P, geometry: &'a Geometry) -> Self {
        LogReader {
            pmem,
            geometry,
            journaled: Vec::new(),
            long_from: usize::MAX,
        }
    }

    /// From here on, reads as if the change in the journal were complete.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the journal is damaged. Nothing has changed then.
    pub(crate) fn read_journal(&mut self) -> Result<(), Error> {
        self.journaled = journal::words_left(self.pmem, self.geometry)?;
        Ok(())
    }

    /// Returns whether several threads decode the log with this chain.
    pub(super) fn is_long(&self, chain: &Chain) -> bool {
        chain.pages.len() >= self.long_from
    }

    /// Returns the inode in slot `number`, if a complete one was written there.
    pub(crate) fn inode(&self, number: u32) -> Option<RawInode> {
        let mut bytes = [0; INODE_USED_BYTES];
        self.load(self.geometry.inode_at(number), &mut bytes);
        RawInode::decode(&bytes, number)
    }

    /// Returns the inode that a directory names.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its slot does not hold an inode of this generation and kind.
    pub(crate) fn live_inode(&self, id: InodeId) -> Result<RawInode, Error> {
        let what = match self.inode(id.number) {
            Some(inode) if inode.id == id => return Ok(inode),
            Some(inode) if inode.id.generation != id.generation => "an inode of another generation",
            Some(_) => "an inode of another kind",
            None => "an unreadable inode",
        };
        let at = self.geometry.inode_at(id.number);
        Err(Error::corrupt(what, id.number, at))
    }

    /// Returns an inode that a directory names but whose line is unreadable, if the head pointer in
    /// the line is that of this inode, or zero. Its creation time is lost; if the pointer is zero,
    /// so is its content, if it had any. The root is always returned, because nothing else can be
    /// in its place.
    pub(super) fn restored_inode(&self, id: InodeId) -> Option<RawInode> {
        let is_root = id == InodeId::ROOT;
        if self.inode(id.number).is_some() && !is_root {
            // The line belongs to another inode.
            return None;
        }
        let mut head = [0; WORD_BYTES];
        self.load(self.geometry.inode_at(id.number), &mut head);
        let head = u64::from_le_bytes(head);
        let is_sealed = unseal(id.log().head_seed(), head).is_ok();
        let head = if is_sealed { head } else { 0 };
        let created = 0;
        (is_sealed || is_root).then_some(RawInode { id, head, created })
    }

    /// Walks the chain of `inode`, to its end or to the first page that is damaged. Calls `visit`
    /// with each page, and `damaged` with the damage.
    ///
    /// # Errors
    /// Those of `damaged`, which also receives those of `visit`.
    pub(super) fn walk(
        &self,
        inode: &RawInode,
        visit: &mut EachPage<'_>,
        damaged: &mut EachDamage<'_>,
    ) -> Result<Chain, Error> {
        let log = inode.id.log();
        let mut chain = Chain {
            inode: *inode,
            pages: Vec::new(),
        };
        let mut pointer = Pointer {
            word: inode.head,
            at: self.geometry.inode_at(inode.id.number),
            seed: log.head_seed(),
        };
        loop {
            let (id, next) = match self.follow(log, &pointer, visit) {
                Ok(Some(page)) => page,
                Ok(None) => return Ok(chain),
                Err(error) => {
                    damaged(error, Fix::Erase(pointer.at, Repair::CutLog))?;
                    return Ok(chain);
                }
            };
            chain.pages.push(id);
            pointer = Pointer {
                word: next,
                at: page_at(id.page) + T_NEXT_AT as u64,
                seed: id.seed(),
            };
        }
    }

    /// Returns the page that the pointer leads to, and the word of the next pointer; `None` if it
    /// is the end of the chain.
    fn follow(
        &self,
        log: LogId,
        pointer: &Pointer,
        visit: &mut EachPage<'_>,
    ) -> Result<Option<(PageId, u64)>, Error> {
        let corrupt = |what, at| Error::corrupt(what, log.inode, at);
        let page = unseal(pointer.seed, pointer.word)
            .map_err(|()| corrupt("a log pointer with a wrong checksum", pointer.at))?;
        let Some(page) = page else {
            return Ok(None);
        };
        let extent = Extent {
            start: page,
            len: 1,
        };
        if !in_data_area(self.geometry, extent) {
            return Err(corrupt("a pointer outside the data area", pointer.at));
        }
        let mut image = [0; PAGE];
        let tail_at = page_at(page) + TAIL_AT as u64;
        self.load(tail_at, &mut image[TAIL_AT..]);
        let found = PageId::from_tail(&image, log, page)
            .ok_or_else(|| corrupt("a log page with a wrong tail", tail_at))?;
        // Only now: a page of another log is not this one's to claim.
        visit(page, pointer.at)?;
        Ok(Some(found))
    }

    /// Reads bytes of a log page or an inode, from a word on, as if the change in the journal were
    /// complete.
    pub(super) fn load(&self, at: u64, into: &mut [u8]) {
        // SAFETY: F-M8. Or the log belongs to a file that no other thread uses, so nobody stores to
        // its pages or its inode (F-M4, F-M5, F-M6).
        unsafe { self.pmem.read(at, into) };
        let bytes = at..at + into.len() as u64;
        for word in self.journaled.iter().filter(|it| bytes.contains(&it.at)) {
            let at = (word.at - bytes.start) as usize;
            into[at..at + WORD_BYTES].copy_from_slice(&word.value.to_le_bytes());
        }
    }
}

/// Returns whether the volume may hold logs and data in these pages.
pub(super) fn in_data_area(geometry: &Geometry, extent: Extent) -> bool {
    let end = extent.start as u64 + extent.len as u64;
    extent.start >= geometry.data_start() && end <= geometry.data_end() as u64
}
