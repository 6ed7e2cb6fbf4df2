//! Nodes: what a file's nodes are, and their bytes.
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
//! double-indirect), length of the name u8 and 3 zeros, the name padded to a multiple of 4, and the
//! slots. The body of any other node: its slots. A slot is the u32 number of a block or of a node,
//! and 0 is none. Slots at the end that are 0 are left out.

/// The bytes of a block, and of the largest node.
pub const BLOCK_BYTES: usize = 4096;
/// The bytes of a node's header.
pub const HEADER_BYTES: usize = 32;
/// The blocks that an inode names directly.
pub const INODE_SLOTS: usize = 923;
/// The children of an inode: two direct nodes, two indirect ones, one double-indirect one.
pub const CHILDREN: usize = 5;
/// The slots of a direct or an indirect node.
pub const NODE_SLOTS: usize = (BLOCK_BYTES - HEADER_BYTES) / 4;

/// A node id. 0 is none.
pub type Nid = u32;
/// The number of a block in the data log. 0 is none.
pub type Block = u32;
