//! Nodes: their bytes, and their places in a file.
//!
//! ```text
//!   0  u32  CRC-32C of all that follows        16  u32  place (see `Place`)
//!   4  u32  node id                            20  u32  next: used by the block home only
//!   8  u32  inode id                           24  u64  sequence: used by the block home only
//!  12  u8   kind (1 inode, 2 direct, 3 indirect)
//!  13  u8   0                                  32  the body
//!  14  u16  bytes used, header included
//! ```
//!
//! An inode's body: size u64, created u64, children [u32; 5] (2 direct, 2 indirect, 1
//! double-indirect), length of the name u8 and 3 zeros, the name padded to a multiple of 4 bytes,
//! and the slots. The body of any other node: its slots. A slot is the u32 number of a block or the
//! id of a node; 0 is none. Trailing zero slots are omitted.
//!
//! In memory, the first slots of an inode are its children, and its blocks follow.

use std::ops::Range;
use std::sync::Arc;

use spanlock_sync::hint::scaled;

use crate::cache::About;

/// The size of a block, and the largest size of a node, in bytes.
pub const BLOCK_BYTES: usize = 4096;
/// The size of a node's header in bytes.
pub(crate) const HEADER_BYTES: usize = 32;
/// The number of blocks that an inode names directly.
pub(crate) const INODE_SLOTS: usize = scaled(923, 2) as usize;
/// The number of an inode's children: two direct nodes, two indirect and one double-indirect.
pub(crate) const CHILDREN: usize = 5;
/// The number of slots of a node that is no inode. Under a checker, as many as an inode has.
pub(crate) const NODE_SLOTS: usize = scaled((BLOCK_BYTES - HEADER_BYTES) as u32 / 4, 7) as usize;

/// The largest length of a name in bytes.
pub(crate) const NAME_BYTES: usize = 255;
/// The size of an inode's body before the name, in bytes.
const INODE_BODY: usize = 8 + 8 + 4 * CHILDREN + 4;

/// Returns how many pages a node of a level covers: direct 1, indirect 2, double-indirect 3.
const fn span(level: u32) -> u32 {
    (NODE_SLOTS as u32).pow(level)
}

/// The most pages of a file: together about 4.3 TB (3.9 TiB).
pub(crate) const MAX_PAGES: u32 = INODE_SLOTS as u32 + 2 * span(1) + 2 * span(2) + span(3);

/// A node id. 0 names no node.
pub type Nid = u32;
/// The number of a block in its half. 0 names no block.
pub type Block = u32;

/// The place of a node in its file. The upper two bits are its level: inode 0, direct 1, indirect
/// 2, double-indirect 3. The other bits are the first page that it covers. No two nodes of a file
/// have the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u32);

impl Place {
    pub(crate) const INODE: Place = Place(0);

    /// Unpacks the place in an [`About`].
    pub(crate) fn of(about: About) -> Self {
        Place(about.place)
    }

    pub(crate) fn packed(self) -> u32 {
        self.0
    }

    pub(crate) fn level(self) -> u32 {
        self.0 >> 30
    }

    fn first(self) -> u32 {
        self.0 & ((1 << 30) - 1)
    }

    /// Returns the pages that the node and its children cover.
    pub(crate) fn pages(self) -> Range<u32> {
        let first = self.first();
        match self.level() {
            0 => 0..MAX_PAGES,
            level => first..first + span(level),
        }
    }

    /// Returns how many slots the node has in memory.
    pub(crate) fn slots(self) -> usize {
        match self.level() {
            0 => CHILDREN + INODE_SLOTS,
            _ => NODE_SLOTS,
        }
    }

    /// Returns whether the slot names a block rather than a node.
    pub(crate) fn names_block(self, slot: usize) -> bool {
        match self.level() {
            0 => slot >= CHILDREN,
            level => level == 1,
        }
    }

    /// Returns the page whose block the slot names.
    pub(crate) fn page(self, slot: usize) -> u32 {
        debug_assert!(self.names_block(slot));
        match self.level() {
            0 => (slot - CHILDREN) as u32,
            _ => self.first() + slot as u32,
        }
    }

    /// Returns the place of the child that the slot names.
    pub(crate) fn child(self, slot: usize) -> Place {
        debug_assert!(!self.names_block(slot));
        let slot = slot as u32;
        let (level, first) = match (self.level(), slot) {
            (0, 0 | 1) => (1, slot * span(1)),
            (0, 2 | 3) => (2, 2 * span(1) + (slot - 2) * span(2)),
            (0, _) => (3, 2 * span(1) + 2 * span(2)),
            (level, _) => {
                let first = self.first() + slot * span(level - 1);
                return Place(((level - 1) << 30) | first);
            }
        };
        Place((level << 30) | (INODE_SLOTS as u32 + first))
    }
}

/// The slots that lead from an inode to the block of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    slots: [u16; 4],
    len: u8,
}

impl Path {
    /// # Panics
    /// If no file has the page.
    pub(crate) fn to(page: u32) -> Self {
        assert!(page < MAX_PAGES, "page {page} of a file");
        let mut path = Path {
            slots: [0; 4],
            len: 0,
        };
        let mut place = Place::INODE;
        if page < INODE_SLOTS as u32 {
            path.push(CHILDREN + page as usize);
            return path;
        }
        let slot = (0..CHILDREN).find(|it| place.child(*it).pages().contains(&page));
        let mut slot = slot.expect("a child that has the page");
        loop {
            path.push(slot);
            place = place.child(slot);
            let inside = page - place.first();
            slot = (inside / span(place.level() - 1)) as usize;
            if place.level() == 1 {
                path.push(slot);
                return path;
            }
        }
    }

    fn push(&mut self, slot: usize) {
        self.slots[usize::from(self.len)] = slot as u16;
        self.len += 1;
    }

    /// Returns the slots that name nodes, and the one that names the block.
    pub(crate) fn parts(&self) -> (&[u16], u16) {
        let last = usize::from(self.len) - 1;
        (&self.slots[..last], self.slots[last])
    }
}

/// The fields that only an inode has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The size of the file in bytes.
    pub(crate) size: u64,
    /// The file's number in the order of creation.
    pub(crate) created: u64,
    pub(crate) name: Arc<str>,
}

/// A decoded node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) about: About,
    /// `Some` for an inode.
    pub(crate) head: Option<Head>,
    /// Perhaps with some trailing zeros.
    pub(crate) slots: Vec<u32>,
}

/// Returns the bytes of a node. `head` is `Some` for an inode.
pub(crate) fn encode(about: About, head: Option<&Head>, slots: &[u32]) -> Vec<u8> {
    let used = slots.iter().rposition(|it| *it != 0).map_or(0, |it| it + 1);
    let slots = &slots[..used];
    let place = Place::of(about);
    debug_assert_eq!(head.is_some(), place == Place::INODE);
    let mut bytes =
        Vec::with_capacity(HEADER_BYTES + INODE_BODY + NAME_BYTES + 1 + 4 * slots.len());
    bytes.extend([0; 4]);
    bytes.extend(about.nid.to_le_bytes());
    bytes.extend(about.inode.to_le_bytes());
    bytes.extend([kind(place), 0, 0, 0]);
    bytes.extend(about.place.to_le_bytes());
    bytes.resize(HEADER_BYTES, 0);
    let mut blocks = slots;
    if let Some(head) = head {
        let (children, rest) = slots.split_at(slots.len().min(CHILDREN));
        blocks = rest;
        bytes.extend(head.size.to_le_bytes());
        bytes.extend(head.created.to_le_bytes());
        children
            .iter()
            .for_each(|it| bytes.extend(it.to_le_bytes()));
        bytes.resize(HEADER_BYTES + INODE_BODY - 4, 0);
        bytes.extend([head.name.len() as u8, 0, 0, 0]);
        bytes.extend(head.name.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    blocks.iter().for_each(|it| bytes.extend(it.to_le_bytes()));
    let used = bytes.len() as u16;
    bytes[14..16].copy_from_slice(&used.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Returns the place of an encoded node.
pub(crate) fn place_in(bytes: &[u8]) -> Place {
    Place(u32::from_le_bytes(
        bytes[16..20].try_into().expect("4 bytes"),
    ))
}

/// Decodes a node whose checksum was checked. The error says what is wrong with it.
pub(crate) fn decode(nid: Nid, bytes: &[u8]) -> Result<Node, &'static str> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4).ok_or("it is too short")?;
        Ok::<_, &str>(u32::from_le_bytes(bytes.try_into().expect("4 bytes")))
    };
    let about = About {
        nid: word(4)?,
        inode: word(8)?,
        place: word(16)?,
    };
    let (place, used) = (Place::of(about), (word(12)? >> 16) as usize);
    if about.nid != nid {
        return Err("it is another node");
    }
    if word(12)? as u16 != u16::from(kind(place)) {
        return Err("its kind and its place do not fit together");
    }
    if !(HEADER_BYTES..=BLOCK_BYTES.min(bytes.len())).contains(&used) || !used.is_multiple_of(4) {
        return Err("its length is wrong");
    }
    let mut slots = Vec::new();
    let (mut at, mut head) = (HEADER_BYTES, None);
    if place == Place::INODE {
        let long = |at| Ok::<_, &str>(u64::from(word(at)?) | (u64::from(word(at + 4)?) << 32));
        for child in 0..CHILDREN {
            slots.push(word(at + 16 + 4 * child)?);
        }
        let len = word(at + INODE_BODY - 4)? as usize;
        let name = bytes[..used].get(at + INODE_BODY..at + INODE_BODY + len);
        let name = name.ok_or("its name is too long")?;
        let name = std::str::from_utf8(name).map_err(|_| "its name is no UTF-8")?;
        head = Some(Head {
            size: long(at)?,
            created: long(at + 8)?,
            name: name.into(),
        });
        at += INODE_BODY + len.next_multiple_of(4);
    }
    for at in (at..used).step_by(4) {
        slots.push(word(at)?);
    }
    if slots.len() > place.slots() {
        return Err("it has too many slots");
    }
    Ok(Node { about, head, slots })
}

fn kind(place: Place) -> u8 {
    place.level().min(2) as u8 + 1
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn paths_and_places_agree() {
        let starts = [0, 923, 1939, 2955, 1_035_211, 2_067_467, MAX_PAGES - 3];
        for page in starts.iter().flat_map(|it| it.saturating_sub(2)..it + 3) {
            let path = Path::to(page);
            let (inner, last) = path.parts();
            let mut place = Place::INODE;
            for slot in inner {
                place = place.child(usize::from(*slot));
                assert!(place.pages().contains(&page), "{page}: {place:?}");
            }
            assert_eq!(place.page(usize::from(last)), page);
        }
        assert_eq!(Path::to(922).parts().0.len(), 0);
        assert_eq!(Path::to(923).parts(), (&[0][..], 0));
        assert_eq!(
            Path::to(MAX_PAGES - 1).parts(),
            (&[4, 1015, 1015][..], 1015)
        );
    }

    #[test]
    fn nodes_are_encoded_and_decoded() {
        for (name, count) in [
            ("a", 0),
            ("four", 3),
            ("longer", 6),
            (&*"x".repeat(255), 928),
        ] {
            let slots: Vec<u32> = (1..=count).collect();
            let head = Head {
                size: 1 << 40,
                created: 7,
                name: name.into(),
            };
            let about = About {
                nid: 5,
                inode: 5,
                place: 0,
            };
            let bytes = encode(about, Some(&head), &slots);
            assert!(bytes.len() <= BLOCK_BYTES);
            let node = decode(5, &bytes).unwrap();
            assert_eq!((node.about, node.head), (about, Some(head)));
            let used = slots.len();
            assert_eq!(node.slots[..used], slots);
            assert!(node.slots[used..].iter().all(|it| *it == 0));
            assert!(decode(6, &bytes).is_err());
            assert!(decode(5, &bytes[..bytes.len() - 4]).is_err());
        }
        let about = About {
            nid: 9,
            inode: 5,
            place: Place::INODE.child(4).packed(),
        };
        let bytes = encode(about, None, &[0, 3, 0]);
        assert_eq!(bytes.len(), HEADER_BYTES + 8);
        assert_eq!(decode(9, &bytes).unwrap().slots, [0, 3]);
    }
}
