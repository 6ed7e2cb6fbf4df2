//! The small state machines that make up a commit. They contain no data, formats or storage, so
//! each can be model-checked alone.
//!
//! Cooperative commit follows H. Cui, *An Efficient Journaling Mechanism in Lustre File System for
//! Fast Storage Devices*, Seoul National University, 2018.
//!
//! | file | responsibility |
//! |---|---|
//! | `signal.rs` | sleeping until a condition holds, without lost wakes |
//! | `updates.rs` | handles that join a transaction while a commit locks it |
//! | `holders.rs` | which handle has which block; deadlocks between handles |
//! | `tickets.rs` | which thread writes which buffer, and which thread completes the last one |
//! | `owner.rs` | which thread writes the commit block, even if threads die or never come |
//! | `medium.rs` | poisoning: no acknowledgement during or after a failure |
//! | `submission.rs` | writing, sealing and acknowledging a transaction, with the previous three |
//! | `gathering.rs` | which threads a commit waits for |
//!
//! `models/journal/` has a model of each state machine. These modules are public only for the
//! models: nothing here is stable.

pub mod gathering;
pub mod holders;
pub mod medium;
pub mod owner;
pub mod signal;
pub mod submission;
pub mod tickets;
pub mod updates;
