//! How a log is created and used.

use super::Error;

/// When a leader of the group commit starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupCommit {
    /// At once.
    Plain,
    /// When the threads that the last flush woke have returned, if waiting pays: see
    /// [`rendezvous`](super::rendezvous).
    #[default]
    Rendezvous,
}

/// How a log is created and used.
///
/// ```
/// use spanlock_journal_commit::compact::{GroupCommit, Options};
///
/// let options = Options::new().group_commit(GroupCommit::Plain).block_bytes(4096);
/// assert_ne!(options, Options::default());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub(super) block_bytes: u64,
    pub(super) batch_bytes: usize,
    pub(super) group_commit: GroupCommit,
}

impl Options {
    /// Blocks of 512 bytes, batches of up to 1 MiB, rendezvous.
    pub fn new() -> Self {
        Options {
            block_bytes: 512,
            batch_bytes: 1 << 20,
            group_commit: GroupCommit::default(),
        }
    }

    /// Sets the size to which batches are rounded up, so that no two share a block: 512, 1024, 2048
    /// or 4096 bytes, no less than the device's sector. It is fixed when the log is created;
    /// opening uses the log's own.
    pub fn block_bytes(mut self, bytes: u64) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// Sets the number of bytes up to which records collect in a batch. A larger record gets a
    /// batch of its own.
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// Sets when a leader starts.
    pub fn group_commit(mut self, group_commit: GroupCommit) -> Self {
        self.group_commit = group_commit;
        self
    }

    pub(super) fn check_block(&self) -> Result<(), Error> {
        if is_block(self.block_bytes) {
            return Ok(());
        }
        Err(Error::BadOption {
            what: "block_bytes",
            found: self.block_bytes,
            wanted: "512, 1024, 2048 or 4096",
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

pub(super) fn is_block(bytes: u64) -> bool {
    (512..=4096).contains(&bytes) && bytes.is_power_of_two()
}
