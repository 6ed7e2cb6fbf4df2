//! Blocks of the storage as a ring, addressed by positions that never go back.

use std::io;

use super::format::{DATA, HEADER, Header, Superblock, split_record};
use crate::Storage;

/// A ring has at least so many.
const LEAST_BLOCKS: u64 = 8;

/// Where batches lie.
#[derive(Debug)]
pub(super) struct Ring<S> {
    pub(super) storage: S,
    /// Bytes; a multiple of `block`.
    pub(super) len: u64,
    pub(super) block: u64,
    pub(super) id: u64,
}

/// A batch as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) header: Header,
    /// Header, records, and zeros to the end of the block.
    pub(super) bytes: Vec<u8>,
}

impl Found {
    /// Lengths, checksums and bytes of its records.
    pub(super) fn records(&self) -> &[u8] {
        &self.bytes[HEADER..HEADER + self.header.length as usize]
    }
}

/// Bytes of the ring in a storage of so many.
fn len_in(storage: u64, block: u64) -> u64 {
    let bytes = storage.saturating_sub(DATA);
    bytes - bytes % block
}

/// Whether a storage of so many bytes has room for a ring.
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

    /// Bytes that a batch takes, whose header and records are so many.
    pub(super) fn size(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.block)
    }

    /// Where a position is in the storage.
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

    /// The batch that starts at `position` with record `first`, of an epoch that `is_epoch` accepts. `None` if there is no such batch, whole and sound.
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
        // Once more from the start: what is judged is what was read in one go.
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
