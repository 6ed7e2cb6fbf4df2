//! The tests of this crate that can share a process, in one program: each program takes seconds to
//! build.

#[cfg(any(feature = "jbd2", feature = "compact"))]
#[path = "../rounds/mod.rs"]
mod rounds;

mod compact;
mod compact_crashes;
mod compact_damage;
mod compact_failures;
mod compact_lazy;
mod compact_storages;
mod creation;
mod credits;
mod damage;
mod failures;
mod format;
mod hooked;
mod jbd2_crashes;
mod journal;
mod limits;
mod pmem_crashes;
mod sparse_copies;
mod storage;
