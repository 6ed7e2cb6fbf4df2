//! A reader-writer word for each group of threads, so that readers of different groups share no
//! cache line.
//!
//! # The problem
//! With one counter, readers still contend for its cache line although they do not exclude each
//! other ([SRL] §II-B2). Here each thread reads under one of several words, which are two cache
//! lines apart. A writer acquires all words, in ascending order. This is the *big-reader lock* of
//! the Linux kernel (`lglock`).
//!
//! # Properties
//! A reader locks and unlocks by one read-modify-write each, on a line that few other threads
//! write. A writer locks every slot by a read-modify-write and unlocks it by a store, so use this
//! lock where writes are rare. Memory: 128 bytes per slot.
//!
//! # Invariants
//! - **RD-I1** A reader holds the word of one slot; a writer or an upgradable reader holds the
//!   words of all slots. So each writer shares a word with every other holder, and two upgradable
//!   readers share all words: the exclusion and visibility of [`RwWord`](crate::RwWord) carry over.
//!   So does bounded overtaking, slot by slot. While a writer waits at one slot, readers of later
//!   slots overtake it freely, which does not delay it. Once the writer waits at their slot, only
//!   as many of them overtake it there as [`crate::words`] allows.
//! - **RD-I2** Slots are acquired in ascending order, so writers cannot wait for each other in a
//!   cycle. A reader holds one slot and waits for no other.
//!
//! This lock has no atomics of its own; for the orderings see [`crate::words`].
//!
//! # Not guaranteed
//! A plain reader that tries to upgrade holds its own slot and acquires the others after it. So an
//! upgrade and a concurrent try may both fail. The upgrade also fails while a writer holds one slot
//! and waits for another, so in this lock it does not go ahead of all waiters.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use core::pin::Pin;
use core::task::{Poll, Waker, ready};

use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{DefaultPark, Park, thread};

use crate::capabilities::{RawRangeLockDowngrade, RawRangeLockUpgrade, RawRangeLockWait};
use crate::detect::LockId;
use crate::error::{RangeError, TryLockError};
use crate::raw::{Access, RawRangeLock, Span, Token};
use crate::rw_word::RwWord;
use crate::words::{self, Progress, Run, Word};

/// A word alone on two cache lines, because x86 prefetches lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(RwWord);

/// The words of all slots.
#[derive(Debug)]
struct Slots(Box<[Slot]>);

/// A whole-range reader-writer lock with a reader count for each group of threads.
///
/// Any two ranges conflict as if they overlapped. `P` is how waiting threads park.
#[derive(Debug)]
pub struct RwDistributed<P = DefaultPark> {
    slots: Slots,
    queue: WaitQueue<P>,
    id: LockId,
}

impl RwDistributed {
    /// The maximum number of slots, limited because a writer acquires every one.
    pub const MAX_SLOTS: usize = 256;

    /// Returns a lock with a slot for each core available to this process, as counted at the first
    /// call.
    ///
    /// Allocates the slots. For a `static`, use
    /// [`LazyLock`](https://doc.rust-lang.org/std/sync/struct.LazyLock.html).
    pub fn new() -> Self {
        Self::with_slots(thread::cores())
    }

    /// Returns a lock with `slots` slots, clamped to the range from 1 to
    /// [`MAX_SLOTS`](Self::MAX_SLOTS).
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
    /// Returns the same lock, with waiting threads that park by `Q`.
    pub fn with_parking<Q: Park>(self) -> RwDistributed<Q> {
        RwDistributed {
            slots: self.slots,
            queue: self.queue.with_parking(),
            id: self.id,
        }
    }

    /// Returns one past the last position that this lock covers: `u64::MAX`.
    #[inline]
    pub const fn capacity(&self) -> u64 {
        u64::MAX
    }

    /// Returns the words that a hold acquires, in ascending order, and the token that finds them
    /// again.
    #[inline]
    fn words(&self, access: Access) -> (impl Iterator<Item = Run<'_, RwWord>> + Clone, Token) {
        let token = self.token(access);
        (self.held(access, token), token)
    }

    /// Returns the calling thread's slot for a reader; other accesses need no token.
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

// A panic of foreign code leaves the lock as if it had not happened (contract, point 10).
impl<P> core::panic::UnwindSafe for RwDistributed<P> {}
impl<P> core::panic::RefUnwindSafe for RwDistributed<P> {}

// SAFETY: 1, 2: RD-I1. 3, 4: the words do not record their owners; a reader's token names its slot,
// so another thread can release it.
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

    // The readers of all slots are counted together, though the limit is that of one slot. Their
    // guards would take 32 GiB before that makes a difference.
    fn reader_limit(&self, _span: Span, _token: Option<Token>) -> u32 {
        RwWord::READERS
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
        // SAFETY: the caller holds the span: a reader by its token's slot, any other access by all
        // slots.
        unsafe { words::unlock_all(self.held(access, token), access, &self.queue) }
    }
}

/// A pending request for a range of a [`RwDistributed`].
#[derive(Debug, Default)]
pub struct DistributedRequest {
    progress: Progress,
    /// The slot of the thread that polled first. The request stays at it, whichever thread polls
    /// next.
    token: Option<usize>,
}

impl DistributedRequest {
    fn parts(self: Pin<&mut Self>) -> (Pin<&mut Progress>, &mut Option<usize>) {
        // SAFETY: the progress is pinned with the request, and is not moved out of it.
        unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.progress), &mut this.token)
        }
    }
}

// SAFETY: `Ready` is returned once the token's words are acquired. A forgotten request stays in its
// queue.
unsafe impl<P: Park> RawRangeLockWait for RwDistributed<P> {
    type Request = DistributedRequest;

    unsafe fn poll_lock(
        &self,
        _span: Span,
        access: Access,
        request: Pin<&mut DistributedRequest>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        let (progress, request_token) = request.parts();
        let fresh = || self.token(access).into_word();
        let token = Token::new(*request_token.get_or_insert_with(fresh));
        let words = self.held(access, token);
        // SAFETY: the caller's promise.
        ready!(unsafe { words::poll_all(words, access, progress, &self.queue, waker) });
        *request_token = None;
        self.queue.counters().acquisitions(1);
        Poll::Ready(Ok(token))
    }

    unsafe fn cancel(&self, _span: Span, access: Access, request: Pin<&mut DistributedRequest>) {
        let (progress, token) = request.parts();
        let Some(token) = token.take() else {
            return;
        };
        let words = self.held(access, Token::new(token));
        // SAFETY: the caller's request is for these words, with this access.
        unsafe { words::cancel_all(words, access, progress, &self.queue) }
    }
}

// SAFETY: the reader's slot is held throughout, and a writer needs all slots, so none can
// intervene.
unsafe impl<P: Park> RawRangeLockDowngrade for RwDistributed<P> {
    unsafe fn downgrade(&self, _span: Span, from: Access, to: Access, token: &mut Token) {
        if to != Access::Read {
            let words = self.held(from, *token);
            // SAFETY: the caller holds every slot with `from`, which is `Write`.
            unsafe { words::downgrade_all(words, from, to, &self.queue) }
            return;
        }
        let all = self.held(from, *token);
        *token = self.token(to);
        let kept = token.into_word();
        for (i, run) in all.clone().enumerate() {
            // SAFETY: the caller holds every slot with `from`, which is not `Read`; one becomes the
            // reader's. The waiters of every slot are woken below.
            unsafe {
                if i == kept {
                    run.downgrade_no_wake(from, to);
                } else {
                    let _ = run.release_no_wake(from);
                }
            }
        }
        // Last, because wakers may panic, or block until they get a slot.
        words::all::wake_all(all, &self.queue);
    }
}

// SAFETY: the caller's words are never released; a reader acquires the other words as a try does.
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
        // SAFETY: they were acquired just now.
        unsafe { words::unlock_all(others(), Access::Write, &self.queue) }
        Err(token)
    }
}

#[cfg(feature = "statistics")]
impl<P: Park> crate::RawRangeLockStatistics for RwDistributed<P> {
    fn statistics(&self) -> crate::Statistics {
        self.queue.counters().snapshot()
    }
}
