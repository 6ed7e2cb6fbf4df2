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
