//! Records, and the groups of slots that carry them.
//!
//! A record is a byte string. A *group* is the run of consecutive slots that holds one record, 56
//! bytes per slot. The first word of each slot is not part of the record: it holds the group's mark
//! in the first slot and zero in the others.
//!
//! ```text
//!            0      8                                                  64
//!  lead      │ mark │ record bytes 0..56                                │
//!  further   │  0   │ record bytes 56..112                              │
//!            │  0   │ …, the rest zero                                  │
//! ```

use crate::medium::extent::Extent;
use crate::medium::layout::{
    EXTENT_BYTES, InodeId, Kind, NAME_HEADER_BYTES, PAYLOAD_BYTES, SLOT_BYTES, WORD_BYTES,
    WRITE_HEADER_BYTES, get_u32, get_u64,
};

const KIND_WRITE: u8 = 1;
const KIND_ADD: u8 = 2;
const KIND_RENAME: u8 = 3;

const WRITE_WITH_CHECKSUMS: u8 = 1;
const WRITE_SETS_SIZE: u8 = 2;
const WRITE_SETS_MODIFIED: u8 = 4;

/// Returns the number of slots for a record of `bytes` bytes.
#[inline]
pub(crate) fn slots_for(bytes: usize) -> usize {
    bytes.div_ceil(PAYLOAD_BYTES)
}

/// Fills the slots of a group in order, leaving their first words unchanged.
pub(crate) struct GroupWriter<'a> {
    slots: &'a mut [u8],
    /// Record bytes written so far.
    used: usize,
}

impl<'a> GroupWriter<'a> {
    /// Creates a writer into `slots`, which must be all zero.
    #[inline]
    pub(crate) fn new(slots: &'a mut [u8]) -> Self {
        debug_assert!(slots.len().is_multiple_of(SLOT_BYTES));
        GroupWriter { slots, used: 0 }
    }

    /// Appends a word to the record. The record has whole words so far.
    ///
    /// A writer has just filled the store buffer with data. A word that is stored as it is read
    /// again need not wait for that data, as bytes that are read in other pieces would.
    #[inline]
    pub(crate) fn put_word(&mut self, word: u64) {
        let (slot, within) = (self.used / PAYLOAD_BYTES, self.used % PAYLOAD_BYTES);
        debug_assert!(within.is_multiple_of(WORD_BYTES));
        let at = slot * SLOT_BYTES + WORD_BYTES + within;
        self.slots[at..at + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
        self.used += WORD_BYTES;
    }

    /// Appends `bytes` to the record.
    #[inline]
    pub(crate) fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (slot, within) = (self.used / PAYLOAD_BYTES, self.used % PAYLOAD_BYTES);
            let n = bytes.len().min(PAYLOAD_BYTES - within);
            let at = slot * SLOT_BYTES + WORD_BYTES + within;
            self.slots[at..at + n].copy_from_slice(&bytes[..n]);
            self.used += n;
            bytes = &bytes[n..];
        }
    }
}

/// Returns the record in the slots of a group, including the padding after it.
pub(crate) fn record_of(slots: &[u8]) -> Vec<u8> {
    slots
        .chunks_exact(SLOT_BYTES)
        .flat_map(|slot| slot[WORD_BYTES..].iter().copied())
        .collect()
}

/// The header of a write record: the file pages that it replaces, and what it does to the size.
///
/// Its extents cover the file's pages from `file_page` on. An extent that starts at page 0 makes
/// its pages a hole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteHeader {
    /// First file page that is replaced.
    pub(crate) file_page: u32,
    /// Number of pages in extents that are not holes.
    pub(crate) pages: u32,
    /// Number of extents, in file order.
    pub(crate) extents: u32,
    /// The file's size becomes at least this. For a write, it is one past the last byte written,
    /// even if the file is longer. Unless it is zero or the record has no extents, it lies in the
    /// last page that the extents cover. It is zero if the record makes a hole, allocates pages
    /// without changing the size, only sets the time, or is a copy of pages past the size.
    pub(crate) end: u64,
    /// Whether `end` becomes the file's size, even if it was larger. Pages past it become holes.
    pub(crate) sets_size: bool,
    /// Whether a checksum of each page that is not in a hole follows the extents.
    pub(crate) checksums: bool,
    /// The time of the change, in nanoseconds since 1970.
    pub(crate) modified: u64,
    /// Whether `modified` becomes the file's time, even if it was later.
    pub(crate) sets_modified: bool,
}

impl WriteHeader {
    /// Returns the header of a record that only sets the size.
    pub(crate) fn of_size(size: u64) -> Self {
        WriteHeader {
            end: size,
            sets_size: true,
            ..WriteHeader::default()
        }
    }

    /// Returns the header of a record that only sets the time of the last change.
    pub(crate) fn of_time(modified: u64) -> Self {
        WriteHeader {
            modified,
            sets_modified: true,
            ..WriteHeader::default()
        }
    }

    /// Returns the length of the whole record in bytes.
    #[inline]
    pub(crate) fn record_bytes(&self) -> usize {
        let checksums = if self.checksums {
            self.pages as usize * 4
        } else {
            0
        };
        WRITE_HEADER_BYTES + self.extents as usize * EXTENT_BYTES + checksums
    }

    /// Appends header and extents. The caller appends the checksums, with one
    /// [`put`](GroupWriter::put) per page.
    #[inline]
    pub(crate) fn put(&self, group: &mut GroupWriter<'_>, extents: impl Iterator<Item = Extent>) {
        let flag = |is_set, flag: u8| if is_set { u64::from(flag) } else { 0 };
        let flags = flag(self.checksums, WRITE_WITH_CHECKSUMS)
            | flag(self.sets_size, WRITE_SETS_SIZE)
            | flag(self.sets_modified, WRITE_SETS_MODIFIED);
        group.put_word(u64::from(KIND_WRITE) | flags << 8 | u64::from(self.extents) << 32);
        group.put_word(u64::from(self.file_page) | u64::from(self.pages) << 32);
        group.put_word(self.end);
        group.put_word(self.modified);
        for extent in extents {
            group.put_word(u64::from(extent.start) | u64::from(extent.len) << 32);
        }
    }
}

/// A decoded record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Pages of a file are replaced.
    Write {
        header: WriteHeader,
        extents: Vec<Extent>,
        /// One per page; empty without data checksums.
        checksums: Vec<u32>,
    },
    /// The directory has a name, as long as the mark exists.
    Add { id: InodeId, name: String },
    /// The directory has a name that replaces an old name, and any earlier meaning of the new one.
    Rename {
        id: InodeId,
        name: String,
        old: String,
    },
}

/// Returns the length in bytes of the record that adds `name`.
pub(crate) fn add_bytes(name: &str) -> usize {
    NAME_HEADER_BYTES + name.len()
}

/// Returns the length in bytes of the record that renames `old` to `name`.
pub(crate) fn rename_bytes(name: &str, old: &str) -> usize {
    NAME_HEADER_BYTES + 2 + name.len() + old.len()
}

fn put_name_header(group: &mut GroupWriter<'_>, kind: u8, id: InodeId, name: &str) {
    let mut b = [0; NAME_HEADER_BYTES];
    b[0] = kind;
    b[1] = id.kind as u8;
    b[2..4].copy_from_slice(&(name.len() as u16).to_le_bytes());
    b[4..8].copy_from_slice(&id.number.to_le_bytes());
    b[8..16].copy_from_slice(&id.generation.to_le_bytes());
    group.put(&b);
}

/// Appends the record that adds `name`.
pub(crate) fn put_add(group: &mut GroupWriter<'_>, id: InodeId, name: &str) {
    put_name_header(group, KIND_ADD, id, name);
    group.put(name.as_bytes());
}

/// Appends the record that renames `old` to `name`.
pub(crate) fn put_rename(group: &mut GroupWriter<'_>, id: InodeId, name: &str, old: &str) {
    put_name_header(group, KIND_RENAME, id, name);
    group.put(&(old.len() as u16).to_le_bytes());
    group.put(name.as_bytes());
    group.put(old.as_bytes());
}

impl Record {
    /// Decodes the record in a group of slots whose mark has been checked.
    ///
    /// # Errors
    /// A description of what is wrong with the record.
    pub(crate) fn decode(slots: &[u8]) -> Result<Record, &'static str> {
        let b = record_of(slots);
        let record = match b[0] {
            KIND_WRITE => Record::decode_write(&b)?,
            KIND_ADD | KIND_RENAME => Record::decode_name(&b)?,
            _ => return Err("a record of unknown kind"),
        };
        if slots_for(record.bytes()) * SLOT_BYTES != slots.len() {
            return Err("a record whose length does not fit its group");
        }
        Ok(record)
    }

    /// Returns whether the record takes away something that an earlier one gave.
    pub(crate) fn takes_away(&self) -> bool {
        match self {
            Record::Write {
                header, extents, ..
            } => header.sets_size || extents.iter().any(|e| e.is_hole()),
            // A rename's marks of earlier groups are erased before the operation or the recovery
            // ends, so nothing older is left that it could take away.
            Record::Add { .. } | Record::Rename { .. } => false,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Record::Write { header, .. } => header.record_bytes(),
            Record::Add { name, .. } => add_bytes(name),
            Record::Rename { name, old, .. } => rename_bytes(name, old),
        }
    }

    fn decode_write(b: &[u8]) -> Result<Record, &'static str> {
        let header = WriteHeader {
            file_page: get_u32(b, 8),
            pages: get_u32(b, 12),
            extents: get_u32(b, 4),
            end: get_u64(b, 16),
            sets_size: b[1] & WRITE_SETS_SIZE != 0,
            checksums: b[1] & WRITE_WITH_CHECKSUMS != 0,
            modified: get_u64(b, 24),
            sets_modified: b[1] & WRITE_SETS_MODIFIED != 0,
        };
        if header.extents == 0 && !header.sets_size && !header.sets_modified {
            return Err("a write record that does nothing");
        }
        // Check bounds before multiplying: every extent and checksum takes some bytes.
        let bound = b.len() as u32;
        if header.extents > bound || (header.checksums && header.pages > bound) {
            return Err("a write record longer than its group");
        }
        if header.record_bytes() > b.len() {
            return Err("a write record longer than its group");
        }
        let extents_end = WRITE_HEADER_BYTES + header.extents as usize * EXTENT_BYTES;
        let extents: Vec<Extent> = b[WRITE_HEADER_BYTES..extents_end]
            .chunks_exact(EXTENT_BYTES)
            .map(|e| Extent {
                start: get_u32(e, 0),
                len: get_u32(e, 4),
            })
            .collect();
        let data = extents.iter().filter(|e| !e.is_hole());
        let pages: u64 = data.map(|e| e.len as u64).sum();
        if pages != header.pages as u64 || extents.iter().any(|e| e.len == 0) {
            return Err("a write record whose extents do not add up");
        }
        let checksums = b[extents_end..header.record_bytes()]
            .chunks_exact(4)
            .map(|c| get_u32(c, 0))
            .collect();
        Ok(Record::Write {
            header,
            extents,
            checksums,
        })
    }

    /// Decodes a record of a directory.
    fn decode_name(b: &[u8]) -> Result<Record, &'static str> {
        let id = InodeId {
            number: get_u32(b, 4),
            generation: get_u64(b, 8),
            kind: Kind::from_number(b[1].into()).ok_or("a name of something unknown")?,
        };
        let text = |at: usize, len: u16| -> Result<String, &'static str> {
            let bytes = b.get(at..at + usize::from(len));
            let bytes = bytes.ok_or("a directory record longer than its group")?;
            let text = core::str::from_utf8(bytes).map_err(|_| "a name that is not UTF-8")?;
            Ok(text.to_owned())
        };
        let len = |at| u16::from_le_bytes([b[at], b[at + 1]]);
        let (name_len, at) = (len(2), NAME_HEADER_BYTES);
        if b[0] == KIND_ADD {
            let name = text(at, name_len)?;
            return Ok(Record::Add { id, name });
        }
        let (old_len, at) = (len(at), at + 2);
        Ok(Record::Rename {
            id,
            name: text(at, name_len)?,
            old: text(at + usize::from(name_len), old_len)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_read_back() {
        let id = InodeId {
            number: 5,
            generation: 6,
            kind: Kind::File,
        };
        let marks_are_free = |slots: &[u8]| {
            let mut slots = slots.chunks_exact(SLOT_BYTES);
            slots.all(|s| s[..WORD_BYTES] == [0; 8])
        };
        for len in 1..=1024 {
            let (name, old) = ("x".repeat(len), "o".repeat(1025 - len));
            let mut slots = vec![0; slots_for(add_bytes(&name)) * SLOT_BYTES];
            put_add(&mut GroupWriter::new(&mut slots), id, &name);
            assert!(marks_are_free(&slots));
            let record = Record::decode(&slots);
            let name_of = name.clone();
            assert_eq!(record, Ok(Record::Add { id, name: name_of }));

            let mut slots = vec![0; slots_for(rename_bytes(&name, &old)) * SLOT_BYTES];
            put_rename(&mut GroupWriter::new(&mut slots), id, &name, &old);
            assert!(marks_are_free(&slots));
            let record = Record::decode(&slots);
            assert_eq!(record, Ok(Record::Rename { id, name, old }));
        }
    }

    #[test]
    fn a_fragmented_write_reads_back() {
        let extents: Vec<Extent> = (0..100)
            .map(|i| Extent {
                start: 10 + 3 * i,
                len: 2,
            })
            .collect();
        let header = WriteHeader {
            file_page: 4,
            pages: 200,
            extents: 100,
            end: 204 * 4096,
            checksums: true,
            modified: 1 << 60,
            ..WriteHeader::default()
        };
        let mut slots = vec![0; slots_for(header.record_bytes()) * SLOT_BYTES];
        let mut group = GroupWriter::new(&mut slots);
        header.put(&mut group, extents.iter().copied());
        let checksums: Vec<u32> = (0..200).collect();
        for c in &checksums {
            group.put(&c.to_le_bytes());
        }
        assert_eq!(
            Record::decode(&slots),
            Ok(Record::Write {
                header,
                extents,
                checksums
            })
        );
        assert!(Record::decode(&slots[SLOT_BYTES..]).is_err());
        assert!(Record::decode(&slots[..SLOT_BYTES]).is_err());
    }
}
