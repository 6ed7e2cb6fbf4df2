//! How often a lock was taken, waited for and overtaken: the feature `statistics`.
//!
//! The counters are the lock's queue's ([`spanlock_sync::Counters`]), where what they cost is told. The queue counts waits and
//! overtakes; a lock counts its acquisitions where it returns a token.

use alloc::boxed::Box;
use alloc::sync::Arc;

use spanlock_sync::Park;
pub use spanlock_sync::Statistics;

use crate::raw::RawRangeLock;
use crate::rw_counter::RwCounter;
#[cfg(feature = "std")]
use crate::rw_distributed::RwDistributed;

/// A range lock that counts, with the feature `statistics`.
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
    /// What has happened to this lock since it was made. A snapshot; never blocks.
    fn statistics(&self) -> Statistics;
}

impl<P: Park> RawRangeLockStatistics for RwCounter<P> {
    fn statistics(&self) -> Statistics {
        self.queue.counters().snapshot()
    }
}

#[cfg(feature = "std")]
impl<P: Park> RawRangeLockStatistics for RwDistributed<P> {
    fn statistics(&self) -> Statistics {
        self.queue.counters().snapshot()
    }
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
