//! Recovery: takes the transactions that a crash left in the log, and writes their blocks home. It
//! has three passes:
//!
//! 1. **SCAN** reads the log transaction by transaction, from the *start* in the superblock. It
//!    ends at a block that does not continue the log: a block without the magic, with another id,
//!    or of an unknown kind. A transaction counts if its commit block is present and sound.
//! 2. **REVOKE** finds, for each block that has a copy in the log, the last transaction that
//!    revoked it. Copies of the block in that transaction and in older ones must not be replayed.
//! 3. **REPLAY** writes the newest remaining copy of each block home. Before it writes any, it
//!    checks all these copies. So if recovery refuses a journal, it has changed nothing.
//!
//! # What counts as the end of the log
//! *Dropped*: the log ends before this transaction. *Refused*: recovery returns an error. "Third"
//! and "first" are the kinds of checksums in `docs/format.md`; "async" is the feature
//! `ASYNC_COMMIT`.
//!
//! | found | here | e2fsck | Linux |
//! |---|---|---|---|
//! | no commit block | dropped | dropped | dropped |
//! | third: wrong checksum of the commit block (torn) | dropped | dropped | refused |
//! | first, async: wrong checksum of the transaction (torn data) | dropped | dropped | dropped |
//! | one of the two rows above, then another commit block | refused | dropped, reported | refused |
//! | first, not async: wrong checksum | refused | reported | refused |
//! | third: wrong checksum of another block, sound commit block | refused | skipped | refused |
//! | the row above, but the commit time is too old (1) | dropped | dropped | dropped |
//!
//! (1) The time in this commit block is older than in the previous commit block. The block is left
//! over from an earlier use of the log, so the log ends before it.
//!
//! If the medium keeps its promises, no crash leads to a refusal. When recovery refuses a log, it
//! returns [`Error::Damaged`] and leaves the log unchanged, so that other tools can examine it.
//!
//! # Cost
//! Each block of the log is read at most three times; the last transaction once more. Memory: a few
//! numbers for each block of the log. Counts in the log do not change that, even forged ones:
//! a descriptor cannot name more blocks than the log has, and revoked blocks without a copy in the
//! log are not remembered.
//!
//! # A crash during recovery
//! Recovery can be interrupted and repeated. Its last step writes a superblock that says that the
//! log is empty. Until then, each repetition does the same work, so a crash must not change what
//! recovery reads from the log.
//!
//! Each transaction except the last is durable, because it was acknowledged before the next
//! transaction was written. The last transaction may be in the page cache only: its process may
//! have been killed, or the system may have failed to write it back and marked its pages clean.
//! Before recovery writes the first block home, it therefore writes the last transaction again, in
//! its place, and flushes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::blocks::{
    Tag, commit_seconds, data_checksum, is_commit_sound, is_sealed, revoked, tags,
};
use super::checksum::{FIRST_SEED, crc32_be};
use super::error::Error;
use super::ext4::FileSystem;
use super::format::*;
use super::log::Log;
use super::place::{Blocks, Place};
use super::superblock::{Superblock, check_block_bytes};
use crate::storage::Storage;

/// The result of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// The number of transactions that were found complete.
    pub transactions: u64,
    /// The number of blocks written home.
    pub blocks: u64,
    /// The number of copies not written home because their block was revoked later.
    pub revoked: u64,
    /// The transaction that recovery dropped, if any. It was incomplete although its commit block
    /// was present.
    pub dropped: Option<Tid>,
    /// The number of the next transaction.
    pub next: Tid,
    /// The error that Linux stored in the superblock when it aborted the journal: a negative
    /// `errno`, or 0 if Linux did not abort it.
    ///
    /// The log is recovered nevertheless, and the number stays in the superblock. The contents may
    /// be inconsistent in a way that no log repairs. Check them with a tool for their format. For
    /// ext4, `e2fsck` checks them and clears the number.
    pub errno: i32,
}

/// Recovers the journal at `place` in `log`, with blocks of `block_bytes`, and empties it.
/// Afterwards `home` durably holds the state after the last committed transaction.
///
/// For a journal inside a file system's image, `log` and `home` are the same storage. An empty log
/// needs no recovery. If `home` is an ext4 file system and this is its journal, the file system's
/// flag `needs_recovery` is cleared at the end.
///
/// # Errors
/// If the place holds no journal, a damaged journal, or a journal that this build cannot read, or
/// if an ext4 file system in `home` is damaged or larger than `home`, nothing is changed. After a
/// failure of a storage, recovery can be repeated.
pub fn recover(
    log: impl Storage + 'static,
    home: impl Storage,
    block_bytes: u32,
    place: &Place,
) -> Result<Recovery, Error> {
    check_block_bytes(block_bytes)?;
    let blocks = Blocks::new(Arc::new(log), place, block_bytes)?;
    let mut superblock = Superblock::read(&blocks, place)?;
    let was_empty = superblock.start() == 0;
    let file_system = FileSystem::find(&home, &blocks, place, &superblock)?;
    let done = replay(&blocks, &superblock, &home, file_system)?;
    if !was_empty {
        superblock.set(done.next, 0);
        superblock
            .write(&blocks, place)
            .map_err(Error::io("emptying the log"))?;
    }
    if let Some(file_system) = file_system {
        (file_system.end(&home)).map_err(Error::io("clearing the file system's flag"))?;
    }
    Ok(done)
}

/// Does everything except emptying the log.
pub(crate) fn replay(
    blocks: &Blocks,
    superblock: &Superblock,
    home: &dyn Storage,
    file_system: Option<FileSystem>,
) -> Result<Recovery, Error> {
    let mut done = Recovery {
        transactions: 0,
        blocks: 0,
        revoked: 0,
        dropped: None,
        next: superblock.sequence().next(),
        errno: superblock.errno(),
    };
    if superblock.start() == 0 {
        file_system.map_or(Ok(()), |it| it.check(std::iter::empty()))?;
        return Ok(done);
    }
    let mut scan = Scan::new(blocks, superblock);
    scan.run()?;
    done.transactions = scan.found.len() as u64;
    done.dropped = scan.dropped;
    done.next = scan.dropped.unwrap_or(scan.tid).next();

    let last_revokes = last_revokes(blocks, &superblock.format(), &scan.found)?;
    let (newest, hits) = newest(&scan.found, &last_revokes);
    done.revoked = hits;
    done.blocks = newest.len() as u64;
    let replay = Replay {
        blocks,
        format: superblock.format(),
        log: Log::new(superblock),
        home,
        file_system,
    };
    for (data, tid) in &newest {
        replay.check(data, *tid)?;
    }
    if let Some(file_system) = file_system {
        file_system.check(newest.iter().map(|(data, _)| data.tag.home))?;
        (file_system.begin(home)).map_err(Error::io("setting the file system's flag"))?;
    }
    if let Some(last) = scan.found.last().filter(|_| !newest.is_empty()) {
        (replay.write_again(last)).map_err(Error::io("writing the last transaction once more"))?;
    }
    for (data, _) in &newest {
        replay.bring_home(data)?;
    }
    home.flush()
        .map_err(Error::io("flushing the blocks that were brought home"))?;
    Ok(done)
}

/// One copy of a block: its place in the log, and its tag.
#[derive(Clone, Copy, Debug)]
struct Data {
    block: u32,
    tag: Tag,
}

/// A transaction in the log.
#[derive(Debug)]
struct Found {
    tid: Tid,
    /// The numbers of its first block in the log and of its commit block.
    start: u32,
    commit: u32,
    data: Vec<Data>,
    /// The numbers of its revoke blocks in the log.
    revokes: Vec<u32>,
    /// A damaged block, and a description of the damage.
    bad: Option<(u32, &'static str)>,
    /// The checksum of the first kind over the blocks read so far.
    sum: u32,
}

impl Found {
    fn new(tid: Tid, start: u32) -> Self {
        Found {
            tid,
            start,
            commit: start,
            data: Vec::new(),
            revokes: Vec::new(),
            bad: None,
            sum: FIRST_SEED,
        }
    }
}

/// The first pass.
struct Scan<'a> {
    blocks: &'a Blocks,
    format: Format,
    first: u32,
    end: u32,
    at: u32,
    /// The number of blocks passed so far.
    steps: u32,
    /// The transaction that is expected next.
    tid: Tid,
    found: Vec<Found>,
    dropped: Option<Tid>,
    seconds: u64,
}

impl<'a> Scan<'a> {
    fn new(blocks: &'a Blocks, superblock: &Superblock) -> Self {
        Scan {
            blocks,
            format: superblock.format(),
            first: superblock.first(),
            end: superblock.end(),
            at: superblock.start(),
            steps: 0,
            tid: superblock.sequence(),
            found: Vec::new(),
            dropped: None,
            seconds: 0,
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut block = vec![0; self.format.block_bytes];
        let mut open = Found::new(self.tid, self.at);
        while !self.has_gone_round() {
            let at = self.step(&mut block)?;
            let Some((kind, tid)) = header(&block) else {
                return Ok(());
            };
            if tid != self.tid {
                return Ok(());
            }
            match kind {
                Kind::Descriptor => self.descriptor(at, &block, &mut open)?,
                Kind::Revoke => self.revoke(at, &block, &mut open),
                Kind::Commit => {
                    let next = Found::new(self.tid.next(), self.at);
                    let whole = std::mem::replace(&mut open, next);
                    if !self.commit(at, &block, whole)? {
                        return Ok(());
                    }
                    self.tid = self.tid.next();
                }
                Kind::SuperV1 | Kind::SuperV2 => return Ok(()),
            }
        }
        Ok(())
    }

    fn has_gone_round(&self) -> bool {
        self.steps >= self.end - self.first
    }

    /// Reads the next block and returns its number.
    fn step(&mut self, into: &mut [u8]) -> Result<u32, Error> {
        let at = self.skip();
        self.blocks
            .read(at, into)
            .map_err(Error::io("reading the log"))?;
        Ok(at)
    }

    fn skip(&mut self) -> u32 {
        let at = self.at;
        self.steps = self.steps.saturating_add(1);
        self.at += 1;
        if self.at == self.end {
            self.at = self.first;
        }
        at
    }

    fn descriptor(&mut self, at: u32, block: &[u8], open: &mut Found) -> Result<(), Error> {
        if !is_sealed(&self.format, block) {
            open.bad = Some((at, "a descriptor block's checksum is wrong"));
        }
        open.sum = crc32_be(open.sum, block);
        let mut data = vec![0; self.format.block_bytes];
        for tag in tags(&self.format, block) {
            // The transaction claims more blocks than the log has, so it has no commit block.
            if self.has_gone_round() {
                break;
            }
            let block = if self.format.checksums == Checksums::First {
                let at = self.step(&mut data)?;
                open.sum = crc32_be(open.sum, &data);
                at
            } else {
                self.skip()
            };
            open.data.push(Data { block, tag });
        }
        Ok(())
    }

    fn revoke(&mut self, at: u32, block: &[u8], open: &mut Found) {
        if !is_sealed(&self.format, block) {
            open.bad = Some((at, "a revoke block's checksum is wrong"));
        }
        match revoked(&self.format, block) {
            Some(_) => open.revokes.push(at),
            None => open.bad = Some((at, "a revoke block claims more than it holds")),
        }
    }

    /// Checks a transaction and its commit block. Returns false if the log ends before this
    /// transaction.
    fn commit(&mut self, at: u32, block: &[u8], whole: Found) -> Result<bool, Error> {
        let damaged = |block, what| Error::Damaged {
            what,
            block,
            tid: self.tid,
        };
        let seconds = commit_seconds(block);
        let is_left_over = seconds < self.seconds;
        if let Some((block, what)) = whole.bad {
            return if is_left_over {
                Ok(false)
            } else {
                Err(damaged(block, what))
            };
        }
        if self.dropped.is_some() {
            return Err(damaged(at, "the transaction before it is not whole"));
        }
        if !is_commit_sound(&self.format, block, whole.sum) {
            if is_left_over {
                return Ok(false);
            }
            if self.format.checksums == Checksums::First && !self.format.async_commit {
                return Err(damaged(at, "the transaction's checksum is wrong"));
            }
            self.dropped = Some(self.tid);
            return Ok(true);
        }
        self.seconds = seconds;
        self.found.push(Found {
            commit: at,
            ..whole
        });
        Ok(true)
    }
}

/// The second pass: returns, for each block with a copy in the log, the last transaction that
/// revoked it.
fn last_revokes(
    blocks: &Blocks,
    format: &Format,
    found: &[Found],
) -> Result<HashMap<u64, Tid>, Error> {
    let mut last = HashMap::new();
    if found.iter().all(|it| it.revokes.is_empty()) {
        return Ok(last);
    }
    let copies = found.iter().flat_map(|it| &it.data);
    let homes: HashSet<u64> = copies.map(|data| data.tag.home).collect();
    let mut block = vec![0; format.block_bytes];
    for it in found {
        for &at in &it.revokes {
            (blocks.read(at, &mut block)).map_err(Error::io("reading the log"))?;
            let is_same =
                header(&block) == Some((Kind::Revoke, it.tid)) && is_sealed(format, &block);
            let names = revoked(format, &block).filter(|_| is_same);
            let names = names.ok_or(Error::Damaged {
                what: "a revoke block reads differently from before",
                block: at,
                tid: it.tid,
            })?;
            // In the order of transactions, so that for each block the last revoke stays.
            last.extend(
                (names.into_iter().filter(|it| homes.contains(it))).map(|home| (home, it.tid)),
            );
        }
    }
    Ok(last)
}

/// Returns the copies to replay, in the order of their homes, and the number of copies that are
/// revoked.
fn newest(found: &[Found], last_revokes: &HashMap<u64, Tid>) -> (Vec<(Data, Tid)>, u64) {
    let mut newest = HashMap::new();
    let mut hits = 0;
    for it in found {
        for data in &it.data {
            let revoke = last_revokes.get(&data.tag.home);
            if revoke.is_some_and(|revoke| !revoke.is_before(it.tid)) {
                hits += 1;
            } else {
                newest.insert(data.tag.home, (*data, it.tid));
            }
        }
    }
    let mut newest: Vec<_> = newest.into_values().collect();
    newest.sort_unstable_by_key(|(data, _)| data.tag.home);
    (newest, hits)
}

/// The third pass.
struct Replay<'a> {
    blocks: &'a Blocks,
    format: Format,
    log: Log,
    home: &'a dyn Storage,
    file_system: Option<FileSystem>,
}

impl Replay<'_> {
    fn check(&self, data: &Data, tid: Tid) -> Result<(), Error> {
        let blocks = self.home.len() / self.format.block_bytes as u64;
        let block = data.tag.home;
        if block >= blocks {
            return Err(Error::OutOfDevice { block, blocks });
        }
        if self.format.checksums == Checksums::Third
            && data_checksum(&self.format, tid, &self.read(data)?) != data.tag.checksum
        {
            return Err(Error::Damaged {
                what: "a data block's checksum is wrong",
                block: data.block,
                tid,
            });
        }
        Ok(())
    }

    /// Makes the last transaction durable, which may be in the page cache only. A flush alone would
    /// not suffice, because Linux marks pages that it failed to write as clean.
    fn write_again(&self, last: &Found) -> std::io::Result<()> {
        let mut block = vec![0; self.format.block_bytes];
        let mut at = last.start;
        loop {
            self.blocks.read(at, &mut block)?;
            self.blocks.write(at, &block)?;
            if at == last.commit {
                return self.blocks.storage.flush();
            }
            at = self.log.after(at, 1);
        }
    }

    fn bring_home(&self, data: &Data) -> Result<(), Error> {
        let mut block = self.read(data)?;
        if data.tag.escaped {
            put32(&mut block, MAGIC_AT, MAGIC);
        }
        if let Some(file_system) = self.file_system {
            file_system.keep(data.tag.home, &mut block);
        }
        let at = data.tag.home * self.format.block_bytes as u64;
        self.home
            .write_at(&block, at)
            .map_err(Error::io("bringing a block home"))
    }

    fn read(&self, data: &Data) -> Result<Vec<u8>, Error> {
        let mut block = vec![0; self.format.block_bytes];
        self.blocks
            .read(data.block, &mut block)
            .map_err(Error::io("reading the log"))?;
        Ok(block)
    }
}
