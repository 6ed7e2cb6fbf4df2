//! Pointers to locks are locks: `Box`, `Arc` and `&` forward every trait of the lock behind them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Poll, Waker};

use crate::capabilities::{
    RawRangeLockBatch, RawRangeLockBatchWait, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, RawRangeLockUpgradeWait, RawRangeLockWait,
};
use crate::detect::LockId;
use crate::error::{NoMemory, RangeError, TryLockError};
use crate::raw::{Access, RawRangeLock, Span, Token};

/// Implements one unsafe trait for one pointer type by calling the lock behind it.
macro_rules! forward {
    ($trait:ident for $pointer:ty { $($items:tt)* }) => {
        // SAFETY: every call goes to the inner lock with the same arguments, so its guarantees
        // carry over.
        unsafe impl<L: $trait + ?Sized> $trait for $pointer { $($items)* }
    };
}

macro_rules! forward_all {
    ($pointer:ty) => {
        forward!(RawRangeLock for $pointer {
            #[inline]
            fn capacity(&self) -> u64 {
                (**self).capacity()
            }
            #[inline]
            fn granularity(&self) -> u64 {
                (**self).granularity()
            }
            #[inline]
            fn id(&self) -> Option<&LockId> {
                (**self).id()
            }
            fn reader_limit(&self, span: Span, token: Option<Token>) -> u32 {
                (**self).reader_limit(span, token)
            }
            #[inline]
            fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
                (**self).lock(span, access)
            }
            #[inline]
            fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
                (**self).try_lock(span, access)
            }
            #[inline]
            unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
                // SAFETY: the caller's promise is the inner lock's precondition, word for word.
                unsafe { (**self).unlock(span, access, token) }
            }
            #[inline]
            unsafe fn unlock_all(&self, batch: &[(Span, Access)], tokens: &[Token]) {
                // SAFETY: as `unlock`.
                unsafe { (**self).unlock_all(batch, tokens) }
            }
        });

        forward!(RawRangeLockWait for $pointer {
            type Request = L::Request;

            unsafe fn poll_lock(
                &self,
                span: Span,
                access: Access,
                request: Pin<&mut L::Request>,
                waker: &Waker,
            ) -> Poll<Result<Token, RangeError>> {
                // SAFETY: as `unlock`.
                unsafe { (**self).poll_lock(span, access, request, waker) }
            }
            unsafe fn cancel(
                &self,
                span: Span,
                access: Access,
                request: Pin<&mut L::Request>,
            ) {
                // SAFETY: as `unlock`.
                unsafe { (**self).cancel(span, access, request) }
            }
        });

        forward!(RawRangeLockDowngrade for $pointer {
            unsafe fn downgrade(&self, span: Span, from: Access, to: Access, token: &mut Token) {
                // SAFETY: as `unlock`.
                unsafe { (**self).downgrade(span, from, to, token) }
            }
        });

        forward!(RawRangeLockUpgrade for $pointer {
            unsafe fn try_upgrade(
                &self,
                span: Span,
                from: Access,
                token: Token,
            ) -> Result<Token, Token> {
                // SAFETY: as `unlock`.
                unsafe { (**self).try_upgrade(span, from, token) }
            }
        });

        forward!(RawRangeLockUpgradeWait for $pointer {
            unsafe fn upgrade(&self, span: Span, token: Token) -> Token {
                // SAFETY: as `unlock`.
                unsafe { (**self).upgrade(span, token) }
            }
            unsafe fn poll_upgrade(
                &self,
                span: Span,
                token: Token,
                waits: &mut bool,
                waker: &Waker,
            ) -> Poll<Token> {
                // SAFETY: as `unlock`.
                unsafe { (**self).poll_upgrade(span, token, waits, waker) }
            }
            unsafe fn cancel_upgrade(&self, span: Span, token: Token) {
                // SAFETY: as `unlock`.
                unsafe { (**self).cancel_upgrade(span, token) }
            }
        });

        forward!(RawRangeLockBatchWait for $pointer {
            type BatchRequest = L::BatchRequest;

            unsafe fn poll_batch(
                &self,
                batch: &[(Span, Access)],
                request: Pin<&mut L::BatchRequest>,
                waker: &Waker,
                tokens: &mut [Token],
            ) -> Poll<Result<(), RangeError>> {
                // SAFETY: as `unlock`.
                unsafe { (**self).poll_batch(batch, request, waker, tokens) }
            }
            unsafe fn cancel_batch(
                &self,
                batch: &[(Span, Access)],
                request: Pin<&mut L::BatchRequest>,
            ) {
                // SAFETY: as `unlock`.
                unsafe { (**self).cancel_batch(batch, request) }
            }
        });

        forward!(RawRangeLockSplit for $pointer {
            unsafe fn shrink(&self, span: Span, access: Access, token: &mut Token, keep: Span) {
                // SAFETY: as `unlock`.
                unsafe { (**self).shrink(span, access, token, keep) }
            }
            unsafe fn split(
                &self,
                span: Span,
                access: Access,
                token: &mut Token,
                at: u64,
                above: &mut Token,
            ) -> Result<(), NoMemory> {
                // SAFETY: as `unlock`.
                unsafe { (**self).split(span, access, token, at, above) }
            }
        });

        forward!(RawRangeLockBatch for $pointer {
            unsafe fn lock_batch(
                &self,
                batch: &[(Span, Access)],
                tokens: &mut [Token],
            ) -> Result<(), RangeError> {
                // SAFETY: as `unlock`.
                unsafe { (**self).lock_batch(batch, tokens) }
            }
            unsafe fn try_lock_batch(
                &self,
                batch: &[(Span, Access)],
                tokens: &mut [Token],
            ) -> Result<(), TryLockError> {
                // SAFETY: as `unlock`.
                unsafe { (**self).try_lock_batch(batch, tokens) }
            }
        });
    };
}

forward_all!(Box<L>);
forward_all!(Arc<L>);
forward_all!(&L);
