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
//!   │  space         a sparse address space with atomic batches: `read`, `write_batch`, `trim`
//!   │    held        one request: its range held, its batch planned, written and committed
//!   │    commits     numbers of commits, rings, the checkpoint
//!   │    recovery    what the medium has: map, free places
//!   │    map, free   in memory: which place a block has; which places are free
//!   ▼    medium      bytes: a disk or file, or persistent memory; their layout is in `format`
//! ```
//!
//! `docs/format.md` says what is on the medium, byte by byte, what a crash can leave, and how the
//! regions, heads and ids of objects will lie in the space. It states the invariants O-S1…O-S5,
//! which comments cite.
//!
//! # Locks
//! In this order; a thread that holds one takes only later ones.
//!
//! 1. The space's range lock, over blocks. A request takes all its blocks in one call.
//! 2. The right to make the checkpoint.
//! 3. The counts of commits in flight.
//! 4. The mutexes of the log, of a part of the map, of the noted entries, and of a part of the free
//!    places. No thread holds two of these.
//!
//! # What is durable when
//! [`Space::write_batch`](space::Space::write_batch) and [`Space::trim`](space::Space::trim) return
//! once the whole batch is durable. A reader sees a batch only then, and sees all of it or nothing
//! in the bytes that it reads in one call.

pub mod space;
