//! Which segments a span touches.

use core::ops::Range;

use spanlock_range_lock::{RangeError, Span};
use spanlock_sync::injected_bug;
use thiserror::Error;

/// How positions `0..capacity` are cut into segments of equal size, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    capacity: u64,
    shift: u32,
}

/// Segments that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The segment size is 0 or not a power of two.
    #[error("segment size {size} is not a power of two; the next is {}", next_power(*size))]
    Size {
        /// The size asked for.
        size: u64,
    },
    /// There is no memory for that many segments.
    #[error(
        "no memory for {segments} segments (capacity {capacity}): use larger segments or a smaller capacity"
    )]
    Memory {
        /// How many segments the capacity has.
        segments: u64,
        /// The capacity asked for.
        capacity: u64,
    },
    /// A tree without levels.
    #[error("a tree has at least one level: that of its leaves")]
    NoLevels,
    /// A level of a tree has too few bits, or too many.
    #[error("level {level} has {bits} bits: it can have {least} to {most}")]
    Level {
        /// Which one: 0 is the root's.
        level: usize,
        /// Its bits.
        bits: u32,
        /// As many it needs: 1, or in leaves as many as number the states of a word.
        least: u32,
        /// As many it can have.
        most: u32,
    },
    /// The levels of a tree do not cover the capacity.
    #[error(
        "the levels cover {covered} positions of {capacity}: add {missing} bits to them, or use segments 2^{missing} times as large"
    )]
    Coverage {
        /// How many positions they cover.
        covered: u64,
        /// The capacity asked for.
        capacity: u64,
        /// How many bits are missing.
        missing: u32,
    },
}

/// The smallest power of two that is not below `size`, or the largest there is.
fn next_power(size: u64) -> u64 {
    size.checked_next_power_of_two().unwrap_or(1 << 63)
}

impl Segments {
    /// The default segment: one page of 4 KiB, as in the paper's experiments ([SRL] §VI-A).
    ///
    /// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
    pub const DEFAULT_SIZE: u64 = 4096;

    /// Positions `0..capacity` in segments of `size`.
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

    /// One past the last position.
    #[inline]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Positions in a segment.
    #[inline]
    pub const fn size(&self) -> u64 {
        1 << self.shift
    }

    /// How many segments there are; the last may be short.
    #[inline]
    pub const fn count(&self) -> u64 {
        if self.capacity == 0 {
            0
        } else {
            ((self.capacity - 1) >> self.shift) + 1
        }
    }

    /// The numbers of the segments that `span` touches: at least one, all below [`count`](Self::count).
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

    /// As [`touched`](Self::touched), for a span that was found within the capacity before.
    #[inline]
    pub(crate) fn of(&self, span: Span) -> Range<u64> {
        let (first, last) = self.ends(span);
        first..last + 1
    }

    /// The first and the last segment that `span` touches.
    #[inline]
    pub(crate) fn ends(&self, span: Span) -> (u64, u64) {
        if injected_bug!(
            "no-end-stop",
            "a request takes every segment after its first, not only those up to its end",
            killed_by = "disjoint"
        ) {
            return (span.start() >> self.shift, self.count() - 1);
        }
        (span.start() >> self.shift, (span.end() - 1) >> self.shift)
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
