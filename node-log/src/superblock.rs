//! The superblock of a half: which volume it belongs to, and where its parts are.

use crate::error::Error;
use crate::home::Identity;

/// The bytes of a superblock: one sector, which a crash keeps or loses as a whole.
pub(crate) const SUPERBLOCK_BYTES: usize = 512;

/// What a half says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) identity: Identity,
    /// Eight numbers whose meaning the half defines: sizes and positions.
    pub(crate) numbers: [u64; 8],
}

impl Superblock {
    /// Returns the sector. `magic` names the kind of half.
    pub(crate) fn encode(&self, _magic: &[u8; 8]) -> [u8; SUPERBLOCK_BYTES] {
        todo!()
    }

    /// Reads a superblock. `Ok(None)`: all zeros, so nothing was ever written.
    pub(crate) fn decode(_sector: &[u8], _magic: &[u8; 8]) -> Result<Option<Superblock>, Error> {
        todo!()
    }
}

/// Checks that the data half and the node half belong together (`docs/format.md`, P1 to P3).
pub(crate) fn check_pair(_data: Identity, _nodes: Identity) -> Result<(), Error> {
    todo!()
}
