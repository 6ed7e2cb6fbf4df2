//! The errors of a journal.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::format::Tid;

/// Why an operation on a journal failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The place does not begin with a journal's superblock.
    #[error(
        "no journal here: byte {offset} has {found:#010x} instead of JBD2's magic {magic:#010x}; \
         format this place, or pass the place where the journal is",
        magic = super::format::MAGIC
    )]
    NotAJournal {
        /// The byte offset at which the superblock should be.
        offset: u64,
        /// The bytes found there, big-endian.
        found: u32,
    },
    /// There is a journal already, so none may be formatted in its place.
    #[error(
        "there is a journal here already, perhaps with changes that are not at home yet: open it; \
         to replace it, format with `FormatOptions::overwrite`"
    )]
    Occupied,
    /// The journal uses features that this build does not know.
    #[error(
        "the journal has {kind} features {bits:#x} that this build does not know: \
         recover it with the program that wrote it (a newer Linux or e2fsprogs), or with a newer build"
    )]
    Newer {
        /// The feature set that contains them.
        kind: &'static str,
        /// The unknown features.
        bits: u32,
    },
    /// The journal's block size differs from the caller's.
    #[error("the journal has blocks of {found} bytes, not {expected}: open it with {found}")]
    BlockSize {
        /// The block size in the superblock.
        found: u32,
        /// The block size that the caller gave.
        expected: u32,
    },
    /// No journal has this block size.
    #[error("blocks of {found} bytes: the block size must be a power of two from 1024 to 65536")]
    BadBlockSize {
        /// The block size that the caller gave.
        found: u32,
    },
    /// The log has no room for one transaction.
    #[error("a log of {blocks} blocks is too small for one transaction: it needs {least}")]
    TooSmall {
        /// The number of blocks from the log's first to its last.
        blocks: u64,
        /// The number of blocks that a log needs.
        least: u64,
    },
    /// The place has fewer blocks than the superblock says.
    #[error(
        "the journal has {promised} blocks, but its place has only {found}: \
         the storage was cut short, or the place is incomplete"
    )]
    Truncated {
        /// The number in the superblock.
        promised: u64,
        /// The number in the place.
        found: u64,
    },
    /// The place reaches beyond the storage.
    #[error(
        "the journal's place has blocks {first}..{end}, but the storage ends at block {blocks}: \
         correct the place"
    )]
    BadPlace {
        /// The extent's first block.
        first: u64,
        /// One past its last block.
        end: u64,
        /// The number of blocks in the storage.
        blocks: u64,
    },
    /// Two extents of the place share blocks.
    #[error("two extents of the journal's place share blocks {first}..{end}: correct the place")]
    Overlap {
        /// The first shared block.
        first: u64,
        /// One past the last shared block.
        end: u64,
    },
    /// A checksum or a field in the log is wrong in a way that no crash explains.
    #[error(
        "the journal is damaged: {what}, in block {block} of the log, transaction {tid}; \
         nothing was replayed"
    )]
    Damaged {
        /// A description of the damage.
        what: &'static str,
        /// The number of the block in the log.
        block: u32,
        /// The transaction that was expected there.
        tid: Tid,
    },
    /// The superblock's checksum or one of its fields is wrong.
    #[error("the journal's superblock is damaged: {what}")]
    BadSuperblock {
        /// A description of the damage.
        what: &'static str,
    },
    /// The ext4 file system in the storage that the journal protects has a superblock with a wrong
    /// checksum.
    #[error(
        "the ext4 file system at home is damaged: its superblock's checksum is wrong; \
         repair it with e2fsck first"
    )]
    BadFileSystem,
    /// The ext4 file system in the storage that the journal protects reaches beyond this storage.
    #[error(
        "the ext4 file system at home has {promised} blocks, says its superblock at byte 1024, but \
         the storage at home has only {found}: pass all of the file system as home, or erase the \
         superblock if it is a remnant"
    )]
    FileSystemCutShort {
        /// The number of blocks in the file system's superblock.
        promised: u64,
        /// The number of blocks in the storage.
        found: u64,
    },
    /// The block is not on the device.
    #[error("block {block} is outside the device, which has {blocks} blocks")]
    OutOfDevice {
        /// The number of the block.
        block: u64,
        /// The number of blocks on the device.
        blocks: u64,
    },
    /// The block's number does not fit into the journal's tags.
    #[error(
        "block {block} needs more than 32 bits, which this journal does not store: \
         format it again, or set its feature 64BIT"
    )]
    TooFar {
        /// The number of the block.
        block: u64,
    },
    /// The buffer does not have the size of a block.
    #[error("the buffer has {found} bytes, but a block of this journal has {expected}")]
    BufferSize {
        /// The length of the buffer.
        found: usize,
        /// The length of a block.
        expected: usize,
    },
    /// A handle asked for more credits than a transaction can have.
    #[error(
        "a handle asked for {asked} credits, but a transaction of this journal has at most {most}: \
         split the work, or make a larger journal"
    )]
    TooManyCredits {
        /// The number of credits that the handle asked for.
        asked: u32,
        /// The most credits that a transaction can have.
        most: u32,
    },
    /// A handle has used up its credits.
    #[error(
        "the handle has used up its {credits} credits (block {block} is unchanged): \
         extend or restart it, or begin it with more"
    )]
    NoCredits {
        /// The credits with which the handle began, and those that it was given since.
        credits: u32,
        /// The block for which no credit was left.
        block: u64,
    },
    /// A handle asked for a block whose holder waits for this handle, perhaps by way of others.
    #[error(
        "two handles wait for blocks of each other: this one asked for block {block}; \
         drop the handle and begin again, or take blocks in ascending order everywhere"
    )]
    Deadlock {
        /// The number of the block.
        block: u64,
    },
    /// A handle asked for a block that it is changing already.
    #[error("the handle is changing block {block} already: end that change with `dirty` first")]
    AlreadyTaken {
        /// The number of the block.
        block: u64,
    },
    /// The transaction has not begun.
    #[error("transaction {tid} has not begun: the next one is {next}")]
    NoSuchTransaction {
        /// The transaction that the caller named.
        tid: Tid,
        /// The running transaction, or the next one to begin.
        next: Tid,
    },
    /// An earlier failure has poisoned the journal: nothing is committed any more.
    #[error("the journal is poisoned ({0}): open it again to recover everything committed")]
    Poisoned(#[source] Failure),
    /// The storage failed while a journal was being formatted, opened or read. If opening or
    /// reading failed, nothing is lost. If formatting failed, an earlier log may have been
    /// overwritten.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The storage's error.
        source: Arc<io::Error>,
    },
}

/// The failure that poisoned a journal.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The operation that failed.
    pub doing: &'static str,
    /// The storage's error, if there was one.
    pub source: Option<Arc<io::Error>>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{} failed: {source}", self.doing),
            None => f.write_str(self.doing),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|it| it as _)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Poisoned(failure)
    }
}

impl Error {
    /// Returns a function that turns a storage's error into this type.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            doing,
            source: Arc::new(source),
        }
    }
}

/// Turns a storage's error into a failure of the operation `doing`.
pub(crate) fn failed(doing: &'static str, result: io::Result<()>) -> Result<(), Failure> {
    result.map_err(|source| Failure {
        doing,
        source: Some(Arc::new(source)),
    })
}
