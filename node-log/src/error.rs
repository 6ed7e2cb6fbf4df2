//! The errors of a volume.

use std::io;
use std::sync::Arc;

use spanlock_range_lock::RangeError;
use thiserror::Error;

use crate::node::Nid;

/// Why an operation failed. A failed operation changes nothing, with two exceptions. A write that
/// cannot read a node may be done in part. If a flush, or a write of nodes, fails, nothing becomes
/// durable from then on: see [`Failed`](Error::Failed).
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    // Files.
    /// There is no file of this name.
    #[error("there is no file `{name}`")]
    NotFound {
        /// The name.
        name: Arc<str>,
    },
    /// There is a file of this name.
    #[error("there is a file `{name}` already: open it, or remove it first")]
    Exists {
        /// The name.
        name: Arc<str>,
    },
    /// The name cannot be used.
    #[error("`{name}` cannot name a file: a name has 1 to 255 bytes, and neither `/` nor NUL")]
    BadName {
        /// The name.
        name: Arc<str>,
    },
    /// The file was removed after this handle was made.
    #[error("the file `{name}` was removed")]
    Removed {
        /// The name that it had.
        name: Arc<str>,
    },
    /// The file cannot become that large.
    #[error("a file cannot have {end} bytes: the most is {most}")]
    TooLarge {
        /// The size that it would have, in bytes.
        end: u64,
        /// The largest size of a file, in bytes.
        most: u64,
    },
    /// The range lock of a file refused a request.
    #[error("the file's range lock refused: {0}")]
    Lock(#[from] RangeError),

    // The volume.
    /// The volume was opened only for reading.
    #[error("the volume is open only for reading")]
    ReadOnly,
    /// An earlier flush, or a write of nodes, failed. From then on every change fails, and nothing
    /// becomes durable until the volume is opened again. Files can still be read.
    #[error("an earlier operation failed, so nothing more becomes durable: {first}")]
    Failed {
        /// The first failure.
        first: Arc<str>,
    },
    /// The data log has no room.
    #[error(
        "the data log is full: a request needs {needed} blocks, and {room} are free after \
         cleaning; remove or truncate files"
    )]
    Full {
        /// The blocks that the request needs.
        needed: u64,
        /// The blocks that are free.
        room: u64,
    },
    /// No node id is free.
    #[error(
        "all {nodes} nodes are in use: remove or truncate files, or create a volume with more nodes"
    )]
    NoNodes {
        /// The number of node ids. Id 0 names no node.
        nodes: u32,
    },
    /// A node is missing, or contradicts the node that names it.
    #[error(
        "the volume is damaged: node {nid} in the node half: {what}; open the volume read-only to \
         save the other files"
    )]
    DamagedNode {
        /// The node.
        nid: Nid,
        /// What is wrong with it.
        what: &'static str,
    },

    // The halves.
    /// The node half has no room for the nodes of a commit. Nothing was changed.
    #[error(
        "the node half has no room for {needed} bytes of nodes: remove files, or create the volume \
         with a larger node half"
    )]
    NodesFull {
        /// The bytes of all nodes of the commit; in persistent memory, of the one that does not
        /// fit.
        needed: u64,
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
    /// The medium for a new half already holds a volume, or other data.
    #[error("the {half} already holds a volume or other data: open it, or clear its start first")]
    Occupied {
        /// The half of the volume.
        half: &'static str,
    },
    /// A half does not begin with a superblock, or its creation was interrupted.
    #[error(
        "the {half} holds no volume: it does not begin with the superblock of one; open the right \
         file, or create a volume"
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
    /// The two halves belong to different volumes.
    #[error(
        "the two halves are of different volumes: the data half of {data:032x}, the node half of \
         {nodes:032x}; open each with its own other half"
    )]
    Strangers {
        /// The id of the data half's volume.
        data: u128,
        /// The id of the node half's volume.
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
    /// A medium does not hold what was written there.
    #[error("the volume is damaged: {what}, at byte {at} of the {half}; restore it from a copy")]
    Corrupt {
        /// What is damaged.
        what: &'static str,
        /// The half of the volume.
        half: &'static str,
        /// The offset of the damage in bytes.
        at: u64,
    },
    /// A medium failed.
    #[error("{what} failed: {source}")]
    Io {
        /// What the volume was doing.
        what: &'static str,
        /// The medium's error.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// Returns whether the node half is full, so that the same commit may succeed later.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Error::NodesFull { .. })
    }

    /// For `map_err`.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            what,
            source: Arc::new(source),
        }
    }
}
