//! What every search asks of a program, and shuttle's bounded search.

#[cfg(spanlock_shuttle)]
pub(crate) mod bounded;

/// The advice for a program whose repeated execution differs from the first.
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
pub(crate) const NOT_REPEATABLE: &str = "An execution must depend on the schedule alone: remove code that \
    depends on time, addresses, random numbers, the order of a hash map, or a static that an \
    earlier execution changed";
