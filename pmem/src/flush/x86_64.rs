//! x86-64: `clwb`, `clflushopt`, `clflush`, `sfence`, and the non-temporal stores of AVX and SSE2.

use core::arch::asm;
use core::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, __m256i, _MM_HINT_T0, _mm_clflush, _mm_loadu_si128,
    _mm_prefetch, _mm_sfence, _mm_stream_si128, _mm256_loadu_si256, _mm256_stream_si256,
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
pub(super) fn prefetch(line: *mut u8) {
    // SAFETY: SSE is part of x86-64. A prefetch changes nothing, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast_const().cast()) };
}

#[inline]
pub(super) fn fence() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// Copies whole lines past the cache, with AVX's stores if the processor has them. They are twice
/// as wide as SSE2's. A copy therefore takes half as many entries of the store buffer, and later
/// instructions can start sooner.
///
/// # Safety
/// As for [`stream`](super::stream); `to` is aligned to a line and `data` is whole lines.
#[inline]
pub(super) unsafe fn copy_lines(_: FlushInstruction, to: *mut u8, data: &[u8]) {
    if is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX. The caller promises the rest.
        unsafe { copy_lines_avx(to, data) }
    } else {
        // SAFETY: as the caller promises.
        unsafe { copy_lines_sse2(to, data) }
    }
}

/// Copies 32 bytes at a time.
///
/// # Safety
/// As for [`copy_lines`], and the processor has AVX.
#[target_feature(enable = "avx")]
unsafe fn copy_lines_avx(to: *mut u8, data: &[u8]) {
    let (lines, rest) = data.as_chunks::<{ LINE_BYTES as usize }>();
    debug_assert!(rest.is_empty());
    let mut target = to.cast::<__m256i>();
    for line in lines {
        let source = line.as_ptr().cast::<__m256i>();
        for part in 0..2 {
            // SAFETY: the loads stay in `line` and may be unaligned. The stores stay in the bytes
            // that the caller vouches for, and are aligned to 32 because `to` is aligned to 64. No
            // thread accesses the bytes before the fence.
            unsafe { _mm256_stream_si256(target.add(part), _mm256_loadu_si256(source.add(part))) };
        }
        // SAFETY: at most one past the last byte that the caller vouches for.
        target = unsafe { target.add(2) };
    }
}

/// Copies 16 bytes at a time, for processors without AVX.
///
/// # Safety
/// As for [`copy_lines`].
unsafe fn copy_lines_sse2(to: *mut u8, data: &[u8]) {
    let (lines, rest) = data.as_chunks::<{ LINE_BYTES as usize }>();
    debug_assert!(rest.is_empty());
    let mut target = to.cast::<__m128i>();
    for line in lines {
        let source = line.as_ptr().cast::<__m128i>();
        for part in 0..4 {
            // SAFETY: as in `copy_lines_avx`; the stores are aligned to 16.
            unsafe { _mm_stream_si128(target.add(part), _mm_loadu_si128(source.add(part))) };
        }
        // SAFETY: at most one past the last byte that the caller vouches for.
        target = unsafe { target.add(4) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests run only the copy that `copy_lines` selects.
    #[test]
    fn both_copies_copy_whole_lines_and_nothing_else() {
        #[repr(align(64))]
        struct Area([u8; 64 * 8]);

        let data: Vec<u8> = (0..=255).cycle().take(64 * 6 + 1).collect();
        let mut copies: Vec<unsafe fn(*mut u8, &[u8])> = vec![copy_lines_sse2];
        if is_x86_feature_detected!("avx") {
            copies.push(|to, data| {
                // SAFETY: the processor has AVX. The caller promises the rest.
                unsafe { copy_lines_avx(to, data) }
            });
        }
        for copy in copies {
            for lines in 0..=6 {
                let mut area = Area([0xee; 64 * 8]);
                // The source is not aligned.
                let data = &data[1..][..lines * 64];
                // SAFETY: the target is aligned, has room, and is read only after the fence.
                unsafe { copy(area.0[64..].as_mut_ptr(), data) };
                fence();
                let (before, rest) = area.0.split_at(64);
                let (copied, after) = rest.split_at(data.len());
                assert_eq!(copied, data);
                assert!(before.iter().chain(after).all(|it| *it == 0xee));
            }
        }
    }
}
