//! The data half: blocks, and the flush whose token a commit needs.

use spanlock_journal_commit::Storage;

use crate::error::Error;
use crate::node::Block;

/// The proof that the data written before a [flush](DataDevice::flush) is durable. Only that flush
/// makes one, and a commit of nodes takes one, so nodes cannot become durable before the data that
/// they name.
#[must_use]
#[derive(Debug)]
pub struct DataDurable(());

/// The blocks of the data log.
pub(crate) struct DataDevice<S> {
    storage: S,
}

impl<S: Storage> DataDevice<S> {
    pub(crate) fn new(storage: S) -> Self {
        DataDevice { storage }
    }

    pub(crate) fn storage(&self) -> &S {
        &self.storage
    }

    /// Fills `into` with the bytes at `offset` of consecutive blocks that begin with `block`.
    pub(crate) fn read(
        &self,
        _block: Block,
        _offset: usize,
        _into: &mut [u8],
    ) -> Result<(), Error> {
        todo!()
    }

    /// Writes whole consecutive blocks.
    pub(crate) fn write(&self, _block: Block, _data: &[u8]) -> Result<(), Error> {
        todo!()
    }

    /// Makes durable every write that returned before this call. Threads that flush at the same
    /// time share the flush of the medium. The first failure is final.
    pub(crate) fn flush(&self) -> Result<DataDurable, Error> {
        todo!()
    }
}
