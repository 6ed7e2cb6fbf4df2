//! The processor's operations for persistent memory: flush instructions, the fence, the
//! non-temporal copy, the prefetch.
//!
//! | architecture | flush | fence | non-temporal copy | prefetch |
//! |---|---|---|---|---|
//! | x86-64 | `clwb`, `clflushopt` or `clflush` | `sfence` | AVX, else SSE2 | `prefetcht0` |
//! | AArch64, Linux and Android | `dc cvac` | `dsb ish` | copy and flush | `prfm pstl1keep` |
//! | others | none | compiler fence | plain copy | none |
//!
//! On AArch64, lines must have 64 bytes or more. On x86-64, every instruction that the testing
//! processor has was tested. The AArch64 code was written from the manual and **never run**; the
//! code for others was never run either.
//!
//! The code uses inline assembly because `clwb` and `clflushopt` have no stable intrinsics. The
//! blocks are not `nomem`, so each is a compiler barrier: stores before a flush stay before it, and
//! stores after a fence stay after it.
//!
//! Flushing never changes memory. If another thread stores to the flushed line meanwhile, the store
//! is not lost: it persists with this flush or with its own.

use core::fmt;
use core::ops::Range;

use crate::region::LINE_BYTES;

#[cfg(all(
    target_arch = "aarch64",
    any(target_os = "linux", target_os = "android")
))]
#[path = "flush/aarch64.rs"]
mod arch;
#[cfg(not(any(
    target_arch = "x86_64",
    all(
        target_arch = "aarch64",
        any(target_os = "linux", target_os = "android")
    )
)))]
#[path = "flush/other.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "flush/x86_64.rs"]
mod arch;

/// The instruction that writes a cache line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushInstruction {
    /// x86-64: starts a write-back, and the line stays cached. The fastest.
    Clwb,
    /// x86-64: starts a write-back, and evicts the line.
    ClflushOpt,
    /// x86-64: evicts the line, in order with every other store and `clflush`. Slow, but every
    /// x86-64 processor has it.
    Clflush,
    /// AArch64: cleans the line to the point of coherency.
    DcCvac,
}

impl FlushInstruction {
    const ALL: [Self; 4] = [Self::Clwb, Self::ClflushOpt, Self::Clflush, Self::DcCvac];

    /// Returns the best instruction of this processor, or `None` where this crate knows none.
    pub fn detect() -> Option<Self> {
        Self::available().first().copied()
    }

    /// Returns every instruction that this processor has and this crate knows, best first.
    pub fn available() -> Vec<Self> {
        Self::ALL
            .into_iter()
            .filter(|&one| one.is_available())
            .collect()
    }

    /// Returns whether this processor has the instruction.
    pub fn is_available(self) -> bool {
        arch::has(self)
    }

    /// Starts the write-back of every line that `bytes` touches; of none if it is empty.
    ///
    /// # Safety
    /// - This processor has the instruction.
    /// - Every line is mapped memory.
    #[inline]
    pub(crate) unsafe fn flush(self, bytes: Range<*mut u8>) {
        if bytes.start < bytes.end {
            let first = bytes
                .start
                .map_addr(|address| address & !(LINE_BYTES as usize - 1));
            // SAFETY: the caller gives the same promise; `first` is the start of the first byte's
            // line.
            unsafe { arch::flush_lines(self, first..bytes.end) }
        }
    }
}

impl fmt::Display for FlushInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clwb => "clwb",
            Self::ClflushOpt => "clflushopt",
            Self::Clflush => "clflush",
            Self::DcCvac => "dc cvac",
        })
    }
}

/// Fetches every line that `bytes` touches into the cache, to be stored to.
#[inline]
pub(crate) fn prefetch(bytes: Range<*mut u8>) {
    let mut line = bytes
        .start
        .map_addr(|address| address & !(LINE_BYTES as usize - 1));
    while line < bytes.end {
        arch::prefetch(line);
        line = line.wrapping_add(LINE_BYTES as usize);
    }
}

/// Waits for the flushes and non-temporal stores of this thread.
#[inline]
pub(crate) fn fence() {
    arch::fence();
}

/// Copies `data` to `to` and starts its write-back. Whole lines go past the cache; a partial line
/// at either end goes through the cache and is flushed. No line is stored to in both ways.
///
/// # Safety
/// - `to` is valid for writes of `data.len()` bytes. They do not overlap `data`, and no thread
///   accesses them until this one has called [`fence`].
/// - This processor has `instruction`.
#[inline]
pub(crate) unsafe fn stream(instruction: FlushInstruction, to: *mut u8, data: &[u8]) {
    let head = to.align_offset(LINE_BYTES as usize).min(data.len());
    let (head, rest) = data.split_at(head);
    let (lines, tail) = rest.split_at(rest.len() - rest.len() % LINE_BYTES as usize);
    // SAFETY: the three parts are adjacent and lie in the bytes that the caller vouches for. Unless
    // it is empty, `lines` begins at a line, because `head` ends at one, and it is a whole number
    // of lines.
    unsafe {
        copy_cached(instruction, to, head);
        let to = to.add(head.len());
        arch::copy_lines(instruction, to, lines);
        copy_cached(instruction, to.add(lines.len()), tail);
    }
}

/// Copies through the cache and flushes.
///
/// # Safety
/// As for [`stream`].
#[inline]
unsafe fn copy_cached(instruction: FlushInstruction, to: *mut u8, data: &[u8]) {
    // SAFETY: the caller vouches for the bytes at `to` and for the instruction.
    unsafe {
        to.copy_from_nonoverlapping(data.as_ptr(), data.len());
        instruction.flush(to..to.add(data.len()));
    }
}
