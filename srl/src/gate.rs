//! The gate: how requests for many segments and requests for few segments exclude each other.
//!
//! # The problem
//! A request for the whole file must not take the word of every segment: a gigabyte has 262,144
//! segments of 4 KiB. And a request for one page should not pay for the possibility that another
//! thread wants the whole file.
//!
//! # How
//! A **wide** request takes no words. It adds an **entry** for its range to an interval tree
//! ([`spanlock_interval_lock`]), which grants conflicting entries first come, first served. The
//! gate is **closed** while there is a wide request. Once its entry is granted, the wide request
//! **scans** the words of its range with plain loads, and waits at each word with a conflicting
//! hold.
//!
//! A **small** request takes its words, then checks the gate. Usually the gate is open, and the
//! request is done: it has **passed the gate** with these words. If the gate is closed, the request
//! asks the interval tree whether an entry conflicts. If no entry does, the request has passed the
//! gate too. Otherwise the request **backs off**: it releases its words and adds an entry of its
//! own, behind the other entries. Once this entry is granted, the request takes its words and
//! removes the entry. It then holds its words, like any small request.
//!
//! | | small request | | wide request |
//! |---|---|---|---|
//! | 1 | takes its words | 1 | closes the gate, gets its entry |
//! | 2 | light barrier | 2 | full barrier |
//! | 3 | checks the gate; if it is closed, also the entries | 3 | scans the words |
//!
//! # Invariants
//! - **G-I1** A wide request closes the gate before it asks for its entry, and opens the gate just
//!   before it gives the entry up. The gate counts wide requests: it is open only while there
//!   are none.
//! - **G-I2** Of a small and a wide request that conflict, at least one sees the other. Each
//!   writes, passes a barrier, and reads what the other wrote. Either the scan sees the words taken
//!   and waits for them; or the small request sees the gate closed and the entry, and backs off.
//! - **G-I3** So no small hold conflicts with a wide hold. The wide request is granted after its
//!   scan. A small request that takes a conflicting word after the scan of that word backs off.
//! - **G-I4** Requests of threads without other holds never wait in a cycle. A small request that
//!   waits for an entry holds no words. A small request that waits at a word has taken lower words
//!   only. A wide request that waits for its entry holds nothing. A wide request that scans waits
//!   at one word at a time, in ascending order, for holders of the word and for waiters ahead in
//!   its queue. Each of these holders has passed the gate, or will back off, or waits at a higher
//!   word.
//! - **G-I5** No request starves. Later small requests that conflict with a wide request back off,
//!   so they cannot overtake it. A small request that backs off gets an entry, so wide requests
//!   that come later cannot overtake it.
//! - **G-I6** A small request without an entry may hold words that have not passed the gate. It
//!   does so only within one read-side critical section
//!   ([`SegmentStore::enter`](crate::SegmentStore::enter)). So a thread may close the gate, find
//!   words free, unlink them, wait for all critical sections to end, and then free the words. A
//!   request checks the gate after each [`Piece`](crate::Piece) that it takes. If it must back off,
//!   it releases this piece through the reference that it already has, because the piece may have
//!   been unlinked. The request's earlier pieces have passed the gate and stay linked, so it looks
//!   them up again.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | model |
//! |---|---|---|---|---|
//! | J | small: between words and gate | light, after an RMW | K | `srl-gate/try-leaves-no-trace` |
//! | K | wide: between gate and scan | full barrier | J | `srl-gate/try-leaves-no-trace` |
//! | L | opening the gate ([`Flag::lower`]) | Release | M | `srl-gate/try-leaves-no-trace` |
//! | M | [`Flag::is_raised_after_rmw`] | Acquire | L | `srl-gate/try-leaves-no-trace` |
//!
//! A small request takes its words by read-modify-writes. So the pair J and K needs no
//! `membarrier`, which the system may refuse ([`Flag::is_raised_after_rmw`]).
//!
//! # Doubt
//! The thread that shrinks a tree may have unlinked nodes, and then the system may refuse the
//! barrier by which it would learn when no thread references them ([`spanlock_sync::rcu`]). Such a
//! thread leaves the gate closed, and **in doubt**. While the gate is in doubt, *each* small
//! request that takes words backs off, and goes on with an entry of its own. It then looks its
//! words up in a new critical section, which finds no unlinked node.
//!
//! - **G-I7** While a thread may still find an unlinked node that has not been freed, the gate is
//!   in doubt, or the thread that unlinked the node has the exclusive entry for its span. So no
//!   request passes the gate with a word of that node.
//!
//! The interval tree's mutex orders wide requests among each other. It also orders a wide request
//! and a small request that saw the gate closed.

use core::ops::Range;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{Access, NoMemory, RangeError, RawRangeLock, Span, Token, TryLockError};
use spanlock_sync::atomic::{AtomicBool, Ordering::*};
use spanlock_sync::barrier::{self, Flag};
use spanlock_sync::{DefaultPark, Park, injected_bug};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Gate<P = DefaultPark> {
    /// Counts the wide requests.
    wide: Flag,
    entries: IntervalLock<P>,
    /// Whether the gate is in [doubt](self#doubt). Then it is also closed.
    in_doubt: AtomicBool,
}

impl Default for Gate {
    /// Creates an open gate.
    fn default() -> Self {
        Gate {
            wide: Flag::default(),
            // One shard: entries are few, and the lock of a small file must stay small.
            entries: IntervalLock::with_shards(1, u64::MAX),
            in_doubt: AtomicBool::new(false),
        }
    }
}

impl<P: Park> Gate<P> {
    /// Returns this gate with another way to wait: waiters sleep through `Q`.
    pub(crate) fn with_parking<Q: Park>(self) -> Gate<Q> {
        Gate {
            wide: self.wide,
            entries: self.entries.with_parking(),
            in_doubt: self.in_doubt,
        }
    }

    /// Closes the gate for one more wide request.
    pub(crate) fn close(&self) {
        // The barrier K orders this before the scan.
        self.wide.raise();
    }

    /// Opens the gate for one wide request.
    pub(crate) fn open(&self) {
        // Release [L→M]: a request that finds the gate open sees what was done under the wide hold.
        self.wide.lower();
    }

    /// Orders closing the gate before the scan.
    pub(crate) fn before_scan(&self) {
        // Full [K→J].
        barrier::full();
    }

    /// Returns whether a small request that has just taken words must back off.
    #[inline]
    pub(crate) fn stops(&self, touched: &Range<u64>, access: Access) -> bool {
        self.is_closed() && self.turns_back(touched, access)
    }

    /// Returns whether a small request that has just taken words must check the entries with
    /// [`turns_back`](Self::turns_back).
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Light [J→K], Acquire [M→L].
        self.wide.is_raised_after_rmw(Acquire)
            && !injected_bug!(
                "gate-look-skipped",
                "a small request that has taken its words does not check the gate",
                killed_by = "srl-gate/exclusion, srl-gate/exclusion-read-write, \
                    srl-gate/exclusion-write-read, reclamation"
            )
    }

    /// Returns whether a small request that has just taken words and found the gate closed must
    /// back off.
    #[cold]
    pub(crate) fn turns_back(&self, touched: &Range<u64>, access: Access) -> bool {
        self.would_block(touched, access) || self.is_in_doubt()
    }

    /// Returns whether an entry conflicts with a request.
    pub(crate) fn would_block(&self, touched: &Range<u64>, access: Access) -> bool {
        self.entries.would_block(entry_of(touched), access)
    }

    /// Returns whether the gate is in [doubt](self#doubt). The caller has found no conflicting
    /// entry.
    pub(crate) fn is_in_doubt(&self) -> bool {
        // Relaxed: the gate is in doubt before the entry of the thread in doubt is released. So the
        // entries' mutex orders this load.
        self.in_doubt.load(Relaxed)
            && !injected_bug!(
                "doubt-ignored",
                "a request keeps words that may lie in an unlinked leaf",
                killed_by = "srl-tree/reclamation-in-doubt"
            )
    }

    /// Releases an exclusive entry, but leaves the gate closed and in doubt. Only the thread that
    /// shrinks the tree calls this.
    ///
    /// # Safety
    /// The caller holds the segments by `entry` exclusively, has closed the gate for this entry,
    /// and gives the entry up.
    pub(crate) unsafe fn release_in_doubt(&self, touched: &Range<u64>, entry: Token) {
        // Relaxed: the entries' mutex orders it before the checks.
        self.in_doubt.store(true, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.entries.unlock(entry_of(touched), Access::Write, entry) };
    }

    /// Ends the doubt: no thread references an unlinked node any more. Only the thread that shrinks
    /// the tree calls this, once for each call of [`release_in_doubt`](Self::release_in_doubt).
    pub(crate) fn end_doubt(&self) {
        // Relaxed: a request that misses the store only backs off.
        self.in_doubt.store(false, Relaxed);
        self.open();
    }

    /// Returns the lock of the entries: those of wide requests, of batches, and of small requests
    /// that have backed off.
    pub(crate) fn entries(&self) -> &IntervalLock<P> {
        &self.entries
    }

    /// Opens the gate and releases the entry of a wide request.
    ///
    /// # Safety
    /// The caller holds the segments by `entry` with `access`, and has closed the gate for this
    /// entry. It gives the entry up.
    pub(crate) unsafe fn release(&self, touched: &Range<u64>, access: Access, entry: Token) {
        // Open first: releasing the entry runs wakers, and they may panic.
        self.open();
        // SAFETY: the caller's promise.
        unsafe { self.entries.unlock(entry_of(touched), access, entry) };
    }
}

/// Returns the span of a request's entry: the numbers of its segments.
pub(crate) fn entry_of(touched: &Range<u64>) -> Span {
    match Span::new(touched.clone()) {
        Ok(Some(span)) => span,
        _ => unreachable!("a span touches a segment"),
    }
}

/// Returns a result of the entries' lock, which covers every position. So its only error is a lack
/// of memory.
pub(crate) fn in_range<T>(result: Result<T, RangeError>) -> Result<T, NoMemory> {
    result.map_err(|error| match error {
        RangeError::Memory { .. } => NoMemory,
        error => unreachable!("an entry of the gate: {error}"),
    })
}

/// Returns the entry of a try, or `None` if there is a conflict.
///
/// # Errors
/// As for [`in_range`].
pub(crate) fn tried<T>(result: Result<T, TryLockError>) -> Result<Option<T>, NoMemory> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(TryLockError::Range(error)) => in_range(Err(error)),
        Err(_) => Ok(None),
    }
}
