//! AArch64: `dc cvac` and `dsb ish`. Written from the architecture manual; never run.
//!
//! `dc cvac` cleans to the point of *coherency*, which may not be a point of persistence. A region
//! on this architecture therefore never claims, by flushes alone, to survive a power cut: see
//! `mapped.rs`.

use core::arch::asm;
use core::ops::Range;

use super::FlushInstruction;
use crate::region::LINE_BYTES;

/// Returns whether `dc cvac` is usable: a step of 64 bytes must reach every line.
pub(super) fn has(instruction: FlushInstruction) -> bool {
    instruction == FlushInstruction::DcCvac && smallest_line_bytes() >= LINE_BYTES
}

/// Returns the size of the smallest data cache line of this machine, from CTR_EL0.DminLine (log2 of
/// 4-byte words).
fn smallest_line_bytes() -> u64 {
    let cache_type: u64;
    // SAFETY: reads a register that Linux lets programs read (or emulates).
    unsafe {
        asm!("mrs {0}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags))
    };
    4 << ((cache_type >> 16) & 0xf)
}

/// Flushes line by line. `lines.start` is aligned to 64 bytes.
///
/// # Safety
/// The processor has `instruction`, and every line is mapped memory.
#[inline]
pub(super) unsafe fn flush_lines(_: FlushInstruction, lines: Range<*mut u8>) {
    let mut line = lines.start;
    while line < lines.end {
        // SAFETY: `line` is mapped; neither flags nor stack are touched.
        unsafe { asm!("dc cvac, {0}", in(reg) line, options(nostack, preserves_flags)) };
        line = line.wrapping_add(LINE_BYTES as usize);
    }
}

#[inline]
pub(super) fn prefetch(line: *mut u8) {
    // SAFETY: a prefetch changes nothing, and faults at no address.
    unsafe { asm!("prfm pstl1keep, [{0}]", in(reg) line, options(nostack, preserves_flags)) };
}

#[inline]
pub(super) fn fence() {
    // SAFETY: a barrier touches neither registers nor stack.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
}

/// Copies whole lines, through the cache, and flushes them.
///
/// # Safety
/// As for [`stream`](super::stream).
#[inline]
pub(super) unsafe fn copy_lines(instruction: FlushInstruction, to: *mut u8, data: &[u8]) {
    // SAFETY: the caller vouches for the bytes at `to` and for the instruction.
    unsafe { super::copy_cached(instruction, to, data) }
}
