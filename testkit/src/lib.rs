#![doc = include_str!("../README.md")]

pub mod cases;
pub mod crashes;
mod driven;
pub mod histories;
pub mod models;
pub mod op;
pub mod owner;
pub mod rounds;
pub mod sequential;
#[cfg(target_os = "linux")]
pub mod system;
pub mod threads;

pub use driven::{Driven, ErasedBatch, ErasedWait};
pub use sequential::Order;
