//! The state of the lock: holds, waiting requests, and the counts that decide when each waiting
//! request is granted. How threads wait is in [`crate::lock`].
//!
//! # The order
//! Requests have a total *order*: first by stage, then by number. Numbers ascend in order of
//! arrival.
//!
//! | stage | the request | requests that count it |
//! |---|---|---|
//! | `Held` | holds its span with its access | conflicting upgrades and waiters |
//! | `Upgrading` | holds its span as `Upgradable`; waits for readers | conflicting waiters |
//! | `Waiting` | holds nothing yet | later waiters that conflict |
//!
//! An `Upgrading` request is stored with the access that it waits for, `Write`.
//!
//! A request A **blocks** a request B if A comes before B in this order, their spans overlap, and
//! their accesses conflict.
//!
//! A **batch** is one request for several disjoint spans. It has one node in the tree for each
//! span. The nodes share one number, are linked in a ring, and are granted together. One of them,
//! the *leader*, stores the count and the waker of the batch. Once granted, the nodes are
//! independent holds.
//!
//! If the nodes were granted one by one, a batch could deadlock with an upgrade: the batch would
//! hold one span and wait for the upgrade at another, while the upgrade waits for the first span.
//!
//! # Invariants
//! - **IL-I1** The count of a request is the number of nodes that block it. The count of a batch is
//!   the sum over its nodes. When a request changes, [`Requests::settle`] updates exactly the
//!   counts of the requests that it starts or stops blocking.
//! - **IL-I2** A request is `Held` if and only if its count is 0. So no two holds conflict: the
//!   first in the order would block the other. A hold does not conflict with the upgradable hold of
//!   a waiting upgrade either.
//! - **IL-I3** A grant moves a request forward in the order. It never moves the request past a
//!   conflicting one, because that one would still block it. So a grant changes no count.
//! - **IL-I4** A blocker comes before the requests that it blocks. So requests cannot wait in a
//!   cycle, and the first request in the order is granted.
//! - **IL-I5** `waiting` is the number of nodes that are not `Held`. While it is 0, no request
//!   counts any other.
//! - **IL-I6** Only a request that is not `Held` has a waker. A grant removes the waker from the
//!   list, and the caller wakes it.
//! - **IL-I7** Each node of a waiting request stores the index of its leader, and its link to the
//!   next node of the ring. In a hold, both are meaningless.
//!
//! IL-I1 makes cancelling exact. Cancelling a waiter decrements only the counts of the requests
//! that it blocks: later arrivals that conflict with it. Two waiting readers do not conflict, so
//! cancelling one does not change the count of the other. The Linux range lock patches of 2019
//! decremented the counts of all overlapping requests. The definition of the count excludes that
//! bug.

use alloc::vec::Vec;
use core::task::Waker;

use spanlock_range_lock::words::for_each_surely;
use spanlock_range_lock::{Access, Span};
use spanlock_sync::{injected_bug, wait};

use crate::tree::{Index, Tree};

/// The stage of a request. Earlier stages come first in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Held,
    Upgrading,
    Waiting,
}

/// The data of a node: of a whole request, or of one span of a batch.
#[derive(Clone, Copy)]
struct Claim {
    /// Unique, except that the nodes of a batch share one.
    number: u64,
    access: Access,
    stage: Stage,
    /// The count of the request, if this node is the leader (IL-I1).
    count: u32,
    /// The node that stores the count and the waker (IL-I7).
    leader: Index,
    /// The next node of the ring (IL-I7).
    next: Index,
}

impl Claim {
    /// Creates a claim with a count of 0 and without links.
    #[inline]
    fn new(access: Access, stage: Stage, number: u64) -> Self {
        Claim {
            number,
            access,
            stage,
            count: 0,
            leader: 0,
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

/// All requests of a lock: holders and waiters.
pub(crate) struct Requests {
    tree: Tree<Claim>,
    /// The waker of each waiting request, at the index of its leader. Grows as needed.
    wakers: Vec<Option<Waker>>,
    next_number: u64,
    waiting: usize,
}

impl Requests {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Requests {
            tree: Tree::with_capacity(capacity),
            wakers: Vec::new(),
            next_number: 0,
            waiting: 0,
        }
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

    /// Adds a hold if [no request blocks it](Self::admits); returns its index.
    #[inline]
    pub(crate) fn try_hold(&mut self, span: Span, access: Access) -> Option<Index> {
        if self.tree.len() == 0 {
            let index = self.tree.insert_first(span);
            self.claim_hold(index, access);
            return Some(index);
        }
        self.try_hold_among(span, access)
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

    /// Adds a hold that no request blocks: a new request that [`admits`](Self::admits) has found
    /// unblocked, or the part that [`split`](Self::split) cuts off a hold.
    pub(crate) fn hold(&mut self, span: Span, access: Access) -> Index {
        let number = self.new_number();
        self.add(span, access, Stage::Held, number)
    }

    /// Adds a waiting request; returns its index. At least one request must conflict with it.
    pub(crate) fn queue(&mut self, span: Span, access: Access) -> Index {
        let count = self.conflicts(span, access);
        debug_assert!(count > 0, "an unblocked request must be added as a hold");
        self.waiting += 1;
        let number = self.new_number();
        let index = self.add(span, access, Stage::Waiting, number);
        self.lead_itself(index, count);
        index
    }

    /// Adds a waiting batch. At least one of its spans must be [blocked](Self::admits).
    ///
    /// Passes the index of each node to `tell`, in the order of the batch. The first node is the
    /// leader.
    pub(crate) fn queue_all(&mut self, batch: &[(Span, Access)], mut tell: impl FnMut(Index)) {
        let number = self.new_number();
        // The leader, and the last node of the ring so far.
        let mut ring = None;
        for &(span, access) in batch {
            let count = self.conflicts(span, access);
            let index = self.add(span, access, Stage::Waiting, number);
            let (leader, last) = *ring.get_or_insert((index, index));
            let claim = self.tree.value_mut(index);
            (claim.leader, claim.next) = (leader, leader);
            self.tree.value_mut(last).next = index;
            self.tree.value_mut(leader).count += count;
            ring = Some((leader, index));
            self.waiting += 1;
            tell(index);
        }
        // The last node links to the leader. A single node links to itself.
        debug_assert!(ring.is_some_and(|(leader, _)| self.claim(leader).count > 0));
    }

    /// Returns whether the request at `index` is granted.
    pub(crate) fn is_held(&self, index: Index) -> bool {
        self.claim(index).stage == Stage::Held
    }

    /// Returns whether there are no waiters. If there are none, no request counts another (IL-I5).
    #[inline]
    pub(crate) fn has_no_waiters(&self) -> bool {
        self.waiting == 0
    }

    /// Removes a hold while there are [no waiters](Self::has_no_waiters).
    #[inline]
    pub(crate) fn remove_hold(&mut self, index: Index) {
        debug_assert!(self.has_no_waiters() && self.is_held(index));
        self.tree.remove(index);
    }

    /// Removes a request, granted or not.
    pub(crate) fn leave(&mut self, index: Index, wakes: &mut Wakes) {
        let mut old = self.stake(index);
        if old.order.0 != Stage::Held {
            self.waiting -= 1;
            wakes.discarded = self.take_waker(index);
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

    /// Splits a hold in two; returns the index of the second part.
    ///
    /// Requests that counted the hold now count the parts that they overlap.
    pub(crate) fn split(&mut self, index: Index, low: Span, high: Span) -> Index {
        let old = self.stake(index);
        self.settle_quietly(&old, &[low, high].map(|span| Stake { span, ..old }));
        self.tree.resize(index, low);
        self.hold(high, old.access)
    }

    /// Makes a hold exclusive if no other hold or upgrade overlaps it; returns whether it did.
    pub(crate) fn try_upgrade(&mut self, index: Index) -> bool {
        let alone = self.other_holders(index) == 0;
        if alone {
            self.make_exclusive(index, Stage::Held, 0);
        }
        alone
    }

    /// Makes an upgradable hold exclusive if no other hold overlaps it. Otherwise, makes it wait
    /// until the readers have left.
    ///
    /// Returns true if the hold is exclusive now, and false if it waits.
    pub(crate) fn upgrade(&mut self, index: Index) -> bool {
        let readers = self.other_holders(index);
        if readers == 0 {
            self.make_exclusive(index, Stage::Held, 0);
        } else {
            self.waiting += 1;
            self.make_exclusive(index, Stage::Upgrading, readers);
        }
        readers == 0
    }

    /// Sets the waker of the waiting request at `index`; returns the previous one.
    pub(crate) fn set_waker(&mut self, index: Index, waker: Waker) -> Option<Waker> {
        debug_assert!(!self.is_held(index), "IL-I6");
        let at = index as usize;
        if self.wakers.len() <= at {
            self.wakers.resize_with(at + 1, || None);
        }
        self.wakers[at].replace(waker)
    }

    /// Returns whether a grant of the request at `index` would wake the same task as `waker`.
    pub(crate) fn will_wake(&self, index: Index, waker: &Waker) -> bool {
        matches!(self.wakers.get(index as usize), Some(Some(set)) if set.will_wake(waker))
    }

    /// Returns the number of nodes of holders and waiters.
    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Returns the number of waiting nodes, upgrades included.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns all holds, including those of waiting upgrades, in the order of their spans.
    pub(crate) fn holds(&self) -> impl Iterator<Item = (Span, Access)> {
        self.stakes().filter_map(|stake| match stake.order.0 {
            Stage::Held => Some((stake.span, stake.access)),
            Stage::Upgrading => Some((stake.span, Access::Upgradable)),
            Stage::Waiting => None,
        })
    }

    /// Returns all waiting requests, including upgrades, in the order of their spans.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (Span, Access)> {
        let waits = self.stakes().filter(|stake| stake.order.0 != Stage::Held);
        waits.map(|stake| (stake.span, stake.access))
    }

    fn stakes(&self) -> impl Iterator<Item = Stake> {
        // Everything overlaps the full span.
        self.overlaps(Span::FULL).map(|index| self.stake(index))
    }

    /// Returns the nodes that overlap `span`, in the order of their spans.
    #[inline]
    fn overlaps(&self, span: Span) -> impl Iterator<Item = Index> {
        let next = move |&index: &Index| self.tree.next_overlap(index, span);
        core::iter::successors(self.tree.first_overlap(span), next)
    }

    /// Returns the size of the tree's nodes and the list of wakers, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.tree.memory_usage() + self.wakers.capacity() * size_of::<Option<Waker>>()
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

    /// Makes the node at `index` a request with a single node.
    fn lead_itself(&mut self, index: Index, count: u32) {
        let claim = self.tree.value_mut(index);
        claim.count = count;
        (claim.leader, claim.next) = (index, index);
    }

    fn claim(&self, index: Index) -> Claim {
        *self.tree.value(index)
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
        self.wakers.get_mut(index as usize)?.take()
    }

    /// Returns the number of other holds that overlap the hold at `me`. An upgrade waits for these.
    fn other_holders(&self, me: Index) -> u32 {
        let holds = |&index: &Index| index != me && self.claim(index).stage != Stage::Waiting;
        self.overlaps(self.tree.span(me)).filter(holds).count() as u32
    }

    /// Changes the access of a hold to `Write`, and sets its stage and count.
    fn make_exclusive(&mut self, index: Index, stage: Stage, count: u32) {
        let old = self.stake(index);
        let access = Access::Write;
        let claim = self.tree.value_mut(index);
        (claim.access, claim.stage) = (access, stage);
        // From now on the hold is a request of its own, even if it was part of a batch.
        self.lead_itself(index, count);
        let order = (stage, old.order.1);
        self.settle_quietly(
            &old,
            &[Stake {
                access,
                order,
                ..old
            }],
        );
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
            if other.order.1 == old.order.1 {
                continue;
            }
            let did = u32::from(old.blocks(&other));
            let does: u32 = new.iter().map(|new| u32::from(new.blocks(&other))).sum();
            if did == does {
                continue;
            }
            let leader = self.claim(index).leader;
            let claim = self.tree.value_mut(leader);
            claim.count = claim.count + does - did;
            if claim.count == 0 {
                self.grant(leader, wakes);
            }
        }
    }

    /// Grants all nodes of a request.
    fn grant(&mut self, leader: Index, wakes: &mut Wakes) {
        let mut index = leader;
        loop {
            let claim = self.tree.value_mut(index);
            claim.stage = Stage::Held;
            self.waiting -= 1;
            index = claim.next;
            if index == leader {
                break;
            }
        }
        wakes.push(self.take_waker(leader));
    }

    /// Like [`settle`](Self::settle), for a change that unblocks no request.
    fn settle_quietly(&mut self, old: &Stake, new: &[Stake]) {
        let mut wakes = Wakes::default();
        self.settle(old, new, &mut wakes);
        debug_assert_eq!(wakes.len, 0, "this change must not unblock a request");
    }
}

/// The number of wakers that [`Wakes`] stores without allocating.
const FEW: usize = 8;

/// The wakers to wake or drop once the mutex is unlocked. Both run foreign code.
#[derive(Default)]
pub(crate) struct Wakes {
    few: [Option<Waker>; FEW],
    len: usize,
    more: Vec<Waker>,
    discarded: Option<Waker>,
}

impl Wakes {
    fn push(&mut self, waker: Option<Waker>) {
        let Some(waker) = waker else { return };
        match self.few.get_mut(self.len) {
            Some(place) => *place = Some(waker),
            None => self.more.push(waker),
        }
        self.len += 1;
    }

    /// Wakes all waiters, in the order of their grants, even if one of the wakers panics.
    #[track_caller]
    pub(crate) fn wake(self) {
        if self.len > 0 && wait::is_wake_left_out() {
            return;
        }
        let few = self.few.into_iter().flatten();
        for_each_surely(few.chain(self.more), Waker::wake);
    }
}

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests;
