//! The logs that others make: each in a file of its own, behind one small trait.
//!
//! They run as they are, with their own files' code; [`calls`](super::calls) sees what they write and flush.

mod okaywal;
mod raft_engine;
mod wal_db;

use std::path::Path;

use anyhow::Result;

/// A log that others make, open in a folder.
pub trait Peer: Send + Sync {
    /// Appends a record, and returns when the log says that it is durable.
    ///
    /// # Errors
    /// What the log says.
    fn append_durable(&self, record: &[u8]) -> Result<()>;

    /// What the log leaves to its user from time to time, so that it does not grow for ever.
    ///
    /// # Errors
    /// What the log says.
    fn tidy(&self) -> Result<()> {
        Ok(())
    }

    /// Ends it as its documentation wants. A log that is dropped instead is left as by a crash, or nearly.
    ///
    /// # Errors
    /// What the log says.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// One of them, not open.
#[derive(Clone, Copy)]
pub struct Kind {
    /// As the crate is called.
    pub name: &'static str,
    /// That is measured.
    pub version: &'static str,
    /// How it is used here.
    pub about: &'static str,
    /// Opens the log in a folder that is there, or makes it.
    pub open: fn(&Path) -> Result<Box<dyn Peer>>,
    /// Opens what is in a folder as after a crash, and returns all records that are recovered. Once: okaywal gives up what it has handed over.
    pub records: fn(&Path) -> Result<Vec<Vec<u8>>>,
}

/// All.
pub const PEERS: [Kind; 3] = [okaywal::KIND, raft_engine::KIND, wal_db::KIND];
