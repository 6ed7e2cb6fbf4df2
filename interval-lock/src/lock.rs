//! The interval-tree range lock: who overlaps whom is looked up in a tree, and everybody waits for a count.
//!
//! # The problem
//! One lock a file makes writers of different parts wait for each other. A lock a segment does not know where a file ends, rounds ranges, and
//! pays for each segment of a wide one. The range lock of the Linux patches, which [F2FS] §3.2 puts into F2FS and [SRL] §III into NOVA,
//! keeps the *exact* ranges of all requests, holders and waiters, in an interval tree under one short mutex. A request counts
//! the conflicting ones that are there before it (the patches' `num_blockings`), waits outside, and is granted when its count
//! is 0; one that goes lowers the counts of those that counted it. That is this lock; what a count means is made exact here, so that
//! giving up, downgrades, upgrades, shrinking and splitting are all the same step.
//!
//! # Properties
//! - **Exact**: two requests conflict if they share a position and their accesses conflict; nothing else waits. Positions up to `u64::MAX`.
//! - **Fairness**: first come, first served among those that conflict. Nobody who comes later passes a waiter that
//!   it conflicts with: bounded overtaking with the bound 0. A request waits at most for those that were there before it.
//! - **Progress**: waits follow one order, so there is no circle; the first in it is always granted.
//! - **Cost**: while nobody conflicts, one section of the mutex to take and one to give back, each O(log *n*) for *n* requests, and O(log *n* + *k*)
//!   to look at the *k* that overlap (O(log *n*) each if they lie apart in the order of starts). One that waited takes the mutex once more. No
//!   step for each segment, but all threads meet at one mutex, which is why [SRL] §III-C went on from here.
//! - **Waiting**: a spin of about a microsecond on a line of the thread's own, a few yields of the core, then sleep. A release wakes exactly those that it grants, after
//!   it has opened the mutex.
//! - **Allocation**: none once the tree has been as large as it gets; the first eight wakes of a release need none either.
//! - **Memory**: about 100 bytes for each of the most requests that there ever were at once, and 16 if they waited; nothing before the first.
//!
//! # State
//! Of a request, in the tree from its arrival to its end, under the mutex:
//!
//! | stage | it | count | goes to |
//! |---|---|---|---|
//! | `Held` | holds its span with its access | 0 | `Upgrading` by `upgrade`; gone by `unlock` |
//! | `Upgrading` | holds its span as `Upgradable`, and counts the readers there | > 0 | `Held`, when they have left |
//! | `Waiting` | counts the conflicting ones before it | > 0 | `Held`, when they have gone; gone by `cancel` |
//!
//! A batch of several spans is one request: it counts for all its spans together, and is granted as a whole.
//!
//! "Before" is an order: stages as in this table, and by arrival within a stage. What it implies, and why cancelling is exact, is in
//! `requests.rs` (I1 to I6); how overlaps are found, in `tree.rs` (T1 to T6).
//!
//! ```text
//!               0    5    10   15   20   25     stage    count
//!   A  write    ├─────────┤                     Held     0
//!   B  read               ├─────────┤           Held     0
//!   C  write         ├─────────┤                Waiting  2   for A and B
//!   D  read                    ├─────────┤      Held     0   B only reads, and C ends where D starts
//!   E  read               ├────┤                Waiting  1   for C: B only reads, but C was first
//!
//!   the tree, by starts: so few fit one leaf
//!
//!          ┌─────────┬─────────┬──────────┬──────────┬──────────┐
//!          │ A 0..10 │ C 5..15 │ B 10..20 │ E 10..15 │ D 15..25 │
//!          └─────────┴─────────┴──────────┴──────────┴──────────┘
//! ```
//!
//! If C gives up, E, which counted it, is granted; nobody else counted it, so nobody else changes. If E gives up, nobody changes at all. A try for
//! 25..30, or to read 20..30, is granted, whatever lies around it; a try to read 12..13 fails, for it would pass C.
//!
//! # Orderings
//! The lock has no atomics of its own. Whatever is granted is granted, and learnt of, in a section of the mutex later than the one in which the
//! conflicting hold before it ended: so what was done under that hold happens-before what is done under this one. A waiter that was
//! woken takes the mutex once more before it returns, also because a wake may be spurious.
//!
//! # Not promised
//! - Recursion: a thread that takes what it holds in conflict waits for itself for ever; a reader that reads again can wait behind a writer that
//!   waits for it.
//! - That a `try` is free of any wait: it waits for the mutex, as everything does.
//! - Order among waiters that do not conflict; and an upgrade goes before waiters, for it holds already.
//! - That memory is given back before the lock is dropped.
//!
//! # Models
//! In `verify/`, rows `interval-tree/…`:
//!
//! | pair of operations | properties |
//! |---|---|
//! | write, write | `exclusion`, `deadlock`, `overlap-3`, `exclusion-3` |
//! | write, read | `exclusion-read-write`, `wakeup`, `last-reader-wakes` |
//! | read, read | `readers-share` |
//! | disjoint, any | `disjoint` |
//! | try, any | `visibility`, `try-leaves-no-trace` |
//!
//! All else is decided in one section of the mutex: `src/requests/tests.rs` computes every count anew after each of thousands of random
//! changes, and `tests/histories.rs` compares a million steps with a list.
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

/// A range lock of exact ranges, first come, first served: an interval tree of holds and requests under one short mutex. `P` is
/// how its waiters sleep.
///
/// ```
/// use spanlock_interval_lock::{IntervalLock, RangeLockExt};
///
/// let lock = IntervalLock::new();
/// let header = lock.write(0..100)?;
/// let rest = lock.write(100..u64::MAX)?; // not a position in common: does not wait
/// assert!(lock.try_read(99..101).is_err());
/// drop(header);
/// assert!(lock.try_read(99..100).is_ok());
/// assert_eq!(format!("{lock:?}"), "IntervalLock { held: [(100..18446744073709551615, Write)], waiting: [] }");
/// # drop(rest);
/// # Ok::<(), spanlock_interval_lock::RangeError>(())
/// ```
pub struct IntervalLock<P = DefaultPark> {
    pub(crate) core: Core,
    parking: PhantomData<fn() -> P>,
}

/// All of a lock but how its waiters sleep: so what is done in the mutex is compiled once, here.
pub(crate) struct Core {
    requests: Mutex<Requests>,
    pub(crate) counters: Counters,
    id: LockId,
}

/// A request for a range of an [`IntervalLock`] that is on its way: its place in the tree, if it has one.
#[derive(Debug, Default)]
pub struct IntervalRequest {
    place: Option<Index>,
}

impl IntervalLock {
    /// A lock that nobody holds.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// A lock with memory for that many requests at once, holders and waiters: with no more than these it never allocates
    /// but for the first waiters' places.
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
    /// The same lock, whose waiters sleep by `Q`.
    pub fn with_parking<Q: Park>(self) -> IntervalLock<Q> {
        IntervalLock {
            core: self.core,
            parking: PhantomData,
        }
    }

    /// How many hold or wait. As all of these, a snapshot for statistics: others go on meanwhile.
    pub fn len(&self) -> usize {
        self.core.requests().len()
    }

    /// Whether nobody holds and nobody waits. A snapshot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many wait, upgrades included. A snapshot.
    pub fn waiting(&self) -> usize {
        self.core.requests().waiting()
    }

    /// Whether a request for `span` would have to wait. A snapshot; but a request that began before and has not ended is in it.
    pub fn would_block(&self, span: Span, access: Access) -> bool {
        !self.core.requests().admits(span, access)
    }

    /// What is held, in the order of starts. A snapshot.
    ///
    /// An upgrade that waits holds its span as [`Access::Upgradable`].
    pub fn held_ranges(&self) -> Vec<(Span, Access)> {
        self.core.requests().holds().collect()
    }

    /// What is waited for, in the order of starts. A snapshot.
    ///
    /// An upgrade that waits does so for [`Access::Write`].
    pub fn waiting_ranges(&self) -> Vec<(Span, Access)> {
        self.core.requests().waits().collect()
    }

    /// Bytes that the lock takes, its own included.
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

// SAFETY: 1: I2. 2: a conflicting hold is granted in a section of the mutex that follows the one in which the hold before it
// ended ("Orderings"). 3, 4: requests know no owner, and are found again from the token.
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
        self.core.give_back(index(token));
    }
}

// SAFETY: `Ready` is returned for a request that is `Held`, as above. A forgotten one stays in the tree.
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
            // Granted meanwhile or not: it leaves those alone that never counted it.
            self.core.leave(self.core.requests(), index);
        }
    }
}

/// Blocks until the request is granted that waits at the index and has no waker.
pub(crate) type Wait = fn(&Core, MutexGuard<'_, Requests>, Index);

impl<P: Park> IntervalLock<P> {
    /// How its waiters sleep, for what is not generic.
    pub(crate) const WAIT: Wait = Core::wait::<P>;
}

/// Neither generic nor inlined: what comes back fits a register, and the guards around these calls shrink to hardly anything.
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

    fn give_back(&self, index: Index) {
        let mut requests = self.requests.lock();
        if requests.nobody_waits() {
            requests.leave_unseen(index);
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
            // From here on it has its place, whatever the waker does.
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
            // Cloned outside of the mutex, as it is dropped and woken: it is the user's code. Then a look again.
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
            // Under the mutex: the grant takes this waker, so no wake is lost.
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
                // Looked up, since the parker may keep a wake from an earlier use.
                if self.requests().is_held(index) {
                    return;
                }
            }
        });
    }
}

/// Opens the mutex, then wakes.
#[track_caller]
pub(crate) fn finish(requests: MutexGuard<'_, Requests>, wakes: Wakes) {
    drop(requests);
    wakes.wake();
}
