//! Tests of a volume: what it returns, what it recovers after crashes and damage, and what it
//! refuses.

mod basics;
mod cleaning;
mod close;
mod common;
mod compaction;
mod costs;
mod crashes;
mod damage;
mod digests;
mod directories;
mod fsck;
mod fsx;
mod full;
mod grouped;
mod growth;
mod journal;
mod lazy;
mod model;
mod names;
mod operations;
mod panics;
mod races;
mod read_only;
mod threads;
mod trees;
