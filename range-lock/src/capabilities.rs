//! What a range lock can do beyond taking and giving back, each power a trait of its own in the manner of `lock_api`.
//!
//! | trait | adds |
//! |---|---|
//! | [`RawRangeLockWait`] | requests that wait without a thread: futures, deadlines, giving up |
//! | [`RawRangeLockDowngrade`] | an exclusive hold becomes a shared one, with no writer between |
//! | [`RawRangeLockUpgrade`] | a shared or upgradable hold becomes an exclusive one, if that is possible at once |
//! | [`RawRangeLockUpgradeWait`] | an upgradable hold waits until it is exclusive |
//! | [`RawRangeLockSplit`] | part of a hold is given back, or becomes a hold of its own |
//! | [`RawRangeLockBatch`] | several ranges in one call, all or none |
//! | `RawRangeLockStatistics` | how often it was taken, waited for and overtaken, with the feature `statistics` |
//!
//! Every method that takes a `token` follows one rule: the token is the one that the hold's last change returned, and
//! what the method returns replaces it.

use alloc::vec::Vec;
use core::task::{Poll, Waker};

use crate::error::{RangeError, TryLockError};
use crate::raw::{Access, RawRangeLock, Span, Token};

/// A range lock whose requests can wait without a thread.
///
/// One implementation of waiting serves both kinds of waiters: a future polls, and a thread that
/// has a deadline polls whenever it wakes.
///
/// # Safety
/// `Ready(Ok(token))` begins a hold as the return of [`RawRangeLock::lock`] does, with the same guarantees. A
/// request that is forgotten (neither polled to the end nor cancelled) may hold up others for ever, and breaks nothing else.
pub unsafe trait RawRangeLockWait: RawRangeLock {
    /// A request on its way. Its default is one that has not begun.
    type Request: Default + Send + Sync + Unpin;

    /// Goes on with a request: takes the span, or sees to it that `waker` is woken when it is worth looking again.
    ///
    /// Never blocks. A request that is polled again and again stays one waiter, in its place; only the last
    /// `waker` counts. After `Ready` the request is as new. Ordering: Acquire on `Ready(Ok)`.
    ///
    /// # Errors
    /// As [`RawRangeLock::lock`].
    ///
    /// # Safety
    /// Since it was new, `request` has been given to this lock only, with this span and access only.
    unsafe fn poll_lock(
        &self,
        span: Span,
        access: Access,
        request: &mut Self::Request,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>>;

    /// Gives a request up and leaves no trace: whoever waits only for it goes on. The request is as new.
    ///
    /// Does nothing to a request that is new.
    ///
    /// # Safety
    /// As [`poll_lock`](Self::poll_lock).
    unsafe fn cancel(&self, span: Span, access: Access, request: &mut Self::Request);
}

/// A range lock whose holds can come to exclude less.
///
/// # Safety
/// No writer holds any part of the span between the two holds, and what was done under the hold before
/// happens-before what is done under every later hold of part of it that conflicts with the hold before.
pub unsafe trait RawRangeLockDowngrade: RawRangeLock {
    /// Turns a hold with `from` into one with `to`, which excludes less, and lets in
    /// whom that unblocks. Never blocks. Ordering: Release.
    ///
    /// # Safety
    /// `span` is held with `from` and `token`. `from` is [`Access::Write`], or [`Access::Upgradable`] and `to` is [`Access::Read`].
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, token: Token) -> Token;
}

/// A range lock whose shared holds can become exclusive ones.
///
/// # Safety
/// No writer holds any part of the span between the two holds. After `Err` the hold is as before.
pub unsafe trait RawRangeLockUpgrade: RawRangeLock {
    /// Turns a hold with `from`, [`Access::Read`] or [`Access::Upgradable`], into one with [`Access::Write`] if nobody else
    /// holds any part of it; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// Somebody else reads part of it. The token is that of the hold, which is unchanged.
    ///
    /// # Safety
    /// `span` is held with `from` and `token`.
    unsafe fn try_upgrade(&self, span: Span, from: Access, token: Token) -> Result<Token, Token>;
}

/// A range lock whose upgradable holds can wait until they are exclusive.
///
/// Not for locks that take a range piece by piece: a reader may hold one piece and wait, behind a writer, for
/// the next, while that writer waits for the upgradable hold, which waits for the reader.
///
/// # Safety
/// As [`RawRangeLockUpgrade`].
pub unsafe trait RawRangeLockUpgradeWait: RawRangeLockUpgrade {
    /// Turns a hold with [`Access::Upgradable`] into one with [`Access::Write`]; blocks until the readers have left.
    /// New readers are kept out meanwhile. Ordering: Acquire.
    ///
    /// # Safety
    /// `span` is held with [`Access::Upgradable`] and `token`.
    unsafe fn upgrade(&self, span: Span, token: Token) -> Token;
}

/// A range lock whose holds can be made smaller, and cut in two.
///
/// # Safety
/// What is said of `shrink` and `split` holds: what is kept stays held throughout.
pub unsafe trait RawRangeLockSplit: RawRangeLock {
    /// Gives back what of the hold of `span` is not needed to hold `keep`, and wakes whom that unblocks. Ordering: Release.
    ///
    /// # Safety
    /// `span` is held with `access` and `token`; `keep` lies within it. From now on `keep` is what is held.
    unsafe fn shrink(&self, span: Span, access: Access, token: Token, keep: Span) -> Token;

    /// Cuts the hold of `span` into one of `span.start()..at` and one of `at..span.end()`.
    ///
    /// # Safety
    /// `span` is held with `access` and `token`; `at` lies strictly within it and is a multiple of
    /// [`granularity`](RawRangeLock::granularity).
    unsafe fn split(&self, span: Span, access: Access, token: Token, at: u64) -> (Token, Token);
}

/// A range lock that takes several ranges in one call, all or none.
///
/// A batch lists spans in ascending order; no two of them touch a common unit of the lock's
/// [granularity](RawRangeLock::granularity). Each is released by a call of its own, as any hold.
///
/// First come, first served, a lock may not take the spans one after the other: who holds the first and queues for the second
/// behind a wide request, which waits for the first, waits in a circle. Nor may one whose upgrades wait hold some while it waits for
/// others. Such a lock grants all at once.
///
/// # Safety
/// When it returns with `Ok`, each span is held as if [`RawRangeLock::lock`] had taken it, by the token of the same place in
/// `tokens`. On an error nothing is held. Calls of batches, and of single spans in ascending order, never wait for each
/// other in a circle.
pub unsafe trait RawRangeLockBatch: RawRangeLock {
    /// Takes every span of `batch`; blocks until no conflicting hold is left. Appends their tokens. Ordering: Acquire.
    ///
    /// # Errors
    /// As [`RawRangeLock::lock`], for any of the spans.
    ///
    /// # Safety
    /// The spans are in ascending order, and no two of them overlap when they are [rounded](Span::rounded) outwards to the lock's
    /// [granularity](RawRangeLock::granularity).
    unsafe fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), RangeError>;

    /// Takes every span of `batch` if that is possible at once; never blocks. Appends their tokens. Ordering: Acquire on
    /// success.
    ///
    /// # Errors
    /// As [`RawRangeLock::try_lock`], for any of the spans.
    ///
    /// # Safety
    /// As [`lock_batch`](Self::lock_batch).
    unsafe fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), TryLockError>;
}
