//! The barriers are fences under loom. Under shuttle they do nothing, because shuttle treats every
//! ordering as SeqCst.

#[cfg(spanlock_loom)]
use crate::atomic::{Ordering::SeqCst, fence};

/// Returns false: under loom, [`before_flag`] always fences, at a site where a mutation can drop
/// the fence.
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
