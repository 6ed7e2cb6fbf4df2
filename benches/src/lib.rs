#![doc = include_str!("../README.md")]

pub mod args;
pub mod cli;
pub mod compare;
pub mod contention;
pub mod failures;
pub mod import;
pub mod journal;
pub mod killed;
pub mod load;
pub mod locks;
pub mod measure;
pub mod micro;
pub mod peers;
pub mod report;
pub mod volume;
pub mod workloads;
