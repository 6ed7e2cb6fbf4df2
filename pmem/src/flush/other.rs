//! Architectures for which this crate knows no flush: nothing is ever flushed, and no region claims
//! otherwise.

use core::arch::asm;
use core::ops::Range;

use super::FlushInstruction;

pub(super) fn has(_: FlushInstruction) -> bool {
    false
}

/// # Safety
/// Never called: `has` refuses every instruction.
pub(super) unsafe fn flush_lines(_: FlushInstruction, _: Range<*mut u8>) {
    unreachable!("refused when the region was opened")
}

#[inline]
pub(super) fn prefetch(_: *mut u8) {}

/// Keeps the compiler from moving stores; it does not affect the processor.
#[inline]
pub(super) fn fence() {
    // SAFETY: there is no instruction, only a barrier for the compiler.
    unsafe { asm!("", options(nostack, preserves_flags)) };
}

/// # Safety
/// Never called: `has` refuses every instruction.
pub(super) unsafe fn copy_lines(_: FlushInstruction, _: *mut u8, _: &[u8]) {
    unreachable!("refused when the region was opened")
}
