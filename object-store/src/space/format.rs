//! The layout of a space on its medium: `docs/format.md` draws it.

use std::ops::Range;

use crc32c::{crc32c, crc32c_append};

use super::error::Error;
use super::runs::Run;

const MAGIC: u64 = u64::from_le_bytes(*b"SpanlkOS");
/// The format version that this build reads and writes.
pub(super) const VERSION: u32 = 1;

/// Bytes of a superblock.
pub(super) const SUPERBLOCK: usize = 512;
/// Where the two superblocks lie.
pub(super) const SLOTS: [u64; 2] = [0, 4096];
const RINGS_START: u64 = 8192;
/// The areas start at multiples of this, or of the block if it is larger.
const AREA: u64 = 4096;
/// Bytes of an entry of the table.
pub(super) const ENTRY: u64 = 8;
/// Bytes of a page, the unit in which the table is written.
pub(super) const PAGE_BYTES: usize = AREA as usize;
/// Entries in a page of the table.
pub(super) const PAGE_ENTRIES: u64 = AREA / ENTRY;
/// Bytes of the superblocks of a ring.
pub(super) const RING_HEAD: u64 = 8192;
/// What a record may take in a ring besides its bytes: headers, and the rest of a block.
pub(super) const BATCH_ROOM: u64 = 1024;
/// The largest number of a record, or of a superblock.
pub(super) const MOST_NUMBER: u64 = 1 << 62;
/// Blocks and places are numbered below this.
const MOST: u64 = 1 << 48;

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) serial: u64,
    /// Bytes of a block.
    pub(super) block: u32,
    pub(super) rings: u32,
    /// Bytes of a ring.
    pub(super) ring: u64,
    /// Blocks of the address space.
    pub(super) size: u64,
    /// Blocks of the medium.
    pub(super) places: u64,
    pub(super) cut: u64,
    pub(super) used: u64,
}

/// The content of a slot.
pub(super) enum Slot {
    Sound(Superblock),
    OtherVersion(u32),
    Unsound,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn checksum(bytes: &[u8; SUPERBLOCK]) -> u32 {
    let before = crc32c_append(crc32c(&bytes[..12]), &[0; 4]);
    crc32c_append(before, &bytes[16..])
}

impl Superblock {
    pub(super) fn encode(&self) -> [u8; SUPERBLOCK] {
        let mut bytes = [0; SUPERBLOCK];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC.to_le_bytes());
        put(8, &VERSION.to_le_bytes());
        put(24, &self.block.to_le_bytes());
        put(28, &self.rings.to_le_bytes());
        let numbers = [self.ring, self.size, self.places, self.cut, self.used];
        put(16, &self.serial.to_le_bytes());
        for (at, number) in (32..).step_by(8).zip(numbers) {
            put(at, &number.to_le_bytes());
        }
        let sum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; SUPERBLOCK]) -> Slot {
        if u64_at(bytes, 0) != MAGIC || u32_at(bytes, 12) != checksum(bytes) {
            return Slot::Unsound;
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Slot::OtherVersion(version);
        }
        let found = Superblock {
            serial: u64_at(bytes, 16),
            block: u32_at(bytes, 24),
            rings: u32_at(bytes, 28),
            ring: u64_at(bytes, 32),
            size: u64_at(bytes, 40),
            places: u64_at(bytes, 48),
            cut: u64_at(bytes, 56),
            used: u64_at(bytes, 64),
        };
        match found.check() {
            Ok(()) => Slot::Sound(found),
            Err(_) => Slot::Unsound,
        }
    }

    /// Checks that the numbers fit together, so that no position overflows.
    pub(super) fn check(&self) -> Result<(), Error> {
        let bad = |what, found, wanted| {
            Err(Error::BadOption {
                what,
                found,
                wanted,
            })
        };
        if !self.block.is_power_of_two() || !(512..=65_536).contains(&self.block) {
            let wanted = "a power of two from 512 to 65,536";
            return bad("the block size", self.block.into(), wanted);
        }
        if !(1..=64).contains(&self.rings) {
            return bad("the number of rings", self.rings.into(), "from 1 to 64");
        }
        if !self.ring.is_multiple_of(AREA) || !(16_384..=1 << 40).contains(&self.ring) {
            let wanted = "a multiple of 4096 from 16,384 to 2^40";
            return bad("the ring size", self.ring, wanted);
        }
        if !(1..MOST).contains(&self.size) || self.size.checked_mul(self.block.into()).is_none() {
            let wanted = "less than 2^48, and less than 2^64 bytes";
            return bad("the number of blocks of the space", self.size, wanted);
        }
        // These only count up, so no space reaches the limit.
        for number in [self.serial, self.cut] {
            if number > MOST_NUMBER {
                return bad("a number of the superblock", number, "at most 2^62");
            }
        }
        let is_used = self.used <= self.places.next_multiple_of(PAGE_ENTRIES);
        if !(1..=self.most_places()).contains(&self.places) || !is_used {
            let wanted = "at least 1, less than 2^48, and less than 2^62 bytes";
            return bad("the number of places", self.places, wanted);
        }
        Ok(())
    }

    fn most_places(&self) -> u64 {
        (MOST - 1).min((1 << 62) / (u64::from(self.block) + ENTRY))
    }

    fn area(&self, at: u64) -> u64 {
        at.next_multiple_of(AREA.max(self.block.into()))
    }

    pub(super) fn ring_range(&self, ring: u32) -> Range<u64> {
        let start = self.area(RINGS_START) + u64::from(ring) * self.ring;
        start..start + self.ring
    }

    /// Returns where the table starts.
    fn table(&self) -> u64 {
        self.area(self.ring_range(self.rings).start)
    }

    /// Returns where the entry of a place lies.
    pub(super) fn entry_at(&self, place: u64) -> u64 {
        self.table() + place * ENTRY
    }

    /// Returns where a place lies.
    pub(super) fn place_at(&self, place: u64) -> u64 {
        let table = self.places.next_multiple_of(PAGE_ENTRIES) * ENTRY;
        self.area(self.table() + table) + place * u64::from(self.block)
    }

    /// Sets the number of places to the most that fit into a medium of `len` bytes.
    pub(super) fn fit(&mut self, len: u64) {
        let bytes = len.saturating_sub(self.table());
        self.places = (bytes / (u64::from(self.block) + ENTRY)).min(self.most_places());
        // Rounding takes a few places.
        while self.places > 0 && self.place_at(self.places) > len {
            self.places -= 1;
        }
    }

    /// Returns the bytes that a record may have at most: so a ring has room for four.
    pub(super) fn max_record(&self) -> u64 {
        (self.ring - RING_HEAD) / 4 - BATCH_ROOM
    }
}

/// Returns the check of an entry, which is never zero.
fn check(place: u64, block: u64) -> u64 {
    let sum = crc32c_append(crc32c(&place.to_le_bytes()), &block.to_le_bytes());
    u64::from(sum % 0xFFFF) + 1
}

/// Encodes the entry of a place that has a block, or that is free.
pub(super) fn entry(place: u64, block: Option<u64>) -> [u8; ENTRY as usize] {
    let block = block.map_or(0, |block| block + 1);
    (block | check(place, block) << 48).to_le_bytes()
}

/// Returns the block of an entry, or `None` if the place is free.
pub(super) fn decode_entry(place: u64, entry: u64) -> Result<Option<u64>, Unsound> {
    let block = entry % MOST;
    match entry / MOST == check(place, block) {
        true => Ok(block.checked_sub(1)),
        false => Err(Unsound),
    }
}

/// An entry that was not written like this.
pub(super) struct Unsound;

const NO_PLACE: u64 = u64::MAX;
const RECORD_HEAD: usize = 16;
/// Above the sum of a run, if it has one.
const HAS_SUM: u64 = 1 << 32;
const RUN: usize = 32;

/// A change of the map: blocks from `block` on get a run of places, or lose theirs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) block: u64,
    pub(super) run: Run,
    /// The crc32c of the data, if the record may become durable before it.
    pub(super) sum: Option<u32>,
}

impl Change {
    pub(super) fn new(block: u64, run: Run) -> Self {
        let sum = None;
        Change { block, run, sum }
    }

    /// Returns whether both change a block.
    pub(super) fn overlaps(&self, other: &Change) -> bool {
        self.block < other.block + other.run.len && other.block < self.block + self.run.len
    }
}

/// Encodes a record, whose number is still to be [set](set_number).
pub(super) fn record(changes: &[Change]) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_HEAD];
    bytes[8..12].copy_from_slice(&(changes.len() as u32).to_le_bytes());
    for Change { block, run, sum } in changes {
        let sum = sum.map_or(0, |it| u64::from(it) | HAS_SUM);
        for number in [*block, run.target.unwrap_or(NO_PLACE), run.len, sum] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

/// Sets the number of a record.
pub(super) fn set_number(record: &mut [u8], number: u64) {
    record[..8].copy_from_slice(&number.to_le_bytes());
}

/// Returns the number and the changes of a record, or `None` if it is not a record of this space.
pub(super) fn decode(record: &[u8], superblock: &Superblock) -> Option<(u64, Vec<Change>)> {
    let (head, runs) = record.split_at_checked(RECORD_HEAD)?;
    if runs.len() != u32_at(head, 8) as usize * RUN {
        return None;
    }
    let change = |run: &[u8]| {
        let [block, place, len, sum] = [0, 8, 16, 24].map(|at| u64_at(run, at));
        let target = (place != NO_PLACE).then_some(place);
        let fits = |start: u64, most| start.checked_add(len).is_some_and(|end| end <= most);
        let is_inside = fits(block, superblock.size)
            && target.is_none_or(|place| fits(place, superblock.places));
        let run = Run::new(target, len);
        let sum = (sum & HAS_SUM != 0).then_some(sum as u32);
        (len > 0 && is_inside).then_some(Change { block, run, sum })
    };
    let changes: Option<Vec<Change>> = runs.chunks_exact(RUN).map(change).collect();
    let number = u64_at(head, 0);
    (number <= MOST_NUMBER).then_some((number, changes?))
}
