//! One reader-writer word for the whole range: NOVA's default, and our baseline.
//!
//! Every request takes the same [`RwWord`](crate::RwWord), whatever its range. Nothing is cheaper while
//! nobody competes; with many cores the writers stand in one line, and the readers share one
//! cache line, which is what [SRL] §II-B measures: reads stop scaling at 8 cores, writes at 1.
//!
//! Fairness, progress, orderings: [`crate::rw_word`].
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use spanlock_sync::wait::WaitQueue;

use crate::error::{RangeError, TryLockError};
use crate::powers::{RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade};
use crate::raw::{Access, RawRangeLock, Span, Token};
use crate::rw_word::RwWord;

/// A reader-writer lock for everything: any two ranges conflict unless both are read.
#[derive(Debug)]
pub struct RwCounter {
    word: RwWord,
    queue: WaitQueue,
}

impl RwCounter {
    /// A lock that nobody holds.
    pub fn new() -> Self {
        RwCounter {
            word: RwWord::new(),
            queue: WaitQueue::new(),
        }
    }
}

impl Default for RwCounter {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: 1: all spans take one word, which excludes (W-I1). 2: its orderings A, B, C. 3, 4: the word knows no owner.
unsafe impl RawRangeLock for RwCounter {
    #[inline]
    fn capacity(&self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn granularity(&self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn lock(&self, _span: Span, access: Access) -> Result<Token, RangeError> {
        self.word.lock(access, &self.queue);
        Ok(Token::NONE)
    }

    #[inline]
    fn try_lock(&self, _span: Span, access: Access) -> Result<Token, TryLockError> {
        if self.word.try_lock(access) {
            Ok(Token::NONE)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    #[inline]
    unsafe fn unlock(&self, _span: Span, access: Access, _token: Token) {
        // SAFETY: the caller holds the span, hence the word, with `access`.
        unsafe { self.word.unlock(access, &self.queue) }
    }
}

// SAFETY: one store or read-modify-write of the one word: there is no moment between the two holds.
unsafe impl RawRangeLockDowngrade for RwCounter {
    #[inline]
    unsafe fn downgrade(&self, _span: Span, from: Access, token: Token) -> Token {
        // SAFETY: the caller holds the word with `from`, which is not `Read`.
        unsafe { self.word.downgrade(from, Access::Read, &self.queue) }
        token
    }
}

// SAFETY: one compare-exchange of the one word: there is no moment between the two holds.
unsafe impl RawRangeLockUpgrade for RwCounter {
    #[inline]
    unsafe fn try_upgrade(&self, _span: Span, from: Access, token: Token) -> Result<Token, Token> {
        // SAFETY: the caller holds the word with `from`, which is not `Write`.
        if unsafe { self.word.try_upgrade(from) } {
            Ok(token)
        } else {
            Err(token)
        }
    }
}

// SAFETY: a hold of any part is a hold of the word, so shrinking changes nothing; nobody may split.
unsafe impl RawRangeLockSplit for RwCounter {
    unsafe fn shrink(&self, _span: Span, _access: Access, token: Token, _keep: Span) -> Token {
        token
    }

    unsafe fn split(&self, _span: Span, _access: Access, _token: Token, at: u64) -> (Token, Token) {
        unreachable!(
            "a whole-range lock was split at {at}, which is no multiple of u64::MAX within a span"
        );
    }
}
