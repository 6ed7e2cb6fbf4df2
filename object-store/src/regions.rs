//! The layout of regions in the space: `docs/format.md` draws it.

use std::ops::Range;

use crc32c::{crc32c, crc32c_append};

use crate::error::Error;

const MAGIC: u64 = u64::from_le_bytes(*b"SpanlkOR");
/// The format version that this build reads and writes.
pub(crate) const VERSION: u32 = 1;
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
        if region < 2 * block || !region.is_multiple_of(block) {
            let wanted = "a multiple of the space's block, and at least two";
            return Err(Error::BadOption {
                what,
                found,
                wanted,
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
        bytes[36] = u8::from(self.mode == Mode::DirectSized);
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
            Layout::Packed => self.region_at(self.regions + 1) + id * HEAD as u64,
        }
    }

    /// Returns the bytes that an object's data can take.
    pub(crate) fn data(&self, id: u64) -> Range<u64> {
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
    /// The size in bytes, in the mode that stores it.
    pub(crate) size: u64,
}

impl Head {
    pub(crate) fn new(state: State) -> Self {
        Head { state, size: 0 }
    }

    /// The head of an object that does not exist is zero.
    pub(crate) fn encode(&self, id: u64) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[0] = match self.state {
            State::None => return bytes,
            State::PreCreated => 1,
            State::Created => 2,
        };
        bytes[8..16].copy_from_slice(&self.size.to_le_bytes());
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
        let is_sound = u32_at(bytes, 4) == checksum(id, bytes, 4);
        is_sound.then(|| Head {
            state,
            size: u64_at(bytes, 8),
        })
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
