//! Fences under loom. Nothing under shuttle, which takes every ordering as SeqCst.

#[cfg(spanlock_loom)]
use crate::atomic::{Ordering::SeqCst, fence};

/// Returns false: under loom [`before_flag`] always fences, at a site that a mutation can drop.
pub(crate) fn flags_fence() -> bool {
    false
}

#[inline]
#[track_caller]
pub(crate) fn before_flag() {
    light();
}

#[inline]
#[track_caller]
pub(crate) fn light() {
    #[cfg(spanlock_loom)]
    fence(SeqCst);
}

#[track_caller]
pub(crate) fn heavy() {
    #[cfg(spanlock_loom)]
    fence(SeqCst);
}
