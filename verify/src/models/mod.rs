//! The programs, by what they are about.

pub mod history;
pub mod linear;
pub mod litmus;
pub mod lock;
pub mod parts;
pub mod powers;
pub mod segments;
pub mod twins;
pub mod word;
