//! The flag `needs_recovery` of an ext4 file system whose blocks a journal changes.
//!
//! ext4 replays its journal only if the file system's superblock has this flag. If the flag is
//! missing, Linux empties the log at the next mount, and acknowledged transactions are lost. The
//! journal therefore looks for an ext4 superblock at byte 1024 of the storage that it protects, and
//! keeps the flag itself. This applies to external journals too.
//!
//! # Invariants
//! - **EF1** The flag is durable before the journal's superblock says that the log is not empty,
//!   and before recovery writes the first block home.
//! - **EF2** The flag is cleared only after the journal's superblock says durably that the log is
//!   empty, and only by the file system's own journal. Another journal over the same blocks cannot
//!   know whether the file system's own journal is empty. A journal is the file system's own if it
//!   begins in the block where the file system's superblock says that its journal begins, or has
//!   the UUID that the superblock gives to an external journal. In doubt, the flag stays set, which
//!   only costs the replay of an empty log.
//! - **EF3** Every copy of the file system's superblock that a transaction holds, or that recovery
//!   writes home, has the flag.
//!
//! # What tears
//! The flag and the superblock's checksum lie in different sectors. A crash can keep one of them
//! only, as it can when Linux changes the flag. Linux then refuses to mount. The log is empty at
//! that moment, so nothing is lost. Opening the journal and [`recover`](super::recover()) repair
//! the superblock, and `e2fsck` does if the file system has a second one. A superblock that a
//! transaction changes can tear, too, when it is written home. The log then has all of it.

use std::io;

use super::checksum::crc32c;
use super::error::Error;
use super::format::UUID_BYTES;
use super::place::{Blocks, Place};
use super::superblock::Superblock;
use crate::storage::Storage;

/// The offset of the superblock in the file system.
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;

// Offsets in the superblock. Its numbers are little-endian.
const BLOCKS_AT: usize = 0x04;
const LOG_BLOCK_SIZE_AT: usize = 0x18;
const MAGIC_AT: usize = 0x38;
const COMPAT_AT: usize = 0x5C;
const INCOMPAT_AT: usize = 0x60;
const RO_COMPAT_AT: usize = 0x64;
const JOURNAL_UUID_AT: usize = 0xD0;
const JOURNAL_INODE_AT: usize = 0xE0;
const BACKUP_TYPE_AT: usize = 0xFD;
const BACKUP_AT: usize = 0x10C;
const BLOCKS_HIGH_AT: usize = 0x150;
const CHECKSUM_AT: usize = 0x3FC;

const MAGIC: [u8; 2] = [0x53, 0xEF];
const COMPAT_HAS_JOURNAL: u32 = 4;
const INCOMPAT_RECOVER: u32 = 4;
const INCOMPAT_JOURNAL_DEV: u32 = 8;
const INCOMPAT_64BIT: u32 = 0x80;
const RO_COMPAT_METADATA_CSUM: u32 = 0x400;
/// The backup is that of the journal inode's blocks.
const BACKUP_BLOCKS: u8 = 1;
/// The bytes of an inode that say where its blocks are.
const BACKUP_BYTES: usize = 60;

// A node of a tree of extents: a header, and entries that each have the number of a block.
const NODE_MAGIC: [u8; 2] = [0x0A, 0xF3];
const ENTRIES_AT: usize = 2;
const DEPTH_AT: usize = 6;
const FIRST_ENTRY_AT: usize = 12;
/// The largest number of levels below the root.
const MAX_DEPTH: u16 = 5;

/// The ext4 file system in the storage that a journal protects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystem {
    block_bytes: usize,
    /// Whether the superblock is damaged beyond a torn change of the flag.
    is_damaged: bool,
    /// Whether the journal is the file system's own (EF2).
    is_own: bool,
}

impl FileSystem {
    /// Finds the file system in `home`. Returns `None` if there is none that has a journal and
    /// blocks of the journal's size. Fails if the file system reaches beyond `home`.
    pub(crate) fn find(
        home: &dyn Storage,
        blocks: &Blocks,
        place: &Place,
        journal: &Superblock,
    ) -> Result<Option<FileSystem>, Error> {
        let reading = Error::io("reading the file system's superblock");
        let Some(superblock) = read(home).map_err(reading)? else {
            return Ok(None);
        };
        let block_bytes = blocks.block_bytes;
        let promised = count(&superblock);
        if !has_journal(&superblock, block_bytes) || promised == 0 {
            return Ok(None);
        }
        // A torn change of the flag leaves a checksum that is right for its other value.
        let mut changed = superblock;
        set(&mut changed, !is_set(&superblock));
        let is_damaged =
            !is_sound(&superblock) && changed[CHECKSUM_AT..] != superblock[CHECKSUM_AT..];
        let found = home.len() / block_bytes as u64;
        // If the superblock is damaged, so may be this number.
        if promised > found && !is_damaged {
            return Err(Error::FileSystemCutShort { promised, found });
        }
        let is_own = match get32(&superblock, JOURNAL_INODE_AT) {
            0 => superblock[JOURNAL_UUID_AT..][..UUID_BYTES] == journal.uuid(),
            _ => {
                let reading = Error::io("reading the place of the file system's own journal");
                is_own(home, blocks, place, &superblock).map_err(reading)?
            }
        };
        Ok(Some(FileSystem {
            block_bytes,
            is_damaged,
            is_own,
        }))
    }

    /// Checks that the superblock is sound, or that recovery replaces it by a copy in the log. The
    /// second is so if a crash has torn it on its way home.
    pub(crate) fn check(self, mut recovered: impl Iterator<Item = u64>) -> Result<(), Error> {
        let (home, _) = self.place();
        match self.is_damaged && !recovered.any(|block| block == home) {
            true => Err(Error::BadFileSystem),
            false => Ok(()),
        }
    }

    /// Sets the flag, durably (EF1).
    pub(crate) fn begin(self, home: &dyn Storage) -> io::Result<()> {
        self.change(home, true)
    }

    /// Clears the flag, durably, if the journal is the file system's own (EF2).
    pub(crate) fn end(self, home: &dyn Storage) -> io::Result<()> {
        match self.is_own {
            true => self.change(home, false),
            false => Ok(()),
        }
    }

    /// Sets the flag in the content of a block, if that block holds the superblock (EF3).
    pub(crate) fn keep(self, block: u64, content: &mut [u8]) {
        let (home, skip) = self.place();
        if block == home {
            let superblock = &mut content[skip..][..SUPERBLOCK_BYTES];
            let superblock: &mut [u8; SUPERBLOCK_BYTES] =
                superblock.try_into().expect("the superblock's size");
            if has_journal(superblock, self.block_bytes) {
                set(superblock, true);
            }
        }
    }

    fn change(self, home: &dyn Storage, to: bool) -> io::Result<()> {
        let (block, skip) = self.place();
        let at = block * self.block_bytes as u64;
        // A device may have sectors as large as the file system's blocks.
        let mut content = vec![0; self.block_bytes];
        home.read_at(&mut content, at)?;
        let superblock = &mut content[skip..][..SUPERBLOCK_BYTES];
        let superblock: &mut [u8; SUPERBLOCK_BYTES] =
            superblock.try_into().expect("the superblock's size");
        // A transaction may have replaced the file system by other contents.
        if !has_journal(superblock, self.block_bytes) {
            return Ok(());
        }
        if is_set(superblock) == to && is_sound(superblock) {
            // A process that was killed may have left the flag in the page cache only.
            return home.flush();
        }
        set(superblock, to);
        home.write_fua(&content, at)
    }

    /// Returns the block that holds the superblock, and the superblock's offset in it.
    fn place(self) -> (u64, usize) {
        let size = self.block_bytes as u64;
        (SUPERBLOCK_AT / size, (SUPERBLOCK_AT % size) as usize)
    }
}

fn read(storage: &dyn Storage) -> io::Result<Option<[u8; SUPERBLOCK_BYTES]>> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    if storage.len() < SUPERBLOCK_AT + SUPERBLOCK_BYTES as u64 {
        return Ok(None);
    }
    storage.read_at(&mut bytes, SUPERBLOCK_AT)?;
    Ok(Some(bytes))
}

/// Returns whether the journal in `blocks` begins where that of the file system does.
fn is_own(
    home: &dyn Storage,
    blocks: &Blocks,
    place: &Place,
    superblock: &[u8; SUPERBLOCK_BYTES],
) -> io::Result<bool> {
    if !place.is_inside() || read(&*blocks.storage)?.as_ref() != Some(superblock) {
        return Ok(false);
    }
    let own = first_of_journal(home, superblock, blocks.block_bytes)?;
    let (found, _) = blocks.find(place.superblock())?;
    Ok(own == Some(found / blocks.block_bytes as u64))
}

/// Returns the first block of the file system's journal, or `None` if it is not known. The
/// superblock has a copy of the map of blocks, or of the root of the tree of extents, in the
/// journal's inode.
fn first_of_journal(
    home: &dyn Storage,
    superblock: &[u8; SUPERBLOCK_BYTES],
    block_bytes: usize,
) -> io::Result<Option<u64>> {
    let mut node = superblock[BACKUP_AT..][..BACKUP_BYTES].to_vec();
    if superblock[BACKUP_TYPE_AT] != BACKUP_BLOCKS {
        return Ok(None);
    }
    if !node.starts_with(&NODE_MAGIC) {
        return Ok(Some(u64::from(get32(&node, 0))));
    }
    for depth in (0..=get16(&node, DEPTH_AT).min(MAX_DEPTH)).rev() {
        let is_first = node.starts_with(&NODE_MAGIC)
            && get16(&node, ENTRIES_AT) > 0
            && get16(&node, DEPTH_AT) == depth
            && get32(&node, FIRST_ENTRY_AT) == 0;
        let (high, low) = match depth {
            0 => (FIRST_ENTRY_AT + 6, FIRST_ENTRY_AT + 8),
            _ => (FIRST_ENTRY_AT + 8, FIRST_ENTRY_AT + 4),
        };
        let block = u64::from(get16(&node, high)) << 32 | u64::from(get32(&node, low));
        if !is_first || block >= home.len() / block_bytes as u64 {
            return Ok(None);
        }
        if depth == 0 {
            return Ok(Some(block));
        }
        node.resize(block_bytes, 0);
        home.read_at(&mut node, block * block_bytes as u64)?;
    }
    Ok(None)
}

/// Returns the number of blocks of the file system.
fn count(superblock: &[u8; SUPERBLOCK_BYTES]) -> u64 {
    let wide = get32(superblock, INCOMPAT_AT) & INCOMPAT_64BIT != 0;
    let high = if wide {
        get32(superblock, BLOCKS_HIGH_AT)
    } else {
        0
    };
    u64::from(high) << 32 | u64::from(get32(superblock, BLOCKS_AT))
}

/// Returns whether these bytes are the superblock of a file system with a journal and blocks of
/// this size.
fn has_journal(superblock: &[u8; SUPERBLOCK_BYTES], block_bytes: usize) -> bool {
    let block_size = 1024_u64.checked_shl(get32(superblock, LOG_BLOCK_SIZE_AT));
    superblock[MAGIC_AT..][..MAGIC.len()] == MAGIC
        && block_size == Some(block_bytes as u64)
        && get32(superblock, COMPAT_AT) & COMPAT_HAS_JOURNAL != 0
        && get32(superblock, INCOMPAT_AT) & INCOMPAT_JOURNAL_DEV == 0
}

fn is_set(superblock: &[u8; SUPERBLOCK_BYTES]) -> bool {
    get32(superblock, INCOMPAT_AT) & INCOMPAT_RECOVER != 0
}

fn set(superblock: &mut [u8; SUPERBLOCK_BYTES], to: bool) {
    let others = get32(superblock, INCOMPAT_AT) & !INCOMPAT_RECOVER;
    let flags = others | if to { INCOMPAT_RECOVER } else { 0 };
    superblock[INCOMPAT_AT..][..4].copy_from_slice(&flags.to_le_bytes());
    if has_checksum(superblock) {
        let sum = crc32c(!0, &superblock[..CHECKSUM_AT]);
        superblock[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
    }
}

fn has_checksum(superblock: &[u8; SUPERBLOCK_BYTES]) -> bool {
    get32(superblock, RO_COMPAT_AT) & RO_COMPAT_METADATA_CSUM != 0
}

fn is_sound(superblock: &[u8; SUPERBLOCK_BYTES]) -> bool {
    let found = get32(superblock, CHECKSUM_AT);
    !has_checksum(superblock) || found == crc32c(!0, &superblock[..CHECKSUM_AT])
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
