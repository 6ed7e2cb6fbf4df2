//! Segments, and ranges of them.

use std::ops::Range;

/// Bytes per segment.
pub const SEGMENT: u64 = 4096;

/// Segments in 1 GiB. Every lock can hold that many, and each is locked once before a full range is
/// measured.
pub const SEGMENTS: u64 = (1 << 30) / SEGMENT;

/// The capacity in bytes of locks that support it: the largest file of [SRL] §IV-A, 1.5 TB.
///
/// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
pub const LARGEST: u64 = 1_500_000_000_000;

/// Returns the range of `count` segments from `first` on.
pub(crate) fn segments(first: u64, count: u64) -> Range<u64> {
    first * SEGMENT..(first + count) * SEGMENT
}
