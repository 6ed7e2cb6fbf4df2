//! The layout of regions in the space: `docs/format.md` draws it.

use std::ops::Range;

use crc32c::{crc32c, crc32c_append};

use crate::error::Error;

const MAGIC: u64 = u64::from_le_bytes(*b"SpanlkOR");
/// The format version that this build reads and writes.
pub(crate) const VERSION: u32 = 1;
/// The largest number of a version, and the largest position in a log: they only count up, so no
/// object reaches this.
const MOST_NUMBER: u64 = 1 << 62;
/// Slots of the super region, in which ranges of ids are reserved.
pub(crate) const SLOTS: u64 = 64;
/// Bytes of the store block that are used, and of a head.
pub(crate) const HEAD: usize = 64;
/// Bytes of a slot that are used.
pub(crate) const SLOT: usize = 32;

/// Where the head of an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// At the start of the object's region, in a block of its own, as in the paper.
    Region,
    /// In a table of heads of 64 bytes. Objects that are created one after the other share a block,
    /// so creating them takes less room and time.
    #[default]
    Packed,
}

/// What a store keeps of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Its data, at its offset. Reads past the end return zeros.
    Direct,
    /// Its data, at its offset, and its size.
    #[default]
    DirectSized,
    /// As `DirectSized`, and its former versions, in a log of so many bytes in each region.
    Versions {
        /// The bytes of the log, a multiple of the space's block. Versions that find no room there
        /// are reclaimed, the oldest first.
        log: u64,
    },
}

impl Mode {
    /// Returns whether heads have the object's size.
    pub(crate) fn has_size(self) -> bool {
        self != Mode::Direct
    }

    pub(crate) fn log(self) -> u64 {
        match self {
            Mode::Versions { log } => log,
            Mode::Direct | Mode::DirectSized => 0,
        }
    }
}

/// The layout of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) layout: Layout,
    pub(crate) mode: Mode,
    /// Bytes of a region.
    pub(crate) region: u64,
    /// The largest id.
    pub(crate) regions: u64,
    /// Bytes of a block of the space.
    pub(crate) block: u64,
}

/// What the start of the space holds.
pub(crate) enum StoreBlock {
    Zero,
    OtherVersion(u32),
    Unsound,
    Sound(Geometry),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Returns the checksum of 64 bytes with a number before them, the four bytes at `at` as zeros.
fn checksum(number: u64, bytes: &[u8; HEAD], at: usize) -> u32 {
    let before = crc32c_append(crc32c(&number.to_le_bytes()), &bytes[..at]);
    crc32c_append(crc32c_append(before, &[0; 4]), &bytes[at + 4..])
}

impl Geometry {
    /// Returns the layout with the most regions for a space of `size` bytes.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub(crate) fn new(
        layout: Layout,
        mode: Mode,
        region: u64,
        block: u32,
        size: u64,
    ) -> Result<Self, Error> {
        let block = u64::from(block);
        let (what, found) = ("the region size", region);
        if region < 2 * block || region > size || !region.is_multiple_of(block) {
            let wanted = "a multiple of the space's block, at least two, and within the space";
            return Err(Error::BadOption {
                what,
                found,
                wanted,
            });
        }
        let (log, first) = (mode.log(), u64::from(layout == Layout::Region) * block);
        let is_log = (2..1 << 32).contains(&(log / block))
            && log.is_multiple_of(block)
            && log < region - first;
        if matches!(mode, Mode::Versions { .. }) && !is_log {
            return Err(Error::BadOption {
                what: "the log of versions",
                found: log,
                wanted: "a multiple of the space's block, from two to 2^32, and smaller than the region",
            });
        }
        let mut geometry = Geometry {
            layout,
            mode,
            region,
            regions: 0,
            block,
        };
        // Ids from 0 to `regions` have an entry in the table, which is rounded up to a block.
        let rest = size.saturating_sub(geometry.base() + HEAD as u64 + block);
        geometry.regions = rest / (region + HEAD as u64);
        match geometry.regions {
            0 => Err(Error::BadOption {
                what,
                found,
                wanted: "smaller: the space has no room for a region",
            }),
            _ => Ok(geometry),
        }
    }

    pub(crate) fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.region.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.regions.to_le_bytes());
        bytes[32] = u8::from(self.layout == Layout::Packed);
        bytes[36] = match self.mode {
            Mode::Direct => 0,
            Mode::DirectSized => 1,
            Mode::Versions { .. } => 2,
        };
        bytes[40..48].copy_from_slice(&self.mode.log().to_le_bytes());
        let sum = checksum(0, &bytes, 12);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the start of a space with these blocks and of this size.
    pub(crate) fn decode(bytes: &[u8; HEAD], block: u32, size: u64) -> StoreBlock {
        if *bytes == [0; HEAD] {
            return StoreBlock::Zero;
        }
        if u64_at(bytes, 0) != MAGIC || u32_at(bytes, 12) != checksum(0, bytes, 12) {
            return StoreBlock::Unsound;
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return StoreBlock::OtherVersion(version);
        }
        let layout = match u32_at(bytes, 32) {
            0 => Layout::Region,
            1 => Layout::Packed,
            _ => return StoreBlock::Unsound,
        };
        let mode = match u32_at(bytes, 36) {
            0 => Mode::Direct,
            1 => Mode::DirectSized,
            2 => Mode::Versions {
                log: u64_at(bytes, 40),
            },
            _ => return StoreBlock::Unsound,
        };
        match Geometry::new(layout, mode, u64_at(bytes, 16), block, size) {
            Ok(found) if found.regions == u64_at(bytes, 24) => StoreBlock::Sound(found),
            _ => StoreBlock::Unsound,
        }
    }

    /// Returns where the first object's region starts.
    fn base(&self) -> u64 {
        ((1 + SLOTS) * self.block).next_multiple_of(self.region)
    }

    fn region_at(&self, id: u64) -> u64 {
        self.base() + (id - 1) * self.region
    }

    /// Returns where a slot lies.
    pub(crate) fn slot_at(&self, slot: u64) -> u64 {
        (1 + slot) * self.block
    }

    /// Returns where the head of an object lies.
    pub(crate) fn head_at(&self, id: u64) -> u64 {
        match self.layout {
            Layout::Region => self.region_at(id),
            Layout::Packed => self.heads().start + id * HEAD as u64,
        }
    }

    /// Returns the bytes of the head table.
    pub(crate) fn heads(&self) -> Range<u64> {
        let start = self.region_at(self.regions + 1);
        let len = (self.regions + 1) * HEAD as u64;
        start..start + len.next_multiple_of(self.block)
    }

    /// Returns the object in whose region an address lies.
    pub(crate) fn id_at(&self, at: u64) -> Option<u64> {
        let id = at.checked_sub(self.base())? / self.region + 1;
        (id <= self.regions).then_some(id)
    }

    /// Returns the bytes that an object's data can take.
    pub(crate) fn data(&self, id: u64) -> Range<u64> {
        let all = self.body(id);
        all.start..all.end - self.mode.log()
    }

    /// Returns the bytes of an object's log of versions.
    pub(crate) fn log(&self, id: u64) -> Range<u64> {
        let all = self.body(id);
        all.end - self.mode.log()..all.end
    }

    /// Returns the bytes of an object's region, without its head.
    pub(crate) fn body(&self, id: u64) -> Range<u64> {
        let start = self.region_at(id);
        match self.layout {
            Layout::Region => start + self.block..start + self.region,
            Layout::Packed => start..start + self.region,
        }
    }

    /// Returns the most bytes that an object can have.
    pub(crate) fn capacity(&self) -> u64 {
        self.data(1).end - self.data(1).start
    }

    /// Returns the end of the ids from this one on whose heads lie in one block.
    pub(crate) fn neighbours(&self, id: u64) -> u64 {
        match self.layout {
            Layout::Region => id + 1,
            Layout::Packed => (id + 1).next_multiple_of(self.heads_in_block()),
        }
    }

    /// Returns how many heads of the packed table lie in one block.
    pub(crate) fn heads_in_block(&self) -> u64 {
        self.block / HEAD as u64
    }
}

/// Whether an object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    None,
    PreCreated,
    Created,
}

/// The head of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) state: State,
    /// The size in bytes, in the modes that store it.
    pub(crate) size: u64,
    pub(crate) versions: Versions,
}

/// What a head says of versions. All zero in direct mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    /// The number of the current version.
    pub(crate) current: u64,
    /// The largest number that a version ever had.
    pub(crate) given: u64,
    /// The time of the current version.
    pub(crate) timestamp: u64,
    /// Where the log ends, in blocks from its first one ever.
    pub(crate) end: u64,
    /// How far before the end the newest commit block lies, in blocks; 0 if there is none.
    pub(crate) newest: u32,
    /// The same for the oldest one.
    pub(crate) oldest: u32,
    /// Versions from this number on are not reclaimed; none if all can be.
    pub(crate) retained: Option<u64>,
}

impl Head {
    pub(crate) fn new(state: State) -> Self {
        Head {
            state,
            size: 0,
            versions: Versions::default(),
        }
    }

    /// The head of an object that does not exist is zero.
    pub(crate) fn encode(&self, id: u64) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[0] = match self.state {
            State::None => return bytes,
            State::PreCreated => 1,
            State::Created => 2,
        };
        let it = &self.versions;
        let back = u64::from(it.newest) | u64::from(it.oldest) << 32;
        let retained = it.retained.map_or(0, |from| from.saturating_add(1));
        let numbers = [
            self.size,
            it.current,
            it.given,
            it.timestamp,
            it.end,
            back,
            retained,
        ];
        for (into, number) in bytes[8..].chunks_exact_mut(8).zip(numbers) {
            into.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(id, &bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns `None` if the head is damaged.
    pub(crate) fn decode(id: u64, bytes: &[u8; HEAD]) -> Option<Self> {
        let state = match u32_at(bytes, 0) {
            0 if *bytes == [0; HEAD] => return Some(Head::new(State::None)),
            1 => State::PreCreated,
            2 => State::Created,
            _ => return None,
        };
        let it = Versions {
            current: u64_at(bytes, 16),
            given: u64_at(bytes, 24),
            timestamp: u64_at(bytes, 32),
            end: u64_at(bytes, 40),
            newest: u32_at(bytes, 48),
            oldest: u32_at(bytes, 52),
            retained: u64_at(bytes, 56).checked_sub(1),
        };
        let is_log = it.newest <= it.oldest
            && (it.newest == 0) == (it.oldest == 0)
            && u64::from(it.oldest) <= it.end
            && it.current <= it.given
            && it.given.max(it.end) <= MOST_NUMBER;
        let is_sound = is_log && u32_at(bytes, 4) == checksum(id, bytes, 4);
        is_sound.then(|| Head {
            state,
            size: u64_at(bytes, 8),
            versions: it,
        })
    }
}

/// A commit block: what an object was before one write. The blocks that the write changed follow
/// it in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// The number of the version that it keeps.
    pub(crate) version: u64,
    /// Where the commit block of the version before lies, in blocks of the log from its first one
    /// ever; [`NO_PARENT`](Self::NO_PARENT) if there is none.
    pub(crate) parent: u64,
    /// The time of this version.
    pub(crate) timestamp: u64,
    /// The object's size in this version.
    pub(crate) size: u64,
    /// The first block of the object that the write changed.
    pub(crate) first: u64,
    /// How many blocks it changed.
    pub(crate) count: u32,
    /// How many of these follow in the log. The others were zero.
    pub(crate) kept: u32,
}

impl Commit {
    pub(crate) const NO_PARENT: u64 = u64::MAX;

    /// Encodes the commit block at this position of an object's log.
    pub(crate) fn encode(&self, id: u64, at: u64) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let counts = u64::from(self.count) | u64::from(self.kept) << 32;
        let numbers = [
            self.version,
            self.parent,
            self.timestamp,
            self.size,
            self.first,
            counts,
        ];
        for (into, number) in bytes[8..].chunks_exact_mut(8).zip(numbers) {
            into.copy_from_slice(&number.to_le_bytes());
        }
        bytes[56..].copy_from_slice(&at.to_le_bytes());
        let sum = checksum(id, &bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns `None` if it is not the commit block at this position.
    pub(crate) fn decode(id: u64, at: u64, bytes: &[u8; HEAD]) -> Option<Self> {
        let found = Commit {
            version: u64_at(bytes, 8),
            parent: u64_at(bytes, 16),
            timestamp: u64_at(bytes, 24),
            size: u64_at(bytes, 32),
            first: u64_at(bytes, 40),
            count: u32_at(bytes, 48),
            kept: u32_at(bytes, 52),
        };
        let is_sound = found.kept <= found.count && found.first <= MOST_NUMBER;
        (is_sound && found.encode(id, at) == *bytes).then_some(found)
    }

    /// Returns where the next commit block lies, if this one is at `at`.
    pub(crate) fn end(&self, at: u64) -> u64 {
        at + 1 + u64::from(self.kept)
    }
}

/// A slot on the medium. Its ids from `upto` to `end` were not given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) upto: u64,
    pub(crate) end: u64,
}

impl Slot {
    pub(crate) fn encode(&self, number: u64) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(&self.upto.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        let sum = crc32c_append(crc32c(&number.to_le_bytes()), &bytes[..16]);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns `None` if the slot is damaged. A slot of zeros has no ids.
    pub(crate) fn decode(number: u64, bytes: &[u8; SLOT]) -> Option<Self> {
        let slot = Slot {
            upto: u64_at(bytes, 0),
            end: u64_at(bytes, 8),
        };
        let is_sound = *bytes == [0; SLOT] || *bytes == slot.encode(number);
        (is_sound && slot.upto <= slot.end).then_some(slot)
    }
}
