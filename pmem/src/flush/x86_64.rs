//! x86-64: `clwb`, `clflushopt`, `clflush`, `sfence`, and SSE2's non-temporal stores.

use core::arch::asm;
use core::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, _mm_clflush, _mm_loadu_si128, _mm_sfence, _mm_stream_si128,
};
use core::ops::Range;

use super::FlushInstruction;
use crate::region::LINE_BYTES;

/// Bits of EBX in CPUID leaf 7.
const CLFLUSHOPT_BIT: u32 = 1 << 23;
const CLWB_BIT: u32 = 1 << 24;

pub(super) fn has(instruction: FlushInstruction) -> bool {
    match instruction {
        FlushInstruction::Clwb => features() & CLWB_BIT != 0,
        FlushInstruction::ClflushOpt => features() & CLFLUSHOPT_BIT != 0,
        FlushInstruction::Clflush => true,
        FlushInstruction::DcCvac => false,
    }
}

/// Returns EBX of CPUID leaf 7, subleaf 0, or 0 if the processor has no such leaf.
fn features() -> u32 {
    let highest_leaf = __cpuid(0).eax;
    if highest_leaf < 7 {
        0
    } else {
        __cpuid_count(7, 0).ebx
    }
}

/// Flushes line by line. `lines.start` is aligned to a line.
///
/// # Safety
/// The processor has `instruction`, and every line is mapped memory.
#[inline]
pub(super) unsafe fn flush_lines(instruction: FlushInstruction, lines: Range<*mut u8>) {
    let mut line = lines.start;
    // One branch per line selects the instruction. It predicts perfectly, and costs nothing beside
    // the flush.
    while line < lines.end {
        match instruction {
            // SAFETY: the processor has it, and `line` is mapped. Neither flags nor stack are
            // touched.
            FlushInstruction::Clwb => unsafe {
                asm!("clwb [{0}]", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: as above.
            FlushInstruction::ClflushOpt => unsafe {
                asm!("clflushopt [{0}]", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: `line` is mapped; SSE2 is part of x86-64.
            FlushInstruction::Clflush => unsafe { _mm_clflush(line) },
            FlushInstruction::DcCvac => unreachable!("refused when the region was opened"),
        }
        line = line.wrapping_add(LINE_BYTES as usize);
    }
}

#[inline]
pub(super) fn fence() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// Copies whole lines past the cache.
///
/// # Safety
/// As for [`stream`](super::stream); `to` is aligned to a line and `data` is whole lines.
#[inline]
pub(super) unsafe fn copy_lines(_: FlushInstruction, to: *mut u8, data: &[u8]) {
    let (lines, rest) = data.as_chunks::<{ LINE_BYTES as usize }>();
    debug_assert!(rest.is_empty());
    let mut target = to.cast::<__m128i>();
    for line in lines {
        let source = line.as_ptr().cast::<__m128i>();
        for part in 0..4 {
            // SAFETY: the loads stay in `line` and may be unaligned. The stores stay in the bytes
            // that the caller vouches for, and are aligned to 16 because `to` is aligned to 64. No
            // thread accesses the bytes before the fence.
            unsafe { _mm_stream_si128(target.add(part), _mm_loadu_si128(source.add(part))) };
        }
        // SAFETY: at most one past the last byte that the caller vouches for.
        target = unsafe { target.add(4) };
    }
}
