#![doc = include_str!("../README.md")]

pub mod models;
pub mod plan;
pub mod primitives;
pub mod row;
pub mod trace;
