//! One reader-writer word for the whole range: NOVA's default, and our baseline.
//!
//! Every request acquires the same [`RwWord`](crate::RwWord), whatever its range. Uncontended,
//! nothing is cheaper. With many cores the writers are serialized and the readers share one cache
//! line: [SRL] §II-B measures that reads stop scaling at 8 cores and writes at 1.
//!
//! The line of the word has nothing else, so it moves at most once for each change of the word. The
//! flags of the queue, which each request reads, lie on the next line and stay in every cache.
//!
//! Fairness, progress and orderings: [`crate::words`].
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use core::pin::Pin;
use core::task::{Poll, Waker, ready};

use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{DefaultPark, Park};

use crate::capabilities::{RawRangeLockDowngrade, RawRangeLockUpgrade, RawRangeLockWait};
use crate::detect::LockId;
use crate::error::{RangeError, TryLockError};
use crate::raw::{Access, RawRangeLock, Span, Token};
use crate::rw_word::RwWord;
use crate::words::{self, Progress, Word};

/// A whole-range reader-writer lock: any two ranges conflict as if they overlapped. `P` is how
/// waiting threads park.
#[derive(Debug)]
pub struct RwCounter<P = DefaultPark> {
    word: Alone,
    queue: WaitQueue<P>,
    id: LockId,
}

/// The word on a line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Alone(RwWord);

impl RwCounter {
    /// Returns a lock without holders.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<P> Default for RwCounter<P> {
    /// Returns a lock without holders.
    fn default() -> Self {
        RwCounter {
            word: Alone(RwWord::new()),
            queue: WaitQueue::default(),
            id: LockId::new(),
        }
    }
}

// SAFETY: 1: all spans share one word, which provides exclusion (R-I1). 2: its orderings A, B, C.
// 3, 4: the word does not record its owner.
unsafe impl<P: Park> RawRangeLock for RwCounter<P> {
    #[inline]
    fn capacity(&self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn granularity(&self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn id(&self) -> Option<&LockId> {
        Some(&self.id)
    }

    fn reader_limit(&self, _span: Span, _token: Option<Token>) -> u32 {
        RwWord::READERS
    }

    #[inline]
    fn lock(&self, _span: Span, access: Access) -> Result<Token, RangeError> {
        self.word.0.run().lock(access, &self.queue);
        self.queue.counters().acquisitions(1);
        Ok(Token::NONE)
    }

    #[inline]
    fn try_lock(&self, _span: Span, access: Access) -> Result<Token, TryLockError> {
        if self.word.0.run().try_lock(access, &self.queue) {
            self.queue.counters().acquisitions(1);
            Ok(Token::NONE)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    #[inline]
    unsafe fn unlock(&self, _span: Span, access: Access, _token: Token) {
        // SAFETY: the caller holds the span, hence the word, with `access`.
        unsafe { self.word.0.run().unlock(access, &self.queue) }
    }
}

// SAFETY: `Ready` is returned once the word is acquired. A forgotten request stays in its queue.
unsafe impl<P: Park> RawRangeLockWait for RwCounter<P> {
    type Request = Progress;

    unsafe fn poll_lock(
        &self,
        _span: Span,
        access: Access,
        request: Pin<&mut Progress>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        let run = core::iter::once(self.word.0.run());
        // SAFETY: the caller's promise.
        ready!(unsafe { words::poll_all(run, access, request, &self.queue, waker) });
        self.queue.counters().acquisitions(1);
        Poll::Ready(Ok(Token::NONE))
    }

    unsafe fn cancel(&self, _span: Span, access: Access, request: Pin<&mut Progress>) {
        // SAFETY: the caller's request was for the word, with this access.
        unsafe {
            let run = core::iter::once(self.word.0.run());
            words::cancel_all(run, access, request, &self.queue);
        }
    }
}

// SAFETY: one store or read-modify-write of the only word: nothing can happen between the two
// holds.
unsafe impl<P: Park> RawRangeLockDowngrade for RwCounter<P> {
    #[inline]
    unsafe fn downgrade(&self, _span: Span, from: Access, to: Access, _token: &mut Token) {
        // SAFETY: the caller holds the word with `from`, which is not `Read`.
        unsafe { self.word.0.run().downgrade(from, to, &self.queue) }
    }
}

// SAFETY: one compare-exchange of the only word: nothing can happen between the two holds.
unsafe impl<P: Park> RawRangeLockUpgrade for RwCounter<P> {
    #[inline]
    unsafe fn try_upgrade(&self, _span: Span, from: Access, token: Token) -> Result<Token, Token> {
        // SAFETY: the caller holds the word with `from`, which is not `Write`.
        if unsafe { self.word.0.run().try_upgrade(from) } {
            Ok(token)
        } else {
            Err(token)
        }
    }
}

#[cfg(feature = "statistics")]
impl<P: Park> crate::RawRangeLockStatistics for RwCounter<P> {
    fn statistics(&self) -> crate::Statistics {
        self.queue.counters().snapshot()
    }
}
