//! The errors of a volume.

use std::io;
use std::sync::Arc;

use thiserror::Error;

/// Why an operation failed. An operation that fails changes nothing, except as
/// [`Failed`](Error::Failed) says.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A medium failed.
    #[error("{what} failed: {source}")]
    Io {
        /// What the volume was doing.
        what: &'static str,
        /// The medium's error.
        source: Arc<io::Error>,
    },
    /// An earlier write of metadata, or a flush, failed. From then on nothing becomes durable, and
    /// nothing is acknowledged. What was durable before can still be read.
    #[error("an earlier operation failed, so nothing more becomes durable: {first}")]
    Failed {
        /// The first failure.
        first: Arc<str>,
    },
    /// A medium does not hold what was written there.
    #[error("the volume is damaged: {what}, at byte {at} of the {half}; restore it from a copy")]
    Corrupt {
        /// What is damaged.
        what: &'static str,
        /// The half of the volume.
        half: &'static str,
        /// The byte.
        at: u64,
    },
    /// A half that was to be created holds a volume, or other data.
    #[error("the {half} already holds a volume or other data: open it, or clear its start first")]
    Occupied {
        /// The half of the volume.
        half: &'static str,
    },
    /// A medium is too small for what was asked, or was truncated.
    #[error("the {half} has {found} bytes, but needs {needed}")]
    TooSmall {
        /// The half of the volume.
        half: &'static str,
        /// The bytes that it needs.
        needed: u64,
        /// The bytes that it has.
        found: u64,
    },
    /// An option cannot be used.
    #[error("{what} is {found}, but must be {wanted}")]
    BadOption {
        /// The option.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The values it may have.
        wanted: &'static str,
    },
    /// The node half has no room for the nodes of a commit. Nothing was changed.
    #[error(
        "the node half has no room for {needed} bytes of nodes: remove files, or create the volume \
         with a larger node half"
    )]
    NodesFull {
        /// The bytes of the nodes.
        needed: u64,
    },
    /// A half begins with something else.
    #[error(
        "the {half} holds other data: it does not begin with the superblock of one; open the right \
         file, or clear it to create a volume there"
    )]
    NotAVolume {
        /// The half of the volume.
        half: &'static str,
    },
    /// Another version of this crate wrote a half.
    #[error("the {half} has format version {found}, but this build reads version {supported}")]
    Version {
        /// The half of the volume.
        half: &'static str,
        /// The version in its superblock.
        found: u32,
        /// The version that this build reads and writes.
        supported: u32,
    },
    /// The two halves are of different volumes.
    #[error(
        "the two halves are of different volumes: the data half of {data:032x}, the node half of \
         {nodes:032x}; open each with its own other half"
    )]
    Strangers {
        /// The volume that the data half belongs to.
        data: u128,
        /// The volume that the node half belongs to.
        nodes: u128,
    },
    /// One half is older than the other.
    #[error(
        "the {half} is older than the other by {openings} opening(s) for writing: find its newest \
         copy; opened read-only, the volume would show {shown}"
    )]
    Older {
        /// The half that is older.
        half: &'static str,
        /// How many openings for writing it has missed.
        openings: u64,
        /// What a read-only opening would show.
        shown: &'static str,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            what,
            source: Arc::new(source),
        }
    }
}
