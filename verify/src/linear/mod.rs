//! Linearizability: whether what callers saw of a lock could have come from a plain list of holds.
//!
//! [`scenario`]: what threads do. [`history`]: what they saw. [`spec`]: what is allowed. [`judge`]: whether the one comes from the other. [`table`]: if not, for people.

pub mod history;
pub mod judge;
#[cfg(spanlock_shuttle)]
pub mod run;
pub mod scenario;
pub mod spec;
pub mod table;
