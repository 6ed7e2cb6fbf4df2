//! Guards without data: a hold on a range of something that lives elsewhere.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Range;

use crate::error::{RangeError, TryLockError};
use crate::raw::{Access, RawRangeLock, Span, Token};

/// `read`, `write`, `try_read` and `try_write` for every [`RawRangeLock`].
///
/// The guards hold a range of something that the lock does not own: pages of a file, blocks of a
/// device. To lock data that the lock owns, use [`crate::RangeLock`].
pub trait RangeLockExt: RawRangeLock {
    /// Holds `range` shared; blocks while a writer holds part of it.
    ///
    /// An empty range holds nothing and never blocks.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    #[inline]
    fn read(&self, range: Range<u64>) -> Result<ReadHold<'_, Self>, RangeError> {
        Ok(ReadHold(Hold::take(self, range, Access::Read)?))
    }

    /// Holds `range` exclusively; blocks while anybody holds part of it.
    ///
    /// An empty range holds nothing and never blocks.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    #[inline]
    fn write(&self, range: Range<u64>) -> Result<WriteHold<'_, Self>, RangeError> {
        Ok(WriteHold(Hold::take(self, range, Access::Write)?))
    }

    /// Holds `range` shared if that is possible at once.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`read`](Self::read).
    #[inline]
    fn try_read(&self, range: Range<u64>) -> Result<ReadHold<'_, Self>, TryLockError> {
        Ok(ReadHold(Hold::try_take(self, range, Access::Read)?))
    }

    /// Holds `range` exclusively if that is possible at once.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`write`](Self::write).
    #[inline]
    fn try_write(&self, range: Range<u64>) -> Result<WriteHold<'_, Self>, TryLockError> {
        Ok(WriteHold(Hold::try_take(self, range, Access::Write)?))
    }
}

impl<L: RawRangeLock + ?Sized> RangeLockExt for L {}

/// A shared hold on a range; dropping it releases the range.
#[must_use = "dropping the hold at once releases the range"]
pub struct ReadHold<'a, L: RawRangeLock + ?Sized>(Hold<'a, L, READ>);

/// An exclusive hold on a range; dropping it releases the range.
#[must_use = "dropping the hold at once releases the range"]
pub struct WriteHold<'a, L: RawRangeLock + ?Sized>(Hold<'a, L, WRITE>);

const READ: bool = false;
const WRITE: bool = true;

/// The shared part: what was taken, and how to give it back. `WRITE` is static, so that a release
/// never branches on it.
pub(crate) struct Hold<'a, L: RawRangeLock + ?Sized, const ACCESS: bool> {
    lock: &'a L,
    /// `None`: the range was empty, nothing is held.
    held: Option<Span>,
    range_start: u64,
    token: ManuallyDrop<Token>,
}
