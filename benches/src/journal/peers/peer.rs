//! The parts that all logs of other projects share.

use std::path::Path;

use anyhow::Result;

/// An open log of another project.
pub trait Peer: Send + Sync {
    /// Appends a record. Returns once the log reports it as durable.
    ///
    /// # Errors
    /// The log's error.
    fn append_durable(&self, record: &[u8]) -> Result<()>;

    /// Performs the maintenance that the log requires of its user, so that it does not grow for
    /// ever.
    ///
    /// # Errors
    /// The log's error.
    fn tidy(&self) -> Result<()> {
        Ok(())
    }

    /// Ends the log as its documentation requires. Dropping a log instead leaves it almost as a
    /// crash would.
    ///
    /// # Errors
    /// The log's error.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A log of another project that is not open yet.
#[derive(Clone, Copy)]
pub struct PeerKind {
    /// The name of the crate.
    pub name: &'static str,
    /// The version that is measured.
    pub version: &'static str,
    /// How the log is used here.
    pub about: &'static str,
    /// Opens or creates the log in an existing folder.
    pub open: fn(&Path) -> Result<Box<dyn Peer>>,
    /// Opens the files in a folder as after a crash and returns all recovered records. Call it only
    /// once: okaywal discards the records that it has handed over.
    pub records: fn(&Path) -> Result<Vec<Vec<u8>>>,
}
