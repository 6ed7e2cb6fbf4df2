//! The methods of a [`RangeLock`] that lock a range of elements.

use super::{
    Memory, RangeBatchGuard, RangeGuard, RangeLock, RangeReadGuard, RangeUpgradableGuard,
    RangeWriteGuard,
};
use crate::block::RangeOf;
use crate::error::RangeError;
use crate::raw::RawRangeLock;
use crate::verbs::verbs;
use core::future::Future;

impl<T, L: RawRangeLock, M: Memory<T>> RangeLock<T, L, M> {
    verbs! {
        pub use RangeGuard, RangeBatchGuard of L, RangeOf<T>;

        /// Locks the elements of `range` for reading; blocks while a writer holds any of them.
        /// Ordering: Acquire.
        ///
        /// # Errors
        /// A reversed range, one past the last element, or no memory.
        #[inline]
        fn read, try_read, try_read_for, try_read_until, read_async
            -> RangeReadGuard<'_, T, L, M>,
            impl Future<Output = Result<RangeReadGuard<'_, T, L, M>, RangeError>>;

        /// Locks the elements of `range` for reading, with the right to write later. Blocks while a
        /// writer or another upgradable reader holds any of them. Ordering: Acquire.
        ///
        /// # Errors
        /// A reversed range, one past the last element, or no memory.
        #[inline]
        fn upgradable_read, try_upgradable_read, try_upgradable_read_for,
            try_upgradable_read_until, upgradable_read_async
            -> RangeUpgradableGuard<'_, T, L, M>,
            impl Future<Output = Result<RangeUpgradableGuard<'_, T, L, M>, RangeError>>;

        /// Locks the elements of `range` for writing; blocks while anyone holds any of them.
        /// Ordering: Acquire.
        ///
        /// # Errors
        /// A reversed range, one past the last element, or no memory.
        #[inline]
        fn write, try_write, try_write_for, try_write_until, write_async
            -> RangeWriteGuard<'_, T, L, M>,
            impl Future<Output = Result<RangeWriteGuard<'_, T, L, M>, RangeError>>;

        several:
        /// Locks several ranges of elements together; blocks until no conflicting hold is left.
        /// Ordering: Acquire.
        ///
        /// The ranges may come in any order, overlap and repeat: each element is held with the
        /// strongest access requested for it. Request all of them in one call: a call that waits
        /// while its caller holds a guard of this lock may wait for ever.
        ///
        /// ```
        /// use spanlock_range_lock::{Access, RangeLock, RwCounter};
        ///
        /// let lock = RangeLock::with_lock([1, 2, 3, 4, 5, 6], RwCounter::new())?;
        /// let mut both = lock.lock_all([(4..6, Access::Write), (0..2, Access::Write)])?;
        /// let [low, high] = both.get_disjoint_mut([0..2, 4..6]).unwrap();
        /// low.swap_with_slice(high);
        /// drop(both);
        /// assert_eq!(lock.read(0..6)?[..], [5, 6, 3, 4, 1, 2]);
        /// # Ok::<(), spanlock_range_lock::RangeError>(())
        /// ```
        fn lock_all -> RangeBatchGuard<&Self, T>,
            impl Future<Output = Result<RangeBatchGuard<&Self, T>, RangeError>>;
    }
}
