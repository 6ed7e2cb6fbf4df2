//! x86-64: `clwb`, `clflushopt`, `clflush`, `sfence`, and the non-temporal stores of AVX and SSE2.

use core::arch::asm;
use core::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, __m256i, _MM_HINT_T0, _mm_clflush, _mm_loadu_si128,
    _mm_prefetch, _mm_setzero_si128, _mm_sfence, _mm_stream_si128, _mm256_loadu_si256,
    _mm256_setzero_si256, _mm256_stream_si256,
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
// Since Rust 1.94, calls of `__cpuid` are safe.
#[allow(unused_unsafe)]
fn features() -> u32 {
    // SAFETY: every processor of x86-64 has the instruction CPUID and leaf 0.
    let highest_leaf = unsafe { __cpuid(0) }.eax;
    if highest_leaf < 7 {
        return 0;
    }
    // SAFETY: as above, and leaf 7 is at most the highest one.
    unsafe { __cpuid_count(7, 0) }.ebx
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

/// Lines that a copy loads before it stores any of them.
///
/// A processor may hold a load back behind an earlier store whose address has the same lowest bits,
/// and non-temporal stores are slow to leave the store buffer. A copy that stored each line as soon
/// as it had loaded it was slow if the source lay less than two lines before the target, modulo the
/// size of a page: on an AMD EPYC, 4 KiB and a slot took up to 760 ns to become durable, instead of
/// 430 ns. That happened in 6 of 13 processes, so presumably more than these twelve bits must
/// agree. With blocks of two, four or eight lines, no process was slow. Four lines fit the
/// registers of both copies.
const BLOCK: usize = 4;

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
        // SAFETY: SSE2 is part of x86-64. The caller promises the rest.
        unsafe { copy_lines_sse2(to, data) }
    }
}

/// Defines a function that copies lines with the vectors and instructions of `$feature`. A macro,
/// because `target_feature` takes a literal.
macro_rules! define_copy {
    ($name:ident, $feature:literal, $vector:ty, $zero:ident, $load:ident, $store:ident) => {
        /// Copies whole lines past the cache.
        ///
        /// # Safety
        /// As for [`copy_lines`], and the processor has the feature.
        #[target_feature(enable = $feature)]
        unsafe fn $name(to: *mut u8, data: &[u8]) {
            const LINE: usize = LINE_BYTES as usize;
            const PARTS: usize = LINE / size_of::<$vector>();

            /// Copies `N` vectors.
            ///
            /// # Safety
            /// `from` is valid for reads and `to` for writes of `N` vectors. They do not overlap,
            /// and `to` is aligned to a vector. No thread accesses the bytes at `to` before the
            /// fence.
            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn copy<const N: usize>(to: *mut $vector, from: *const $vector) {
                let mut loaded = [$zero(); N];
                for (nth, vector) in loaded.iter_mut().enumerate() {
                    // SAFETY: as the caller promises. The load may be unaligned.
                    *vector = unsafe { $load(from.add(nth)) };
                }
                for (nth, vector) in loaded.into_iter().enumerate() {
                    // SAFETY: as the caller promises.
                    unsafe { $store(to.add(nth), vector) };
                }
            }

            let (blocks, rest) = data.as_chunks::<{ BLOCK * LINE }>();
            let (lines, rest) = rest.as_chunks::<LINE>();
            debug_assert!(rest.is_empty());
            let mut to = to.cast::<$vector>();
            // SAFETY: the loads stay in a block or a line of `data`. The stores stay in the bytes
            // that the caller vouches for, which no Rust object overlaps and no thread accesses
            // before the fence. They are aligned because `to` is aligned to a line. The end of each
            // copy is at most one past the last of these bytes.
            unsafe {
                for block in blocks {
                    copy::<{ BLOCK * PARTS }>(to, block.as_ptr().cast());
                    to = to.add(BLOCK * PARTS);
                }
                for line in lines {
                    copy::<PARTS>(to, line.as_ptr().cast());
                    to = to.add(PARTS);
                }
            }
        }
    };
}

define_copy!(
    copy_lines_avx,
    "avx",
    __m256i,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_stream_si256
);

define_copy!(
    copy_lines_sse2,
    "sse2",
    __m128i,
    _mm_setzero_si128,
    _mm_loadu_si128,
    _mm_stream_si128
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests run only the copy that `copy_lines` selects.
    #[test]
    fn both_copies_copy_whole_lines_and_nothing_else() {
        #[repr(align(64))]
        struct Area([u8; 64 * 12]);

        // No two blocks are equal.
        let data: Vec<u8> = (0..251).cycle().take(64 * 10 + 1).collect();
        let mut copies: Vec<unsafe fn(*mut u8, &[u8])> = vec![copy_lines_sse2];
        if is_x86_feature_detected!("avx") {
            copies.push(|to, data| {
                // SAFETY: the processor has AVX. The caller promises the rest.
                unsafe { copy_lines_avx(to, data) }
            });
        }
        for copy in copies {
            for lines in 0..=10 {
                let mut area = Area([0xee; 64 * 12]);
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
