//! A reader-writer word for each group of threads: readers that never share a cache line.
//!
//! # The problem
//! With one counter, readers that exclude nobody still fight for its cache line ([SRL] §II-B2). Here each thread
//! reads under a word of its own, two lines apart from the next; a writer takes all of them, in ascending
//! order. This is the *big-reader lock* of the Linux kernel (`lglock`).
//!
//! # Properties
//! A read is one read-modify-write on a line that hardly anybody else writes. A write is one on every slot: use it
//! where writes are rare. Memory: 128 bytes a slot.
//!
//! # Invariants
//! - **D-I1** A reader holds the word of one slot, a writer and an upgradable reader those of all: so each writer shares a
//!   word with everybody else, two upgradable readers share all, and [`RwWord`](crate::RwWord)'s exclusion, visibility and bounded overtaking carry over.
//! - **D-I2** Slots are taken in ascending order, so writers cannot wait for each other in a circle. A reader holds
//!   one slot and waits for none.
//!
//! It has no atomics of its own; orderings: [`crate::rw_word`].
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use spanlock_sync::thread;
use spanlock_sync::wait::WaitQueue;

use crate::error::{RangeError, TryLockError};
use crate::powers::{RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade};
use crate::raw::{Access, RawRangeLock, Span, Token};
use crate::rw_word::{self, RwWord};

/// A word alone on two cache lines: x86 fetches lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(RwWord);

/// A reader-writer lock for everything, with a reader count for each group of threads.
///
/// Any two ranges conflict unless both are read.
#[derive(Debug)]
pub struct RwDistributed {
    slots: Box<[Slot]>,
    queue: WaitQueue,
}

impl RwDistributed {
    /// At most this many slots: a writer takes every one.
    pub const MAX_SLOTS: usize = 256;

    /// A lock with a slot for each core that this process may use, as counted at the first call.
    pub fn new() -> Self {
        Self::with_slots(thread::cores())
    }

    /// A lock with `slots` slots: at least 1, at most [`MAX_SLOTS`](Self::MAX_SLOTS) (other numbers are
    /// brought into these bounds).
    pub fn with_slots(slots: usize) -> Self {
        let slots = slots.clamp(1, Self::MAX_SLOTS);
        let slots = (0..slots).map(|_| Slot(RwWord::new())).collect();
        RwDistributed {
            slots,
            queue: WaitQueue::new(),
        }
    }

    /// The words that a hold takes, in ascending order, and the token that finds them again.
    #[inline]
    fn words(&self, access: Access) -> (impl Iterator<Item = &RwWord> + Clone, Token) {
        let token = self.token(access);
        (self.held(access, token), token)
    }

    /// A reader's token is the slot of the calling thread, others have none.
    #[inline]
    fn token(&self, access: Access) -> Token {
        match access {
            Access::Read => Token::new(thread::index() % self.slots.len()),
            Access::Upgradable | Access::Write => Token::NONE,
        }
    }

    #[inline]
    fn held(&self, access: Access, token: Token) -> impl Iterator<Item = &RwWord> + Clone {
        let slots = match access {
            Access::Read => core::slice::from_ref(&self.slots[token.into_word()]),
            Access::Upgradable | Access::Write => &self.slots[..],
        };
        slots.iter().map(|slot| &slot.0)
    }
}

impl Default for RwDistributed {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: 1, 2: D-I1. 3, 4: the words know no owner; a reader's token names its slot, so another thread can
// release it.
unsafe impl RawRangeLock for RwDistributed {
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
        let (words, token) = self.words(access);
        rw_word::lock_all(words, access, &self.queue);
        Ok(token)
    }

    #[inline]
    fn try_lock(&self, _span: Span, access: Access) -> Result<Token, TryLockError> {
        let (words, token) = self.words(access);
        let taken = rw_word::try_lock_all(words, access, &self.queue);
        taken.then_some(token).ok_or(TryLockError::WouldBlock)
    }

    #[inline]
    unsafe fn unlock(&self, _span: Span, access: Access, token: Token) {
        // SAFETY: the caller holds the span: as a reader by its token's slot, as a writer by all slots.
        unsafe { rw_word::unlock_all(self.held(access, token), access, &self.queue) }
    }
}

// SAFETY: the reader's slot never loses its hold, so no writer, who takes all slots, gets between.
unsafe impl RawRangeLockDowngrade for RwDistributed {
    unsafe fn downgrade(&self, _span: Span, from: Access, _token: Token) -> Token {
        let token = self.token(Access::Read);
        for (i, slot) in self.slots.iter().enumerate() {
            // SAFETY: the caller holds every slot with `from`, which is not `Read`; one becomes the reader's.
            unsafe {
                if i == token.into_word() {
                    slot.0.downgrade(from, Access::Read, &self.queue);
                } else {
                    slot.0.unlock(from, &self.queue);
                }
            }
        }
        token
    }
}

// SAFETY: the caller's words are never released; the others of a reader are taken as a try takes them.
unsafe impl RawRangeLockUpgrade for RwDistributed {
    unsafe fn try_upgrade(&self, _span: Span, from: Access, token: Token) -> Result<Token, Token> {
        if from == Access::Upgradable {
            let words = self.held(from, token);
            // SAFETY: the caller holds every slot with `from`.
            let upgraded = unsafe { rw_word::try_upgrade_all(words, from, &self.queue) };
            return if upgraded { Ok(token) } else { Err(token) };
        }
        let mine = token.into_word();
        let (below, rest) = self.slots.split_at(mine);
        let others = || below.iter().chain(&rest[1..]).map(|slot| &slot.0);
        if !rw_word::try_lock_all(others(), Access::Write, &self.queue) {
            return Err(token);
        }
        // SAFETY: the caller reads by the slot `mine`.
        if unsafe { self.slots[mine].0.try_upgrade(from) } {
            return Ok(Token::NONE);
        }
        // SAFETY: they were taken just now.
        unsafe { rw_word::unlock_all(others(), Access::Write, &self.queue) }
        Err(token)
    }
}

// SAFETY: a hold of any part is a hold of everything, so shrinking changes nothing; nobody may split.
unsafe impl RawRangeLockSplit for RwDistributed {
    unsafe fn shrink(&self, _span: Span, _access: Access, token: Token, _keep: Span) -> Token {
        token
    }

    unsafe fn split(&self, _span: Span, _access: Access, _token: Token, at: u64) -> (Token, Token) {
        unreachable!(
            "a whole-range lock was split at {at}, which is no multiple of u64::MAX within a span"
        );
    }
}
