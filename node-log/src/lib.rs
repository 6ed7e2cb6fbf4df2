//! NVM node logging: file data in a log on a block device, nodes and their address table in
//! persistent memory.
//!
//! # The problem
//! A log-structured file system never overwrites data. F2FS keeps where a file's blocks are in
//! *nodes*, and where the nodes are in the *node address table* (NAT). An `fsync` that changes 8
//! bytes of a node writes 4 KiB of it to the disk. The NAT is written at checkpoints, which block
//! all writers. And a lock on the whole file lets one thread write at a time. Lee et al. ("Write
//! Optimization of Log-structured Flash File System for Parallel I/O on Manycore Servers",
//! SYSTOR '19, \[F2FS\]) replace the lock by a range lock, and keep nodes and NAT in persistent
//! memory. Noh and Kim (\[DNODE\]) find what limits the result: the lookup of nodes, which holds
//! each of them exclusively.
//!
//! This crate has the parts of both, and what they replace, so that they can be compared:
//!
//! | | replaced | by |
//! |---|---|---|
//! | lock of a file | any whole-range lock | any range lock |
//! | nodes and NAT | [`BlockHome`]: 4 KiB a node, checkpoints block writers | [`NvmHome`] |
//! | lookup of nodes | [`Lookup::Exclusive`] | [`Lookup::Shared`], [`Lookup::Optimistic`] |
//!
//! # Layers
//! A layer uses only the layers below it.
//!
//! ```text
//!   │  file          read, write, truncate; what an `fsync` is
//!   │  volume        files by name; commits and checkpoints; room and cleaning; opening, check
//!   │  tree          from a page to the slot of its block; adding and taking away nodes
//!   │  inode, nids   a file in memory; node ids
//!   │  cache         nodes in memory, and the ways to look one up
//!   │  home          nodes and NAT on their medium: `nvm` or `block`
//!   │  node          what a node is, byte by byte
//!   ▼  log, device   segments of blocks, and their bytes
//! ```
//!
//! `docs/format.md` says what is on the media, and what a crash leaves.
//!
//! # Locks
//! In this order; a thread that holds one takes only later ones.
//!
//! 1. The right to clean.
//! 2. A file's range lock. A thread holds one range of one file.
//! 3. The checkpoint lock, shared by all changes, if the home's checkpoints block writers.
//! 4. The mutex under which a file is committed or removed.
//! 5. The mutex of a file's tree.
//! 6. The mutexes and latches of the cache; then those of the names, of a file's changes, of node
//!    ids and of the log. No thread holds two of the latter.
//!
//! # What is durable when
//! Changes of a file, its name included, are durable when an [`fsync`](File::fsync) returns, all or
//! nothing; if it changes very many nodes, see [`NvmHome`]. A removal is durable at once
//! ([`Removal::Durable`]), or at the next checkpoint. Data that was not synced may be lost, but no
//! page is ever found in part. Which files are named by two inodes after a crash, and which
//! of the two wins, says `docs/format.md`.

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

/// What the models of this crate check by itself.
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
