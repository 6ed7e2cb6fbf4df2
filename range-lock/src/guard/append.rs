//! Appending: the end is looked at under the lock, never before it.

use super::hold::{Exclusive, Hold, LockRef};
use crate::error::RangeError;
use crate::capabilities::RawRangeLockSplit;
use crate::raw::RawRangeLock;

impl<P: LockRef<Lock: RawRangeLockSplit>> Hold<P, Exclusive> {
    /// Holds the `len` positions from the end on, exclusively; blocks while somebody holds part of what lies behind
    /// the end. Ordering: Acquire.
    ///
    /// `end` tells where the end is now: of a file, of a log. It is called at least twice, once to know what to hold and once while
    /// everything from there on is held; the answer of the last call is where the hold starts. So no two appends
    /// get the same place, *if the caller moves the end, to the hold's end at least, only under this hold*: whoever
    /// moves it does so while it holds the position at the end.
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
    /// The end may move back meanwhile (a truncate that holds what it cuts off): then everything starts again. With `len` 0 it holds
    /// nothing, and does not ask.
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if the lock does not cover `len` positions from the end on, [`RangeError::Overflow`] if
    /// there are not that many. Nothing is held.
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
            // What lies before is not held: nothing can be said of an end that is there.
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
