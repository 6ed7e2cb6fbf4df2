//! The logs of other projects, each in a separate file, behind one small trait.
//!
//! They run unmodified, including their file code; [`calls`](super::calls) intercepts their writes
//! and flushes.

mod okaywal;
mod peer;
mod raft_engine;
mod wal_db;

pub use peer::{Peer, PeerKind};

/// All logs of other projects.
pub const PEERS: [PeerKind; 3] = [okaywal::KIND, raft_engine::KIND, wal_db::KIND];
