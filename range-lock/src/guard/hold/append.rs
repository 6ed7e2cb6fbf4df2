//! Locking the positions from a moving end on.

use core::ops::Range;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

#[cfg(feature = "std")]
use super::super::deadline::Limit;
use super::{Exclusive, Hold, LockRef};
use crate::capabilities::{RawRangeLockSplit, RawRangeLockWait};
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{RangeError, TryLockError};
use crate::raw::{RawRangeLock, Span};

impl<P: LockRef<Lock: RawRangeLockSplit>> Hold<P, Exclusive> {
    /// Locks `len` positions from the current end on, exclusively. Blocks while another
    /// hold covers positions at or past the end. Ordering: Acquire.
    ///
    /// `end` returns the current end, of a file or a log for instance. An append that succeeds
    /// calls it at least twice: once to find out what to hold, and once while everything from there
    /// on is held. The hold starts at the result of the last call.
    ///
    /// No two appends get the same place if every thread follows this rule: a thread moves the end
    /// only *while it holds the position at the end*, and an append moves it at least to the end of
    /// its hold.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use spanlock_range_lock::{RangeLockExt, RwCounter};
    ///
    /// let (lock, end) = (RwCounter::new(), AtomicU64::new(100));
    /// let hold = lock.append(10, || end.load(Relaxed))?;
    /// let place = hold.span().expect("not empty");
    /// assert_eq!(place.range(), 100..110);
    /// end.store(place.end(), Relaxed); // before the hold is dropped
    /// # Ok::<(), spanlock_range_lock::RangeError>(())
    /// ```
    ///
    /// If the end has meanwhile moved back (by a truncate that holds what it cuts off), the append
    /// starts again. With `len` 0 it holds nothing and does not call `end`.
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if the lock does not cover `len` positions from the end on,
    /// [`RangeError::Overflow`] if they would end past `u64::MAX`, [`RangeError::Memory`] if there
    /// is no memory. Nothing is held then.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn append(lock: P, len: u64, mut end: impl FnMut() -> u64) -> Result<Self, RangeError> {
        loop {
            let (seen, rest) = from_end(&lock, len, &mut end)?;
            let hold = Self::lock_span(lock.clone(), rest)?;
            if let Some(hold) = hold.placed(seen, len, &mut end)? {
                return Ok(hold);
            }
        }
    }

    /// Like [`append`](Self::append), but never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; otherwise as for
    /// [`append`](Self::append).
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_append(
        lock: P,
        len: u64,
        mut end: impl FnMut() -> u64,
    ) -> Result<Self, TryLockError> {
        loop {
            let (seen, rest) = from_end(&lock, len, &mut end)?;
            let hold = Self::try_lock_span(lock.clone(), rest)?;
            if let Some(hold) = hold.placed(seen, len, &mut end)? {
                return Ok(hold);
            }
        }
    }

    /// Keeps the place of `len` positions at the present end. The hold begins at `seen`, which was
    /// the end before. Returns `None` if the end has moved back since: such an end lies outside the
    /// hold and may still move.
    fn placed(
        mut self,
        seen: u64,
        len: u64,
        mut end: impl FnMut() -> u64,
    ) -> Result<Option<Self>, RangeError> {
        if len == 0 {
            return Ok(Some(self));
        }
        let start = end();
        if start < seen {
            return Ok(None);
        }
        let place = place(start, len, self.lock.raw().capacity())?;
        let shrunk = self.shrink(place);
        debug_assert_eq!(shrunk, Ok(()), "the place lies within the hold");
        Ok(Some(self))
    }
}

impl<P: LockRef<Lock: RawRangeLockSplit + RawRangeLockWait>> Hold<P, Exclusive> {
    /// Like [`append`](Self::append), but gives up after `timeout`. A timeout too long for the
    /// clock never ends.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`append`](Self::append).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_append_for(
        lock: P,
        len: u64,
        end: impl FnMut() -> u64,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        let limit = spanlock_sync::time::now().and_then(|now| now.checked_add(timeout));
        match limit {
            Some(deadline) => Self::append_within(lock, len, end, Limit::Until(deadline)),
            // Without a clock this is a try, and a timeout too long for the clock never ends.
            None => Self::append_within(lock, len, end, Limit::For(timeout)),
        }
    }

    /// Like [`append`](Self::append), but gives up at `deadline`. A deadline in the past makes this
    /// a try.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`append`](Self::append).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_append_until(
        lock: P,
        len: u64,
        end: impl FnMut() -> u64,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        Self::append_within(lock, len, end, Limit::Until(deadline))
    }

    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn append_within(
        lock: P,
        len: u64,
        mut end: impl FnMut() -> u64,
        limit: Limit,
    ) -> Result<Self, TimedLockError> {
        loop {
            let (seen, rest) = from_end(&lock, len, &mut end)?;
            let hold = Self::wait(lock.clone(), rest, limit)?;
            if let Some(hold) = hold.placed(seen, len, &mut end)? {
                return Ok(hold);
            }
        }
    }

    /// Like [`append`](Self::append), but returns a future and never blocks a thread. Dropping the
    /// future gives up the request and leaves no trace.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub async fn append_async(
        lock: P,
        len: u64,
        mut end: impl FnMut() -> u64,
    ) -> Result<Self, RangeError> {
        loop {
            let (seen, rest) = from_end(&lock, len, &mut end)?;
            let range = rest.map_or(0..0, Span::range);
            let hold = Self::lock_async(lock.clone(), range).await?;
            if let Some(hold) = hold.placed(seen, len, &mut end)? {
                return Ok(hold);
            }
        }
    }
}

/// Returns the present end, and the span from there on to lock for an append of `len` positions:
/// nothing for none of them, for which `end` is not called.
fn from_end(
    lock: &impl LockRef,
    len: u64,
    end: impl FnOnce() -> u64,
) -> Result<(u64, Option<Span>), RangeError> {
    if len == 0 {
        return Ok((0, None));
    }
    let (seen, capacity) = (end(), lock.raw().capacity());
    place(seen, len, capacity)?;
    Ok((seen, Span::new(seen..capacity)?))
}

fn place(start: u64, len: u64, capacity: u64) -> Result<Range<u64>, RangeError> {
    let end = (start.checked_add(len)).ok_or(RangeError::Overflow { start, len })?;
    if end > capacity {
        return Err(RangeError::PastCapacity {
            start,
            end,
            capacity,
        });
    }
    Ok(start..end)
}
