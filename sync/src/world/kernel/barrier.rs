//! In a kernel: an interrupt on every core, and a compiler fence on the side that runs often.

use core::sync::atomic::{Ordering::*, compiler_fence, fence};

use crate::world::kernel;

pub(crate) fn is_heavy_granted() -> bool {
    true
}

/// A fence where a locked instruction is not one already.
#[inline]
pub(crate) fn after_rmw() {
    if cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

#[inline]
pub(crate) fn full() {
    fence(SeqCst);
}

pub(crate) const FLAGS_MAY_FENCE: bool = false;

#[inline]
pub(crate) fn may_register() -> bool {
    false
}

pub(crate) fn flags_fence() -> bool {
    false
}

#[inline]
pub(crate) fn before_flag() {
    // Acquire: the caller sees what happened before the store that its last read-modify-write read
    // (Q-I2 of `wait`). No instruction on x86.
    fence(Acquire);
    compiler_fence(SeqCst);
}

#[inline]
pub(crate) fn light() {
    before_flag();
}

#[cold]
pub(crate) fn heavy() -> bool {
    // A full barrier for the calling task itself.
    fence(SeqCst);
    kernel::heavy_barrier();
    true
}

pub(crate) fn use_fences() -> bool {
    false
}
