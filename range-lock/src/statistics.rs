//! The feature `statistics`: counts of a lock's acquisitions, waits and overtakes.
//!
//! The counters belong to the lock's queue; [`spanlock_sync::Counters`] describes their cost. The
//! queue counts waits and overtakes; a lock counts its acquisitions where it returns a token.

use alloc::boxed::Box;
use alloc::sync::Arc;

pub use spanlock_sync::Statistics;

use crate::raw::RawRangeLock;

/// A range lock that counts its acquisitions, waits and overtakes.
///
/// ```
/// use spanlock_range_lock::{RangeLockExt, RawRangeLockStatistics, RwCounter};
///
/// let lock = RwCounter::new();
/// drop((lock.read(0..1)?, lock.read(5..9)?));
/// assert_eq!(lock.statistics().acquisitions, 2);
/// assert_eq!(lock.statistics().to_string(), "2 acquisitions, 0 waits, 0 overtakes");
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
pub trait RawRangeLockStatistics: RawRangeLock {
    /// Returns a snapshot of the counts since the lock was made. Never blocks.
    fn statistics(&self) -> Statistics;
}

macro_rules! forward {
    ($($pointer:ty)*) => {
        $(impl<L: RawRangeLockStatistics + ?Sized> RawRangeLockStatistics for $pointer {
            fn statistics(&self) -> Statistics {
                (**self).statistics()
            }
        })*
    };
}

forward!(Box<L> Arc<L> &L);
