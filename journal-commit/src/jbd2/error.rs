//! What can go wrong with a journal: one error for the whole module.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::format::Tid;

/// Why an operation on a journal did nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is something else where the superblock should be.
    #[error(
        "no journal here: byte {offset} has {found:#010x} instead of JBD2's magic {magic:#010x}; \
         format the place, or name the one where the journal is",
        magic = super::format::MAGIC
    )]
    NotAJournal {
        /// Where it was looked for, in bytes.
        offset: u64,
        /// What is there, big-endian.
        found: u32,
    },
    /// The journal uses features that this build does not know.
    #[error(
        "the journal has {kind} features {bits:#x} that this build does not know: \
         recover it with what wrote it (a newer Linux or e2fsprogs), or with a newer build"
    )]
    Newer {
        /// Which set they are in.
        kind: &'static str,
        /// The unknown ones.
        bits: u32,
    },
    /// The journal's blocks have another size than the caller said.
    #[error("the journal has blocks of {found} bytes, not {expected}: open it with that size")]
    BlockSize {
        /// In the superblock.
        found: u32,
        /// What the caller said.
        expected: u32,
    },
    /// A block size that no journal has.
    #[error("blocks of {found} bytes: a journal has 1024 to 65536, a power of two")]
    BadBlockSize {
        /// What the caller said.
        found: u32,
    },
    /// The log has no room for one transaction.
    #[error("a log of {blocks} blocks is too small for one transaction: it needs {least}")]
    TooSmall {
        /// Blocks it has, without those before its first.
        blocks: u64,
        /// Blocks it needs.
        least: u64,
    },
    /// The place has fewer blocks than the superblock says.
    #[error(
        "the journal has {promised} blocks, but its place only {found}: it was cut short, or the place is not all of it"
    )]
    Truncated {
        /// In the superblock.
        promised: u64,
        /// In the place.
        found: u64,
    },
    /// The place reaches beyond the storage.
    #[error(
        "blocks {first} to {end} of the journal's place lie beyond the storage, which has {blocks} blocks"
    )]
    BadPlace {
        /// First block of the extent.
        first: u64,
        /// One past its last.
        end: u64,
        /// Blocks in the storage.
        blocks: u64,
    },
    /// Two extents of the place share blocks.
    #[error("extents of the journal's place overlap: blocks {first} to {end} are in two of them")]
    Overlap {
        /// First block that is in both.
        first: u64,
        /// One past the last.
        end: u64,
    },
    /// The journal has a checksum, or a field, that no crash explains.
    #[error(
        "the journal is damaged: {what}, in block {block} of the log, transaction {tid}; nothing was replayed"
    )]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Which block of the log; 0 or 1 is the superblock.
        block: u32,
        /// The transaction that was expected there.
        tid: Tid,
    },
    /// The superblock's checksum or one of its fields is wrong.
    #[error("the journal's superblock is damaged: {what}")]
    BadSuperblock {
        /// What is wrong.
        what: &'static str,
    },
    /// A block that is not on the device.
    #[error("block {block} is outside of the device, which has {blocks} blocks")]
    OutOfDevice {
        /// Its number.
        block: u64,
        /// Blocks on the device.
        blocks: u64,
    },
    /// A block whose number does not fit into the journal's tags.
    #[error(
        "block {block} has a number of more than 32 bits, and this journal none of so many: format it anew, or set its feature 64BIT"
    )]
    TooFar {
        /// Its number.
        block: u64,
    },
    /// A buffer that has not the size of a block.
    #[error("a buffer of {found} bytes: the journal's blocks have {expected}")]
    BufferSize {
        /// Its length.
        found: usize,
        /// A block's.
        expected: usize,
    },
    /// A handle asked for more credits than a transaction can have.
    #[error(
        "{asked} credits for one handle: a transaction of this journal has at most {most}; split the work, or make a larger journal"
    )]
    TooManyCredits {
        /// Blocks asked for.
        asked: u32,
        /// Blocks a transaction can have.
        most: u32,
    },
    /// A handle has used up its credits.
    #[error(
        "the handle has used up its {credits} credits: begin it with more (block {block} is unchanged)"
    )]
    NoCredits {
        /// What it began with.
        credits: u32,
        /// The block that there was no credit for.
        block: u64,
    },
    /// There was no such transaction yet.
    #[error("transaction {tid} has not begun: the running one would be {next}")]
    NoSuchTransaction {
        /// The one asked for.
        tid: Tid,
        /// The one that is running, or comes next.
        next: Tid,
    },
    /// Something failed before, and nothing is committed any more.
    #[error("the journal is poisoned ({0}): open it again, which recovers all that was committed")]
    Poisoned(#[source] Failure),
    /// The storage failed while the journal was opened or read; nothing is lost by it.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The storage's error.
        source: Arc<io::Error>,
    },
}

/// What poisoned a journal.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was being done.
    pub doing: &'static str,
    /// The storage's error, if it was one.
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
    /// What turns a storage's error into ours.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            doing,
            source: Arc::new(source),
        }
    }
}
