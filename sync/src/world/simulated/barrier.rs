//! `membarrier`, as on Linux.

use spanlock_cores::{atomic, interrupt_others};

use crate::atomic::Ordering::SeqCst;

pub(crate) fn is_heavy_granted() -> bool {
    true
}

/// Nothing, as on x86: a locked instruction is a fence.
pub(crate) fn after_rmw() {}

pub(crate) fn full() {
    atomic::fence(SeqCst);
}

pub(crate) fn flags_fence() -> bool {
    false
}

pub(crate) fn before_flag() {}

pub(crate) fn light() {}

pub(crate) fn heavy() -> bool {
    interrupt_others();
    true
}

pub(crate) fn use_fences() -> bool {
    false
}
