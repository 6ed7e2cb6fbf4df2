//! Appending: the end is read under the lock, never before it.

use super::hold::{Exclusive, Hold, LockRef};
use crate::capabilities::RawRangeLockSplit;
use crate::error::RangeError;
use crate::raw::RawRangeLock;

impl<P: LockRef<Lock: RawRangeLockSplit>> Hold<P, Exclusive> {
    /// Locks `len` positions from the current end on, exclusively. Blocks while anyone holds part
    /// of what lies behind the end. Ordering: Acquire.
    ///
    /// `end` returns the current end, of a file or a log for instance. It is called at least twice:
    /// once to find out what to hold, and once while everything from there on is held. The hold
    /// starts where the last call says.
    ///
    /// So no two appends get the same place, provided that every thread keeps to this rule: whoever
    /// moves the end does so *while holding the position at the end*, and an append moves it at
    /// least to the end of its hold.
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
    /// [`RangeError::Overflow`] if there are not that many. Nothing is held then.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn append(lock: P, len: u64, mut end: impl FnMut() -> u64) -> Result<Self, RangeError> {
        if len == 0 {
            return Ok(Self::of_nothing(lock));
        }
        let capacity = lock.raw().capacity();
        loop {
            let seen = end();
            place(seen, len, capacity)?;
            let mut hold = Self::lock(lock.clone(), seen..capacity)?;
            let start = end();
            // An end before `seen` lies outside the hold and may still move: start again.
            if start >= seen {
                let place = place(start, len, capacity)?;
                let shrunk = hold.shrink(place);
                debug_assert_eq!(shrunk, Ok(()), "it lies behind what was seen");
                return Ok(hold);
            }
        }
    }
}

fn place(start: u64, len: u64, capacity: u64) -> Result<core::ops::Range<u64>, RangeError> {
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
