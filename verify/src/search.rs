//! How executions are searched: reductions, and plans of faults.

#[cfg(spanlock_loom)]
pub(crate) mod faults;
pub(crate) mod order;
#[cfg(spanlock_loom)]
pub(crate) mod pruning;
#[cfg(spanlock_shuttle)]
pub(crate) mod reduction;

/// The advice when an execution does not repeat.
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub(crate) const NOT_REPEATABLE: &str = "An execution must depend on the schedule alone: remove what depends \
    on time, addresses, random numbers or the order of a hash map, and state that an earlier \
    execution left in a static";
