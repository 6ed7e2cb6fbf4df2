//! No detection: nothing has a size, and nothing is done.

use crate::raw::{Access, RawRangeLock, Span};

/// What the feature `deadlock-detection` knows a lock by: a field of the lock, which its
/// [`RawRangeLock::id`] returns. Without the feature it has no size.
#[derive(Debug, Default)]
pub struct LockId(());

impl LockId {
    /// An identity that no other lock has.
    #[inline]
    pub fn new() -> Self {
        LockId(())
    }
}

/// A hold's record.
pub(crate) struct Watch;

impl Watch {
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Watch
    }

    #[inline(always)]
    pub(crate) fn begin<L: RawRangeLock + ?Sized>(_: &L, _: Span, _: Access) -> Self {
        Watch
    }

    #[inline(always)]
    pub(crate) fn change<L: RawRangeLock + ?Sized>(&self, _: &L, _: Span, _: Access) {}

    #[inline(always)]
    pub(crate) fn split<L: RawRangeLock + ?Sized>(&self, _: &L, _: Span, _: Access) -> Self {
        Watch
    }

    #[inline(always)]
    pub(crate) fn end(&mut self) {}
}

#[inline(always)]
pub(crate) fn before<L: RawRangeLock + ?Sized>(_: &L, _: &[(Span, Access)], _: Option<&Watch>) {}
