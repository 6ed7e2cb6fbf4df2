//! The errors of a store.

use thiserror::Error;

use crate::space;

/// Why an operation of a [`Store`](crate::Store) failed. An operation that fails changes nothing,
/// except as [`space::Error::Failed`] says.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The space failed, or refused the request.
    #[error(transparent)]
    Space(#[from] space::Error),
    /// The space holds no store.
    #[error("no store here: the space begins with zeros; create a store, or open the right space")]
    NotAStore,
    /// The space already holds a store, or other data.
    #[error("the space already holds a store or other data: open it, or trim the space first")]
    Occupied,
    /// Another version of this crate wrote the store.
    #[error("the store has format version {found}, but this build reads version {supported}")]
    Version {
        /// The version in the super region.
        found: u32,
        /// The version that this build reads and writes.
        supported: u32,
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
    /// The space does not hold what was written there.
    #[error("the store is damaged: {what}, at address {at} of the space; restore it from a copy")]
    Corrupt {
        /// What is damaged.
        what: &'static str,
        /// The address of the damage in the space.
        at: u64,
    },
    /// No object has this id: it was never created or pre-created, or it was deleted.
    #[error("there is no object {id}: it was never created, or it was deleted")]
    UnknownId {
        /// The id.
        id: u64,
    },
    /// The write would end past the object's [capacity](crate::Store::capacity).
    #[error(
        "object {id} cannot have bytes up to {end}, because its region has room for {capacity}: \
         split it, or create a store with larger regions"
    )]
    TooLarge {
        /// The id.
        id: u64,
        /// Where the write would end.
        end: u64,
        /// The most bytes that an object can have.
        capacity: u64,
    },
    /// The store keeps no versions.
    #[error("the store keeps no versions: create one in `Mode::Versions`")]
    NoVersions,
    /// A batch of changes cannot write in version mode.
    #[error("a batch of changes makes no versions: write the object by `write_version`")]
    MakesNoVersion,
    /// The object has no such version: it was reclaimed, rolled back, or never made.
    #[error(
        "object {id} has no version {version}: it was reclaimed, rolled back or never made; the \
         oldest that can be read is {oldest}"
    )]
    UnknownVersion {
        /// The id.
        id: u64,
        /// The version.
        version: u64,
        /// The oldest version that can be read.
        oldest: u64,
    },
    /// The log has no room for a version, because an older one is retained.
    #[error(
        "the versions of object {id} from {retained} on are retained, and its log has no room for \
         another: release some, or create a store with a larger log"
    )]
    Retained {
        /// The id.
        id: u64,
        /// The oldest version that is retained.
        retained: u64,
    },
    /// A write changes more blocks than the log of versions can keep.
    #[error(
        "a write to object {id} changes {needed} blocks of content, but its log of versions keeps \
         at most {most}: split it, or create a store with a larger log"
    )]
    LogTooSmall {
        /// The id.
        id: u64,
        /// The blocks of content that the write changes.
        needed: u64,
        /// The most blocks that one entry of the log can have.
        most: u64,
    },
    /// A batch names an object twice.
    #[error("two changes of one batch concern object {id}: make one change of them")]
    Repeated {
        /// The id.
        id: u64,
    },
    /// All ids were given out.
    #[error("all {regions} ids were given out: create a store with smaller regions")]
    NoIds {
        /// The number of ids.
        regions: u64,
    },
}
