//! The small state machines that a commit is made of, without data, formats or storage: each can be model-checked alone.
//!
//! Cooperative commit is after H. Cui, *An Efficient Journaling Mechanism in Lustre File System for Fast Storage Devices*, Seoul National University, 2018.
//!
//! | file | what it settles |
//! |---|---|
//! | `signal.rs` | sleeping until something is so; no wake is lost |
//! | `updates.rs` | handles that join a transaction, against the commit that locks it |
//! | `tickets.rs` | who writes which prepared buffer, and who was the last |
//! | `owner.rs` | who writes the commit block, whoever dies or is absent |
//! | `medium.rs` | poisoning: no acknowledgement after, or beside, a failure |

pub(crate) mod medium;
#[cfg(all(test, spanlock_loom))]
mod models;
pub(crate) mod owner;
pub(crate) mod signal;
pub(crate) mod tickets;
pub(crate) mod updates;
