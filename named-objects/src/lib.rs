//! The traits of the crate `object_store` over a flat store of objects: [`NamedObjects`].
//!
//! # The problem
//! The flat store ([`spanlock_object_store`]) knows ids only. Programs that use `object_store` want
//! names, listings, attributes, and puts that replace an object only if it has not changed. An
//! index of names on the medium would have to change atomically with the objects, and would be one
//! more structure to check and recover.
//!
//! # The design
//! The name is in the object: its data begins with a name block. The index is in memory. Opening
//! reads all name blocks. So a put of up to 8 MiB is one batch of the flat store; a larger one
//! first writes an object without a name, and names it in its last batch.
//!
//! ```text
//!   put "a"     new object, id 8                      old object, id 5
//!               ┌──────┐ ┌────────────┐ ┌─────────┐   ┌──────┐ ┌────────────────────┐
//!   one batch   │ head │ │ name block │ │ content │   │ head │ │ name block, content│ deleted
//!               └──────┘ └────────────┘ └─────────┘   └──────┘ └────────────────────┘
//! ```
//!
//! Content never changes: a put makes a new object. Its id is the ETag, and is never given out
//! again. `docs/format.md` has the format, the batch of each operation, what a crash leaves, and
//! the invariants O-N1 to O-N3.
//!
//! # Costs
//! - A put writes the content, one block for the name, one for the head, and one for the ids once
//!   in as many puts as the store's skip number says; and one record that commits all this.
//! - A name takes about 250 bytes of memory, its own length, and its attributes.
//! - Opening reads one block of each object, and the head of each id that was ever given out: 64
//!   bytes in the packed layout, a block of its own in the other. So it takes longer with each put
//!   that the store has ever seen.
//!
//! # Modules
//! A module uses only those below it.
//!
//! ```text
//!   │  parts      uploads by the number of the part
//!   │  store      the traits: futures and streams over what blocks
//!   │  upload     uploads whose parts follow each other
//!   │  objects    put, copy, rename, delete: which batch each of them commits
//!   │  names      the names in memory; claims on them; readers
//!   ▼  head       the name block
//! ```
//!
//! # Not guaranteed
//! - A list that is read while names change has each name that was there all the time, and may have
//!   others. Pages of 1000 names are consistent.
//! - A stream that was interrupted by an error does not go on.
//! - Tags are ignored.

mod error;
mod head;
mod names;
mod objects;
mod parts;
mod store;
mod upload;

pub use error::Error;
pub use store::NamedObjects;

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
