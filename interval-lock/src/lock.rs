//! The interval-tree range lock: a tree finds overlapping requests, and each request counts those
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
//! This lock works the same way, but defines the count exactly (IL-I1 in [`crate::requests`]). So
//! one procedure updates the counts after a release, a cancellation, a downgrade, an upgrade, a
//! shrink or a split.
//!
//! # Properties
//! - **Exactness**: two requests conflict if they share a position and their accesses conflict.
//!   Requests that do not conflict never block each other. Positions go up to `u64::MAX`.
//! - **Fairness**: conflicting requests are served first come, first served. A later request never
//!   overtakes a waiter that it conflicts with. An upgrade may precede waiters, because it already
//!   holds its range.
//! - **Progress**: a request waits only for requests that come before it in a total order. So
//!   requests cannot wait in a cycle, and the first request in the order is always granted.
//! - **Cost**: without conflicts, taking a range locks the mutex once, and so does releasing it.
//!   Each takes O(log *n*) steps with *n* requests in the tree. Checking *k* overlapping requests
//!   takes O(log *n* + *k*) steps if their starts are adjacent in the tree, and up to O(log *n*)
//!   for each otherwise. The length of a range does not matter. A thread that waits locks the mutex
//!   once more after it is woken. All threads contend for the one mutex, which is why [SRL] §III-C
//!   developed segment locks.
//! - **Waiting**: a thread spins for about a microsecond on a cache line of its own, yields its
//!   core a few times, then sleeps. A release unlocks the mutex, and then wakes exactly the waiters
//!   that it has granted.
//! - **Allocation**: the tree and its list of wakers grow when needed and never shrink. A release
//!   allocates only if it wakes more than eight waiters.
//! - **Memory**: about 100 bytes for each request, in a numbered slot. The list of wakers takes 16
//!   bytes for each slot, up to the highest in which a request has waited. The lock keeps memory
//!   for the largest number of requests that existed at once. [`IntervalLock::new`] allocates
//!   nothing.
//!
//! # States
//! A request is in the tree until it is released or cancelled. All transitions happen under the
//! mutex.
//!
//! ```text
//!              blocked                all blockers have left
//!  arrival ──┬──────────► Waiting ──────────────┬──────────► Held ───── unlock ────► gone
//!            │               │                  │            │  ▲
//!            │               └─ cancel ─► gone  │    upgrade │  │ all readers have left
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
//! A *batch* is one request for several spans. It has one count, and is granted as a whole.
//!
//! "Before" refers to a total order of requests: first by stage, in the order of this table, then
//! by arrival. `requests.rs` defines the counts and shows that they stay exact (IL-I1 to IL-I7).
//! `tree.rs` finds overlapping requests (IL-T1 to IL-T6).
//!
//! ```text
//!               0    5    10   15   20   25     stage    count
//!   A  write    ├─────────┤                     Held     0
//!   B  read               ├─────────┤           Held     0
//!   C  write         ├─────────┤                Waiting  2   blocked by A and B
//!   D  read                    ├─────────┤      Held     0   B reads too; C ends where D starts
//!   E  read               ├────┤                Waiting  1   blocked by C, which came first
//!
//!   the tree, ordered by starts: all five requests fit into one leaf
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
//! The lock has no atomics of its own; its mutex orders all holds. A hold ends under the mutex. A
//! conflicting hold is granted later under the same mutex, and its thread locks the mutex before it
//! returns. So everything done under the earlier hold happens-before everything done under the
//! later one. A woken waiter checks under the mutex whether it was granted, because a wake may be
//! spurious.
//!
//! # Not guaranteed
//! - Recursion: a thread that requests a range that conflicts with its own hold deadlocks. Even a
//!   second read can deadlock: it waits behind a writer that waits for the first read to end.
//! - Tries that never block: a try does not wait for ranges, but may wait for the mutex.
//! - An order among waiters that do not conflict.
//! - Freeing memory before the lock is dropped.
//!
//! # Models
//! `cargo verify` checks these properties, in the rows `interval-tree/…`:
//!
//! | pair of operations | properties |
//! |---|---|
//! | write, write | `exclusion`, `deadlock`, `overlap-3`, `exclusion-3` |
//! | write, read | `exclusion-read-write`, `wakeup`, `last-reader-wakes` |
//! | read, read | `readers-share` |
//! | disjoint, any | `disjoint` |
//! | try, any | `visibility`, `try-leaves-no-trace` |
//!
//! Further rows cover cancelling, deadlines, downgrades, upgrades, shrinks, splits and batches. The
//! rows `pair-…` run two of these operations at a time.
//!
//! The order and the counts change only within a critical section of the mutex, so plain tests
//! cover them. `src/requests/tests.rs` recomputes every count after each of thousands of random
//! changes. `tests/histories.rs` compares random steps with a list.
//!
//! [F2FS]: https://doi.org/10.1145/3319647.3325828
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::task::{Poll, Waker};

use spanlock_range_lock::{
    Access, LockId, RangeError, RawRangeLock, RawRangeLockWait, Span, Token, TryLockError,
};
use spanlock_sync::hint::Backoff;
use spanlock_sync::{Counters, DefaultPark, Mutex, MutexGuard, Park, injected_bug};

use crate::requests::{Requests, Wakes};
use crate::tree::Index;

/// A range lock for exact ranges. Conflicting requests are served first come, first served; only
/// upgrades precede waiters.
///
/// An interval tree, protected by one mutex, contains holds and waiting requests. `P` determines
/// how waiters sleep.
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
    requests: Mutex<Requests>,
    pub(crate) counters: Counters,
    id: LockId,
}

/// A request for a range of an [`IntervalLock`] that has not been granted yet.
#[derive(Debug, Default)]
pub struct IntervalRequest {
    /// The index of its node, once it is in the tree.
    place: Option<Index>,
}

impl IntervalLock {
    /// Creates a lock without holds.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates a lock with memory for this number of holders and waiters together.
    ///
    /// Up to that number, the lock allocates only to store wakers.
    pub fn with_capacity(requests: usize) -> Self {
        IntervalLock {
            core: Core {
                requests: Mutex::new(Requests::with_capacity(requests)),
                counters: Counters::default(),
                id: LockId::new(),
            },
            parking: PhantomData,
        }
    }
}

impl<P> IntervalLock<P> {
    /// Returns this lock with `Q` as the way in which waiters sleep.
    pub fn with_parking<Q: Park>(self) -> IntervalLock<Q> {
        IntervalLock {
            core: self.core,
            parking: PhantomData,
        }
    }

    /// Returns the number of holders and waiters. Each range of a batch counts as one.
    ///
    /// The result is a snapshot: other threads may change the number at any time.
    pub fn len(&self) -> usize {
        self.core.requests().len()
    }

    /// Returns whether there are no holders and no waiters. The result is a snapshot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of waiters, including upgrades. Each range of a waiting batch counts as
    /// one. The result is a snapshot.
    pub fn waiting(&self) -> usize {
        self.core.requests().waiting()
    }

    /// Returns whether a request for `span` would have to wait. The result is a snapshot.
    ///
    /// The answer takes into account every request that began before this call and has not ended.
    pub fn would_block(&self, span: Span, access: Access) -> bool {
        !self.core.requests().admits(span, access)
    }

    /// Returns all holds, in the order of their starts. The result is a snapshot.
    ///
    /// The hold of a waiting upgrade is listed as [`Access::Upgradable`].
    pub fn held_ranges(&self) -> Vec<(Span, Access)> {
        self.core.requests().holds().collect()
    }

    /// Returns all waiting requests, in the order of their starts. The result is a snapshot.
    ///
    /// A waiting upgrade is listed as [`Access::Write`].
    pub fn waiting_ranges(&self) -> Vec<(Span, Access)> {
        self.core.requests().waits().collect()
    }

    /// Returns the size of the lock and of everything that it has allocated, in bytes.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.core.requests().memory_usage()
    }
}

impl Default for IntervalLock {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> fmt::Debug for IntervalLock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, waiting): (Vec<_>, Vec<_>) = {
            let requests = self.core.requests();
            (requests.holds().collect(), requests.waits().collect())
        };
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

// SAFETY: 1: IL-I2. 2: the earlier hold ends under the mutex, and a conflicting hold is granted
// under the mutex later ("Orderings"). 3, 4: a hold records no thread, and stays in the tree until
// its token, the index of its node, is passed to `unlock`.
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
        Ok(token(self.core.take(span, access, Self::WAIT)))
    }

    #[inline]
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let taken = self.core.try_take(span, access);
        taken.map(token).ok_or(TryLockError::WouldBlock)
    }

    #[inline]
    unsafe fn unlock(&self, _span: Span, _access: Access, token: Token) {
        self.core.release(index(token));
    }
}

// SAFETY: `Ready` is returned only for a request that is `Held`, with the guarantees above. A
// forgotten request stays in the tree.
unsafe impl<P: Park> RawRangeLockWait for IntervalLock<P> {
    type Request = IntervalRequest;

    unsafe fn poll_lock(
        &self,
        span: Span,
        access: Access,
        request: &mut IntervalRequest,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        self.core.poll(span, access, request, waker).map(Ok)
    }

    unsafe fn cancel(&self, _span: Span, _access: Access, request: &mut IntervalRequest) {
        if let Some(index) = request.place.take()
            && !injected_bug!(
                "waiter-stays",
                "a cancelled request stays in the tree",
                killed_by = "cancel, cancel-writer"
            )
        {
            // The request may have been granted meanwhile. In both cases, only the requests that
            // counted it change.
            self.core.leave(self.core.requests(), index);
        }
    }
}

/// A function that blocks until the waiting request at the index is granted. The request must not
/// have a waker yet.
pub(crate) type Wait = fn(&Core, MutexGuard<'_, Requests>, Index);

impl<P: Park> IntervalLock<P> {
    /// The function that makes waiters sleep, for code that is not generic over `P`.
    pub(crate) const WAIT: Wait = Core::wait::<P>;
}

/// These functions are not inlined, and only `wait` is generic. Their results fit in a register, so
/// the code around the calls stays small.
impl Core {
    fn take(&self, span: Span, access: Access, wait: Wait) -> Index {
        let mut requests = self.requests.lock();
        if let Some(index) = requests.try_hold(span, access) {
            self.counters.acquisitions(1);
            return index;
        }
        let index = requests.queue(span, access);
        wait(self, requests, index);
        self.counters.acquisitions(1);
        index
    }

    fn try_take(&self, span: Span, access: Access) -> Option<Index> {
        let mut requests = self.requests.lock();
        let held = requests.try_hold(span, access);
        self.counters.acquisitions(usize::from(held.is_some()));
        held
    }

    fn release(&self, index: Index) {
        let mut requests = self.requests.lock();
        if requests.has_no_waiters() {
            requests.remove_hold(index);
        } else {
            self.leave(requests, index);
        }
    }

    #[cold]
    fn leave(&self, mut requests: MutexGuard<'_, Requests>, index: Index) {
        let mut wakes = Wakes::default();
        requests.leave(index, &mut wakes);
        finish(requests, wakes);
    }

    pub(crate) fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock()
    }

    /// See [`RawRangeLockWait::poll_lock`].
    fn poll(
        &self,
        span: Span,
        access: Access,
        request: &mut IntervalRequest,
        waker: &Waker,
    ) -> Poll<Token> {
        let mut clone: Option<Waker> = None;
        loop {
            let mut requests = self.requests.lock();
            let index = match request.place {
                Some(index) => index,
                None => requests.try_hold(span, access).unwrap_or_else(|| {
                    self.counters.waits();
                    requests.queue(span, access)
                }),
            };
            if requests.is_held(index) {
                request.place = None;
                self.counters.acquisitions(1);
                return Poll::Ready(token(index));
            }
            // Record the index first: the waker's code below may panic.
            request.place = Some(index);
            if requests.will_wake(index, waker) {
                return Poll::Pending;
            }
            if let Some(clone) = clone.take() {
                let before = requests.set_waker(index, clone);
                drop(requests);
                drop(before);
                return Poll::Pending;
            }
            // This waker is foreign code, so it is cloned, dropped and woken outside the mutex. The
            // next iteration checks the request again.
            drop(requests);
            clone = Some(waker.clone());
        }
    }

    #[cold]
    fn wait<P: Park>(&self, mut requests: MutexGuard<'_, Requests>, index: Index) {
        self.counters.waits();
        P::with(|parker| {
            if injected_bug!(
                "no-recheck",
                "a waiter unlocks the tree between queueing its request and registering its waker",
                killed_by = "wakeup, poll"
            ) {
                drop(requests);
                requests = self.requests();
            }
            // The mutex has been locked since the request was queued. So a grant finds this waker,
            // and no wake is lost. Unlike the waker of a future, it is cloned under the mutex: it
            // comes from `P`.
            requests.set_waker(index, parker.waker().clone());
            drop(requests);
            let mut spin = Backoff::new();
            loop {
                if spin.round() {
                    if !parker.try_park() {
                        continue;
                    }
                } else {
                    parker.park();
                }
                // The parker may have kept a wake from an earlier use, so check the request.
                if self.requests().is_held(index) {
                    return;
                }
            }
        });
    }
}

/// Unlocks the mutex, then wakes the granted waiters.
#[track_caller]
pub(crate) fn finish(requests: MutexGuard<'_, Requests>, wakes: Wakes) {
    drop(requests);
    wakes.wake();
}
