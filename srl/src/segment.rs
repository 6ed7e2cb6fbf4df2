//! Segments: how positions map to them, and which of them a span touches.

use core::ops::Range;

use spanlock_range_lock::{RangeError, Span};
use spanlock_sync::injected_bug;
use thiserror::Error;

/// Maps positions `0..capacity` to segments of equal size, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    capacity: u64,
    shift: u32,
}

/// The error returned when a lock cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The segment size is 0 or not a power of two.
    #[error("segment size {size} is not a power of two: use {}", next_power(*size))]
    Size {
        /// The requested size.
        size: u64,
    },
    /// There is not enough memory for so many segments.
    #[error(
        "not enough memory for {segments} segments (capacity {capacity}): use larger segments or a smaller capacity"
    )]
    Memory {
        /// The number of segments in the capacity.
        segments: u64,
        /// The requested capacity.
        capacity: u64,
    },
    /// A tree has no levels.
    #[error("the tree has no levels: give it at least one, for its leaves")]
    NoLevels,
    /// A level of a tree has too few bits, or too many.
    #[error("level {level} has {bits} bits: give it {least} to {most}")]
    Level {
        /// The index of the level; the root's is 0.
        level: usize,
        /// The bits it has.
        bits: u32,
        /// The least number of bits it can have. The segments of a leaf must fill at least one
        /// word.
        least: u32,
        /// The greatest number of bits it can have.
        most: u32,
    },
    /// The levels of a tree do not cover the capacity.
    #[error(
        "the levels cover {covered} of {capacity} positions: add {missing} bits, or use segments 2^{missing} times as large"
    )]
    Coverage {
        /// The number of positions that the levels cover.
        covered: u64,
        /// The requested capacity.
        capacity: u64,
        /// The number of bits that are missing.
        missing: u32,
    },
}

/// Returns the smallest power of two that is at least `size`, or 2⁶³ if that does not fit.
fn next_power(size: u64) -> u64 {
    size.checked_next_power_of_two().unwrap_or(1 << 63)
}

impl Segments {
    /// The default segment size: one page of 4 KiB, as in the paper's experiments ([SRL] §VI-A).
    ///
    /// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
    pub const DEFAULT_SIZE: u64 = 4096;

    /// Cuts positions `0..capacity` into segments of `size`.
    ///
    /// # Errors
    /// [`SegmentError::Size`] if `size` is not a power of two.
    pub const fn new(capacity: u64, size: u64) -> Result<Self, SegmentError> {
        if size.is_power_of_two() {
            Ok(Segments {
                capacity,
                shift: size.trailing_zeros(),
            })
        } else {
            Err(SegmentError::Size { size })
        }
    }

    /// Returns the capacity: positions are `0..capacity`.
    #[inline]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of positions in a segment.
    #[inline]
    pub const fn size(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the number of segments; the last one may be short.
    #[inline]
    pub const fn count(&self) -> u64 {
        if self.capacity == 0 {
            0
        } else {
            ((self.capacity - 1) >> self.shift) + 1
        }
    }

    /// Returns the numbers of the segments that `span` touches.
    ///
    /// The range is not empty, and all numbers are below [`count`](Self::count).
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if `span` ends past the capacity.
    #[inline]
    pub fn touched(&self, span: Span) -> Result<Range<u64>, RangeError> {
        if span.end() > self.capacity {
            return Err(self.past(span));
        }
        Ok(self.of(span))
    }

    /// Returns what [`touched`](Self::touched) returns. The span must end within the capacity.
    #[inline]
    pub(crate) fn of(&self, span: Span) -> Range<u64> {
        let (first, last) = self.ends(span);
        first..last + 1
    }

    /// Returns the first and the last segment that `span` touches.
    #[inline]
    pub(crate) fn ends(&self, span: Span) -> (u64, u64) {
        if injected_bug!(
            "no-end-stop",
            "a request takes every segment from its first to the end of the lock",
            killed_by = "disjoint"
        ) {
            return (span.start() >> self.shift, self.count() - 1);
        }
        (span.start() >> self.shift, (span.end() - 1) >> self.shift)
    }

    /// Returns the error of a lock for which there is no memory.
    #[cold]
    pub(crate) fn no_memory(&self) -> SegmentError {
        SegmentError::Memory {
            segments: self.count(),
            capacity: self.capacity,
        }
    }

    #[cold]
    fn past(&self, span: Span) -> RangeError {
        let capacity = self.capacity;
        RangeError::PastCapacity {
            start: span.start(),
            end: span.end(),
            capacity,
        }
    }
}
