//! Requests that the tests poll by hand, without an executor.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Poll, Wake, Waker};

use spanlock_interval_lock::{IntervalLock, IntervalRequest};
use spanlock_range_lock::{
    Access, RawRangeLock, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
    RawRangeLockUpgradeWait, RawRangeLockWait, Span, Token,
};

pub(crate) fn span(range: Range<u64>) -> Span {
    Span::new(range).expect("in order").expect("not empty")
}

/// A waker that counts its wakes.
#[derive(Default)]
pub(crate) struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Counter {
    pub(crate) fn wakes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// A request and its waker. Dropping an `Asked` does not cancel the request.
pub(crate) struct Asked<'a> {
    lock: &'a IntervalLock,
    pub(crate) span: Span,
    pub(crate) access: Access,
    request: IntervalRequest,
    pub(crate) counter: Arc<Counter>,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(lock: &'a IntervalLock, range: Range<u64>, access: Access) -> Self {
        Asked {
            lock,
            span: span(range),
            access,
            request: IntervalRequest::default(),
            counter: Arc::default(),
        }
    }

    /// Creates a request, polls it once, and asserts that it must wait.
    pub(crate) fn waiting(lock: &'a IntervalLock, range: Range<u64>, access: Access) -> Self {
        let mut asked = Asked::new(lock, range, access);
        assert!(asked.poll().is_none(), "granted at once");
        asked
    }

    pub(crate) fn poll(&mut self) -> Option<Taken<'a>> {
        self.poll_with(&Waker::from(self.counter.clone()))
    }

    pub(crate) fn poll_with(&mut self, waker: &Waker) -> Option<Taken<'a>> {
        // SAFETY: the request is used for this lock, span and access only.
        let poll = unsafe {
            (self.lock).poll_lock(self.span, self.access, Pin::new(&mut self.request), waker)
        };
        match poll {
            Poll::Ready(token) => Some(Taken {
                lock: self.lock,
                span: self.span,
                access: self.access,
                token: token.expect("every range is within the capacity"),
            }),
            Poll::Pending => None,
        }
    }

    pub(crate) fn cancel(&mut self) {
        // SAFETY: as above.
        unsafe { (self.lock).cancel(self.span, self.access, Pin::new(&mut self.request)) }
    }

    pub(crate) fn wakes(&self) -> usize {
        self.counter.wakes()
    }
}

/// A hold, with every capability of the lock. Dropping a `Taken` does not release the hold.
#[derive(Clone, Copy)]
pub(crate) struct Taken<'a> {
    lock: &'a IntervalLock,
    pub(crate) span: Span,
    pub(crate) access: Access,
    token: Token,
}

// SAFETY of all calls below: a `Taken` stands for a hold. Tests use each `Taken` once, although the
// type is `Copy`.
impl<'a> Taken<'a> {
    pub(crate) fn lock(lock: &'a IntervalLock, range: Range<u64>, access: Access) -> Self {
        let span = span(range);
        Taken {
            lock,
            span,
            access,
            token: lock
                .lock(span, access)
                .expect("every range is within the capacity"),
        }
    }

    pub(crate) fn release(self) {
        // SAFETY: above.
        unsafe { self.lock.unlock(self.span, self.access, self.token) }
    }

    pub(crate) fn downgrade(mut self) -> Self {
        // SAFETY: above.
        unsafe {
            self.lock
                .downgrade(self.span, self.access, Access::Read, &mut self.token)
        };
        self.access = Access::Read;
        self
    }

    /// Returns the hold, and whether it was upgraded.
    pub(crate) fn try_upgrade(self) -> (Self, bool) {
        // SAFETY: above.
        match unsafe { self.lock.try_upgrade(self.span, self.access, self.token) } {
            Ok(token) => {
                let access = Access::Write;
                let upgraded = Taken {
                    token,
                    access,
                    ..self
                };
                (upgraded, true)
            }
            Err(token) => (Taken { token, ..self }, false),
        }
    }

    pub(crate) fn upgrade(self) -> Self {
        // SAFETY: above; tests upgrade only upgradable holds.
        let token = unsafe { self.lock.upgrade(self.span, self.token) };
        let access = Access::Write;
        Taken {
            token,
            access,
            ..self
        }
    }

    pub(crate) fn shrink(mut self, keep: Range<u64>) -> Self {
        let keep = span(keep);
        // SAFETY: above; tests keep a part of the span.
        unsafe { (self.lock).shrink(self.span, self.access, &mut self.token, keep) };
        self.span = keep;
        self
    }

    pub(crate) fn split(self, at: u64) -> (Self, Self) {
        let (mut low, mut high) = (self.token, Token::NONE);
        // SAFETY: above; tests split within the span.
        unsafe { (self.lock).split(self.span, self.access, &mut low, at, &mut high) }
            .expect("memory");
        let part = |range, token| Taken {
            token,
            span: span(range),
            ..self
        };
        (
            part(self.span.start()..at, low),
            part(at..self.span.end(), high),
        )
    }
}
