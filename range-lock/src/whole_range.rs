//! Batches and parts for the locks that have a single unit: the whole range.

use core::pin::Pin;
use core::task::{Poll, Waker, ready};

use spanlock_sync::Park;

use crate::capabilities::{
    RawRangeLockBatch, RawRangeLockBatchWait, RawRangeLockSplit, RawRangeLockWait,
};
use crate::error::{NoMemory, RangeError, TryLockError};
use crate::raw::{Access, RawRangeLock, Span, Token};
use crate::rw_counter::RwCounter;
#[cfg(feature = "std")]
use crate::rw_distributed::RwDistributed;

macro_rules! whole_range {
    ($lock:ty) => {
        // SAFETY: no two spans of a batch touch a common unit, and the lock has only one unit. So a
        // batch has at most one span, acquired like any other.
        unsafe impl<P: Park> RawRangeLockBatch for $lock {
            unsafe fn lock_batch(
                &self,
                batch: &[(Span, Access)],
                tokens: &mut [Token],
            ) -> Result<(), RangeError> {
                debug_assert!(batch.len() <= 1, "{batch:?} is one unit");
                for (&(span, access), token) in batch.iter().zip(tokens) {
                    *token = self.lock(span, access)?;
                }
                Ok(())
            }

            unsafe fn try_lock_batch(
                &self,
                batch: &[(Span, Access)],
                tokens: &mut [Token],
            ) -> Result<(), TryLockError> {
                debug_assert!(batch.len() <= 1, "{batch:?} is one unit");
                for (&(span, access), token) in batch.iter().zip(tokens) {
                    *token = self.try_lock(span, access)?;
                }
                Ok(())
            }
        }

        // SAFETY: as above: a request for the only span, if there is one.
        unsafe impl<P: Park> RawRangeLockBatchWait for $lock {
            type BatchRequest = Self::Request;

            unsafe fn poll_batch(
                &self,
                batch: &[(Span, Access)],
                request: Pin<&mut Self::Request>,
                waker: &Waker,
                tokens: &mut [Token],
            ) -> Poll<Result<(), RangeError>> {
                debug_assert!(batch.len() <= 1, "{batch:?} is one unit");
                if let Some(&(span, access)) = batch.first() {
                    // SAFETY: the caller's promise.
                    let poll = unsafe { self.poll_lock(span, access, request, waker) };
                    tokens[0] = ready!(poll)?;
                }
                Poll::Ready(Ok(()))
            }

            unsafe fn cancel_batch(
                &self,
                batch: &[(Span, Access)],
                request: Pin<&mut Self::Request>,
            ) {
                if let Some(&(span, access)) = batch.first() {
                    // SAFETY: the caller's promise.
                    unsafe { self.cancel(span, access, request) }
                }
            }
        }

        // SAFETY: a hold of any part holds the whole range, so shrinking changes nothing. Nobody
        // can meet the precondition of `split`: no position within a span is a multiple of
        // `u64::MAX`.
        unsafe impl<P: Park> RawRangeLockSplit for $lock {
            unsafe fn shrink(&self, _: Span, _: Access, _: &mut Token, _: Span) {}

            unsafe fn split(
                &self,
                _: Span,
                _: Access,
                _: &mut Token,
                at: u64,
                _: &mut Token,
            ) -> Result<(), NoMemory> {
                unreachable!(
                    "a whole-range lock was split at {at}: it has a single unit, which cannot be split"
                );
            }
        }
    };
}

whole_range!(RwCounter<P>);
#[cfg(feature = "std")]
whole_range!(RwDistributed<P>);
