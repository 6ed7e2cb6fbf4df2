//! The part of the storage that holds batches, as a ring of blocks. A *position* in it keeps
//! growing when the ring wraps around.

use std::io;

use spanlock_sync::injected_bug;

use super::format::{DATA, HEADER, Header, Superblock, split_record};
use crate::Storage;

/// The smallest number of blocks in a ring.
const LEAST_BLOCKS: u64 = 8;

/// The ring of blocks in a storage.
#[derive(Debug)]
pub(super) struct Ring<S> {
    pub(super) storage: S,
    /// The length in bytes; a multiple of `block`.
    pub(super) len: u64,
    pub(super) block: u64,
    pub(super) id: u64,
}

/// A batch that was read from the ring.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) header: Header,
    /// Header, records, and zeros up to the end of the block.
    pub(super) bytes: Vec<u8>,
}

impl Found {
    /// Returns the records, with their lengths and checksums.
    pub(super) fn records(&self) -> &[u8] {
        &self.bytes[HEADER..HEADER + self.header.length as usize]
    }
}

/// Returns the ring's length in a storage of `storage` bytes.
fn len_in(storage: u64, block: u64) -> u64 {
    let bytes = storage.saturating_sub(DATA);
    bytes - bytes % block
}

/// Returns whether a storage of that many bytes has room for a ring.
pub(super) fn is_enough(storage: u64, block: u64) -> bool {
    len_in(storage, block) >= LEAST_BLOCKS * block
}

impl<S: Storage> Ring<S> {
    pub(super) fn new(storage: S, superblock: &Superblock) -> Self {
        let block = u64::from(superblock.block);
        Ring {
            storage,
            len: len_in(superblock.len, block),
            block,
            id: superblock.id,
        }
    }

    /// Returns the number of bytes that a batch takes in the ring if its header and records have
    /// `bytes`.
    pub(super) fn size(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.block)
    }

    /// Returns the offset of a position in the storage.
    pub(super) fn place(&self, position: u64) -> u64 {
        DATA + position % self.len
    }

    pub(super) fn write(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let (first, second) = bytes.split_at(self.before_end(bytes.len(), position));
        self.storage.write_at(first, self.place(position))?;
        if second.is_empty() {
            return Ok(());
        }
        self.storage.write_at(second, DATA)
    }

    pub(super) fn read(&self, bytes: &mut [u8], position: u64) -> io::Result<()> {
        let (first, second) = bytes.split_at_mut(self.before_end(bytes.len(), position));
        self.storage.read_at(first, self.place(position))?;
        if second.is_empty() {
            return Ok(());
        }
        self.storage.read_at(second, DATA)
    }

    fn before_end(&self, len: usize, position: u64) -> usize {
        let rest = self.len - position % self.len;
        usize::try_from(rest).map_or(len, |rest| rest.min(len))
    }

    /// Reads the batch that starts at `position` with record `first`, if its epoch satisfies
    /// `is_epoch`. Returns `None` if there is no such batch, or if it is incomplete or damaged.
    pub(super) fn batch(
        &self,
        position: u64,
        first: u64,
        is_epoch: impl Fn(u64) -> bool,
    ) -> io::Result<Option<Found>> {
        let mut bytes = vec![0; self.block as usize];
        self.read(&mut bytes, position)?;
        let Some(header) = Header::decode(&bytes) else {
            return Ok(None);
        };
        let len = HEADER as u64 + u64::from(header.length);
        let is_it = (header.id, header.position, header.first) == (self.id, position, first)
            && is_epoch(header.epoch)
            && len <= self.len;
        if !is_it {
            return Ok(None);
        }
        bytes.resize(self.size(len) as usize, 0);
        self.read(&mut bytes, position)?;
        // Decode the header again, because the checks below must use bytes of one read.
        if injected_bug!(
            "batch-unchecked",
            "recovery takes a batch with a sound header for a complete one",
            killed_by = "large-large, commit-large, large-truncate, \
                         compact-log-failure/sequences-of-1, compact-log-new/sequences-of-1, \
                         compact-log-part/sequences-of-1"
        ) {
            return Ok(Some(Found { header, bytes }));
        }
        let is_same = Header::decode(&bytes) == Some(header);
        let found = Found { header, bytes };
        Ok((is_same && are_sound(&header, found.records())).then_some(found))
    }
}

fn are_sound(header: &Header, records: &[u8]) -> bool {
    let (mut rest, mut digest) = (records, 0);
    for _ in 0..header.count {
        let Some((before, _, behind)) = split_record(rest) else {
            return false;
        };
        digest = crc32c::crc32c_append(digest, before);
        rest = behind;
    }
    rest.is_empty() && header.count > 0 && digest == header.digest
}
