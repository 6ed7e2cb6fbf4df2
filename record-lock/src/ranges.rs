//! How the ranges of requests become bytes, up to the byte 2⁶⁴ - 1.
//!
//! A half-open range of `u64` cannot contain that byte, because its end would be 2⁶⁴. So inside
//! this crate, a range is its first and its last byte. Methods accept every range type of
//! [`core::ops`] over `u64`: half-open ranges, and for the last byte `a..`, `a..=u64::MAX` or `..`.

use core::ops::{Bound, RangeBounds};

use crate::error::Error;
use crate::hold::Bytes;

/// A range of bytes, as [`posix`], [`nfs`] and [`smb`] return it. It implements [`RangeBounds`].
pub type Bounds = (Bound<u64>, Bound<u64>);

/// Returns the bytes of `range`, or `None` if it is empty.
///
/// # Errors
/// If the range is reversed.
pub(crate) fn bytes(range: impl RangeBounds<u64>) -> Result<Option<Bytes>, Error> {
    let start = match range.start_bound() {
        Bound::Included(&at) => u128::from(at),
        Bound::Excluded(&at) => u128::from(at) + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&at) => u128::from(at) + 1,
        Bound::Excluded(&at) => u128::from(at),
        Bound::Unbounded => 1 << 64,
    };
    if start > end {
        let [start, end] = [start, end].map(|at| u64::try_from(at).unwrap_or(u64::MAX));
        return Err(Error::Reversed { start, end });
    }
    // Both fit, because the first byte is before `end`, and `end` is at most 2⁶⁴.
    Ok((start < end).then(|| Bytes {
        first: start as u64,
        last: (end - 1) as u64,
    }))
}

/// Returns the range of a POSIX lock (`struct flock`, relative to the start of the file), or of a
/// `lockf`.
///
/// A length of 0 means all bytes from `start` to 2⁶³ - 1, the last one that POSIX can name. If the
/// length is negative, the range ends before `start`.
///
/// # Errors
/// [`Error::BeforeFirst`] or [`Error::PastLast`] for a range that is not within 0..2⁶³.
pub fn posix(start: i64, length: i64) -> Result<Bounds, Error> {
    let error = Error::BeforeFirst { start, length };
    let low = if length < 0 {
        start.checked_add(length)
    } else {
        Some(start)
    };
    let first = low.and_then(|low| u64::try_from(low).ok()).ok_or(error)?;
    if start < 0 {
        return Err(error);
    }
    let last = i64::MAX as u64;
    match length {
        0 => Ok((Bound::Included(first), Bound::Included(last))),
        _ => bounded(first, length.unsigned_abs(), last),
    }
}

/// Returns the range of an NFSv4 lock. A length of 2⁶⁴ - 1 means all bytes from `offset` on.
///
/// # Errors
/// [`Error::NoBytes`] if the length is 0. [`Error::PastLast`] if `offset + length` is 2⁶⁴ or more:
/// only a range without an end contains the byte 2⁶⁴ - 1 (RFC 8881, section 18.10.3).
pub fn nfs(offset: u64, length: u64) -> Result<Bounds, Error> {
    match length {
        0 => Err(Error::NoBytes { offset }),
        u64::MAX => Ok((Bound::Included(offset), Bound::Unbounded)),
        _ => bounded(offset, length, u64::MAX - 1),
    }
}

/// Returns the range of an SMB lock, which may end with the byte 2⁶⁴ - 1: `smb(u64::MAX, 1)` is
/// that byte. A length of 0 gives an empty range, which locks nothing and conflicts with nothing.
///
/// # Errors
/// [`Error::PastLast`] if the range ends past the byte 2⁶⁴ - 1
/// (`STATUS_INVALID_LOCK_RANGE`).
pub fn smb(offset: u64, length: u64) -> Result<Bounds, Error> {
    match length {
        0 => Ok((Bound::Included(offset), Bound::Excluded(offset))),
        _ => bounded(offset, length, u64::MAX),
    }
}

/// Returns a range of at least one byte.
fn bounded(offset: u64, length: u64, last: u64) -> Result<Bounds, Error> {
    match offset.checked_add(length - 1) {
        Some(end) if end <= last => Ok((Bound::Included(offset), Bound::Included(end))),
        _ => Err(Error::PastLast {
            offset,
            length,
            last,
        }),
    }
}
