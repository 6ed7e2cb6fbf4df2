//! The holds and requests of a simulated owner. One thread can play many owners, because it polls
//! their requests explicitly.
//!
//! Both types are safe to use, because only this module creates their values. Dropping a [`Hold`]
//! does not release its span, and dropping an [`Asked`] does not cancel its request.

use core::any::Any;
use core::fmt;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::task::{Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Wake;

use spanlock_range_lock::{Access, RangeError, Span, Token, TryLockError};

use crate::Driven;

/// Converts a range, which must be in order and not empty, to a span.
pub fn span(range: core::ops::Range<u64>) -> Span {
    Span::new(range).expect("in order").expect("not empty")
}

/// A hold, which its owner changes and releases explicitly.
pub struct Hold<'a> {
    lock: &'a Driven,
    span: Span,
    access: Access,
    token: Token,
}

impl fmt::Debug for Hold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.access, self.span)
    }
}

// SAFETY of all calls below: a `Hold` is created when its span has been acquired, and consumed when
// the span is released. Its token is the one that the last change returned.
impl<'a> Hold<'a> {
    /// Locks a span, blocking.
    ///
    /// # Errors
    /// As for [`spanlock_range_lock::RawRangeLock::lock`].
    pub fn lock(lock: &'a Driven, span: Span, access: Access) -> Result<Self, RangeError> {
        let token = lock.raw.lock(span, access)?;
        Ok(Hold::of(lock, span, access, token))
    }

    /// Locks a span if that is possible at once.
    ///
    /// # Errors
    /// As for [`spanlock_range_lock::RawRangeLock::try_lock`].
    pub fn try_lock(lock: &'a Driven, span: Span, access: Access) -> Result<Self, TryLockError> {
        let token = lock.raw.try_lock(span, access)?;
        Ok(Hold::of(lock, span, access, token))
    }

    /// Locks several spans, blocking. Requires the capability `batch`.
    ///
    /// # Panics
    /// Panics if the spans are not in order, if two of them share a unit, or if the lock lacks the
    /// capability.
    ///
    /// # Errors
    /// As for [`spanlock_range_lock::RawRangeLockBatch::lock_batch`].
    pub fn lock_all(lock: &'a Driven, batch: &[(Span, Access)]) -> Result<Vec<Self>, RangeError> {
        let mut tokens = vec![Token::NONE; batch.len()];
        let capability = lock.batch.as_ref().expect("a lock with this capability");
        assert!(lock.is_batch(batch), "{batch:?}");
        // SAFETY: the assertion above.
        unsafe { capability.lock_batch(batch, &mut tokens) }?;
        Ok(Hold::each(lock, batch, tokens))
    }

    /// Locks several spans if that is possible at once. Requires the capability `batch`.
    ///
    /// # Panics
    /// As for [`lock_all`](Self::lock_all).
    ///
    /// # Errors
    /// As for [`spanlock_range_lock::RawRangeLockBatch::try_lock_batch`].
    pub fn try_lock_all(
        lock: &'a Driven,
        batch: &[(Span, Access)],
    ) -> Result<Vec<Self>, TryLockError> {
        let mut tokens = vec![Token::NONE; batch.len()];
        let capability = lock.batch.as_ref().expect("a lock with this capability");
        assert!(lock.is_batch(batch), "{batch:?}");
        // SAFETY: the assertion above.
        unsafe { capability.try_lock_batch(batch, &mut tokens) }?;
        Ok(Hold::each(lock, batch, tokens))
    }

    fn of(lock: &'a Driven, span: Span, access: Access, token: Token) -> Self {
        Hold {
            lock,
            span,
            access,
            token,
        }
    }

    fn each(lock: &'a Driven, batch: &[(Span, Access)], tokens: Vec<Token>) -> Vec<Self> {
        let pairs = batch.iter().zip(tokens);
        pairs
            .map(|(&(span, access), token)| Hold::of(lock, span, access, token))
            .collect()
    }

    /// Returns the held span.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Returns the access.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Releases the hold.
    pub fn release(self) {
        // SAFETY: the comment above this `impl`.
        unsafe { self.lock.raw.unlock(self.span, self.access, self.token) }
    }

    /// Releases all the holds in one call. They must be of one lock.
    pub fn release_all(holds: Vec<Self>) {
        let Some(first) = holds.first() else { return };
        let (raw, spans) = (&first.lock.raw, holds.iter());
        let (spans, tokens): (Vec<_>, Vec<_>) = spans
            .map(|hold| ((hold.span, hold.access), hold.token))
            .unzip();
        // SAFETY: the comment above this `impl`.
        unsafe { raw.unlock_all(&spans, &tokens) }
    }

    /// Downgrades the hold to a read. Requires the capability `downgrade`, and a hold that is not a
    /// read.
    pub fn downgrade(&mut self) {
        let capability = self.lock.downgrade.as_ref();
        let capability = capability.expect("a lock with this capability");
        // SAFETY: the comment above this `impl`.
        unsafe { capability.downgrade(self.span, self.access, Access::Read, &mut self.token) };
        self.access = Access::Read;
    }

    /// Upgrades the hold to a write if that is possible at once, and returns whether it was.
    /// Requires the capability `upgrade`, and a hold that is not a write.
    pub fn try_upgrade(&mut self) -> bool {
        let capability = self
            .lock
            .upgrade
            .as_ref()
            .expect("a lock with this capability");
        // SAFETY: the comment above this `impl`.
        let upgraded = unsafe { capability.try_upgrade(self.span, self.access, self.token) };
        let worked = upgraded.is_ok();
        let (Ok(token) | Err(token)) = upgraded;
        self.token = token;
        if worked {
            self.access = Access::Write;
        }
        worked
    }

    /// Upgrades the hold to a write, blocking. Requires the capability `upgrade_wait` and an
    /// upgradable hold.
    pub fn upgrade(&mut self) {
        assert_eq!(self.access, Access::Upgradable);
        let capability = self.lock.upgrade_wait.as_ref();
        let capability = capability.expect("a lock with this capability");
        // SAFETY: the comment above this `impl`.
        self.token = unsafe { capability.upgrade(self.span, self.token) };
        self.access = Access::Write;
    }

    /// Polls an upgrade of the hold to a write, and returns whether it was granted. `waits` is
    /// false at first. Requires the capability `upgrade_wait` and an upgradable hold.
    pub fn poll_upgrade(&mut self, waits: &mut bool, waker: &Waker) -> bool {
        assert_eq!(self.access, Access::Upgradable);
        let capability = self.lock.upgrade_wait.as_ref();
        let capability = capability.expect("a lock with this capability");
        // SAFETY: the comment above this `impl`.
        match unsafe { capability.poll_upgrade(self.span, self.token, waits, waker) } {
            Poll::Ready(token) => {
                (self.token, self.access) = (token, Access::Write);
                true
            }
            Poll::Pending => false,
        }
    }

    /// Cancels an upgrade that waits.
    pub fn cancel_upgrade(&mut self) {
        let capability = self.lock.upgrade_wait.as_ref();
        let capability = capability.expect("a lock with this capability");
        // SAFETY: the comment above this `impl`.
        unsafe { capability.cancel_upgrade(self.span, self.token) }
    }

    /// Shrinks the hold to `keep`. Requires the capability `split`.
    pub fn shrink(&mut self, keep: Span) {
        assert!(self.span.start() <= keep.start() && keep.end() <= self.span.end());
        let capability = self
            .lock
            .split
            .as_ref()
            .expect("a lock with this capability");
        // SAFETY: the comment above this `impl`.
        unsafe { capability.shrink(self.span, self.access, &mut self.token, keep) };
        self.span = keep;
    }

    /// Splits the hold at `at`, and returns the upper part. Requires the capability `split` and a
    /// position that is valid for
    /// [`RawRangeLockSplit::split`](spanlock_range_lock::RawRangeLockSplit::split).
    pub fn split(&mut self, at: u64) -> Hold<'a> {
        let (low, high) = (span(self.span.start()..at), span(at..self.span.end()));
        let capability = self
            .lock
            .split
            .as_ref()
            .expect("a lock with this capability");
        let mut above = Token::NONE;
        // SAFETY: the comment above this `impl`.
        unsafe { capability.split(self.span, self.access, &mut self.token, at, &mut above) }
            .expect("memory for a second hold");
        self.span = low;
        Hold::of(self.lock, high, self.access, above)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.waits {
            // SAFETY: the request is dropped only here, and is in no queue.
            unsafe { ManuallyDrop::drop(&mut self.request) }
        }
    }
}

/// A request for several spans, to a lock with the capability `batch`.
pub struct AskedAll<'a> {
    lock: &'a Driven,
    batch: Vec<(Span, Access)>,
    request: Pin<Box<dyn Any + Send>>,
}

impl<'a> AskedAll<'a> {
    /// Returns a request that has not begun.
    ///
    /// # Panics
    /// As for [`Hold::lock_all`].
    pub fn new(lock: &'a Driven, batch: Vec<(Span, Access)>) -> Self {
        assert!(lock.is_batch(&batch), "{batch:?}");
        let capability = lock.batch.as_ref().expect("a lock with this capability");
        let request = capability.batch_request();
        AskedAll {
            lock,
            batch,
            request,
        }
    }

    /// Polls. Returns the holds if the request is granted.
    pub fn poll(&mut self, waker: &Waker) -> Option<Vec<Hold<'a>>> {
        let capability = self.lock.batch.as_ref().expect("checked by `new`");
        let mut tokens = vec![Token::NONE; self.batch.len()];
        let request = self.request.as_mut();
        // SAFETY: the request is passed to this lock only, with this batch, whose form `new` has
        // checked. Dropping it cancels it.
        let poll = unsafe { capability.poll_all(&self.batch, request, waker, &mut tokens) };
        match poll {
            Poll::Ready(granted) => {
                granted.expect("in range");
                Some(Hold::each(self.lock, &self.batch, tokens))
            }
            Poll::Pending => None,
        }
    }
}

impl Drop for AskedAll<'_> {
    fn drop(&mut self) {
        let capability = self.lock.batch.as_ref().expect("checked by `new`");
        // SAFETY: as in `poll`. Does nothing to a request that was granted.
        unsafe { capability.cancel_all(&self.batch, self.request.as_mut()) }
    }
}

/// A waker that counts its wakeups.
#[derive(Debug, Default)]
pub struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        // Relaxed: a counter, which publishes nothing.
        self.0.fetch_add(1, Relaxed);
    }
}

/// A request to a lock with the capability `wait`, and a waker that counts the request's wakeups.
pub struct Asked<'a> {
    lock: &'a Driven,
    span: Span,
    access: Access,
    /// Leaked if it still waits when this is dropped, because the lock then has a pointer to it.
    request: ManuallyDrop<Pin<Box<dyn Any + Send>>>,
    /// Whether the request may be in a queue.
    waits: bool,
    wakes: Arc<Wakes>,
    /// The number of wakeups before the last poll.
    seen: usize,
}

impl fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (access, span, wakes) = (self.access, self.span, self.wakes());
        write!(f, "{access:?} {span:?}, woken {wakes} times")
    }
}

impl<'a> Asked<'a> {
    /// Returns a request that has not begun.
    pub fn new(lock: &'a Driven, span: Span, access: Access) -> Self {
        let wait = lock.wait.as_ref().expect("a lock with this capability");
        Asked {
            lock,
            span,
            access,
            request: ManuallyDrop::new(wait.request()),
            waits: false,
            wakes: Arc::default(),
            seen: 0,
        }
    }

    /// Polls a new request once, and returns it.
    ///
    /// # Panics
    /// Panics if the poll grants the request.
    pub fn waiting(lock: &'a Driven, span: Span, access: Access) -> Self {
        let mut asked = Asked::new(lock, span, access);
        let polled = asked.poll().expect("a valid span");
        assert!(polled.is_none(), "{access:?} {span:?} was granted at once");
        asked
    }

    /// Polls with the counting waker. Returns the hold if the request is granted.
    ///
    /// # Errors
    /// As for [`spanlock_range_lock::RawRangeLock::lock`].
    pub fn poll(&mut self) -> Result<Option<Hold<'a>>, RangeError> {
        self.seen = self.wakes();
        self.poll_with(&Waker::from(self.wakes.clone()))
    }

    /// Polls with the caller's waker. Returns the hold if the request is granted.
    ///
    /// # Errors
    /// As for [`spanlock_range_lock::RawRangeLock::lock`].
    pub fn poll_with(&mut self, waker: &Waker) -> Result<Option<Hold<'a>>, RangeError> {
        let wait = self.lock.wait.as_ref().expect("checked by `new`");
        // Even if a waker panics, the request may be in a queue.
        self.waits = true;
        // SAFETY: the request is passed to this lock only, with this span and access. It is leaked
        // unless the poll returns `Ready`, or the request is cancelled.
        let poll = unsafe { wait.poll(self.span, self.access, self.request.as_mut(), waker) };
        self.waits = poll.is_pending();
        match poll {
            Poll::Ready(Ok(token)) => Ok(Some(Hold::of(self.lock, self.span, self.access, token))),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(None),
        }
    }

    /// Cancels the request.
    pub fn cancel(mut self) {
        let wait = self.lock.wait.as_ref().expect("checked by `new`");
        // SAFETY: as in `poll_with`.
        unsafe { wait.cancel(self.span, self.access, self.request.as_mut()) }
        self.waits = false;
    }

    /// Returns the requested span.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Returns the requested access.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns how often the request has been woken.
    pub fn wakes(&self) -> usize {
        self.wakes.0.load(Relaxed)
    }

    /// Returns whether the request has been woken since its last poll.
    pub fn is_woken(&self) -> bool {
        self.wakes() > self.seen
    }

    /// Returns the number of wakers of this request that the lock keeps.
    pub fn wakers(&self) -> usize {
        Arc::strong_count(&self.wakes) - 1
    }
}
