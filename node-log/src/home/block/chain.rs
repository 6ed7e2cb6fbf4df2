//! The chain of nodes that were committed since the last checkpoint.
//!
//! The header of each node in the node log has the number of the block for the next node, and a
//! word with a sequence number:
//!
//! ```text
//! bits  0..48  the sequence number
//! bits 48..63  how many nodes the same write put before this one; all ones: 32,767 or more
//! bit  63      set in the last node of a commit
//! ```
//! A block continues the chain if its checksum is right and its sequence number is the expected
//! one. A volume begins with a number that depends on its id, and each opening skips as many
//! numbers as the log has blocks. So neither a node of an earlier volume, nor one of an interrupted
//! commit, fits a later chain.

use crc32c::crc32c;

use super::pack::{seal, u32_at, u64_at};
use crate::node::{BLOCK_BYTES, Block, HEADER_BYTES, Nid};

const NUMBER: u64 = (1 << 48) - 1;
const MANY: u64 = (1 << 15) - 1;
const LAST: u64 = 1 << 63;

/// The header of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) nid: Nid,
    /// The length of the node in bytes.
    pub(super) used: usize,
    /// The block for the next node.
    pub(super) next: Block,
    pub(super) number: u64,
    /// Nodes of the same write before this one. `None`: too many to say.
    before: Option<u64>,
    /// Whether the node is the last one of its commit.
    pub(super) is_last: bool,
}

impl Link {
    /// Reads the header of a node that is not damaged.
    pub(super) fn of(block: &[u8]) -> Option<Link> {
        let used = used(block);
        if !(HEADER_BYTES..=BLOCK_BYTES).contains(&used)
            || u32_at(block, 0) != crc32c(&block[4..used])
        {
            return None;
        }
        let sequence = u64_at(block, 24);
        let before = sequence >> 48 & MANY;
        Some(Link {
            nid: u32_at(block, 4),
            used,
            next: u32_at(block, 20),
            number: sequence & NUMBER,
            before: (before < MANY).then_some(before),
            is_last: sequence & LAST != 0,
        })
    }

    /// Returns whether the node with this number was durable before this one was written. `blocks`
    /// is the size of the log: the numbers in one chain do not differ by more.
    pub(super) fn follows(&self, number: u64, blocks: u64) -> bool {
        self.before.is_some_and(|before| {
            let distance = after(self.number, NUMBER - number + 1);
            (before + 1..=blocks).contains(&distance)
        })
    }
}

/// Completes the header of a node. The same write puts `before` nodes before it.
pub(super) fn link(node: &mut [u8], next: Block, number: u64, before: usize, is_last: bool) {
    let before = (before as u64).min(MANY) << 48;
    let sequence = number | before | if is_last { LAST } else { 0 };
    node[20..24].copy_from_slice(&next.to_le_bytes());
    node[24..32].copy_from_slice(&sequence.to_le_bytes());
    let used = used(node);
    seal(&mut node[..used]);
}

/// Returns the length of a node in bytes.
fn used(node: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([node[14], node[15]]))
}

/// Returns the number that is `steps` after `number`.
pub(super) fn after(number: u64, steps: u64) -> u64 {
    number.wrapping_add(steps) & NUMBER
}

/// Returns the first number of a volume.
pub(super) fn first(volume: u128) -> u64 {
    volume as u64 & NUMBER
}
