//! What a range lock may offer beyond locking and unlocking: each capability is a trait of its own,
//! in the manner of `lock_api`.
//!
//! | trait | adds |
//! |---|---|
//! | [`RawRangeLockWait`] | requests that wait without a thread: futures, deadlines, giving up |
//! | [`RawRangeLockDowngrade`] | an exclusive hold becomes shared, with no writer in between |
//! | [`RawRangeLockUpgrade`] | a shared hold becomes exclusive, if that is possible at once |
//! | [`RawRangeLockUpgradeWait`] | an upgradable hold waits until it is exclusive |
//! | [`RawRangeLockSplit`] | part of a hold is released, or becomes a hold of its own |
//! | [`RawRangeLockBatch`] | several ranges in one call, all or none |
//! | [`RawRangeLockBatchWait`] | the same, waiting without a thread |
//! | `RawRangeLockStatistics` | counts of acquisitions, waits, overtakes (feature `statistics`) |
//!
//! One rule covers every method with a `token` argument: pass the token of the acquisition or, if
//! the hold has changed since, of its last change. If the method returns or stores a token, that
//! one replaces it.
//!
//! # Panics
//! A change can unblock waiters. Their wakers are foreign code, which may panic, and then the
//! method panics. The caller must still know what it holds:
//!
//! | method | if it panics |
//! |---|---|
//! | `downgrade`, `shrink`, `split` | the hold is changed, and the tokens are stored |
//! | `try_upgrade`, `upgrade` | the hold is as before, and so is its token |
//! | `lock_batch`, `try_lock_batch` | nothing is held |
//! | `poll_upgrade` | the upgrade is not granted, and can be polled or cancelled |
//! | `cancel_upgrade` | the hold is upgradable |
//! | `poll_lock`, `poll_batch` | the request is not granted, and can be polled or cancelled |
//! | `cancel`, `cancel_batch` | the request is given up |

use core::pin::Pin;
use core::task::{Poll, Waker};

use crate::error::{NoMemory, RangeError, TryLockError};
use crate::raw::{Access, RawRangeLock, Span, Token};

/// A range lock whose requests can wait without a thread.
///
/// One implementation of waiting serves both kinds of waiters: a future polls, and a thread with a
/// deadline polls whenever it wakes.
///
/// # Safety
/// `Ready(Ok(token))` begins a hold exactly as the return of [`RawRangeLock::lock`] does, with the
/// same guarantees. A forgotten request, neither polled to the end nor cancelled, may block others
/// for ever, and breaks nothing else.
pub unsafe trait RawRangeLockWait: RawRangeLock {
    /// A pending request. The default is one that has not begun.
    ///
    /// The lock may keep a pointer to it while it waits. So it is pinned, and waiting need not
    /// allocate.
    type Request: Default + Send + Sync;

    /// Advances a request: acquires the span, or arranges for `waker` to be woken when a retry is
    /// worthwhile.
    ///
    /// Never blocks. However often a request is polled, it stays one waiter and keeps its place in
    /// the queue. Only the most recent `waker` is woken. After `Ready` the request is as new.
    /// Ordering: Acquire on `Ready(Ok)`.
    ///
    /// # Errors
    /// As for [`RawRangeLock::lock`].
    ///
    /// # Safety
    /// Since it was new, `request` has been passed to this lock only, with this span and access
    /// only. After `Pending`, the request is not dropped, and its memory is not used for anything
    /// else, until a later poll returns `Ready`, the request is [cancelled](Self::cancel), or the
    /// lock is dropped. (So it may be forgotten.)
    unsafe fn poll_lock(
        &self,
        span: Span,
        access: Access,
        request: Pin<&mut Self::Request>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>>;

    /// Gives up a request without leaving a trace: waiters blocked by this request alone proceed.
    /// The request is as new.
    ///
    /// Does nothing to a request that is new.
    ///
    /// # Safety
    /// As for [`poll_lock`](Self::poll_lock).
    unsafe fn cancel(&self, span: Span, access: Access, request: Pin<&mut Self::Request>);
}

/// A range lock whose holds can be downgraded, so that they exclude fewer requests.
///
/// # Safety
/// No writer holds any part of the span between the old hold and the new one. Everything done under
/// the old hold happens-before everything done under any later hold that conflicts with the old
/// one. If `downgrade` panics, the hold is downgraded, and `token` is valid for it.
pub unsafe trait RawRangeLockDowngrade: RawRangeLock {
    /// Turns a hold with `from` into one with `to`, which excludes less, and wakes the waiters that
    /// this unblocks. Stores the new token first. Never blocks. Ordering: Release.
    ///
    /// # Safety
    /// `span` is held with `from` and `token`. Either `from` is [`Access::Write`], or `from` is
    /// [`Access::Upgradable`] and `to` is [`Access::Read`].
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, token: &mut Token);
}

/// A range lock whose shared holds can become exclusive.
///
/// # Safety
/// No writer holds any part of the span between the old hold and the new one. After `Err`, and
/// after a panic, the hold is unchanged.
pub unsafe trait RawRangeLockUpgrade: RawRangeLock {
    /// Turns a hold with `from` ([`Access::Read`] or [`Access::Upgradable`]) into one with
    /// [`Access::Write`] if no other request holds any part of it. Never blocks. Ordering: Acquire
    /// on success.
    ///
    /// # Errors
    /// Another request holds part of it: a reader or, in a lock that acquires a range piece by
    /// piece, perhaps a waiting writer. The error is the token of the hold, which is unchanged.
    ///
    /// # Safety
    /// `span` is held with `from` and `token`.
    unsafe fn try_upgrade(&self, span: Span, from: Access, token: Token) -> Result<Token, Token>;
}

/// A range lock whose upgradable holds can wait until they are exclusive.
///
/// A lock that acquires a range piece by piece must not implement this, because three requests
/// could then wait in a cycle. A reader that holds one piece waits for the next, behind a writer.
/// That writer waits for the upgradable hold, and the upgrade waits for the reader.
///
/// # Safety
/// As for [`RawRangeLockUpgrade`]. After a panic the hold can be released as an upgradable one,
/// with its old token.
pub unsafe trait RawRangeLockUpgradeWait: RawRangeLockUpgrade {
    /// Turns a hold with [`Access::Upgradable`] into one with [`Access::Write`]. Blocks until the
    /// readers have left; meanwhile, new readers are kept out. Ordering: Acquire.
    ///
    /// # Safety
    /// `span` is held with [`Access::Upgradable`] and `token`.
    unsafe fn upgrade(&self, span: Span, token: Token) -> Token;

    /// Advances an upgrade that waits without a thread: turns the hold into one with
    /// [`Access::Write`], or arranges for `waker` to be woken when a retry is worthwhile. Keeps new
    /// readers out meanwhile, as [`upgrade`](Self::upgrade) does. Never blocks. Only the most
    /// recent `waker` is woken. Ordering: Acquire on `Ready`.
    ///
    /// `waits` is false at first; the lock sets it while the upgrade waits.
    ///
    /// # Safety
    /// As for [`upgrade`](Self::upgrade). While `waits` is true, the hold is passed to no other
    /// method than this one and [`cancel_upgrade`](Self::cancel_upgrade), and `waits` not changed.
    unsafe fn poll_upgrade(
        &self,
        span: Span,
        token: Token,
        waits: &mut bool,
        waker: &Waker,
    ) -> Poll<Token>;

    /// Gives up a waiting upgrade: the hold is upgradable again, and waiters that the upgrade alone
    /// blocked proceed.
    ///
    /// # Safety
    /// A [poll](Self::poll_upgrade) has set `waits`. The hold then has the access
    /// [`Access::Upgradable`] and the same token, even if this panics.
    unsafe fn cancel_upgrade(&self, span: Span, token: Token);
}

/// A range lock whose holds can be made smaller, and cut in two.
///
/// # Safety
/// `shrink` and `split` act as documented, and the kept part stays held throughout. If one of them
/// panics, the hold is changed all the same, and the stored tokens are valid.
pub unsafe trait RawRangeLockSplit: RawRangeLock {
    /// Releases the part of the hold of `span` that is not needed to hold `keep`, and wakes the
    /// waiters that this unblocks. Stores the new token first. Ordering: Release.
    ///
    /// # Safety
    /// `span` is held with `access` and `token`, and `keep` lies within it. From now on, `keep` is
    /// held instead.
    unsafe fn shrink(&self, span: Span, access: Access, token: &mut Token, keep: Span);

    /// Cuts the hold of `span` into one of `span.start()..at`, whose token is stored in `token`,
    /// and one of `at..span.end()`, whose token is stored in `above`.
    ///
    /// # Errors
    /// There is no memory for a second hold. The hold and its token are unchanged.
    ///
    /// # Safety
    /// `span` is held with `access` and `token`. The position `at` lies strictly within it and is a
    /// multiple of [`granularity`](RawRangeLock::granularity).
    unsafe fn split(
        &self,
        span: Span,
        access: Access,
        token: &mut Token,
        at: u64,
        above: &mut Token,
    ) -> Result<(), NoMemory>;
}

/// A range lock that acquires several ranges in one call, all or none.
///
/// A batch lists spans in ascending order, no two of which touch a common unit of the lock's
/// [granularity](RawRangeLock::granularity). Each span is released by a call of its own, like any
/// hold.
///
/// Two kinds of locks must grant all spans at once, instead of one after the other:
/// - A lock that is strictly first come, first served. Suppose a batch holds its first span and
///   queues for the second behind a wide request that waits for the first: both wait in a cycle.
/// - A lock whose upgrades wait. No batch may hold some of its spans while it waits for others.
///
/// # Deadlock
/// Requests, be they batches or single spans, never wait for each other in a cycle as long as no
/// hold of the lock waits for another request of it before it is released. It does not matter which
/// thread makes a request, or how many it has in flight. Nothing is promised for a hold whose owner
/// waits for another span, not even if it takes spans in ascending order. Suppose position 5 is
/// held, and a batch for 5 and 100 waits for it. If the owner of the hold now requests 100, the
/// request waits behind the batch, although nobody holds 100. A single span 5..101 may have the
/// same effect.
///
/// # Safety
/// After a return with `Ok`, each span is held as if [`RawRangeLock::lock`] had acquired it, with
/// the token at the same index of `tokens`. After an error nothing is held.
pub unsafe trait RawRangeLockBatch: RawRangeLock {
    /// Acquires every span of `batch`; blocks until no conflicting hold is left. Stores the tokens
    /// in `tokens`, which has any content after an error. Ordering: Acquire.
    ///
    /// # Errors
    /// As for [`RawRangeLock::lock`], for any of the spans. The error of a lack of memory gives a
    /// range that covers all spans.
    ///
    /// # Safety
    /// The spans are in ascending order. No two of them overlap after [rounding](Span::rounded)
    /// outwards to the lock's [granularity](RawRangeLock::granularity). There are as many tokens as
    /// spans.
    unsafe fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), RangeError>;

    /// Acquires every span of `batch` if that is possible at once; never blocks. Stores the tokens
    /// in `tokens`, which has any content after an error. Ordering: Acquire on success.
    ///
    /// # Errors
    /// As for [`RawRangeLock::try_lock`], for any of the spans.
    ///
    /// # Safety
    /// As for [`lock_batch`](Self::lock_batch).
    unsafe fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), TryLockError>;
}

/// A range lock that acquires several ranges in one call, all or none, and waits for them without a
/// thread.
///
/// # Safety
/// `Ready(Ok(()))` begins holds exactly as the return of [`RawRangeLockBatch::lock_batch`] does,
/// with the same guarantees. A forgotten request may block others for ever, and breaks nothing
/// else.
pub unsafe trait RawRangeLockBatchWait: RawRangeLockBatch + RawRangeLockWait {
    /// A pending request for several ranges. The default is one that has not begun.
    type BatchRequest: Default + Send + Sync;

    /// Advances a request for several ranges, as [`RawRangeLockWait::poll_lock`] does for one.
    /// Stores the tokens in `tokens` when ready; until then, they have any content. Ordering:
    /// Acquire on `Ready(Ok)`.
    ///
    /// # Errors
    /// As for [`RawRangeLockBatch::lock_batch`].
    ///
    /// # Safety
    /// As for [`RawRangeLockBatch::lock_batch`], and for [`RawRangeLockWait::poll_lock`], with this
    /// batch in place of the span and the access.
    unsafe fn poll_batch(
        &self,
        batch: &[(Span, Access)],
        request: Pin<&mut Self::BatchRequest>,
        waker: &Waker,
        tokens: &mut [Token],
    ) -> Poll<Result<(), RangeError>>;

    /// Gives up a request without leaving a trace, as [`RawRangeLockWait::cancel`] does.
    ///
    /// # Safety
    /// As for [`poll_batch`](Self::poll_batch).
    unsafe fn cancel_batch(&self, batch: &[(Span, Access)], request: Pin<&mut Self::BatchRequest>);
}
