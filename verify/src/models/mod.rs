//! The programs, by what they are about.

pub mod litmus;
pub mod lock;
pub mod word;
