//! Nodes in blocks, as F2FS has them.

use spanlock_journal_commit::Storage;

/// See the [module](self).
pub struct BlockHome<N> {
    storage: N,
}

impl<N: Storage> BlockHome<N> {}
