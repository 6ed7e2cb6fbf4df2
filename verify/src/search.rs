//! How executions are searched: reductions, and plans of faults.

#[cfg(spanlock_loom)]
pub(crate) mod faults;
pub mod order;
#[cfg(spanlock_loom)]
pub(crate) mod pruning;
#[cfg(spanlock_shuttle)]
pub(crate) mod reduction;
