//! Flushes of a medium, as sites like orderings and wakes: a model can leave one out, to see whether anybody misses it.

/// Whether a model leaves out the flush, or the durability of the write, that the caller is about to make. Never as shipped.
#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
#[inline(always)]
pub const fn is_flush_left_out() -> bool {
    false
}

/// Whether a model leaves out the flush, or the durability of the write, that the caller is about to make.
#[cfg(any(spanlock_loom, spanlock_shuttle))]
#[track_caller]
pub fn is_flush_left_out() -> bool {
    crate::check::drop_flush(core::panic::Location::caller())
}
