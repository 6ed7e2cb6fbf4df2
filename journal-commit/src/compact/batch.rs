//! The open batch: records that wait for the next leader.

use super::format::{HEADER, Header, RECORD, record_header};
use super::group;

/// The records that have joined, in the form they will have in the ring.
#[derive(Debug)]
pub(super) struct Open {
    /// The position in the ring where the batch will start.
    position: u64,
    first: u64,
    count: u32,
    digest: u32,
    /// Room for the header, followed by the records.
    bytes: Vec<u8>,
    spare: Option<Vec<u8>>,
    /// The position from which on no byte may be written.
    limit: u64,
    block: u64,
    /// Records are added up to this many bytes. A larger record gets a batch of its own.
    most: usize,
}

/// A batch that a leader has taken.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) position: u64,
    pub(super) first: u64,
    pub(super) count: u32,
    digest: u32,
    pub(super) bytes: Vec<u8>,
}

/// Why a record cannot be added to the open batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The batch has reached its maximum size: commit it first.
    Batch,
    /// The ring has no room.
    Ring { needed: u64, free: u64 },
}

impl Open {
    pub(super) fn new(position: u64, first: u64, limit: u64, block: u64, most: usize) -> Self {
        Open {
            position,
            first,
            count: 0,
            digest: 0,
            bytes: vec![0; HEADER],
            spare: None,
            limit,
            block,
            most,
        }
    }

    /// Returns the bytes that a batch of one record takes.
    pub(super) fn alone(len: usize, block: u64) -> u64 {
        ((HEADER + RECORD) as u64 + len as u64).next_multiple_of(block)
    }

    /// Adds a record with the given checksum.
    pub(super) fn add(&mut self, record: &[u8], checksum: u32) -> Result<(), Refusal> {
        let len = self.bytes.len() + RECORD + record.len();
        if self.count > 0 && len > self.most {
            return Err(Refusal::Batch);
        }
        let end = self.position + (len as u64).next_multiple_of(self.block);
        if end > self.limit {
            return Err(Refusal::Ring {
                needed: Self::alone(record.len(), self.block),
                free: self.free(),
            });
        }
        // The length fits into 32 bits: `Log` limits the length of a record, and `most` limits a
        // batch of several records.
        let before = record_header(record.len() as u32, checksum);
        self.digest = crc32c::crc32c_append(self.digest, &before);
        self.bytes.extend_from_slice(&before);
        self.bytes.extend_from_slice(record);
        self.count += 1;
        Ok(())
    }

    /// Returns the bytes that the ring has for further batches.
    pub(super) fn free(&self) -> u64 {
        self.limit - self.end()
    }

    /// Allows positions up to `limit`. Called after a truncation.
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    fn end(&self) -> u64 {
        if self.count == 0 {
            return self.position;
        }
        self.position + (self.bytes.len() as u64).next_multiple_of(self.block)
    }
}

impl group::Batch for Open {
    type Load = Load;

    fn take(&mut self) -> Load {
        let (position, first) = (self.position, self.first);
        self.position = self.end();
        self.first += u64::from(self.count);
        let mut next = self.spare.take().unwrap_or_default();
        next.resize(HEADER, 0);
        Load {
            position,
            first,
            count: std::mem::take(&mut self.count),
            digest: std::mem::take(&mut self.digest),
            bytes: std::mem::replace(&mut self.bytes, next),
        }
    }

    fn put_back(&mut self, load: Load) {
        // Do not keep the memory of one large record for ever.
        if load.bytes.capacity() <= 4 * self.most {
            let mut bytes = load.bytes;
            bytes.clear();
            self.spare = Some(bytes);
        }
    }
}

impl Load {
    /// Writes the header, and zeros up to the end of the block.
    pub(super) fn seal(&mut self, id: u64, epoch: u64, block: u64) {
        let header = Header {
            id,
            epoch,
            position: self.position,
            first: self.first,
            length: (self.bytes.len() - HEADER) as u32,
            count: self.count,
            digest: self.digest,
        };
        self.bytes[..HEADER].copy_from_slice(&header.encode());
        self.bytes
            .resize(self.bytes.len().next_multiple_of(block as usize), 0);
    }

    /// Returns the position after the batch.
    pub(super) fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }
}
