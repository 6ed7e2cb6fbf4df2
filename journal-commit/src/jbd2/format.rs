//! The format's constants (offsets, block kinds, features) and values derived from them.
//!
//! All numbers are big-endian. `docs/format.md` has pictures.

use core::fmt;

/// The first bytes of every block of the log that is not data.
pub(crate) const MAGIC: u32 = 0xC03B_3998;

// Header of every block that is not data.
pub(crate) const MAGIC_AT: usize = 0;
pub(crate) const KIND_AT: usize = MAGIC_AT + 4;
pub(crate) const TID_AT: usize = KIND_AT + 4;
pub(crate) const HEADER_BYTES: usize = TID_AT + 4;

// Superblock.
pub(crate) const BLOCK_BYTES_AT: usize = HEADER_BYTES;
pub(crate) const BLOCKS_AT: usize = BLOCK_BYTES_AT + 4;
pub(crate) const FIRST_AT: usize = BLOCKS_AT + 4;
pub(crate) const SEQUENCE_AT: usize = FIRST_AT + 4;
pub(crate) const START_AT: usize = SEQUENCE_AT + 4;
pub(crate) const ERRNO_AT: usize = START_AT + 4;
pub(crate) const COMPAT_AT: usize = ERRNO_AT + 4;
pub(crate) const INCOMPAT_AT: usize = COMPAT_AT + 4;
pub(crate) const RO_COMPAT_AT: usize = INCOMPAT_AT + 4;
pub(crate) const UUID_AT: usize = RO_COMPAT_AT + 4;
pub(crate) const UUID_BYTES: usize = 16;
pub(crate) const USERS_AT: usize = UUID_AT + UUID_BYTES;
/// Four fields precede it: the number of users, the block of the superblock's copy, and two limits
/// that no implementation uses.
pub(crate) const SUPER_CHECKSUM_KIND_AT: usize = USERS_AT + 16;
pub(crate) const SUPER_CHECKSUM_AT: usize = 0xFC;
pub(crate) const SUPER_BYTES: usize = 1024;

// Revoke block: the header, the number of bytes used, block numbers.
pub(crate) const REVOKE_USED_AT: usize = HEADER_BYTES;
pub(crate) const REVOKE_BYTES: usize = REVOKE_USED_AT + 4;

// Commit block.
pub(crate) const COMMIT_KIND_AT: usize = HEADER_BYTES;
pub(crate) const COMMIT_SIZE_AT: usize = COMMIT_KIND_AT + 1;
pub(crate) const COMMIT_CHECKSUM_AT: usize = COMMIT_SIZE_AT + 3;
pub(crate) const COMMIT_SECONDS_AT: usize = COMMIT_CHECKSUM_AT + 32;
pub(crate) const COMMIT_NANOS_AT: usize = COMMIT_SECONDS_AT + 8;

/// The number of bytes at the end of a descriptor or revoke block that hold its checksum, if it has
/// a checksum.
pub(crate) const TAIL_BYTES: usize = 4;

// Flags of a tag.
pub(crate) const TAG_ESCAPED: u32 = 1;
pub(crate) const TAG_SAME_UUID: u32 = 2;
pub(crate) const TAG_LAST: u32 = 8;

// Features.
pub(crate) const COMPAT_CHECKSUM: u32 = 1;
pub(crate) const INCOMPAT_REVOKE: u32 = 1;
pub(crate) const INCOMPAT_64BIT: u32 = 2;
pub(crate) const INCOMPAT_ASYNC_COMMIT: u32 = 4;
pub(crate) const INCOMPAT_CSUM_V3: u32 = 0x10;
pub(crate) const KNOWN_INCOMPAT: u32 =
    INCOMPAT_REVOKE | INCOMPAT_64BIT | INCOMPAT_ASYNC_COMMIT | INCOMPAT_CSUM_V3;

/// In a commit block with a checksum of the first kind: the code for CRC-32, and its size.
pub(crate) const CRC32_KIND: u8 = 1;
pub(crate) const CRC32_BYTES: u8 = 4;
/// In a superblock: the code for CRC-32C.
pub(crate) const CRC32C_KIND: u8 = 4;

/// The smallest number of blocks in a log: a quarter of it has room for a transaction of one block.
pub(crate) const LEAST_LOG_BLOCKS: u64 = 32;

/// The kind of a block, as its header states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Descriptor = 1,
    Commit = 2,
    SuperV1 = 3,
    SuperV2 = 4,
    Revoke = 5,
}

/// The number of a transaction. Numbers wrap around, so the sign of their difference tells which of
/// two transactions is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tid(pub u32);

impl Tid {
    /// Returns whether this transaction is older than `other`, if they are less than 2³¹ apart.
    #[inline]
    pub fn is_before(self, other: Tid) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }

    /// Returns the number after this one.
    #[inline]
    pub fn next(self) -> Tid {
        Tid(self.0.wrapping_add(1))
    }

    /// Returns the number before this one.
    #[inline]
    pub fn previous(self) -> Tid {
        Tid(self.0.wrapping_sub(1))
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of flushes in a commit. It is fixed when the journal is formatted, because recovery
/// depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flushes {
    /// The transaction's other blocks are flushed before the commit block is written. Checksums are
    /// of the third kind (`CSUM_V3`), Linux's default.
    #[default]
    Two,
    /// The commit block is written along with the other blocks, and one flush makes all of them
    /// durable. Linux recovers such a journal only with checksums of the first kind
    /// (`COMPAT_CHECKSUM`) and `ASYNC_COMMIT`.
    ///
    /// A transaction with revoke blocks still takes two flushes, because checksums of the first
    /// kind do not cover revoke blocks.
    One,
}

/// Which blocks have checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksums {
    /// No block has a checksum.
    None,
    /// The commit block has a checksum over all descriptors and data.
    First,
    /// Every block has a checksum.
    Third,
}

/// The layout of a journal's blocks, as its features determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) block_bytes: usize,
    pub(crate) checksums: Checksums,
    /// Block numbers have 64 bits.
    pub(crate) wide: bool,
    /// The commit block may be written before the other blocks are durable.
    pub(crate) async_commit: bool,
    /// The initial value of every checksum of the third kind in the log.
    pub(crate) seed: u32,
}

impl Format {
    pub(crate) fn tag_bytes(&self) -> usize {
        match (self.checksums, self.wide) {
            (Checksums::Third, _) => 16,
            (_, true) => 12,
            (_, false) => 8,
        }
    }

    /// Returns the number of bytes in a descriptor or revoke block before its checksum.
    pub(crate) fn body_bytes(&self) -> usize {
        match self.checksums {
            Checksums::Third => self.block_bytes - TAIL_BYTES,
            _ => self.block_bytes,
        }
    }

    /// Returns the number of tags that fit into a descriptor block. The journal's UUID, which
    /// follows the first tag, also takes room.
    pub(crate) fn tags_per_descriptor(&self) -> usize {
        (self.body_bytes() - HEADER_BYTES - UUID_BYTES) / self.tag_bytes()
    }

    pub(crate) fn revoke_bytes(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// Returns the number of block numbers that fit into a revoke block.
    pub(crate) fn revokes_per_block(&self) -> usize {
        (self.body_bytes() - REVOKE_BYTES) / self.revoke_bytes()
    }

    /// Returns the number of blocks that a transaction takes in the log: data, descriptors, revoke
    /// blocks, the commit block.
    pub(crate) fn blocks_for(&self, data: usize, revokes: usize) -> usize {
        data + data.div_ceil(self.tags_per_descriptor())
            + revokes.div_ceil(self.revokes_per_block())
            + 1
    }
}

/// Reads a 32-bit number at an offset.
pub(crate) fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Writes a 32-bit number at an offset.
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Decodes a block's header. Returns `None` if it has no magic or an unknown kind.
pub(crate) fn header(block: &[u8]) -> Option<(Kind, Tid)> {
    if get32(block, MAGIC_AT) != MAGIC {
        return None;
    }
    let kind = match get32(block, KIND_AT) {
        1 => Kind::Descriptor,
        2 => Kind::Commit,
        3 => Kind::SuperV1,
        4 => Kind::SuperV2,
        5 => Kind::Revoke,
        _ => return None,
    };
    Some((kind, Tid(get32(block, TID_AT))))
}

/// Returns a block that is zero except for its header.
pub(crate) fn new_block(format: &Format, kind: Kind, tid: Tid) -> Vec<u8> {
    let mut block = vec![0; format.block_bytes];
    put32(&mut block, MAGIC_AT, MAGIC);
    put32(&mut block, KIND_AT, kind as u32);
    put32(&mut block, TID_AT, tid.0);
    block
}
