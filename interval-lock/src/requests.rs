//! The state of the lock: holds, waiting requests, and the counts that decide when each waiting
//! request is granted. How threads wait is in [`crate::lock`].
//!
//! One `Requests` is the state of one shard ([`crate::shards`]). The nodes of a request that
//! touches several shards are in as many `Requests`. All changes to one shard happen under its
//! mutex.
//!
//! # The order
//! Requests have a total *order*: first by stage, then by number. Numbers ascend in order of
//! arrival (IL-S3).
//!
//! | stage | the request | requests that count it |
//! |---|---|---|
//! | `Held` | holds its span with its access | conflicting upgrades and waiters |
//! | `Upgrading` | holds its span as `Upgradable`; waits for readers | conflicting waiters |
//! | `Waiting` | holds nothing yet | later waiters that conflict |
//!
//! An `Upgrading` request is stored with the access that it waits for, `Write`.
//!
//! A node A **blocks** a node B of another request in the same shard if A comes before B in this
//! order, their spans overlap, and their accesses conflict.
//!
//! # Narrow and wide requests
//! A **narrow** request has one node: it is for one span, which touches one shard. The change that
//! unblocks it *grants* it, under the mutex of its shard.
//!
//! A **wide** request has several nodes: it is a batch of disjoint spans, or its span touches
//! several shards. Its nodes share one number. The thread that unblocks one of its nodes may not
//! have locked the others. So it only wakes the owner, the thread or future that waits for the
//! request. The owner locks all shards that the request touches, and *claims* all nodes together if
//! none is blocked. If some node is blocked, the owner leaves its waker in the first such node.
//!
//! If the nodes were claimed one by one, a wide request could deadlock with an upgrade: it would
//! hold one span and wait for the upgrade at another, while the upgrade waits for the first span.
//!
//! Once claimed, the spans of a batch are independent holds.
//!
//! # Invariants
//! - **IL-I1** The count of a node is the number of nodes that block it. When a node changes,
//!   [`Requests::settle`] updates exactly the counts of the nodes that it starts or stops blocking.
//! - **IL-I2** A narrow request is `Held` if and only if its count is 0. A wide request is `Held`
//!   only if the counts of all its nodes are 0. So no two holds conflict: in a shard that both
//!   touch (IL-S1), the first in the order would block the other. A hold does not conflict with the
//!   upgradable hold of a waiting upgrade either.
//! - **IL-I3** A grant or a claim moves a request forward in the order. It never moves the request
//!   past a conflicting one, because that one would still block it. So it changes no count.
//! - **IL-I4** A blocker comes before the requests that it blocks, and the order is the same in all
//!   shards. So requests cannot wait in a cycle, and the first request that is not `Held` is ready
//!   as soon as the holds that block it have left.
//! - **IL-I5** `waiting` is the number of nodes that are not `Held`. While it is 0, no node in this
//!   shard counts any other.
//! - **IL-I6** Only a node that is not `Held` has a waker. A change that makes its count 0 removes
//!   the waker, and the caller wakes it. If there is none, the owner has already been woken, and
//!   will lock the mutex. An owner that finds a count above 0 leaves its waker in a node with such
//!   a count before it sleeps. So no wake is lost.
//! - **IL-I7** Each node of a span stores the index of the span's node in the next shard that the
//!   span touches. In the last shard, the link is meaningless.
//!
//! IL-I1 makes cancelling exact. Cancelling a waiter decrements only the counts of the requests
//! that it blocks: later arrivals that conflict with it. Two waiting readers do not conflict, so
//! cancelling one does not change the count of the other. The Linux range lock patches of 2019
//! decremented the counts of all overlapping requests. The definition of the count excludes that
//! bug.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::task::Waker;

use spanlock_range_lock::{Access, NoMemory, Span};
use spanlock_sync::injected_bug;

use crate::tree::{Index, Tree};
use passes::Passes;

pub(crate) use wakes::Wakes;

mod overtaking;
mod passes;
mod upgrades;
mod wakes;

/// The stage of a request. Earlier stages come first in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Held,
    Upgrading,
    Waiting,
}

/// The data of a node.
#[derive(Clone, Copy)]
struct Claim {
    /// Unique in the shard, except that the nodes of a batch share one.
    number: u64,
    access: Access,
    stage: Stage,
    /// Whether the request is wide, so that only its owner turns it into a hold.
    wide: bool,
    /// Whether the node was granted, but its owner has not returned from its call yet. Such a grant
    /// can be revoked.
    unclaimed: bool,
    /// The number of nodes that block this one (IL-I1).
    count: u32,
    /// The node of the same span in the next shard (IL-I7).
    next: Index,
}

impl Claim {
    /// Creates the claim of a narrow request with a count of 0.
    #[inline]
    fn new(access: Access, stage: Stage, number: u64) -> Self {
        Claim {
            number,
            access,
            stage,
            wide: false,
            unclaimed: false,
            count: 0,
            next: 0,
        }
    }
}

impl Default for Claim {
    fn default() -> Self {
        Claim::new(Access::Read, Stage::Held, 0)
    }
}

/// The part of a node that decides which nodes it blocks, and which block it.
#[derive(Clone, Copy)]
struct Stake {
    span: Span,
    access: Access,
    order: (Stage, u64),
}

impl Stake {
    /// Returns whether this node blocks `other`.
    #[inline]
    fn blocks(&self, other: &Stake) -> bool {
        self.order < other.order
            && self.access.conflicts_with(other.access)
            && self.span.overlaps(other.span)
    }
}

/// The part of a waiting node that only waiting needs.
#[derive(Default)]
struct Waiter {
    waker: Option<Waker>,
    passes: Passes,
}

/// The nodes of all requests that touch one shard: of holders and of waiters.
pub(crate) struct Requests {
    tree: Tree<Claim>,
    /// The waiting part of each node, at its index. Has capacity for all nodes for which the tree
    /// has room. So neither waiting nor an upgrade allocates.
    waiters: Vec<Waiter>,
    next_number: u64,
    waiting: u32,
    /// How many of the waiting nodes are upgrades.
    upgrading: u32,
}

/// The least number of nodes for which a shard that is used has room.
const LEAST_ROOM: usize = 4;

impl Requests {
    pub(crate) const fn new() -> Self {
        Requests {
            tree: Tree::new(),
            waiters: Vec::new(),
            next_number: 0,
            waiting: 0,
            upgrading: 0,
        }
    }

    /// Makes room for this number of nodes in all.
    pub(crate) fn try_reserve(&mut self, nodes: usize) -> Result<(), TryReserveError> {
        (self.waiters).try_reserve_exact(nodes.saturating_sub(self.waiters.len()))?;
        self.tree.try_reserve(nodes)
    }

    /// Makes room for this number of new nodes. Functions that add a node need it, and may then
    /// rely on it while the shard stays locked.
    #[inline]
    pub(crate) fn reserve(&mut self, new: usize) -> Result<(), NoMemory> {
        if self.tree.room() - self.tree.len() >= new {
            return Ok(());
        }
        self.grow(new)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, new: usize) -> Result<(), NoMemory> {
        let needed = self.tree.len() + new;
        let twice = self.tree.room() * 2;
        // If there is no memory for twice the room, there may be some for what is needed now.
        let grown = self.try_reserve(needed.max(twice).max(LEAST_ROOM));
        Ok(grown.or_else(|_| self.try_reserve(needed))?)
    }

    /// Returns whether a new request would be granted at once.
    pub(crate) fn admits(&self, span: Span, access: Access) -> bool {
        self.overlaps(span).all(|index| {
            let claim = self.tree.value(index);
            !claim.access.conflicts_with(access)
                || injected_bug!(
                    "no-aging",
                    "a new request overtakes conflicting waiters without limit",
                    killed_by = "bounded-overtaking"
                ) && claim.stage == Stage::Waiting
        })
    }

    /// Adds a hold if [no request blocks it](Self::admits); returns its index. If there is none,
    /// there is room for a waiting node.
    ///
    /// # Errors
    /// If there is no memory for a node. Nothing has changed.
    #[inline]
    pub(crate) fn try_hold(
        &mut self,
        span: Span,
        access: Access,
    ) -> Result<Option<Index>, NoMemory> {
        self.reserve(1)?;
        if self.tree.len() == 0 {
            let index = self.tree.insert_first(span);
            self.claim_hold(index, access);
            return Ok(Some(index));
        }
        Ok(self.try_hold_among(span, access))
    }

    #[inline(never)]
    fn try_hold_among(&mut self, span: Span, access: Access) -> Option<Index> {
        let gap = self.tree.gap(span);
        if !gap.free && !self.admits(span, access) {
            return None;
        }
        let index = self.tree.insert(gap, span);
        self.claim_hold(index, access);
        Some(index)
    }

    #[inline]
    fn claim_hold(&mut self, index: Index, access: Access) {
        let number = self.new_number();
        *self.tree.value_mut(index) = Claim::new(access, Stage::Held, number);
    }

    /// Adds a node of a hold that no node blocks: of a new request that [`admits`](Self::admits)
    /// has found unblocked, or of the part that [`split`](Self::split) cuts off a hold. Needs room.
    pub(crate) fn hold(&mut self, span: Span, access: Access, number: u64, next: Index) -> Index {
        let index = self.add(span, access, Stage::Held, number);
        self.set_next(index, next);
        index
    }

    /// Adds a node of a batch like [`hold`](Self::hold), unless a node blocks it. `behind` is the
    /// batch's last node here, if that is known to overlap no other. Returns the node, and whether
    /// it is known to overlap no other. Needs room.
    #[inline]
    pub(crate) fn try_hold_behind(
        &mut self,
        behind: Option<Index>,
        span: Span,
        access: Access,
        number: u64,
    ) -> Option<(Index, bool)> {
        let gap = behind.and_then(|index| self.tree.gap_behind(index, span));
        let gap = gap.unwrap_or_else(|| self.tree.gap(span));
        if !gap.free && !self.admits(span, access) {
            return None;
        }
        let index = self.tree.insert(gap, span);
        *self.tree.value_mut(index) = Claim::new(access, Stage::Held, number);
        Some((index, gap.free))
    }

    /// Removes a node that was added as a hold since the shard was locked: no request has counted
    /// it.
    pub(crate) fn take_back(&mut self, index: Index) {
        self.tree.remove(index);
    }

    /// Adds a waiting narrow request; returns its index. At least one node must block it. Needs
    /// room.
    pub(crate) fn queue(&mut self, span: Span, access: Access) -> Index {
        let number = self.new_number();
        let index = self.wait_as(span, access, number);
        debug_assert!(self.claim(index).count > 0, "unblocked, so it must be held");
        index
    }

    /// Adds a node of a waiting wide request; returns its index. Needs room.
    pub(crate) fn queue_wide(
        &mut self,
        span: Span,
        access: Access,
        number: u64,
        next: Index,
    ) -> Index {
        let index = self.wait_as(span, access, number);
        let claim = self.claim_mut(index);
        (claim.wide, claim.next) = (true, next);
        index
    }

    /// Adds a waiting node.
    fn wait_as(&mut self, span: Span, access: Access, number: u64) -> Index {
        let count = self.conflicts(span, access);
        self.waiting += 1;
        let index = self.add(span, access, Stage::Waiting, number);
        self.claim_mut(index).count = count;
        self.make_waiter(index);
        index
    }

    /// Resets the waiting part of a node that begins to wait.
    fn make_waiter(&mut self, index: Index) {
        let at = index as usize;
        if self.waiters.len() <= at {
            self.waiters.resize_with(at + 1, Waiter::default);
        }
        debug_assert!(self.waiters[at].waker.is_none(), "IL-I6");
        self.waiters[at].passes = Passes::default();
    }

    /// Makes a granted narrow request a hold that cannot be revoked; returns whether it was
    /// granted.
    pub(crate) fn claim_grant(&mut self, index: Index) -> bool {
        let claim = self.claim_mut(index);
        claim.unclaimed = false;
        claim.stage == Stage::Held
    }

    /// Makes a ready node of a wide request a hold.
    pub(crate) fn claim_wide(&mut self, index: Index) {
        let claim = self.claim_mut(index);
        debug_assert!(
            claim.wide && claim.count == 0 && claim.stage != Stage::Held,
            "IL-I2"
        );
        self.end_wait(index);
    }

    /// Returns whether no node blocks the node at `index`.
    pub(crate) fn is_ready(&self, index: Index) -> bool {
        self.claim(index).count == 0
    }

    /// Returns the link of a node (IL-I7).
    pub(crate) fn next(&self, index: Index) -> Index {
        self.claim(index).next
    }

    /// Sets the link of a node (IL-I7).
    pub(crate) fn set_next(&mut self, index: Index, next: Index) {
        self.claim_mut(index).next = next;
    }

    /// Returns the number of the next request.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Makes later requests have greater numbers than `number`.
    pub(crate) fn numbers_used(&mut self, number: u64) {
        self.next_number = number + 1;
    }

    /// Returns whether there are no waiters. If there are none, no request counts another (IL-I5).
    #[inline]
    pub(crate) fn has_no_waiters(&self) -> bool {
        self.waiting == 0
    }

    /// Removes a hold while there are [no waiters](Self::has_no_waiters).
    #[inline]
    pub(crate) fn remove_hold(&mut self, index: Index) {
        debug_assert!(self.has_no_waiters());
        debug_assert!(self.claim(index).stage == Stage::Held);
        self.tree.remove(index);
    }

    /// Returns whether there are this many nodes. If so many are holds, nobody waits.
    pub(crate) fn are_holds(&self, count: usize) -> bool {
        self.tree.len() == count
    }

    /// Removes all nodes, which [are holds](Self::are_holds).
    pub(crate) fn clear(&mut self) {
        debug_assert!(self.has_no_waiters());
        self.tree.clear();
    }

    /// Removes a node, granted or not.
    pub(crate) fn leave(&mut self, index: Index, wakes: &mut Wakes) {
        let mut old = self.stake(index);
        if old.order.0 != Stage::Held {
            self.end_wait(index);
            wakes.discard(self.take_waker(index));
            if injected_bug!(
                "reader-cancel-grants",
                "a cancelled reader is subtracted from the counts of requests that never counted it",
                killed_by = "cancel-reader"
            ) {
                // Pretend that every later request that overlaps had counted this one.
                old.access = Access::Write;
            }
        }
        self.tree.remove(index);
        self.settle(&old, &[], wakes);
    }

    /// Downgrades a hold to `access`.
    pub(crate) fn downgrade(&mut self, index: Index, access: Access, wakes: &mut Wakes) {
        let old = self.stake(index);
        self.tree.value_mut(index).access = access;
        self.settle(&old, &[Stake { access, ..old }], wakes);
    }

    /// Shrinks a hold to `keep`, which lies within its span.
    pub(crate) fn shrink(&mut self, index: Index, keep: Span, wakes: &mut Wakes) {
        let old = self.stake(index);
        self.settle(&old, &[Stake { span: keep, ..old }], wakes);
        self.tree.resize(index, keep);
    }

    /// Splits a hold in two; returns the index of the second part. Needs room.
    ///
    /// Requests that counted the hold now count the parts that they overlap.
    pub(crate) fn split(&mut self, index: Index, low: Span, high: Span) -> Index {
        let old = self.stake(index);
        self.settle_quietly(&old, &[low, high].map(|span| Stake { span, ..old }));
        self.tree.resize(index, low);
        // The parts share a number, like the spans of a batch.
        self.hold(high, old.access, old.order.1, 0)
    }

    /// Sets the waker of the waiting node at `index`; returns the previous one.
    pub(crate) fn set_waker(&mut self, index: Index, waker: Waker) -> Option<Waker> {
        self.waiters[index as usize].waker.replace(waker)
    }

    /// Returns whether the waiting node at `index` has a waker.
    pub(crate) fn has_waker(&self, index: Index) -> bool {
        self.waiters[index as usize].waker.is_some()
    }

    /// Returns whether the node at `index` would wake the same task as `waker`.
    pub(crate) fn will_wake(&self, index: Index, waker: &Waker) -> bool {
        let set = &self.waiters[index as usize].waker;
        set.as_ref().is_some_and(|set| set.will_wake(waker))
    }

    /// Returns the span, access and stage of each node, in the order of their spans.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (Span, Access, Stage)> {
        // Everything overlaps the full span.
        let stakes = self.overlaps(Span::FULL).map(|index| self.stake(index));
        stakes.map(|stake| (stake.span, stake.access, stake.order.0))
    }

    /// Returns the nodes that overlap `span`, in the order of their spans.
    #[inline]
    fn overlaps(&self, span: Span) -> impl Iterator<Item = Index> {
        let next = move |&index: &Index| self.tree.next_overlap(index, span);
        core::iter::successors(self.tree.first_overlap(span), next)
    }

    /// Returns the size of the tree's nodes and of the waiting parts, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.tree.memory_usage() + self.waiters.capacity() * size_of::<Waiter>()
    }

    /// Returns the number of nodes that block a new request. A new request comes last in the order,
    /// so every conflicting node blocks it.
    fn conflicts(&self, span: Span, access: Access) -> u32 {
        let conflicts = |&index: &Index| self.claim(index).access.conflicts_with(access);
        self.overlaps(span).filter(conflicts).count() as u32
    }

    #[inline]
    fn new_number(&mut self) -> u64 {
        let number = self.next_number;
        // At one request per nanosecond, 64 bits last for five centuries.
        self.next_number += 1;
        number
    }

    fn add(&mut self, span: Span, access: Access, stage: Stage, number: u64) -> Index {
        let index = self.tree.insert(self.tree.gap(span), span);
        *self.tree.value_mut(index) = Claim::new(access, stage, number);
        index
    }

    #[inline]
    fn claim(&self, index: Index) -> &Claim {
        self.tree.value(index)
    }

    #[inline]
    fn claim_mut(&mut self, index: Index) -> &mut Claim {
        self.tree.value_mut(index)
    }

    #[inline]
    fn stake(&self, index: Index) -> Stake {
        let claim = self.claim(index);
        Stake {
            span: self.tree.span(index),
            access: claim.access,
            order: (claim.stage, claim.number),
        }
    }

    fn take_waker(&mut self, index: Index) -> Option<Waker> {
        self.waiters.get_mut(index as usize)?.waker.take()
    }

    /// Restores IL-I1 and IL-I2 after `new` has replaced the request `old`.
    ///
    /// Updates the counts of all other requests, and grants each request whose count reaches 0. The
    /// spans of `new` must lie within the span of `old`.
    fn settle(&mut self, old: &Stake, new: &[Stake], wakes: &mut Wakes) {
        if self.waiting == 0 {
            return;
        }
        let mut next = self.tree.first_overlap(old.span);
        while let Some(index) = next {
            next = self.tree.next_overlap(index, old.span);
            let other = self.stake(index);
            // Nothing blocks a hold, even if it passes the request that is revoked here.
            if other.order.0 == Stage::Held || other.order.1 == old.order.1 {
                continue;
            }
            let did = u32::from(old.blocks(&other));
            let does: u32 = new.iter().map(|new| u32::from(new.blocks(&other))).sum();
            if did == does {
                continue;
            }
            let claim = self.claim_mut(index);
            claim.count = claim.count + does - did;
            if claim.count == 0 {
                self.grant(index, wakes);
            }
        }
    }

    /// Grants a narrow request that is no longer blocked, or wakes the owner of a wide one.
    fn grant(&mut self, index: Index, wakes: &mut Wakes) {
        let claim = self.claim_mut(index);
        if !claim.wide {
            claim.unclaimed = claim.stage == Stage::Waiting;
            self.end_wait(index);
        }
        wakes.push(self.take_waker(index));
    }

    /// Makes a waiting node a hold.
    fn end_wait(&mut self, index: Index) {
        let stage = core::mem::replace(&mut self.claim_mut(index).stage, Stage::Held);
        self.waiting -= 1;
        self.upgrading -= u32::from(stage == Stage::Upgrading);
    }

    /// Like [`settle`](Self::settle), for a change that unblocks no request.
    fn settle_quietly(&mut self, old: &Stake, new: &[Stake]) {
        let mut wakes = Wakes::default();
        self.settle(old, new, &mut wakes);
        debug_assert!(wakes.is_empty(), "this change must not unblock a request");
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;
