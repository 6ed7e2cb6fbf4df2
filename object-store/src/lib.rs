//! A flat object store on a sparse address space: objects in regions of equal size, ids given out
//! without a shared lock, and every write all or nothing.
//!
//! # The problem
//! The storage node of a distributed system needs no names and no directories: others keep those.
//! It needs to create objects on many cores at once, and to write them atomically. Takatsu, Hiraga
//! and Tatebe ("Design of object storage using OpenNVM for high-performance distributed file
//! system") build such a store on a device that maps a sparse address space to flash and writes
//! batches of blocks atomically. Then an object's id is the number of its region, no lookup is
//! needed, and no write needs a second one to be atomic.
//!
//! Few devices have such an interface. This crate has it in software, over a sparse file or over
//! persistent memory, and the store on top of it.
//!
//! # Layers
//! A layer uses only the layers below it.
//!
//! ```text
//!   │  store         objects: create, read, write, delete, list
//!   │    versions    version mode: what objects were
//!   │    check       whether all of the store fits together
//!   │  ids           which ids may be given out
//!   │  regions       where an object's head and data lie in the space
//!   │  space         a sparse address space with atomic batches: `read`, `write_batch`, `trim`
//!   │    check       whether map, table and free places agree; reading all data
//!   │    held        one request: its range held, its batch planned, written and committed
//!   │    commits     numbers of commits, rings, the checkpoint
//!   │    recovery    what the medium has: map, free places
//!   │    map, free   in memory: which place a block has; which places are free
//!   │    recent      in memory: blocks with heads that were read lately
//!   ▼    medium      bytes: a disk or file, or persistent memory; their layout is in `format`
//! ```
//!
//! `docs/format.md` says what is on the medium, byte by byte, and what a crash can leave. It states
//! the invariants O-S1…O-S5 of the space, O-I1…O-I3 of ids and O-V1…O-V3 of versions, which
//! comments cite, and lists where this store differs from the paper's.
//!
//! # Locks
//! In this order; a thread that holds one takes only later ones.
//!
//! 1. The mutex of a slot of ids.
//! 2. The space's range lock, over blocks. A request takes all its blocks in one call.
//! 3. The right to make the checkpoint.
//! 4. The counts of commits in flight.
//! 5. The mutexes of a ring and of its group, of a part of the map, of the noted entries, and of
//!    the free places. No thread holds two of these.
//!
//! # What is durable when
//! A change is durable when its call returns. No reader sees it before it is durable, but one may
//! see it shortly before the call returns. One read sees all of the change in its range, or none
//! of it. An id is given out only when its
//! object's head, and the mark that keeps the id from being given out again, are durable.

mod error;
mod ids;
mod regions;
pub mod space;
mod store;

pub use error::Error;
pub use regions::{Layout, Mode};
pub use store::{Change, Options, Report, Store, Version};

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
