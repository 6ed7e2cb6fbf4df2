//! NVM node logging: file data in a log on a block device, nodes and their address table in
//! persistent memory.
//!
//! # The problem
//! A log-structured file system never overwrites data. In F2FS, *nodes* name a file's blocks, and
//! the *node address table* (NAT) says where each node is. An `fsync` that changes 8 bytes of a
//! node writes 4 KiB to the disk. Checkpoints write the NAT, and block all writers meanwhile. A
//! lock on the whole file lets only one thread write at a time.
//!
//! Lee et al. ("Write Optimization of Log-structured Flash File System for Parallel I/O on Manycore
//! Servers", SYSTOR '19, \[F2FS\]) replace that lock with a range lock (§3.2), and keep nodes and
//! NAT in persistent memory (§3.3 to 3.5). Noh and Kim ("Scalability Analysis of F2FS for
//! Concurrent Writes on Shared Files on Manycore servers", \[DNODE\]) find that the result scales
//! only to 15 of 120 cores, because a lookup locks each node exclusively.
//!
//! This crate implements both remedies and what they replace, so that each can be compared:
//!
//! | | replaced | by |
//! |---|---|---|
//! | lock of a file | any whole-range lock | any range lock |
//! | nodes and NAT | [`BlockHome`]: 4 KiB a node, checkpoints block writers | [`NvmHome`] |
//! | lookup of nodes | [`Lookup::Exclusive`] | [`Lookup::Shared`], [`Lookup::Optimistic`] |
//!
//! # Layers
//! A layer calls only the layers below it.
//!
//! ```text
//!   │  file          reading, writing, truncating, syncing
//!   │  volume        files by name; commits and checkpoints; room and cleaning; opening, check
//!   │  tree          finding the slot of a page; adding and deleting nodes
//!   │  inode, nids   a file in memory; node ids
//!   │  cache         nodes in memory, and the ways to look one up
//!   │  home          nodes and NAT on their medium: `nvm` or `block`
//!   │  node          the bytes of a node
//!   ▼  log, device   allocating blocks; reading, writing and flushing them
//! ```
//!
//! `docs/format.md` describes what is on the media, and what a crash leaves.
//!
//! # Lock order
//! A thread that holds one of these takes only later ones.
//!
//! 1. The mutex of cleaning.
//! 2. A file's range lock. A thread holds one range of one file.
//! 3. The checkpoint lock, which all changes share, if the home's checkpoints block writers.
//! 4. The mutex under which a file is committed or removed.
//! 5. The mutex of a file's tree.
//! 6. The mutex of the names.
//! 7. The mutexes and latches of the cache, in the order that `cache` documents.
//! 8. Those of a file's changes, of the node ids, of the log and of the home. Only the home holds
//!    one of its own while it takes another.
//!
//! # What is durable when
//! An [`fsync`](File::fsync) makes all changes of a file durable, its name included, all or nothing
//! (for an exception, see [`NvmHome`]). A removal is durable when it returns, or at the next
//! checkpoint: see [`Removal`]. A crash may lose data that was not synced, but each page is found
//! as one write left it, never in part. If two files have one name after a crash, `docs/format.md`
//! says which one keeps it.

mod cache;
mod device;
mod error;
mod file;
mod home;
mod inode;
mod log;
mod nids;
mod node;
mod options;
mod rendezvous;
mod superblock;
mod tree;
mod volume;

pub use cache::Lookup;
pub use device::DataDurable;
pub use error::Error;
pub use file::{File, MAX_BYTES as MAX_FILE_BYTES};
pub use home::block::BlockHome;
pub use home::nvm::{Nvm, NvmHome};
pub use home::{Change, Home, Identity, Persisted, Removal, Stored};
pub use node::{BLOCK_BYTES, Block, Nid};
pub use options::Options;
pub use volume::{BlockVolume, NvmVolume, Report, Statistics, Volume};

/// The parts that the models of this crate check on their own.
#[doc(hidden)]
pub mod raw {
    pub use crate::cache::{About, Cache, Captured, Lookup, Replaced};
    pub use crate::device::DataDevice;
    pub use crate::log::{Heat, Log, Owner, Room};
    pub use crate::rendezvous::Rendezvous;
}

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
