//! Tests of a volume: what it returns, what it recovers after crashes and damage, and what it
//! refuses.

mod basics;
mod claims;
mod cleaning;
mod common;
mod compaction;
mod costs;
mod crashes;
mod damage;
mod directories;
mod fsck;
mod fsx;
mod full;
mod growth;
mod journal;
mod lanes;
mod lazy;
mod model;
mod names;
mod operations;
mod panics;
mod read_only;
mod repairs;
mod stray;
mod threads;
mod trees;
