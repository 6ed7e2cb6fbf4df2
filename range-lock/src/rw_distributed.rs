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
//!   word with everybody else, two upgradable readers share all, and [`RwWord`](crate::RwWord)'s exclusion and visibility carry over. So does bounded overtaking, slot by slot: while a writer waits at one, readers of later slots pass it as they like, which does not
//!   delay it; when it comes to theirs, [`MAX_PASSES`](crate::words::MAX_PASSES) of them do.
//! - **D-I2** Slots are taken in ascending order, so writers cannot wait for each other in a circle. A reader holds
//!   one slot and waits for none.
//!
//! It has no atomics of its own; orderings: [`crate::words`].
//!
//! # Not promised
//! A reader that tries to upgrade holds its own slot already, and takes the others after it: an upgrade and a try at the same time may both fail.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use core::task::{Poll, Waker, ready};

use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{DefaultPark, Park, thread};

use crate::detect::LockId;
use crate::error::{RangeError, TryLockError};
use crate::powers::{
    RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockWait,
};
use crate::raw::{Access, RawRangeLock, Span, Token};
use crate::rw_word::RwWord;
use crate::words::{self, Progress, Run};

/// A word alone on two cache lines: x86 fetches lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(RwWord);

/// The words of all slots.
#[derive(Debug)]
struct Slots(Box<[Slot]>);

/// A reader-writer lock for everything, with a reader count for each group of threads.
///
/// Any two ranges conflict unless both are read. `P` is how its waiters sleep.
#[derive(Debug)]
pub struct RwDistributed<P = DefaultPark> {
    slots: Slots,
    pub(crate) queue: WaitQueue<P>,
    id: LockId,
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
            slots: Slots(slots),
            queue: WaitQueue::default(),
            id: LockId::new(),
        }
    }
}

impl<P: Park> RwDistributed<P> {
    /// The same lock, whose waiters sleep by `Q`.
    pub fn with_parking<Q: Park>(self) -> RwDistributed<Q> {
        RwDistributed {
            slots: self.slots,
            queue: self.queue.with_parking(),
            id: self.id,
        }
    }

    /// The words that a hold takes, in ascending order, and the token that finds them again.
    #[inline]
    fn words(&self, access: Access) -> (impl Iterator<Item = Run<'_, RwWord>> + Clone, Token) {
        let token = self.token(access);
        (self.held(access, token), token)
    }

    /// A reader's token is the slot of the calling thread, others have none.
    #[inline]
    fn token(&self, access: Access) -> Token {
        match access {
            Access::Read => Token::new(thread::index() % self.slots.0.len()),
            Access::Upgradable | Access::Write => Token::NONE,
        }
    }

    #[inline]
    fn held(&self, access: Access, token: Token) -> impl Iterator<Item = Run<'_, RwWord>> + Clone {
        let slots = match access {
            Access::Read => core::slice::from_ref(&self.slots.0[token.into_word()]),
            Access::Upgradable | Access::Write => &self.slots.0[..],
        };
        slots.iter().map(|slot| slot.0.run())
    }
}

impl Default for RwDistributed {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: 1, 2: D-I1. 3, 4: the words know no owner; a reader's token names its slot, so another thread can
// release it.
unsafe impl<P: Park> RawRangeLock for RwDistributed<P> {
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

    #[inline]
    fn lock(&self, _span: Span, access: Access) -> Result<Token, RangeError> {
        let (words, token) = self.words(access);
        words::lock_all(words, access, &self.queue);
        self.queue.counters().acquisitions(1);
        Ok(token)
    }

    #[inline]
    fn try_lock(&self, _span: Span, access: Access) -> Result<Token, TryLockError> {
        let (words, token) = self.words(access);
        if !words::try_lock_all(words, access, &self.queue) {
            return Err(TryLockError::WouldBlock);
        }
        self.queue.counters().acquisitions(1);
        Ok(token)
    }

    #[inline]
    unsafe fn unlock(&self, _span: Span, access: Access, token: Token) {
        // SAFETY: the caller holds the span: as a reader by its token's slot, as a writer by all slots.
        unsafe { words::unlock_all(self.held(access, token), access, &self.queue) }
    }
}

/// A request for a range of a [`RwDistributed`] that is on its way.
#[derive(Debug, Default)]
pub struct DistributedRequest {
    progress: Progress,
    /// The slot of the thread that polled first: the request goes on there, whoever polls.
    token: Option<usize>,
}

// SAFETY: `Ready` is returned when the words of the token are taken. A forgotten request stays where it is.
unsafe impl<P: Park> RawRangeLockWait for RwDistributed<P> {
    type Request = DistributedRequest;

    unsafe fn poll_lock(
        &self,
        _span: Span,
        access: Access,
        request: &mut DistributedRequest,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        let fresh = || self.token(access).into_word();
        let token = Token::new(*request.token.get_or_insert_with(fresh));
        let words = self.held(access, token);
        ready!(words::poll_all(
            words,
            access,
            &mut request.progress,
            &self.queue,
            waker
        ));
        request.token = None;
        self.queue.counters().acquisitions(1);
        Poll::Ready(Ok(token))
    }

    unsafe fn cancel(&self, _span: Span, access: Access, request: &mut DistributedRequest) {
        let Some(token) = request.token.take() else {
            return;
        };
        let words = self.held(access, Token::new(token));
        // SAFETY: the caller's request is for these words, with this access.
        unsafe { words::cancel_all(words, access, &mut request.progress, &self.queue) }
    }
}

// SAFETY: the reader's slot never loses its hold, so no writer, who takes all slots, gets between.
unsafe impl<P: Park> RawRangeLockDowngrade for RwDistributed<P> {
    unsafe fn downgrade(&self, _span: Span, from: Access, to: Access, token: Token) -> Token {
        if to != Access::Read {
            let words = self.held(from, token);
            // SAFETY: the caller holds every slot with `from`, which is `Write`.
            unsafe { words::downgrade_all(words, from, to, &self.queue) }
            return token;
        }
        let token = self.token(to);
        words::for_each_surely(self.slots.0.iter().enumerate(), |(i, slot)| {
            // SAFETY: the caller holds every slot with `from`, which is not `Read`; one becomes the reader's.
            unsafe {
                if i == token.into_word() {
                    slot.0.run().downgrade(from, to, &self.queue);
                } else {
                    slot.0.run().unlock(from, &self.queue);
                }
            }
        });
        token
    }
}

// SAFETY: the caller's words are never released; the others of a reader are taken as a try takes them.
unsafe impl<P: Park> RawRangeLockUpgrade for RwDistributed<P> {
    unsafe fn try_upgrade(&self, _span: Span, from: Access, token: Token) -> Result<Token, Token> {
        if from == Access::Upgradable {
            let words = self.held(from, token);
            // SAFETY: the caller holds every slot with `from`.
            let upgraded = unsafe { words::try_upgrade_all(words, from, &self.queue) };
            return if upgraded { Ok(token) } else { Err(token) };
        }
        let mine = token.into_word();
        let (below, rest) = self.slots.0.split_at(mine);
        let others = || below.iter().chain(&rest[1..]).map(|slot| slot.0.run());
        if !words::try_lock_all(others(), Access::Write, &self.queue) {
            return Err(token);
        }
        // SAFETY: the caller reads by the slot `mine`.
        if unsafe { self.slots.0[mine].0.run().try_upgrade(from) } {
            return Ok(Token::NONE);
        }
        // SAFETY: they were taken just now.
        unsafe { words::unlock_all(others(), Access::Write, &self.queue) }
        Err(token)
    }
}

// SAFETY: a hold of any part is a hold of everything, so shrinking changes nothing; nobody may split.
unsafe impl<P: Park> RawRangeLockSplit for RwDistributed<P> {
    unsafe fn shrink(&self, _span: Span, _access: Access, token: Token, _keep: Span) -> Token {
        token
    }

    unsafe fn split(&self, _span: Span, _access: Access, _token: Token, at: u64) -> (Token, Token) {
        unreachable!(
            "a whole-range lock was split at {at}, which is no multiple of u64::MAX within a span"
        );
    }
}
