//! A lock that is one packed word, with a position for each lane. In the real lock, the gate
//! provides the same memory orderings as the word, so no model would notice a wrong ordering of the
//! word.

use std::iter::once;
use std::pin::Pin;
use std::task::{Poll, Waker};

use spanlock_range_lock::words::{self, Progress, Run};
use spanlock_range_lock::{
    Access, RangeError, RawRangeLock, RawRangeLockDowngrade, RawRangeLockUpgrade, RawRangeLockWait,
    Span, Token, TryLockError,
};
use spanlock_srl::PackedWord;
use spanlock_sync::wait::WaitQueue;

/// A packed word and its queue. A span's positions are the numbers of its lanes.
pub(super) struct Bare {
    word: PackedWord,
    queue: WaitQueue,
}

impl Bare {
    /// Creates a word that no thread holds or waits for.
    pub(super) fn new() -> Self {
        Bare {
            word: PackedWord::new(),
            queue: WaitQueue::new(),
        }
    }

    fn run(&self, span: Span) -> Run<'_, PackedWord> {
        Run::new(&self.word, span.start() as u32, span.end() as u32)
    }
}

// SAFETY: a span is held exactly while the lanes at its positions are held.
unsafe impl RawRangeLock for Bare {
    fn capacity(&self) -> u64 {
        u64::from(<PackedWord as words::Word>::LANES)
    }

    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        self.run(span).lock(access, &self.queue);
        Ok(Token::NONE)
    }

    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let taken = self.run(span).try_lock(access, &self.queue);
        taken.then_some(Token::NONE).ok_or(TryLockError::WouldBlock)
    }

    unsafe fn unlock(&self, span: Span, access: Access, _token: Token) {
        // SAFETY: the caller holds the span, hence the lanes, with `access`.
        unsafe { self.run(span).unlock(access, &self.queue) }
    }
}

// SAFETY: `poll_lock` returns `Ready` when the lanes are acquired. A leaked request stays in its
// queue.
unsafe impl RawRangeLockWait for Bare {
    type Request = Progress;

    unsafe fn poll_lock(
        &self,
        span: Span,
        access: Access,
        request: Pin<&mut Progress>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        let run = once(self.run(span));
        // SAFETY: the caller's promise.
        let poll = unsafe { words::poll_all(run, access, request, &self.queue, waker) };
        poll.map(|()| Ok(Token::NONE))
    }

    unsafe fn cancel(&self, span: Span, access: Access, request: Pin<&mut Progress>) {
        // SAFETY: the caller's request was for these lanes, with this access.
        unsafe { words::cancel_all(once(self.run(span)), access, request, &self.queue) }
    }
}

// SAFETY: one read-modify-write of the word changes the hold from one access to the other.
unsafe impl RawRangeLockDowngrade for Bare {
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, _token: &mut Token) {
        // SAFETY: the caller holds the lanes with `from`, which is not `Read`.
        unsafe { self.run(span).downgrade(from, to, &self.queue) }
    }
}

// SAFETY: one read-modify-write of the word changes the hold from one access to the other.
unsafe impl RawRangeLockUpgrade for Bare {
    unsafe fn try_upgrade(&self, span: Span, from: Access, token: Token) -> Result<Token, Token> {
        // SAFETY: the caller holds the lanes with `from`, which is not `Write`.
        let upgraded = unsafe { self.run(span).try_upgrade(from) };
        if upgraded { Ok(token) } else { Err(token) }
    }
}
