//! The methods that lock a range, written once for both places that offer them:
//! [`RangeLockExt`](crate::RangeLockExt) and [`RangeLock`](crate::RangeLock).

/// Defines the methods of each access (blocking, `try_`, with a timeout, with a deadline, async),
/// and `lock_all` with `try_lock_all`.
///
/// `$make` and `$make_all` are the types whose functions do the work, `$lock` the lock's type.
macro_rules! verbs {
    (
        $vis:vis use $make:ident, $make_all:ident of $lock:ty, $range:path;
        $(
            $(#[$doc:meta])*
            fn $now:ident, $try_now:ident, $try_for:ident, $try_until:ident, $async:ident
                -> $guard:ty, $future:ty;
        )*
        several:
        $(#[$doc_all:meta])*
        fn lock_all -> $batch:ty, $batch_future:ty;
    ) => {
        $(
            $(#[$doc])*
            #[cfg_attr(feature = "deadlock-detection", track_caller)]
            $vis fn $now(&self, range: impl $crate::IntoRange) -> Result<$guard, $crate::RangeError> {
                $make::lock(self, range)
            }

            #[doc = concat!("Like [`", stringify!($now), "`](Self::", stringify!($now), "), but")]
            /// never blocks. Ordering: Acquire on success.
            ///
            /// # Errors
            /// [`TryLockError::WouldBlock`](crate::TryLockError::WouldBlock) if it would have to
            /// wait; otherwise as
            #[doc = concat!("[`", stringify!($now), "`](Self::", stringify!($now), ").")]
            #[inline]
            #[cfg_attr(feature = "deadlock-detection", track_caller)]
            $vis fn $try_now(&self, range: impl $crate::IntoRange) -> Result<$guard, $crate::TryLockError> {
                $make::try_lock(self, range)
            }

            #[doc = concat!("Like [`", stringify!($now), "`](Self::", stringify!($now), "), but")]
            /// gives up after `timeout`. A timeout too long for the clock never ends.
            ///
            /// # Errors
            /// [`TimedLockError::TimedOut`](crate::TimedLockError::TimedOut), with no trace left;
            /// otherwise as
            #[doc = concat!("[`", stringify!($now), "`](Self::", stringify!($now), ").")]
            #[cfg(feature = "std")]
            #[cfg_attr(feature = "deadlock-detection", track_caller)]
            $vis fn $try_for(
                &self,
                range: impl $crate::IntoRange,
                timeout: std::time::Duration,
            ) -> Result<$guard, $crate::TimedLockError>
            where
                $lock: $crate::RawRangeLockWait,
            {
                $make::try_lock_for(self, range, timeout)
            }

            #[doc = concat!("Like [`", stringify!($now), "`](Self::", stringify!($now), "), but")]
            /// gives up at `deadline`. A deadline in the past makes this a try.
            ///
            /// # Errors
            /// [`TimedLockError::TimedOut`](crate::TimedLockError::TimedOut), with no trace left;
            /// otherwise as
            #[doc = concat!("[`", stringify!($now), "`](Self::", stringify!($now), ").")]
            #[cfg(feature = "std")]
            #[cfg_attr(feature = "deadlock-detection", track_caller)]
            $vis fn $try_until(
                &self,
                range: impl $crate::IntoRange,
                deadline: std::time::Instant,
            ) -> Result<$guard, $crate::TimedLockError>
            where
                $lock: $crate::RawRangeLockWait,
            {
                $make::try_lock_until(self, range, deadline)
            }

            #[doc = concat!("Like [`", stringify!($now), "`](Self::", stringify!($now), "), but")]
            /// returns a future and never blocks a thread. Dropping the future gives up the
            /// request and leaves no trace.
            ///
            /// # Errors
            #[doc = concat!("As for [`", stringify!($now), "`](Self::", stringify!($now), ").")]
            $vis fn $async(&self, range: impl $crate::IntoRange) -> $future
            where
                $lock: $crate::RawRangeLockWait,
            {
                $make::lock_async(self, range)
            }
        )*

        $(#[$doc_all])*
        ///
        /// # Errors
        /// A reversed range, one past the end, or no memory. Then nothing is held.
        #[cfg_attr(feature = "deadlock-detection", track_caller)]
        $vis fn lock_all(
            &self,
            requests: impl IntoIterator<Item = (impl $range, $crate::Access)>,
        ) -> Result<$batch, $crate::RangeError>
        where
            $lock: $crate::RawRangeLockBatch,
        {
            $make_all::lock(self, requests)
        }

        /// Like [`lock_all`](Self::lock_all), but never blocks. Ordering: Acquire on success.
        ///
        /// # Errors
        /// [`TryLockError::WouldBlock`](crate::TryLockError::WouldBlock) if it would have to wait
        /// for any range; otherwise as [`lock_all`](Self::lock_all). Then nothing is held.
        #[cfg_attr(feature = "deadlock-detection", track_caller)]
        $vis fn try_lock_all(
            &self,
            requests: impl IntoIterator<Item = (impl $range, $crate::Access)>,
        ) -> Result<$batch, $crate::TryLockError>
        where
            $lock: $crate::RawRangeLockBatch,
        {
            $make_all::try_lock(self, requests)
        }

        /// Like [`lock_all`](Self::lock_all), but gives up after `timeout`. A timeout too long for
        /// the clock never ends.
        ///
        /// # Errors
        /// [`TimedLockError::TimedOut`](crate::TimedLockError::TimedOut), with no trace left;
        /// otherwise as [`lock_all`](Self::lock_all).
        #[cfg(feature = "std")]
        #[cfg_attr(feature = "deadlock-detection", track_caller)]
        $vis fn try_lock_all_for(
            &self,
            requests: impl IntoIterator<Item = (impl $range, $crate::Access)>,
            timeout: std::time::Duration,
        ) -> Result<$batch, $crate::TimedLockError>
        where
            $lock: $crate::RawRangeLockBatchWait,
        {
            $make_all::try_lock_for(self, requests, timeout)
        }

        /// Like [`lock_all`](Self::lock_all), but gives up at `deadline`. A deadline in the past
        /// makes this a try.
        ///
        /// # Errors
        /// [`TimedLockError::TimedOut`](crate::TimedLockError::TimedOut), with no trace left;
        /// otherwise as [`lock_all`](Self::lock_all).
        #[cfg(feature = "std")]
        #[cfg_attr(feature = "deadlock-detection", track_caller)]
        $vis fn try_lock_all_until(
            &self,
            requests: impl IntoIterator<Item = (impl $range, $crate::Access)>,
            deadline: std::time::Instant,
        ) -> Result<$batch, $crate::TimedLockError>
        where
            $lock: $crate::RawRangeLockBatchWait,
        {
            $make_all::try_lock_until(self, requests, deadline)
        }

        /// Like [`lock_all`](Self::lock_all), but returns a future and never blocks a thread.
        /// Dropping the future gives up the request and leaves no trace.
        ///
        /// # Errors
        /// As for [`lock_all`](Self::lock_all).
        $vis fn lock_all_async(
            &self,
            requests: impl IntoIterator<Item = (impl $range, $crate::Access)>,
        ) -> $batch_future
        where
            $lock: $crate::RawRangeLockBatchWait,
        {
            $make_all::lock_async(self, requests)
        }
    };
}

pub(crate) use verbs;
