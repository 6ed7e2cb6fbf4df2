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
//! | `submission.rs` | the last three together: a transaction written, sealed, acknowledged |
//! | `rendezvous.rs` | whom a commit waits for |
//!
//! `spanlock-verify` has their models, one primitive a file. Public for those alone: nothing here is stable.

pub mod gathering;
pub mod medium;
pub mod owner;
pub mod signal;
pub mod submission;
pub mod tickets;
pub mod updates;
