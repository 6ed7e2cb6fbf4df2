//! The interval-tree range lock: trees find overlapping requests, and each request counts those
//! that block it.
//!
//! # The problem
//! With one lock per file, writers of different parts wait for each other. A segment lock, with one
//! lock per fixed-size segment, must know the size of the file. It rounds ranges to segments, and
//! acquires every segment of a wide range.
//!
//! The range lock patches for Linux keep the *exact* ranges of all requests in an interval tree,
//! protected by one mutex. [F2FS] §3.2 puts that lock into F2FS, and [SRL] §III into NOVA. An
//! arriving request counts the conflicting requests in the tree (`num_blockings` in [SRL]).
//! It waits outside the mutex, and is granted when its count falls to 0. A request that leaves
//! decrements the counts of the requests that counted it.
//!
//! This lock works the same way, with two differences. It defines the count exactly (IL-I1 in
//! [`crate::requests`]), so one procedure updates the counts after a release, a cancellation, a
//! downgrade, an upgrade, a shrink or a split. And it divides the positions among **shards**, each
//! with a mutex and a tree of its own ([`crate::shards`]), so that requests in different places
//! rarely contend.
//!
//! # Properties
//! - **Exactness**: two requests conflict if they share a position and their accesses conflict.
//!   Requests that do not conflict never block each other. Positions go up to `u64::MAX`.
//! - **Fairness**: conflicting requests are served first come, first served, with two exceptions.
//!   An upgrade may precede waiters, because it already holds its range. And a blocking call
//!   without a deadline, for a range in one shard, may overtake a waiter that has been granted its
//!   range but has not run yet. Overtaking is bounded, see `requests/overtaking.rs`: a waiter with
//!   *w* waiters ahead of it is overtaken at most (*w* + 1) · 32 times in each shard that it
//!   touches, or for about half a millisecond for each of the *w* + 1, whichever is later. (When
//!   the time is over, up to 31 more may: the clock is read every 32 passes.) Without a clock, only
//!   the number counts. Tries, futures, batches and calls with a deadline overtake nobody.
//! - **Progress**: a request waits only for requests that come before it in a total order. So
//!   requests cannot wait in a cycle, and the first request in the order is granted as soon as the
//!   holds that block it have ended.
//! - **Cost**: without conflicts, taking a range in one stripe locks one mutex once, and so does
//!   releasing it. A range that touches *s* shards locks *s* mutexes. Each shard takes O(log *n*)
//!   steps with *n* requests in its tree. Checking *k* overlapping requests takes O(log *n* + *k*)
//!   steps if their starts are adjacent in the tree, and up to O(log *n*) for each otherwise. A
//!   thread that waits locks the mutexes again each time it is woken. Threads whose ranges are in
//!   the same shard contend for its mutex, which is why [SRL] §III-C developed segment locks.
//! - **Waiting**: a thread that is blocked spins for a few microseconds. Then it yields its core,
//!   at most sixteen times, until a yield lets another thread run. Then it enters the tree and
//!   sleeps. A release unlocks the mutexes, and then wakes the waiters that it has granted. A
//!   request that touches several shards may be woken once for each of them before it is granted.
//! - **Allocation**: the trees and the lists of waiters grow when needed and never shrink. A
//!   request makes room for its nodes before it changes anything. Without memory, it returns
//!   [`RangeError::Memory`]. After that it allocates nothing, not even to wait or to be upgraded. A
//!   release allocates only if it wakes more than eight waiters; without memory for the list, it
//!   wakes the others under the mutex.
//! - **Memory**: about 150 bytes for each request in each shard that it touches, and 128 bytes for
//!   each shard. The lock keeps memory for the largest number of requests that each shard contained
//!   at once. With one shard, a new lock allocates nothing.
//!
//! # States
//! A request has nodes in the trees until it is released or cancelled. All transitions happen under
//! the mutexes of all shards that the request touches, except that a grant needs only the mutex of
//! the one shard of a narrow request.
//!
//! ```text
//!              blocked                all blockers have left
//!  arrival ──┬──────────► Waiting ──────────────┬──────────► Held ───── unlock ────► gone
//!            │             ▲ │                  │            │  ▲
//!            │  overtaken, │ └─ cancel ─► gone  │    upgrade │  │ all readers have left
//!            │  not yet run└─────────────────── │ ◄──────────┤  │
//!            │ not blocked                      │            ▼  │
//!            └──────────────────────────────────┘          Upgrading
//! ```
//!
//! | stage | the request | its count |
//! |---|---|---|
//! | `Held` | holds its span with its access | 0 |
//! | `Upgrading` | holds its span as `Upgradable`, and counts the readers in the span | > 0 |
//! | `Waiting` | holds nothing, and counts the conflicting requests before it | > 0 |
//!
//! A *batch* is one request for several spans, and is granted as a whole.
//!
//! "Before" refers to a total order of requests: first by stage, in the order of this table, then
//! by arrival. `requests.rs` defines the counts and shows that they stay exact (IL-I1 to IL-I7).
//! `requests/overtaking.rs` bounds overtaking (IL-I8). `shards.rs` divides the positions (IL-S1 to
//! IL-S4), and `tree.rs` finds overlapping requests (IL-T1 to IL-T6). `narrow.rs` and `wide.rs`
//! contain the operations on requests with one node and with several.
//!
//! ```text
//!               0    5    10   15   20   25     stage    count
//!   A  write    ├─────────┤                     Held     0
//!   B  read               ├─────────┤           Held     0
//!   C  write         ├─────────┤                Waiting  2   blocked by A and B
//!   D  read                    ├─────────┤      Held     0   B reads too; C ends where D starts
//!   E  read               ├────┤                Waiting  1   blocked by C, which came first
//!
//!   the tree of one shard, ordered by starts: all five requests fit into one leaf
//!
//!          ┌─────────┬─────────┬──────────┬──────────┬──────────┐
//!          │ A 0..10 │ C 5..15 │ B 10..20 │ E 10..15 │ D 15..25 │
//!          └─────────┴─────────┴──────────┴──────────┴──────────┘
//! ```
//!
//! If C is cancelled, the count of E falls to 0, so E is granted. No other request counted C, so
//! nothing else changes. If E is cancelled, no count changes. `try_write(25..30)` and
//! `try_read(20..30)` succeed, because they conflict with no request. `try_read(12..13)` fails,
//! because it would overtake C.
//!
//! # Orderings
//! The lock has no atomics of its own; its mutexes order all holds. Two conflicting holds touch a
//! common shard. The earlier hold ends under the mutex of that shard. The later one is granted
//! under the same mutex afterwards, and its thread locks that mutex before it returns. So
//! everything done under the earlier hold happens-before everything done under the later one. A
//! woken waiter checks under the mutex whether it was granted, because a wake may be spurious, and
//! because a grant may have been revoked.
//!
//! # Not guaranteed
//! - Recursion: a thread that requests a range that conflicts with its own hold deadlocks. Even a
//!   second read can deadlock: it waits behind a writer that waits for the first read to end.
//! - Tries that never block: a try does not wait for ranges, but may wait for mutexes.
//! - An order among waiters that do not conflict.
//! - Freeing memory before the lock is dropped.
//!
//! # Models
//! `cargo verify` checks these properties, in the rows `interval-tree/…` with one shard and
//! `interval-tree-sharded/…` with two:
//!
//! | pair of operations | properties |
//! |---|---|
//! | write, write | `exclusion`, `deadlock`, `overlap-3`, `exclusion-3` |
//! | write, read | `exclusion-read-write`, `wakeup`, `last-reader-wakes` |
//! | read, read | `readers-share` |
//! | disjoint, any | `disjoint` |
//! | try, any | `visibility`, `try-leaves-no-trace` |
//! | foreign code that panics, any | `release-unwinds`, `shrink-unwinds`, `sleep-unwinds`, … |
//!
//! `passes` bounds overtaking, and `wide-keeps-its-place` shows that a request that waits in one
//! shard keeps its place in the others. Further rows cover cancelling, deadlines, downgrades,
//! upgrades, shrinks, splits and batches. The rows `pair-…` run two of these operations at a time.
//!
//! The order and the counts change only within critical sections, so plain tests cover them.
//! `src/requests/tests.rs` and, with several shards, `src/wide/tests.rs` recompute every count
//! after each of thousands of random changes. `tests/histories.rs` compares random steps with a
//! list.
//!
//! [F2FS]: https://doi.org/10.1145/3319647.3325828
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Poll, Waker};

use spanlock_range_lock::{
    Access, LockId, RangeError, RawRangeLock, RawRangeLockWait, Span, Token, TryLockError,
};
use spanlock_sync::{Counters, DefaultPark, Park, const_if_shipped, injected_bug};

use crate::requests::Stage;
use crate::shards::Shards;
use crate::tree::Index;

/// A range lock for exact ranges. Conflicting requests are served first come, first served, except
/// for upgrades and bounded overtaking.
///
/// The positions are divided among shards. Each shard has an interval tree of holds and waiting
/// requests, protected by a mutex. `P` determines how waiters sleep.
///
/// ```
/// use spanlock_interval_lock::{IntervalLock, RangeLockExt};
///
/// let lock = IntervalLock::new();
/// let header = lock.write(0..100)?;
/// let rest = lock.write(100..u64::MAX)?; // disjoint from 0..100, so it does not wait
/// assert!(lock.try_read(99..101).is_err());
/// drop(header);
/// assert!(lock.try_read(99..100).is_ok());
/// assert_eq!(
///     format!("{lock:?}"),
///     "IntervalLock { held: [(100..18446744073709551615, Write)], waiting: [] }"
/// );
/// # drop(rest);
/// # Ok::<(), spanlock_interval_lock::RangeError>(())
/// ```
pub struct IntervalLock<P = DefaultPark> {
    pub(crate) core: Core,
    parking: PhantomData<fn() -> P>,
}

/// The part of a lock that does not depend on how waiters sleep, so that it is compiled only once.
pub(crate) struct Core {
    pub(crate) shards: Shards,
    pub(crate) counters: Counters,
    id: LockId,
}

/// A request for a range of an [`IntervalLock`] that has not been granted yet.
#[derive(Debug, Default)]
pub struct IntervalRequest {
    /// The index of its node in the first shard that it touches, once it has nodes.
    pub(crate) place: Option<Index>,
}

/// The number of shards of a lock, unless it is given.
const SHARDS: usize = 8;

/// The number of positions in a stripe, unless it is given.
const STRIPE: u64 = 1 << 16;

impl IntervalLock {
    /// Creates a lock without holds, with 8 shards and stripes of 65,536 positions.
    ///
    /// Allocates the shards. For a `static`, use
    /// [`LazyLock`](https://doc.rust-lang.org/std/sync/struct.LazyLock.html) or
    /// [`in_one_shard`](Self::in_one_shard).
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates a lock like [`new`](Self::new), with memory in each shard for this number of holders
    /// and waiters together.
    ///
    /// Up to that number, the lock does not allocate.
    ///
    /// # Panics
    /// If there is no memory. See also [`try_reserve`](IntervalLock::try_reserve).
    pub fn with_capacity(requests: usize) -> Self {
        Self::of(Shards::new(SHARDS, STRIPE, requests)).unwrap_or_else(no_memory)
    }

    const_if_shipped! {
        /// Creates a lock with one shard, which allocates nothing until it is used. `const`, so
        /// that a `static` works:
        ///
        /// ```
        /// use spanlock_interval_lock::{IntervalLock, RangeLockExt};
        ///
        /// static LOCK: IntervalLock = IntervalLock::in_one_shard();
        /// let low = LOCK.write(..100)?;
        /// drop(LOCK.write(100..)?);
        /// # drop(low);
        /// # Ok::<(), spanlock_interval_lock::RangeError>(())
        /// ```
        ///
        /// All requests share one mutex, for some tens of nanoseconds each. If many cores use the
        /// lock, prefer the shards of [`new`](Self::new): a `static` of that is a
        /// [`LazyLock`](https://doc.rust-lang.org/std/sync/struct.LazyLock.html).
        pub fn in_one_shard() -> Self {
            IntervalLock {
                core: Core {
                    shards: Shards::one(),
                    counters: Counters::new(),
                    id: LockId::new(),
                },
                parking: PhantomData,
            }
        }
    }

    /// Creates a lock whose positions are divided among `shards` shards, in stripes of `stripe`
    /// positions.
    ///
    /// A request locks the mutexes of all shards that it touches. So make a stripe longer than most
    /// requests, but short enough that requests in different places touch different stripes.
    ///
    /// Both numbers are rounded up to powers of two. There are at most 16 shards. With one shard,
    /// the lock is small and allocates nothing until it is used.
    ///
    /// # Panics
    /// If there is no memory for the shards: 128 bytes for each, if there are several.
    ///
    /// ```
    /// use spanlock_interval_lock::{IntervalLock, RangeLockExt};
    ///
    /// let lock = IntervalLock::with_shards(4, 1 << 20);
    /// let hold = lock.write(100..(1 << 20) + 1)?; // touches two shards
    /// assert!(lock.try_read(1 << 20..u64::MAX).is_err());
    /// assert!(lock.try_read((1 << 20) + 1..u64::MAX).is_ok());
    /// # drop(hold);
    /// # Ok::<(), spanlock_interval_lock::RangeError>(())
    /// ```
    pub fn with_shards(shards: usize, stripe: u64) -> Self {
        Self::try_with_shards(shards, stripe).unwrap_or_else(no_memory)
    }

    /// Creates a lock like [`with_shards`](Self::with_shards), if there is memory for it.
    ///
    /// # Errors
    /// If there is no memory for the shards.
    pub fn try_with_shards(shards: usize, stripe: u64) -> Result<Self, TryReserveError> {
        Self::of(Shards::new(shards, stripe, 0))
    }

    fn of(shards: Result<Shards, TryReserveError>) -> Result<Self, TryReserveError> {
        Ok(IntervalLock {
            core: Core {
                shards: shards?,
                counters: Counters::default(),
                id: LockId::new(),
            },
            parking: PhantomData,
        })
    }
}

#[cold]
fn no_memory<T>(error: TryReserveError) -> T {
    panic!("no memory for a lock: {error}");
}

impl<P> IntervalLock<P> {
    /// Returns this lock with `Q` as the way in which waiters sleep.
    pub fn with_parking<Q: Park>(self) -> IntervalLock<Q> {
        IntervalLock {
            core: self.core,
            parking: PhantomData,
        }
    }

    /// Returns one past the last position that this lock covers: `u64::MAX`.
    #[inline]
    pub const fn capacity(&self) -> u64 {
        u64::MAX
    }

    /// Makes room in each shard for this number of holders and waiters together. Up to that number,
    /// the lock does not allocate.
    ///
    /// # Errors
    /// If there is no memory. Nothing has changed then, except that some shards may have room.
    pub fn try_reserve(&self, requests: usize) -> Result<(), TryReserveError> {
        self.core.shards.try_reserve(requests)
    }

    /// Returns the number of holders and waiters. Each range of a batch counts as one.
    ///
    /// The result is a snapshot: other threads may change the number at any time. With more than
    /// one shard, counting takes a step for each holder and waiter.
    pub fn len(&self) -> usize {
        self.core.shards.count_spans(|_| true)
    }

    /// Returns whether there are no holders and no waiters. The result is a snapshot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of waiters, including upgrades. Each range of a waiting batch counts as
    /// one. The result is a snapshot; see also [`len`](Self::len).
    pub fn waiting(&self) -> usize {
        self.core.shards.count_spans(|stage| stage != Stage::Held)
    }

    /// Returns whether a request for `span` would have to wait. The result is a snapshot.
    ///
    /// The answer takes into account every request that began before this call and has not ended,
    /// even those that a blocking request might overtake.
    pub fn would_block(&self, span: Span, access: Access) -> bool {
        match self.core.shards.home(span) {
            Some(shard) => !shard.lock().admits(span, access),
            None => {
                let mut locked = self.core.shards.lock(self.core.shards.touched(span));
                !self.core.admits_all(&mut locked, &[(span, access)])
            }
        }
    }

    /// Returns all holds, in the order of their starts. The result is a snapshot.
    ///
    /// The hold of a waiting upgrade is listed as [`Access::Upgradable`].
    pub fn held_ranges(&self) -> Vec<(Span, Access)> {
        self.core.shards.ranges().0
    }

    /// Returns all waiting requests, in the order of their starts. The result is a snapshot.
    ///
    /// A waiting upgrade is listed as [`Access::Write`].
    pub fn waiting_ranges(&self) -> Vec<(Span, Access)> {
        self.core.shards.ranges().1
    }

    /// Returns the size of the lock and of everything that it has allocated, in bytes.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.core.shards.memory_usage()
    }
}

impl Default for IntervalLock {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> fmt::Debug for IntervalLock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, waiting) = self.core.shards.ranges();
        f.debug_struct("IntervalLock")
            .field("held", &held)
            .field("waiting", &waiting)
            .finish()
    }
}

pub(crate) fn token(index: Index) -> Token {
    Token::new(index as usize)
}

pub(crate) fn index(token: Token) -> Index {
    token.into_word() as Index
}

// A panic of foreign code leaves the lock as if it had not happened (contract, point 10).
impl<P> core::panic::UnwindSafe for IntervalLock<P> {}
impl<P> core::panic::RefUnwindSafe for IntervalLock<P> {}

// SAFETY: 1: IL-I2 and IL-S1. 2: the earlier hold ends under the mutex of a shard that both touch,
// and a conflicting hold is granted under that mutex later ("Orderings"). 3, 4: a hold records no
// thread, and keeps its nodes until its token, the index of the first, is passed to `unlock`.
unsafe impl<P: Park> RawRangeLock for IntervalLock<P> {
    #[inline]
    fn capacity(&self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn granularity(&self) -> u64 {
        1
    }

    #[inline]
    fn id(&self) -> Option<&LockId> {
        Some(&self.core.id)
    }

    #[inline]
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        let taken = self.core.take(span, access, Self::SLEEP);
        taken.map_err(|error| error.at(span))
    }

    #[inline]
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        match self.core.try_take(span, access) {
            Ok(Some(index)) => Ok(token(index)),
            Ok(None) => Err(TryLockError::WouldBlock),
            Err(error) => Err(error.at(span).into()),
        }
    }

    #[inline]
    unsafe fn unlock(&self, span: Span, _access: Access, token: Token) {
        self.core.release(span, index(token));
    }

    unsafe fn unlock_all(&self, batch: &[(Span, Access)], tokens: &[Token]) {
        self.core.release_all(batch, tokens);
    }
}

// SAFETY: `Ready` is returned only for a request that is `Held`, with the guarantees above. A
// forgotten request keeps its nodes.
unsafe impl<P: Park> RawRangeLockWait for IntervalLock<P> {
    type Request = IntervalRequest;

    unsafe fn poll_lock(
        &self,
        span: Span,
        access: Access,
        request: Pin<&mut IntervalRequest>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        self.core
            .poll(span, access, request.get_mut(), waker)
            .map_err(|error| error.at(span))
    }

    unsafe fn cancel(&self, span: Span, _access: Access, request: Pin<&mut IntervalRequest>) {
        let Some(index) = request.get_mut().place.take() else {
            return;
        };
        if injected_bug!(
            "waiter-stays",
            "a cancelled request stays in the tree",
            killed_by = "cancel, cancel-writer"
        ) {
            return;
        }
        // The request may have been granted meanwhile. In both cases, only the requests that
        // counted it change.
        self.core.give_up(span, index);
    }
}

/// Makes the calling thread sleep until the function returns true. Calls it at once and after each
/// wake, with the waker to wake.
pub(crate) type Sleep = fn(&mut dyn FnMut(&Waker) -> bool);

impl<P: Park> IntervalLock<P> {
    /// The function that makes waiters sleep, for code that is not generic over `P`.
    pub(crate) const SLEEP: Sleep = sleep::<P>;
}

#[cold]
fn sleep<P: Park>(is_granted: &mut dyn FnMut(&Waker) -> bool) {
    P::with(|parker| {
        while !is_granted(parker.waker()) {
            parker.park();
        }
    });
}
