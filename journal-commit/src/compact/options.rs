//! Options of a log.

use super::Error;

/// When the leader of a group commit starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupCommit {
    /// At once.
    Plain,
    /// After a short wait for the threads that the last flush woke, if such waits have paid off:
    /// see [`rendezvous`](super::rendezvous).
    #[default]
    Rendezvous,
}

/// Options with which a log is created or opened.
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
    pub(super) id: Option<u64>,
}

impl Options {
    /// Returns the defaults: blocks of 512 bytes, batches of up to 1 MiB, the rendezvous,
    /// and a random id.
    pub fn new() -> Self {
        Options {
            block_bytes: 512,
            batch_bytes: 1 << 20,
            group_commit: GroupCommit::default(),
            id: None,
        }
    }

    /// Sets the block size: 512, 1024, 2048 or 4096 bytes, but no less than the device's sector.
    /// Batches are rounded up to whole blocks, so that no two share a block. The size is fixed when
    /// the log is created; opening an existing log ignores this option.
    pub fn block_bytes(mut self, bytes: u64) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// Sets the maximum size of a batch of several records, in bytes. A larger record gets a batch
    /// of its own.
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// Sets when a leader starts its flush.
    pub fn group_commit(mut self, group_commit: GroupCommit) -> Self {
        self.group_commit = group_commit;
        self
    }

    /// Sets the id of a log that is created, instead of a random number. Equal operations then
    /// leave equal bytes. Opening an existing log ignores this option.
    ///
    /// The id distinguishes the log's batches from those of an older log in the same storage. So if
    /// you set the id, the whole storage must be zero when the log is created.
    pub fn id(mut self, id: u64) -> Self {
        self.id = Some(id);
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

/// The block sizes that a log can have.
pub(super) const BLOCKS: [u64; 4] = [512, 1024, 2048, 4096];

pub(super) fn is_block(bytes: u64) -> bool {
    BLOCKS.contains(&bytes)
}
