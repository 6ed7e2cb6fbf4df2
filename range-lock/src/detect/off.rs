//! Detection switched off: nothing has a size, and every function is empty.

use super::Call;
use crate::raw::{Access, RawRangeLock, Span, Token};

/// The identity by which the feature `deadlock-detection` knows a lock: a field of the lock,
/// returned by its [`RawRangeLock::id`]. Without the feature it has no size.
#[derive(Debug, Default)]
pub struct LockId(());

impl LockId {
    /// Returns an identity that no other lock has.
    #[inline]
    pub const fn new() -> Self {
        LockId(())
    }
}

#[inline(always)]
pub(crate) fn check_home<L: RawRangeLock + ?Sized>(_: &L) {}

/// The record of a hold.
pub(crate) struct Watch;

impl Watch {
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Watch
    }

    #[inline(always)]
    pub(crate) fn begin<L: RawRangeLock + ?Sized>(_: &L, _: Span, _: Access, _: Token) -> Self {
        Watch
    }

    #[inline(always)]
    pub(crate) fn change<L: RawRangeLock + ?Sized>(&self, _: &L, _: Span, _: Access, _: Token) {}

    #[inline(always)]
    pub(crate) fn split<L: RawRangeLock + ?Sized>(&self, _: &L, _: Span, _: Access) -> Self {
        Watch
    }

    #[inline(always)]
    pub(crate) fn end(&mut self) {}
}

/// The record of a request that may be waiting.
pub(crate) struct Waiting;

#[inline(always)]
pub(crate) fn before<L: RawRangeLock + ?Sized>(
    _: &L,
    _: &[(Span, Access)],
    _: Call<'_>,
) -> Waiting {
    Waiting
}
