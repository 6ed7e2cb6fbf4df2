//! The journal's superblock, and formatting a new journal.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use spanlock_sync::is_flush_left_out;

use super::checksum::{crc32c, crc32c_without};
use super::error::Error;
use super::format::*;
use super::place::{Blocks, Place};
use crate::storage::Storage;

/// The block that holds the superblock. The superblock is its first 1024 bytes, but the whole block
/// is written, because devices may have large sectors. Fields that this crate does not know keep
/// their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    bytes: Vec<u8>,
}

impl Superblock {
    /// Reads and checks the superblock of a journal.
    pub(crate) fn read(blocks: &Blocks, place: &Place) -> Result<Self, Error> {
        let bad_place = Error::io("looking for the journal's superblock");
        let (offset, _) = blocks.find(place.superblock()).map_err(bad_place)?;
        let mut bytes = vec![0; blocks.block_bytes];
        (blocks.storage.read_at(&mut bytes, offset))
            .map_err(Error::io("reading the journal's superblock"))?;
        let found = Superblock { bytes };
        found.check(offset, blocks.block_bytes as u32)?;
        found.check_size(blocks.count(), place)?;
        Ok(found)
    }

    fn check(&self, offset: u64, expected: u32) -> Result<(), Error> {
        let found = get32(&self.bytes, MAGIC_AT);
        if found != MAGIC {
            return Err(Error::NotAJournal { offset, found });
        }
        match header(&self.bytes) {
            Some((Kind::SuperV1 | Kind::SuperV2, _)) => {}
            _ => return Err(bad("its kind is not a superblock's")),
        }
        let unknown = self.incompat() & !KNOWN_INCOMPAT;
        let unknown_ro = self.feature(RO_COMPAT_AT);
        if unknown != 0 {
            let (kind, bits) = ("incompatible", unknown);
            return Err(Error::Newer { kind, bits });
        }
        if unknown_ro != 0 {
            let (kind, bits) = ("read-only compatible", unknown_ro);
            return Err(Error::Newer { kind, bits });
        }
        let found = self.get(BLOCK_BYTES_AT);
        if found != expected {
            return Err(Error::BlockSize { found, expected });
        }
        if self.checksums() == Checksums::Third {
            if self.feature(COMPAT_AT) & COMPAT_CHECKSUM != 0 {
                return Err(bad("it claims checksums of two kinds"));
            }
            if self.bytes[SUPER_CHECKSUM_KIND_AT] != CRC32C_KIND {
                return Err(bad("its checksums are of an unknown kind"));
            }
            if self.get(SUPER_CHECKSUM_AT) != self.checksum() {
                return Err(bad("its checksum is wrong"));
            }
        }
        Ok(())
    }

    fn check_size(&self, blocks: u64, place: &Place) -> Result<(), Error> {
        let (first, end) = (u64::from(self.first()), u64::from(self.end()));
        if first <= u64::from(place.superblock()) || first >= end {
            return Err(bad("its first block is not in the log"));
        }
        if self.start() != 0 && !(first..end).contains(&u64::from(self.start())) {
            return Err(bad("its start is not in the log"));
        }
        if end > blocks {
            let (promised, found) = (end, blocks);
            return Err(Error::Truncated { promised, found });
        }
        check_log_blocks(end - first)
    }

    fn get(&self, at: usize) -> u32 {
        get32(&self.bytes, at)
    }

    /// Returns a set of features. A superblock of version 1 has no features.
    fn feature(&self, at: usize) -> u32 {
        match header(&self.bytes) {
            Some((Kind::SuperV2, _)) => self.get(at),
            _ => 0,
        }
    }

    fn incompat(&self) -> u32 {
        self.feature(INCOMPAT_AT)
    }

    /// Returns the first block of the log.
    pub(crate) fn first(&self) -> u32 {
        self.get(FIRST_AT)
    }

    /// Returns the block after the log's last.
    pub(crate) fn end(&self) -> u32 {
        self.get(BLOCKS_AT)
    }

    /// Returns the first transaction in the log, or the next transaction if the log is empty.
    pub(crate) fn sequence(&self) -> Tid {
        Tid(self.get(SEQUENCE_AT))
    }

    /// Returns the block of the log where the first transaction begins, or 0 if the log is empty.
    pub(crate) fn start(&self) -> u32 {
        self.get(START_AT)
    }

    /// Returns the error for which Linux aborted the journal: negative, or 0.
    pub(crate) fn errno(&self) -> i32 {
        self.get(ERRNO_AT).cast_signed()
    }

    pub(crate) fn uuid(&self) -> [u8; UUID_BYTES] {
        let uuid = &self.bytes[UUID_AT..UUID_AT + UUID_BYTES];
        uuid.try_into().expect("sixteen bytes")
    }

    fn checksums(&self) -> Checksums {
        if self.incompat() & INCOMPAT_CSUM_V3 != 0 {
            Checksums::Third
        } else if self.feature(COMPAT_AT) & COMPAT_CHECKSUM != 0 {
            Checksums::First
        } else {
            Checksums::None
        }
    }

    /// Returns the layout of the log's blocks.
    pub(crate) fn format(&self) -> Format {
        Format {
            block_bytes: self.get(BLOCK_BYTES_AT) as usize,
            checksums: self.checksums(),
            wide: self.incompat() & INCOMPAT_64BIT != 0,
            async_commit: self.incompat() & INCOMPAT_ASYNC_COMMIT != 0,
            seed: crc32c(!0, &self.uuid()),
        }
    }

    fn checksum(&self) -> u32 {
        crc32c_without(!0, &self.bytes[..SUPER_BYTES], SUPER_CHECKSUM_AT)
    }

    /// Sets the first transaction in the log and the block where it begins. If `start` is 0, the
    /// log is empty, and `sequence` is the next transaction.
    pub(crate) fn set(&mut self, sequence: Tid, start: u32) {
        put32(&mut self.bytes, SEQUENCE_AT, sequence.0);
        put32(&mut self.bytes, START_AT, start);
    }

    /// Sets the feature that allows revoke blocks.
    pub(crate) fn allow_revokes(&mut self) {
        let incompat = self.incompat() | INCOMPAT_REVOKE;
        put32(&mut self.bytes, INCOMPAT_AT, incompat);
    }

    /// Updates the checksum and returns the bytes for the medium.
    pub(crate) fn sealed(&mut self) -> &[u8] {
        if self.checksums() == Checksums::Third {
            let sum = self.checksum();
            put32(&mut self.bytes, SUPER_CHECKSUM_AT, sum);
        }
        &self.bytes
    }

    /// Returns whether the superblock's version has feature flags.
    pub(crate) fn has_features(&self) -> bool {
        matches!(header(&self.bytes), Some((Kind::SuperV2, _)))
    }

    /// Writes the superblock, durably, but leaves out its magic and its kind.
    fn write_without_magic(&mut self, blocks: &Blocks, place: &Place) -> std::io::Result<()> {
        let mut bytes = self.sealed().to_vec();
        bytes[..TID_AT].fill(0);
        let (offset, _) = blocks.find(place.superblock())?;
        blocks.storage.write_fua(&bytes, offset)
    }

    /// Writes the superblock, durably.
    pub(crate) fn write(&mut self, blocks: &Blocks, place: &Place) -> std::io::Result<()> {
        let (offset, _) = blocks.find(place.superblock())?;
        let bytes = self.sealed();
        if is_flush_left_out() {
            return blocks.storage.write_at(bytes, offset);
        }
        blocks.storage.write_fua(bytes, offset)
    }
}

fn bad(what: &'static str) -> Error {
    Error::BadSuperblock { what }
}

fn check_log_blocks(blocks: u64) -> Result<(), Error> {
    let least = LEAST_LOG_BLOCKS;
    if blocks < least {
        return Err(Error::TooSmall { blocks, least });
    }
    Ok(())
}

/// Checks that a journal's blocks can have this size.
pub(crate) fn check_block_bytes(block_bytes: u32) -> Result<(), Error> {
    if block_bytes.is_power_of_two() && (1024..=65536).contains(&block_bytes) {
        return Ok(());
    }
    Err(Error::BadBlockSize { found: block_bytes })
}

/// The properties of a new journal.
#[derive(Clone, Debug)]
#[must_use]
pub struct FormatOptions {
    block_bytes: u32,
    place: Place,
    flushes: Flushes,
    uuid: Option<[u8; 16]>,
    overwrites: bool,
}

impl FormatOptions {
    /// Returns the properties of a journal that fills its storage. `block_bytes` is a power of two
    /// from 1024 to 65536.
    pub fn new(block_bytes: u32) -> Self {
        FormatOptions {
            block_bytes,
            place: Place::whole(),
            flushes: Flushes::Two,
            uuid: None,
            overwrites: false,
        }
    }

    /// Sets where the journal lies. Default: the whole storage.
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Sets the number of flushes in a commit. Default: two.
    pub fn flushes(mut self, flushes: Flushes) -> Self {
        self.flushes = flushes;
        self
    }

    /// Sets the journal's UUID. Its CRC-32C is the seed of the log's checksums, if these are of the
    /// third kind ([`Flushes::Two`]). Default: a random UUID.
    pub fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// Lets [`format()`] replace a journal. What is in its log is lost, whether or not it was
    /// recovered.
    pub fn overwrite(mut self) -> Self {
        self.overwrites = true;
        self
    }
}

/// Makes a new, empty journal, durably. Overwrites the blocks of its place, from the superblock on:
/// writes the new superblock, and zeros into all other blocks.
///
/// A crash during the call leaves the earlier journal, a place without a journal, or the new one;
/// the call can be repeated.
///
/// # Errors
/// [`Error::Occupied`] if there is a journal already, unless the options say
/// [`overwrite`](FormatOptions::overwrite). Other contents are overwritten:
/// [`Journal::open_or_create`](super::Journal::open_or_create) refuses those, too.
/// [`Error::BadBlockSize`], [`Error::BadPlace`], [`Error::Overlap`], [`Error::TooSmall`] and
/// [`Error::Io`].
pub fn format(storage: impl Storage + 'static, options: &FormatOptions) -> Result<(), Error> {
    check_block_bytes(options.block_bytes)?;
    let blocks = Blocks::new(Arc::new(storage), &options.place, options.block_bytes)?;
    format_blocks(&blocks, options)
}

/// Formats these blocks.
pub(crate) fn format_blocks(blocks: &Blocks, options: &FormatOptions) -> Result<(), Error> {
    let superblock = options.place.superblock();
    let first = superblock + 1;
    let end = u32::try_from(blocks.count()).unwrap_or(u32::MAX);
    check_log_blocks(u64::from(end.saturating_sub(first)))?;

    let zeros = vec![0; blocks.block_bytes];
    let clear = |block| {
        let (offset, _) = blocks.find(block)?;
        blocks.storage.write_at(&zeros, offset)
    };
    // Until the new superblock is on the medium, no program must find a journal. Persistent memory
    // tears a superblock at 8 bytes, so its first 8 bytes, with the magic, go first and come last.
    remove_magic(blocks, superblock, options)?;
    (superblock..end)
        .try_for_each(clear)
        .and_then(|()| blocks.storage.flush())
        .map_err(Error::io("clearing the log"))?;
    let mut new = fresh(options, first, end);
    (new.write_without_magic(blocks, &options.place))
        .and_then(|()| new.write(blocks, &options.place))
        .map_err(Error::io("writing the journal's superblock"))
}

/// Removes the magic of an earlier journal's superblock, durably.
fn remove_magic(blocks: &Blocks, superblock: u32, options: &FormatOptions) -> Result<(), Error> {
    let failed = "removing the earlier journal";
    let mut bytes = vec![0; blocks.block_bytes];
    (blocks.read(superblock, &mut bytes)).map_err(Error::io(failed))?;
    if get32(&bytes, MAGIC_AT) != MAGIC {
        return Ok(());
    }
    if !options.overwrites {
        return Err(Error::Occupied);
    }
    bytes[..TID_AT].fill(0);
    let (offset, _) = blocks.find(superblock).map_err(Error::io(failed))?;
    (blocks.storage.write_fua(&bytes, offset)).map_err(Error::io(failed))
}

/// Returns whether a place has only zeros, or what `format` with these options leaves of zeros if a
/// crash cuts it off.
pub(crate) fn is_unused(blocks: &Blocks, options: &FormatOptions) -> std::io::Result<bool> {
    let superblock = options.place.superblock();
    let end = u32::try_from(blocks.count()).unwrap_or(u32::MAX);
    if end <= superblock {
        return Ok(true); // `format` says that this is too small.
    }
    let mut new = fresh(options, superblock + 1, end);
    let new = new.sealed();
    // Each creation draws these anew.
    let drawn = [
        UUID_AT..UUID_AT + UUID_BYTES,
        SUPER_CHECKSUM_AT..SUPER_CHECKSUM_AT + 4,
    ];
    let mut bytes = vec![0; blocks.block_bytes];
    blocks.read(superblock, &mut bytes)?;
    let is_remnant = (TID_AT..bytes.len()).all(|at| {
        bytes[at] == 0 || bytes[at] == new[at] || drawn.iter().any(|drawn| drawn.contains(&at))
    });
    if !is_remnant || bytes[..TID_AT].iter().any(|&byte| byte != 0) {
        return Ok(false);
    }
    for block in superblock + 1..end {
        blocks.read(block, &mut bytes)?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn fresh(options: &FormatOptions, first: u32, end: u32) -> Superblock {
    let mut bytes = vec![0; options.block_bytes as usize];
    let (compat, incompat) = match options.flushes {
        Flushes::Two => (0, INCOMPAT_CSUM_V3),
        Flushes::One => (COMPAT_CHECKSUM, INCOMPAT_ASYNC_COMMIT),
    };
    for (at, value) in [
        (MAGIC_AT, MAGIC),
        (KIND_AT, Kind::SuperV2 as u32),
        (BLOCK_BYTES_AT, options.block_bytes),
        (BLOCKS_AT, end),
        (FIRST_AT, first),
        (SEQUENCE_AT, 1),
        (COMPAT_AT, compat),
        (INCOMPAT_AT, incompat | INCOMPAT_REVOKE | INCOMPAT_64BIT),
        (USERS_AT, 1),
    ] {
        put32(&mut bytes, at, value);
    }
    let uuid = options.uuid.unwrap_or_else(new_uuid);
    bytes[UUID_AT..UUID_AT + UUID_BYTES].copy_from_slice(&uuid);
    if options.flushes == Flushes::Two {
        bytes[SUPER_CHECKSUM_KIND_AT] = CRC32C_KIND;
    }
    Superblock { bytes }
}

/// Returns a random UUID of version 4 (RFC 9562). The randomness comes from std's hasher seeds.
fn new_uuid() -> [u8; UUID_BYTES] {
    let word = || RandomState::new().hash_one(spanlock_sync::time::now());
    let mut uuid = [0; UUID_BYTES];
    uuid[..8].copy_from_slice(&word().to_be_bytes());
    uuid[8..].copy_from_slice(&word().to_be_bytes());
    uuid[6] = uuid[6] & 0x0F | 0x40;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid
}
