#![doc = include_str!("../README.md")]

pub mod cli;
pub mod compare;
pub mod import;
pub mod load;
pub mod locks;
pub mod measure;
pub mod report;
pub mod volume;
pub mod workloads;
