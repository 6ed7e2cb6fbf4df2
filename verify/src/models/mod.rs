//! The programs, by what they are about.

mod bare;
pub mod compact;
pub mod history;
pub mod journal;
pub mod linear;
pub mod litmus;
pub mod lock;
pub mod logs;
pub mod pairs;
pub mod parts;
pub mod powers;
pub mod sections;
pub mod segments;
mod steps;
pub mod twins;
pub mod word;
