//! The barriers are fences under the explorer and loom. Under shuttle they do nothing, because
//! shuttle treats every ordering as SeqCst.

use crate::check;

#[cfg(not(spanlock_shuttle))]
use crate::atomic::{Ordering::SeqCst, fence};

pub(crate) const FLAGS_MAY_FENCE: bool = false;

#[inline]
pub(crate) fn may_register() -> bool {
    false
}

/// Returns false: [`before_flag`] always fences, at a site where a mutation can drop the fence.
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
    #[cfg(not(spanlock_shuttle))]
    fence(SeqCst);
}

/// The light barrier that follows a read-modify-write. Loom needs the fence: to loom, such an
/// operation is no fence.
#[inline]
#[track_caller]
pub(crate) fn after_rmw() {
    light();
}

#[inline]
#[track_caller]
pub(crate) fn full() {
    light();
}

/// Does nothing and returns false if the model has the system
/// [refuse](crate::check::refuse_barriers) this call.
#[track_caller]
pub(crate) fn heavy() -> bool {
    if check::is_barrier_refused() {
        return false;
    }
    #[cfg(not(spanlock_shuttle))]
    fence(SeqCst);
    true
}

/// Like [`heavy`], but without the barrier, so that a model does not depend on it.
pub(crate) fn is_heavy_granted() -> bool {
    !check::is_barrier_refused()
}

/// Returns true: under a checker, there is no `membarrier`.
pub(crate) fn use_fences() -> bool {
    true
}
