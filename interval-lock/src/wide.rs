//! Wide requests: those with several nodes, because they are batches or touch several shards.
//!
//! Each operation locks all shards that the request touches, and then changes the request's nodes
//! (IL-S2 in [`crate::shards`]). [`crate::requests`] describes how a wide request is granted.

use alloc::vec::Vec;
use core::task::{Poll, Waker, ready};

use spanlock_range_lock::words::for_each_surely;
use spanlock_range_lock::{Access, NoMemory, Span, Token};
use spanlock_sync::hint::{Backoff, scaled};
use spanlock_sync::injected_bug;

use crate::lock::{Core, IntervalRequest, Sleep, index, token};
use crate::requests::Wakes;
use crate::shards::{Locked, MAX_SHARDS, Mask};
use crate::tree::Index;

/// The spans of one request, with their accesses.
pub(crate) type Batch<'a> = &'a [(Span, Access)];

/// What the owner of a waiting wide request found.
enum Found {
    /// No node was blocked, so all are holds now.
    Claimed,
    /// A node is blocked, and now has the owner's waker. The old waker must be dropped.
    Blocked(Option<Waker>),
    /// A node is blocked, but the owner has not provided a clone of its waker.
    NoWaker,
}

impl Core {
    /// Acquires every span of a batch; blocks until none is blocked. Writes their tokens.
    ///
    /// # Errors
    /// If there is no memory. Nothing has changed.
    pub(crate) fn take_all(
        &self,
        batch: Batch<'_>,
        tokens: &mut [Token],
        sleep: Sleep,
    ) -> Result<(), NoMemory> {
        let (nodes, touched) = self.shards.nodes(batch);
        let mut spin = Backoff::new();
        let mut spins = scaled(1, 0) == 1;
        let mut locked = loop {
            let mut locked = self.shards.lock(touched);
            if self.hold_all(&mut locked, &nodes, batch, tokens)? {
                return Ok(());
            }
            if !spins {
                break locked;
            }
            drop(locked);
            spins = spin.round();
        };
        self.queue_all(&mut locked, batch, tokens);
        let tokens = &*tokens;
        self.or_give_up(batch, tokens, || {
            self.wait_all(locked, touched, batch, tokens, sleep);
        });
        self.counters.acquisitions(batch.len());
        Ok(())
    }

    /// Acquires every span of a batch, if none is blocked; writes their tokens. Returns whether it
    /// did.
    ///
    /// # Errors
    /// If there is no memory. Nothing has changed.
    pub(crate) fn try_take_all(
        &self,
        batch: Batch<'_>,
        tokens: &mut [Token],
    ) -> Result<bool, NoMemory> {
        let (nodes, touched) = self.shards.nodes(batch);
        let mut locked = self.shards.lock(touched);
        self.hold_all(&mut locked, &nodes, batch, tokens)
    }

    /// Polls a request for a span that touches several shards; see
    /// [`poll_lock`](spanlock_range_lock::RawRangeLockWait::poll_lock).
    #[cold]
    pub(crate) fn poll_wide(
        &self,
        span: Span,
        access: Access,
        request: &mut IntervalRequest,
        waker: &Waker,
    ) -> Poll<Result<Token, NoMemory>> {
        let (batch, mut tokens) = ([(span, access)], [Token::NONE]);
        let (nodes, touched) = self.shards.nodes(&batch);
        let mut locked = self.shards.lock(touched);
        if let Some(index) = request.place {
            tokens = [token(index)];
        } else if self.hold_all(&mut locked, &nodes, &batch, &mut tokens)? {
            return Poll::Ready(Ok(tokens[0]));
        } else {
            self.counters.waits();
            self.queue_all(&mut locked, &batch, &mut tokens);
        }
        // Record the index first: the waker's code may panic.
        request.place = Some(index(tokens[0]));
        ready!(self.poll_claimed(locked, touched, &batch, &tokens, waker));
        request.place = None;
        self.counters.acquisitions(1);
        Poll::Ready(Ok(tokens[0]))
    }

    /// Polls a request for several spans. `waiting` are its tokens, or none if it is new; `tokens`
    /// are written when it is ready.
    pub(crate) fn poll_all(
        &self,
        batch: Batch<'_>,
        waiting: &mut Vec<Token>,
        tokens: &mut [Token],
        waker: &Waker,
    ) -> Poll<Result<(), NoMemory>> {
        let (nodes, touched) = self.shards.nodes(batch);
        let mut locked = self.shards.lock(touched);
        if waiting.is_empty() {
            if self.hold_all(&mut locked, &nodes, batch, tokens)? {
                return Poll::Ready(Ok(()));
            }
            let memory = waiting.try_reserve_exact(batch.len());
            memory.map_err(|_| NoMemory)?;
            self.counters.waits();
            self.queue_all(&mut locked, batch, tokens);
            // Recorded first: the waker's code may panic.
            waiting.extend_from_slice(tokens);
        }
        ready!(self.poll_claimed(locked, touched, batch, waiting, waker));
        tokens.copy_from_slice(waiting);
        waiting.clear();
        self.counters.acquisitions(batch.len());
        Poll::Ready(Ok(()))
    }

    /// Gives up a request for several spans, granted or not. `waiting` are its tokens, if it is not
    /// new.
    pub(crate) fn give_up_all(&self, batch: Batch<'_>, waiting: &mut Vec<Token>) {
        for_each_surely(
            batch.iter().zip(waiting.drain(..)),
            |(&(span, _), token)| {
                self.give_up(span, index(token));
            },
        );
    }

    /// Claims a waiting request, or leaves a clone of `waker` in a node that is blocked.
    fn poll_claimed<'a>(
        &'a self,
        mut locked: Locked<'a>,
        touched: Mask,
        batch: Batch<'_>,
        tokens: &[Token],
        waker: &Waker,
    ) -> Poll<()> {
        let mut clone: Option<Waker> = None;
        loop {
            match self.check(&mut locked, batch, tokens, waker, &mut clone) {
                Found::Claimed => return Poll::Ready(()),
                Found::Blocked(old) => {
                    drop(locked);
                    drop(old);
                    return Poll::Pending;
                }
                Found::NoWaker => {
                    // The waker is foreign code, so it is cloned while nothing is locked.
                    drop(locked);
                    clone = Some(waker.clone());
                    locked = self.shards.lock(touched);
                }
            }
        }
    }

    /// Releases a hold, or cancels a request, that touches several shards.
    #[cold]
    pub(crate) fn leave_wide(&self, span: Span, first: Index) {
        let touched = self.shards.touched(span);
        let mut wakes = Wakes::default();
        let mut locked = self.shards.lock_to_release(touched);
        locked.nodes(touched, first, |_, requests, index| {
            requests.leave(index, &mut wakes);
        });
        drop(locked);
        wakes.wake();
    }

    /// Releases every span of a batch.
    pub(crate) fn release_all(&self, batch: Batch<'_>, tokens: &[Token]) {
        let (nodes, touched) = self.shards.nodes(batch);
        let mut wakes = Wakes::default();
        let mut locked = self.shards.lock_to_release(touched);
        // Often these are all nodes of a shard, which then need not be removed one by one.
        let mut clears = Mask::NONE;
        for (shard, requests) in locked.each() {
            if requests.are_holds(nodes[shard])
                || injected_bug!(
                    "waiters-cleared",
                    "the release of a batch empties a shard in which requests wait",
                    killed_by = "batch-release"
                )
            {
                clears = clears.with(shard);
            }
        }
        if clears != touched {
            self.each(&mut locked, batch, tokens, |locked, shard, index| {
                if !clears.has(shard) {
                    locked.shard(shard).leave(index, &mut wakes);
                }
            });
        }
        for shard in clears.shards() {
            locked.shard(shard).clear();
        }
        drop(locked);
        wakes.wake();
    }

    #[cold]
    pub(crate) fn downgrade_wide(&self, span: Span, to: Access, first: Index) {
        let touched = self.shards.touched(span);
        let mut wakes = Wakes::default();
        let mut locked = self.shards.lock(touched);
        locked.nodes(touched, first, |_, requests, index| {
            requests.downgrade(index, to, &mut wakes);
        });
        drop(locked);
        wakes.wake();
    }

    /// Makes a hold exclusive if no other hold overlaps it; returns whether it did.
    #[cold]
    pub(crate) fn try_upgrade_wide(&self, span: Span, first: Index) -> bool {
        let mut locked = self.shards.lock(self.shards.touched(span));
        self.make_exclusive(&mut locked, span, first)
    }

    /// Makes an upgradable hold exclusive; blocks until no other hold overlaps it.
    #[cold]
    pub(crate) fn upgrade_wide(&self, span: Span, first: Index, sleep: Sleep) {
        let touched = self.shards.touched(span);
        let mut locked = self.shards.lock(touched);
        if self.make_exclusive(&mut locked, span, first) {
            return;
        }
        locked.nodes(touched, first, |_, requests, index| {
            requests.queue_upgrade(index, true);
        });
        let (batch, tokens) = ([(span, Access::Write)], [token(first)]);
        self.wait_all(locked, touched, &batch, &tokens, sleep);
    }

    /// Advances an upgrade of a hold that touches several shards.
    #[cold]
    pub(crate) fn poll_upgrade_wide(
        &self,
        span: Span,
        first: Index,
        waits: &mut bool,
        waker: &Waker,
    ) -> Poll<()> {
        let touched = self.shards.touched(span);
        let mut locked = self.shards.lock(touched);
        if !*waits {
            if self.make_exclusive(&mut locked, span, first) {
                return Poll::Ready(());
            }
            self.counters.waits();
            locked.nodes(touched, first, |_, requests, index| {
                requests.queue_upgrade(index, true);
            });
            *waits = true;
        }
        let (batch, tokens) = ([(span, Access::Write)], [token(first)]);
        ready!(self.poll_claimed(locked, touched, &batch, &tokens, waker));
        *waits = false;
        Poll::Ready(())
    }

    /// Makes a waiting upgrade of a hold that touches several shards an upgradable hold again.
    #[cold]
    pub(crate) fn cancel_upgrade_wide(&self, span: Span, first: Index) {
        let touched = self.shards.touched(span);
        let mut wakes = Wakes::default();
        let mut locked = self.shards.lock(touched);
        locked.nodes(touched, first, |_, requests, index| {
            requests.withdraw_upgrade(index, &mut wakes);
        });
        drop(locked);
        wakes.wake();
    }

    /// Shrinks a hold to `keep`. Stores the new token before any waker is called.
    #[cold]
    pub(crate) fn shrink_wide(&self, span: Span, held: &mut Token, keep: Span) {
        let [touched, kept] = [span, keep].map(|span| self.shards.touched(span));
        let (mut wakes, mut links) = (Wakes::default(), [0; MAX_SHARDS]);
        let mut locked = self.shards.lock(touched);
        // The kept part touches no other shards (IL-S4).
        locked.nodes(touched, index(*held), |shard, requests, index| {
            if kept.has(shard) {
                links[shard] = index;
                requests.shrink(index, keep, &mut wakes);
            } else {
                requests.leave(index, &mut wakes);
            }
        });
        *held = token(link(&mut locked, kept, &links));
        drop(locked);
        wakes.wake();
    }

    /// Splits a hold in two. Stores the token of each part before any waker is called.
    ///
    /// # Errors
    /// If there is no memory. Nothing has changed.
    #[cold]
    pub(crate) fn split_wide(
        &self,
        held: &mut Token,
        low: Span,
        high: Span,
        above: &mut Token,
    ) -> Result<(), NoMemory> {
        let whole = Span::new(low.start()..high.end());
        let whole = whole.ok().flatten().expect("covers both parts");
        let touched = self.shards.touched(whole);
        let [lower, upper] = [low, high].map(|span| self.shards.touched(span));
        let (mut lows, mut highs) = ([0; MAX_SHARDS], [0; MAX_SHARDS]);
        let mut wakes = Wakes::default();
        let mut locked = self.shards.lock(touched);
        for (shard, requests) in locked.each() {
            requests.reserve(usize::from(lower.has(shard) && upper.has(shard)))?;
        }
        // In a shard that one part does not touch, requests may no longer be blocked. But then the
        // other part of the hold still blocks them in another shard.
        locked.nodes(touched, index(*held), |shard, requests, index| {
            match (lower.has(shard), upper.has(shard)) {
                (true, true) => {
                    lows[shard] = index;
                    highs[shard] = requests.split(index, low, high);
                }
                (true, false) => {
                    lows[shard] = index;
                    requests.shrink(index, low, &mut wakes);
                }
                (false, true) => {
                    highs[shard] = index;
                    requests.shrink(index, high, &mut wakes);
                }
                (false, false) => requests.leave(index, &mut wakes),
            }
        });
        *held = token(link(&mut locked, lower, &lows));
        *above = token(link(&mut locked, upper, &highs));
        drop(locked);
        wakes.wake();
        Ok(())
    }

    /// Returns whether no request blocks a new request for these spans. Their shards are locked.
    pub(crate) fn admits_all(&self, locked: &mut Locked<'_>, batch: Batch<'_>) -> bool {
        batch.iter().all(|&(span, access)| {
            let mut shards = self.shards.touched(span).shards();
            shards.all(|shard| locked.shard(shard).admits(span, access))
        })
    }

    /// Takes every span if none is blocked; returns whether it did. Their shards are locked, and
    /// get this many nodes. If it did not, there is room for waiting nodes.
    ///
    /// # Errors
    /// If there is no memory. Nothing has changed.
    fn hold_all(
        &self,
        locked: &mut Locked<'_>,
        nodes: &[usize; MAX_SHARDS],
        batch: Batch<'_>,
        tokens: &mut [Token],
    ) -> Result<bool, NoMemory> {
        locked.reserve(nodes)?;
        let number = locked.new_number();
        let mut behind = [None; MAX_SHARDS];
        for at in 0..batch.len() {
            let (span, access) = batch[at];
            let touched = self.shards.touched(span);
            let first = if touched.is_one() {
                let shard = touched.first();
                let requests = locked.shard(shard);
                let held = requests.try_hold_behind(behind[shard], span, access, number);
                held.map(|(index, is_alone)| {
                    behind[shard] = is_alone.then_some(index);
                    index
                })
            } else {
                self.admits_all(locked, &[(span, access)]).then(|| {
                    let mut next = 0;
                    for shard in touched.descending() {
                        next = locked.shard(shard).hold(span, access, number, next);
                        behind[shard] = None;
                    }
                    next
                })
            };
            let Some(first) = first else {
                self.take_back(locked, &batch[..at], tokens);
                return Ok(false);
            };
            tokens[at] = token(first);
        }
        self.counters.acquisitions(batch.len());
        Ok(true)
    }

    /// Removes the holds of these spans, which were added since the shards were locked.
    #[cold]
    fn take_back(&self, locked: &mut Locked<'_>, batch: Batch<'_>, tokens: &[Token]) {
        self.each(locked, batch, tokens, |locked, shard, index| {
            locked.shard(shard).take_back(index);
        });
    }

    /// Adds a waiting request for every span. Their shards are locked, and have room.
    fn queue_all(&self, locked: &mut Locked<'_>, batch: Batch<'_>, tokens: &mut [Token]) {
        let number = locked.new_number();
        for (&(span, access), place) in batch.iter().zip(tokens) {
            let mut next = 0;
            for shard in self.shards.touched(span).descending() {
                let requests = locked.shard(shard);
                next = requests.queue_wide(span, access, number, next);
            }
            *place = token(next);
        }
    }

    /// Blocks until the request is granted. `locked` are the shards that it touches.
    fn wait_all(
        &self,
        locked: Locked<'_>,
        touched: Mask,
        batch: Batch<'_>,
        tokens: &[Token],
        sleep: Sleep,
    ) {
        self.counters.waits();
        let mut first = Some(locked);
        sleep(&mut |waker| {
            let mut locked = (first.take()).unwrap_or_else(|| self.shards.lock(touched));
            // Unlike the waker of a future, this one may be cloned under the mutexes: it comes from
            // the lock's `Park`.
            let mut clone = Some(waker.clone());
            let found = self.check(&mut locked, batch, tokens, waker, &mut clone);
            drop(locked);
            matches!(found, Found::Claimed)
        });
    }

    /// Claims all nodes of a request, or leaves the owner's waker in a node that is blocked. The
    /// shards are locked.
    fn check(
        &self,
        locked: &mut Locked<'_>,
        batch: Batch<'_>,
        tokens: &[Token],
        waker: &Waker,
        clone: &mut Option<Waker>,
    ) -> Found {
        // The first node that is blocked, and the node that has a waker. Such a node is blocked.
        let (mut first, mut blocked, mut waits) = (None, None, None);
        self.each(locked, batch, tokens, |locked, shard, index| {
            let requests = locked.shard(shard);
            first.get_or_insert((shard, index));
            if requests.has_waker(index) {
                waits = Some((shard, index));
            }
            let skips = injected_bug!(
                "one-shard-claims",
                "a wide request is granted once it is not blocked in its first shard",
                killed_by = "interval-tree-sharded/exclusion"
            ) && first != Some((shard, index));
            if !requests.is_ready(index) && !skips {
                blocked.get_or_insert((shard, index));
            }
        });
        let Some(blocked) = blocked else {
            self.each(locked, batch, tokens, |locked, shard, index| {
                locked.shard(shard).claim_wide(index);
            });
            return Found::Claimed;
        };
        let blocked = if injected_bug!(
            "waker-in-ready-node",
            "the owner of a wide request leaves its waker in its first node, even if only another \
             one is blocked",
            killed_by = "interval-tree-sharded/exclusion"
        ) {
            first.unwrap_or(blocked)
        } else {
            blocked
        };
        let (shard, index) = waits.unwrap_or(blocked);
        let requests = locked.shard(shard);
        if requests.will_wake(index, waker) {
            return Found::Blocked(None);
        }
        match clone.take() {
            Some(clone) => Found::Blocked(requests.set_waker(index, clone)),
            None => Found::NoWaker,
        }
    }

    /// Calls `f` with each node of each span.
    fn each(
        &self,
        locked: &mut Locked<'_>,
        batch: Batch<'_>,
        tokens: &[Token],
        mut f: impl FnMut(&mut Locked<'_>, usize, Index),
    ) {
        for (&(span, _), &first) in batch.iter().zip(tokens) {
            let mut at = index(first);
            for shard in self.shards.touched(span).shards() {
                let next = locked.shard(shard).next(at);
                f(locked, shard, at);
                at = next;
            }
        }
    }

    fn make_exclusive(&self, locked: &mut Locked<'_>, span: Span, first: Index) -> bool {
        let (touched, mut others) = (self.shards.touched(span), 0);
        locked.nodes(touched, first, |_, requests, index| {
            others += requests.other_holders(index);
        });
        if others == 0 {
            locked.nodes(touched, first, |_, requests, index| {
                requests.make_exclusive(index);
            });
        }
        others == 0
    }
}

/// Links the nodes of a span (IL-I7); returns the first. `nodes` has the node in each shard.
fn link(locked: &mut Locked<'_>, touched: Mask, nodes: &[Index; MAX_SHARDS]) -> Index {
    let mut next = 0;
    for shard in touched.descending() {
        locked.shard(shard).set_next(nodes[shard], next);
        next = nodes[shard];
    }
    next
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;
