//! What the processor offers for persistent memory: flush instructions, the fence, the non-temporal
//! copy.
//!
//! | architecture | flush | fence | non-temporal copy | how far it was tested |
//! |---|---|---|---|---|
//! | x86-64 | `clwb`, else `clflushopt`, else `clflush` | `sfence` | SSE2, 16 bytes at a time | every instruction the testing CPU has |
//! | AArch64 | `dc cvac`, if lines are of 64 bytes or more | `dsb ish` | ordinary copy and flush | written from the manual, **never run** |
//! | others | none | compiler fence | ordinary copy | never run |
//!
//! Why inline assembly: `clwb` and `clflushopt` have no stable intrinsics. The blocks are not
//! `nomem`, so the compiler keeps the stores before a flush before it, and those after a fence
//! after it: each is a compiler barrier.
//!
//! Flushing never changes memory, and a store that another thread makes to the flushed line
//! meanwhile does no harm: it persists with this flush or with its own.

use core::fmt;
use core::ops::Range;

use crate::region::LINE_BYTES;

#[cfg(target_arch = "aarch64")]
#[path = "flush/aarch64.rs"]
mod arch;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "flush/other.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "flush/x86_64.rs"]
mod arch;

/// The instruction that writes a cache line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushInstruction {
    /// x86-64: starts a write-back, and the line stays cached. The best.
    Clwb,
    /// x86-64: starts a write-back, and evicts the line.
    ClflushOpt,
    /// x86-64: evicts the line, in order with every other store and `clflush`. Slow; every x86-64
    /// processor has it.
    Clflush,
    /// AArch64: cleans the line to the point of coherency.
    DcCvac,
}

impl FlushInstruction {
    const ALL: [Self; 4] = [Self::Clwb, Self::ClflushOpt, Self::Clflush, Self::DcCvac];

    /// The best instruction of this processor, or `None` where this crate knows none.
    pub fn detect() -> Option<Self> {
        Self::available().first().copied()
    }

    /// Every instruction that this processor has and this crate knows, best first.
    pub fn available() -> Vec<Self> {
        Self::ALL
            .into_iter()
            .filter(|&one| one.is_available())
            .collect()
    }

    /// Whether this processor has the instruction.
    pub fn is_available(self) -> bool {
        arch::has(self)
    }

    /// Starts the write-back of every line that `bytes` touches; of none if it is empty.
    ///
    /// # Safety
    /// - This processor has the instruction.
    /// - Every line is of mapped memory.
    #[inline]
    pub(crate) unsafe fn flush(self, bytes: Range<*mut u8>) {
        if bytes.start < bytes.end {
            let first = bytes
                .start
                .map_addr(|address| address & !(LINE_BYTES as usize - 1));
            // SAFETY: the caller's promise is the same; `first` is the start of the first byte's
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

/// Waits for the flushes and non-temporal stores of this thread.
#[inline]
pub(crate) fn fence() {
    arch::fence();
}

/// Copies `data` to `to` and starts its write-back: whole lines past the cache, the partial line at
/// either end through it and flushed. No line is stored to in both ways.
///
/// # Safety
/// - `to` is valid for writes of `data.len()` bytes, which do not overlap `data`, and which no
///   thread accesses until this one has called [`fence`].
/// - This processor has `instruction`.
#[inline]
pub(crate) unsafe fn stream(instruction: FlushInstruction, to: *mut u8, data: &[u8]) {
    let head = to.align_offset(LINE_BYTES as usize).min(data.len());
    let (head, rest) = data.split_at(head);
    let (lines, tail) = rest.split_at(rest.len() - rest.len() % LINE_BYTES as usize);
    // SAFETY: the three parts lie one after the other in what the caller vouches for; unless it is
    // empty, `lines` begins at a line, because `head` ends at one; and it is a whole number of
    // lines.
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
