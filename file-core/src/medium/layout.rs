//! The format on the medium: the position of every field, and the words that carry their own
//! checksum.
//!
//! All numbers are little-endian. The layout is drawn in `docs/format.md`, which must be kept in
//! step with this module.
//!
//! # Self-checking words
//!
//! Three kinds of 8-byte words are published by a single atomic store. A separate checksum could
//! not be updated in the same store, so each word contains its own:
//!
//! ```text
//!   pointer (inode head, log page next)         mark (first word of a group's lead slot)
//!   63           32 31            0             63  56 55      32 31            0
//!  ┌───────────────┬───────────────┐           ┌──────┬──────────┬───────────────┐
//!  │ check (not 0) │ page (not 0)  │           │  4D  │  slots   │    CRC32C     │
//!  └───────────────┴───────────────┘           └──────┴──────────┴───────────────┘
//! ```
//!
//! Zero means "empty". Every nonzero word has at least two bits set, so a single bit flip never
//! turns a valid word into zero or zero into a valid word. The checksum also covers the identity of
//! the page that holds the word ([`PageId`]), and a mark's covers its slot. So a word copied from
//! another file or another page never passes as part of this log. No checksum covers another page
//! of the log, so a page can be unlinked and its neighbours stay valid.
//!
//! Words left over from an earlier use of a page are excluded in another way: a log page is stored
//! whole and fenced before anything points to it, and an inode before the mark of the group that
//! names it. The identity in the checksum usually differs as well, but this is not guaranteed. A
//! crash may interrupt the adding of a page, and the log may then add the same page again, with the
//! same birth number. And a generation can be repeated (see `directory.rs`).

#[cfg(test)]
mod tests;

use core::ops::Range;

use crc32c::{crc32c, crc32c_append};
use spanlock_sync::injected_bug;

/// Bytes in a page, the unit of allocation, of data, and of the log.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// [`PAGE_BYTES`] as a `usize`, for indexing.
pub(crate) const PAGE: usize = PAGE_BYTES as usize;
/// Bytes in a log slot: one line of the medium.
pub(crate) const SLOT_BYTES: usize = 64;
/// Bytes in a slot's first word: a mark in the lead slot of a group, zero in all others.
pub(crate) const WORD_BYTES: usize = 8;
/// Bytes of each slot that hold part of the group's record.
pub(crate) const PAYLOAD_BYTES: usize = SLOT_BYTES - WORD_BYTES;
/// Slots in a log page. The tail follows them.
pub(crate) const PAGE_SLOTS: u32 = (PAGE / SLOT_BYTES - 1) as u32;
/// Offset of a log page's tail.
pub(crate) const TAIL_AT: usize = PAGE_SLOTS as usize * SLOT_BYTES;
/// The most slots a group can have, limited by the count in its mark.
pub(crate) const MAX_GROUP_SLOTS: usize = 0xFF_FFFF;

/// The format version that this build reads and writes.
pub const FORMAT_VERSION: u32 = 2;
/// The longest name of a file or a directory, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 1024;
/// The longest write in bytes that is certain to fit one group, however scattered the free pages
/// are: about 298 GiB. If the free pages are contiguous, a write can be longer.
pub const MAX_WRITE_BYTES: u64 = {
    let record = MAX_GROUP_SLOTS * PAYLOAD_BYTES - WRITE_HEADER_BYTES;
    // A write that is not aligned touches one page more than it has.
    ((record / (EXTENT_BYTES + 4)) as u64 - 1) * PAGE_BYTES
};
/// The largest size of a file that the format can name: 2³² pages.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 44;

/// Returns the 4 bytes at `at` as a number.
#[inline]
pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Returns the 8 bytes at `at` as a number.
#[inline]
pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[inline]
fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[inline]
fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

// ── Superblock: the first line of the first page, and of the last ────────────────────────────

/// Bytes in a superblock.
pub(crate) const SUPER_BYTES: usize = 64;
const MAGIC: u64 = u64::from_le_bytes(*b"SPANFILE");

const S_MAGIC_AT: usize = 0;
const S_VERSION_AT: usize = S_MAGIC_AT + 8;
const S_PAGE_BYTES_AT: usize = S_VERSION_AT + 4;
const S_PAGES_AT: usize = S_PAGE_BYTES_AT + 4;
const S_INODES_AT: usize = S_PAGES_AT + 8;
const S_FLAGS_AT: usize = S_INODES_AT + 4;
const S_TABLE_AT: usize = S_FLAGS_AT + 4;
const S_DATA_AT: usize = S_TABLE_AT + 8;
const S_MAX_FILE_AT: usize = S_DATA_AT + 8;
const S_RESERVED_AT: usize = S_MAX_FILE_AT + 8;
const S_CRC_AT: usize = S_RESERVED_AT + 4;
const _: () = assert!(S_CRC_AT + 4 == SUPER_BYTES);

const FLAG_DATA_CHECKSUMS: u32 = 1;

/// The layout of a volume, as recorded in its superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Pages in the volume, including the superblocks.
    pub(crate) pages: u32,
    /// Inodes, including the root directory's. A multiple of [`INODES_PER_PAGE`].
    pub(crate) inodes: u32,
    /// Largest file size in bytes, a multiple of the page size.
    pub(crate) max_file_size: u64,
    /// Whether write records carry a checksum of each data page.
    pub(crate) data_checksums: bool,
}

/// The fewest pages a volume can have: two superblocks, two pages of inodes, the journal, and eight
/// pages for data and logs.
pub(crate) const MIN_PAGES: u64 = 16;
/// The fewest pages for data and logs.
pub(crate) const MIN_DATA_PAGES: u64 = 8;
/// First page of the inode table.
const TABLE_PAGE: u32 = 1;
/// Pages of the journal, which follow the inode table.
pub(crate) const JOURNAL_PAGES: u32 = 4;

/// The content of a page that may hold a superblock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Superblock {
    /// A sound superblock of this version.
    Valid(Geometry),
    /// A sound superblock of another version.
    OtherVersion(u32),
    /// The page has the magic number, but its checksum is wrong or its content impossible.
    Damaged,
    /// The page does not have the magic number.
    Absent,
}

impl Geometry {
    /// Returns the first page for data and logs.
    pub(crate) fn data_start(&self) -> u32 {
        TABLE_PAGE + self.inodes / INODES_PER_PAGE + JOURNAL_PAGES
    }

    /// Returns the page after the last one for data and logs, which is the second superblock.
    pub(crate) fn data_end(&self) -> u32 {
        self.pages - 1
    }

    /// Returns the number of pages for data and logs.
    pub(crate) fn data_pages(&self) -> u32 {
        self.data_end() - self.data_start()
    }

    /// Returns the bytes of the journal.
    pub(crate) fn journal(&self) -> Range<u64> {
        let end = self.data_start();
        page_at(end - JOURNAL_PAGES)..page_at(end)
    }

    /// Returns the byte offset of inode `number`.
    pub(crate) fn inode_at(&self, number: u32) -> u64 {
        TABLE_PAGE as u64 * PAGE_BYTES + number as u64 * INODE_BYTES as u64
    }

    /// Returns the byte offset of the second superblock.
    pub(crate) fn replica_at(&self) -> u64 {
        page_at(self.data_end())
    }

    pub(crate) fn encode(&self) -> [u8; SUPER_BYTES] {
        let mut b = [0; SUPER_BYTES];
        put_u64(&mut b, S_MAGIC_AT, MAGIC);
        put_u32(&mut b, S_VERSION_AT, FORMAT_VERSION);
        put_u32(&mut b, S_PAGE_BYTES_AT, PAGE_BYTES as u32);
        put_u64(&mut b, S_PAGES_AT, self.pages as u64);
        put_u32(&mut b, S_INODES_AT, self.inodes);
        put_u32(
            &mut b,
            S_FLAGS_AT,
            if self.data_checksums {
                FLAG_DATA_CHECKSUMS
            } else {
                0
            },
        );
        put_u64(&mut b, S_TABLE_AT, TABLE_PAGE as u64);
        put_u64(&mut b, S_DATA_AT, self.data_start() as u64);
        put_u64(&mut b, S_MAX_FILE_AT, self.max_file_size);
        let crc = crc32c(&b[..S_CRC_AT]);
        put_u32(&mut b, S_CRC_AT, crc);
        b
    }

    /// Decodes a superblock. Magic, version and checksum have the same position in all versions.
    pub(crate) fn decode(b: &[u8; SUPER_BYTES]) -> Superblock {
        let sound = get_u32(b, S_CRC_AT) == crc32c(&b[..S_CRC_AT]);
        if get_u64(b, S_MAGIC_AT) != MAGIC {
            return Superblock::Absent;
        }
        if !sound {
            return Superblock::Damaged;
        }
        let version = get_u32(b, S_VERSION_AT);
        if version != FORMAT_VERSION {
            return Superblock::OtherVersion(version);
        }
        let geometry = Geometry {
            pages: u32::try_from(get_u64(b, S_PAGES_AT)).unwrap_or(0),
            inodes: get_u32(b, S_INODES_AT),
            max_file_size: get_u64(b, S_MAX_FILE_AT),
            data_checksums: get_u32(b, S_FLAGS_AT) & FLAG_DATA_CHECKSUMS != 0,
        };
        // Encoding it again checks every other field.
        if geometry.is_possible() && geometry.encode() == *b {
            Superblock::Valid(geometry)
        } else {
            Superblock::Damaged
        }
    }

    fn is_possible(&self) -> bool {
        let fixed = (2 + self.inodes / INODES_PER_PAGE + JOURNAL_PAGES) as u64;
        self.inodes >= INODES_PER_PAGE
            && self.inodes.is_multiple_of(INODES_PER_PAGE)
            && self.pages as u64 >= fixed + MIN_DATA_PAGES
            && self.max_file_size.is_multiple_of(PAGE_BYTES)
            && (PAGE_BYTES..=MAX_FILE_BYTES).contains(&self.max_file_size)
    }
}

/// Returns the byte offset of page `page`.
#[inline]
pub(crate) fn page_at(page: u32) -> u64 {
    page as u64 * PAGE_BYTES
}

// ── Inode: 128 bytes, of which the first line is used ────────────────────────────────────────

/// Bytes from one inode to the next.
pub(crate) const INODE_BYTES: usize = 128;
/// Inodes in a page of the table.
pub(crate) const INODES_PER_PAGE: u32 = (PAGE / INODE_BYTES) as u32;
/// Bytes of an inode that are written: one line.
pub(crate) const INODE_USED_BYTES: usize = 64;
/// The root directory's inode.
pub(crate) const ROOT: u32 = 0;
/// The root directory's generation; all others are larger.
pub(crate) const ROOT_GENERATION: u64 = 1;

/// Offset of the head pointer. The pointer is published on its own, so the inode's checksum does
/// not cover it.
pub(crate) const I_HEAD_AT: usize = 0;
const I_GENERATION_AT: usize = I_HEAD_AT + 8;
const I_KIND_AT: usize = I_GENERATION_AT + 8;
const I_NUMBER_AT: usize = I_KIND_AT + 4;
const I_CREATED_AT: usize = I_NUMBER_AT + 4;
const I_RESERVED_AT: usize = I_CREATED_AT + 8;
const I_CRC_AT: usize = I_RESERVED_AT + 28;
const _: () = assert!(I_CRC_AT + 4 == INODE_USED_BYTES);

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A directory.
    Directory = 1,
    /// A file.
    File = 2,
}

impl Kind {
    /// Decodes the number that stands for a kind on the medium.
    pub(crate) fn from_number(number: u32) -> Option<Kind> {
        match number {
            1 => Some(Kind::Directory),
            2 => Some(Kind::File),
            _ => None,
        }
    }
}

/// The identity of an inode, as a name gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InodeId {
    pub(crate) number: u32,
    pub(crate) generation: u64,
    pub(crate) kind: Kind,
}

impl InodeId {
    /// The root directory.
    pub(crate) const ROOT: InodeId = InodeId {
        number: ROOT,
        generation: ROOT_GENERATION,
        kind: Kind::Directory,
    };

    /// Returns the identity of the inode's log.
    pub(crate) fn log(self) -> LogId {
        LogId {
            inode: self.number,
            generation: self.generation,
        }
    }
}

/// An inode as stored in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawInode {
    pub(crate) id: InodeId,
    /// The sealed head pointer; 0 if the log is empty.
    pub(crate) head: u64,
    /// The time at which the inode was created, in nanoseconds since 1970; 0 for the
    /// root directory.
    pub(crate) created: u64,
}

impl RawInode {
    pub(crate) fn encode(&self) -> [u8; INODE_USED_BYTES] {
        let mut b = [0; INODE_USED_BYTES];
        put_u64(&mut b, I_HEAD_AT, self.head);
        put_u64(&mut b, I_GENERATION_AT, self.id.generation);
        put_u32(&mut b, I_KIND_AT, self.id.kind as u32);
        put_u32(&mut b, I_NUMBER_AT, self.id.number);
        put_u64(&mut b, I_CREATED_AT, self.created);
        let crc = crc32c(&b[I_GENERATION_AT..I_CRC_AT]);
        put_u32(&mut b, I_CRC_AT, crc);
        b
    }

    /// Decodes the inode in slot `number`. Returns `None` if no complete inode was written there.
    pub(crate) fn decode(b: &[u8; INODE_USED_BYTES], number: u32) -> Option<RawInode> {
        let inode = RawInode {
            id: InodeId {
                number,
                generation: get_u64(b, I_GENERATION_AT),
                kind: Kind::from_number(get_u32(b, I_KIND_AT))?,
            },
            head: get_u64(b, I_HEAD_AT),
            created: get_u64(b, I_CREATED_AT),
        };
        (inode.encode() == *b).then_some(inode)
    }
}

// ── Log: chains of pages, 63 slots and a tail each ───────────────────────────────────────────

/// Offset of the pointer to the next page. The pointer is published on its own, so the tail's
/// checksum does not cover it.
pub(crate) const T_NEXT_AT: usize = TAIL_AT;
const T_GENERATION_AT: usize = T_NEXT_AT + 8;
const T_BIRTH_AT: usize = T_GENERATION_AT + 8;
const T_INODE_AT: usize = T_BIRTH_AT + 8;
const T_PAGE_AT: usize = T_INODE_AT + 4;
const T_RESERVED_AT: usize = T_PAGE_AT + 4;
const T_CRC_AT: usize = T_RESERVED_AT + 28;
const _: () = assert!(T_CRC_AT + 4 == PAGE);

const MARK_TAG: u64 = 0x4D;

/// The identity of a log: the inode that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogId {
    pub(crate) inode: u32,
    pub(crate) generation: u64,
}

/// The identity of a log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageId {
    pub(crate) log: LogId,
    /// The number of pages that the log had been given before this one.
    pub(crate) birth: u64,
    pub(crate) page: u32,
}

impl LogId {
    /// Returns the initial value of the checksum of the log's head pointer.
    pub(crate) fn head_seed(&self) -> u32 {
        // No log page has page number 0.
        let head = PageId {
            log: *self,
            birth: 0,
            page: 0,
        };
        head.seed()
    }
}

impl PageId {
    /// Returns the initial value of every checksum in the page.
    pub(crate) fn seed(&self) -> u32 {
        let mut b = [0; 24];
        put_u32(&mut b, 0, self.log.inode);
        put_u64(&mut b, 4, self.log.generation);
        put_u64(&mut b, 12, self.birth);
        put_u32(&mut b, 20, self.page);
        crc32c(&b)
    }

    /// Writes the tail into the page's image.
    pub(crate) fn put_tail(&self, image: &mut [u8; PAGE], next: u64) {
        put_u64(image, T_NEXT_AT, next);
        put_u64(image, T_GENERATION_AT, self.log.generation);
        put_u64(image, T_BIRTH_AT, self.birth);
        put_u32(image, T_INODE_AT, self.log.inode);
        put_u32(image, T_PAGE_AT, self.page);
        let crc = crc32c(&image[T_GENERATION_AT..T_CRC_AT]);
        put_u32(image, T_CRC_AT, crc);
    }

    /// Returns the identity and the next pointer of the log page `page`, if its tail says that it
    /// is this page, and belongs to `log`.
    pub(crate) fn from_tail(image: &[u8; PAGE], log: LogId, page: u32) -> Option<(PageId, u64)> {
        let birth = get_u64(image, T_BIRTH_AT);
        let id = PageId { log, birth, page };
        let next = get_u64(image, T_NEXT_AT);
        let mut wanted = [0; PAGE];
        id.put_tail(&mut wanted, next);
        (wanted[TAIL_AT..] == image[TAIL_AT..]).then_some((id, next))
    }
}

/// Returns the sealed pointer to `page`. `seed` is that of the page that holds the pointer, or of
/// the head.
pub(crate) fn seal(seed: u32, page: u32) -> u64 {
    let check = crc32c_append(seed, &page.to_le_bytes());
    page as u64 | (if check == 0 { u32::MAX } else { check } as u64) << 32
}

/// Returns the page that `word` points to, `Ok(None)` for zero, or `Err` if [`seal`] did not
/// produce the word.
pub(crate) fn unseal(seed: u32, word: u64) -> Result<Option<u32>, ()> {
    let page = word as u32;
    match word {
        0 => Ok(None),
        _ if page != 0 && seal(seed, page) == word => Ok(Some(page)),
        _ => Err(()),
    }
}

/// Returns the mark of the group in `slots`, whose first words are zero. `slot` is its lead slot,
/// and `seed` is that of the lead slot's page.
#[inline]
pub(crate) fn mark_of(seed: u32, slot: u32, slots: &[u8]) -> u64 {
    let count = (slots.len() / SLOT_BYTES) as u32;
    debug_assert!(count >= 1 && count as usize <= MAX_GROUP_SLOTS);
    let is_unbound = injected_bug!(
        "stale-marks",
        "a recycled page keeps the slots of its earlier use, and marks are not bound to their place",
        killed_by = "file-core-full/patch-patch, file-core-full/sequences-of-2"
    );
    let (seed, slot) = if is_unbound { (0, 0) } else { (seed, slot) };
    let place = (slot as u64 | (count as u64) << 32).to_le_bytes();
    let crc = crc32c_append(crc32c_append(seed, &place), slots);
    crc as u64 | (count as u64) << 32 | MARK_TAG << 56
}

/// Returns the number of slots that `mark` commits, or `None` if it cannot be a mark.
pub(crate) fn slots_of_mark(mark: u64) -> Option<u32> {
    let count = (mark >> 32) as u32 & MAX_GROUP_SLOTS as u32;
    (mark >> 56 == MARK_TAG && count != 0).then_some(count)
}

// ── Records ──────────────────────────────────────────────────────────────────────────────────

/// Bytes of a write record before its extents.
pub(crate) const WRITE_HEADER_BYTES: usize = 32;
/// Bytes per extent in a write record.
pub(crate) const EXTENT_BYTES: usize = 8;
/// Bytes of a directory record before its names.
pub(crate) const NAME_HEADER_BYTES: usize = 16;
