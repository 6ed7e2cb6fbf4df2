//! Who holds what, who waits, and for how many: the lock's state, without its waiting.
//!
//! # The order
//! Every request has an *order*: its stage, then its number. Numbers are given in the order of arrival.
//!
//! | stage | it | counted by |
//! |---|---|---|
//! | `Held` | holds its span with its access | upgrades and waiters that conflict |
//! | `Upgrading` | holds its span with `Upgradable`, and waits for the readers there to leave; its access is `Write` | waiters that conflict |
//! | `Waiting` | holds nothing yet | later waiters that conflict |
//!
//! One request *blocks* another if it comes before it in this order, they overlap, and their accesses conflict.
//!
//! A *batch* is one request with several spans that do not overlap: a node each, with one number. They are granted together: its nodes are
//! linked in a ring, and one of them, the *leader*, counts for all and has the waker of all. If each were granted as its own turn comes,
//! a batch could hold one span and wait for another behind an upgrade that waits for the first. Once granted the nodes are holds like any other.
//!
//! # Invariants
//! - **I1** The count of a request is the number of those that block it; of a batch, the sum over its nodes. Exactly: whatever enters, leaves, shrinks, weakens or grows
//!   stronger changes the counts of those, and only those, for whom it begins or ceases to be a blocker ([`Requests::settle`]).
//! - **I2** A request is `Held` exactly if its count is 0. So no two holds conflict: one of them would come first, and block the
//!   other. Nor does a hold conflict with an upgrade.
//! - **I3** A grant moves a request forward in the order, past nobody that conflicts with it: those before it would block it. So a grant
//!   changes no count.
//! - **I4** Blockers come before whom they block, so nobody waits in a circle; and whoever is first in the order is granted.
//! - **I5** `waiting` is the number of nodes that are not `Held`: while it is 0 nobody counts anybody.
//! - **I6** Only a request that is not `Held` has a waker: the grant takes it out, and the caller wakes it.
//! - **I7** The nodes of a request that waits name its leader, and form a ring. Links of a hold mean nothing.
//!
//! What makes cancelling exact is I1: a waiter that goes is taken out of the counts of those for whom it is a blocker, who by the order
//! are later arrivals that conflict with it. Two waiting readers do not conflict, so neither ever counted the other: the mistake of the
//! kernel patch of 2019, which decremented all that overlapped, cannot be written down here.

use alloc::vec::Vec;
use core::task::Waker;

use spanlock_range_lock::words::for_each_surely;
use spanlock_range_lock::{Access, Span};
use spanlock_sync::{injected_bug, wait};

use crate::tree::{Index, Tree};

/// How far a request has come; the earlier stage comes first in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Held,
    Upgrading,
    Waiting,
}

/// What a node of the tree carries.
#[derive(Clone, Copy)]
struct Claim {
    /// Unique, but in a batch, which has one.
    number: u64,
    access: Access,
    stage: Stage,
    /// I1, in the leader.
    count: u32,
    /// I7.
    leader: Index,
    /// I7.
    next: Index,
}

impl Claim {
    /// Of one that counts nobody, without links.
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

/// What a request is to the others.
#[derive(Clone, Copy)]
struct Stake {
    span: Span,
    access: Access,
    order: (Stage, u64),
}

impl Stake {
    /// Whether `other` counts this one.
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
    /// By the index of the node; as long as the highest index that ever waited asks for.
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

    /// Whether a new request would be granted at once.
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

    /// Adds a hold, if [nobody is in the way](Self::admits).
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

    /// Adds a hold, of which [`admits`](Self::admits) has found that nobody is in the way.
    pub(crate) fn hold(&mut self, span: Span, access: Access) -> Index {
        let number = self.new_number();
        self.add(span, access, Stage::Held, number)
    }

    /// Adds a request that waits behind all that conflict with it; there is at least one.
    pub(crate) fn queue(&mut self, span: Span, access: Access) -> Index {
        let count = self.conflicts(span, access);
        debug_assert!(count > 0, "a request that nobody blocks is a hold");
        self.waiting += 1;
        let number = self.new_number();
        let index = self.add(span, access, Stage::Waiting, number);
        self.lead_itself(index, count);
        index
    }

    /// Adds a batch, of which at least one span is not [admitted](Self::admits): it waits behind all that conflict with any. Tells the
    /// nodes, in the order of the batch; the first is the leader.
    pub(crate) fn queue_all(&mut self, batch: &[(Span, Access)], mut tell: impl FnMut(Index)) {
        let number = self.new_number();
        // Leader, and last of the ring so far.
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
        // The ring closes at the leader, also if that is the only one: it named itself.
        debug_assert!(ring.is_some_and(|(leader, _)| self.claim(leader).count > 0));
    }

    /// Whether the request at `index` is granted.
    pub(crate) fn is_held(&self, index: Index) -> bool {
        self.claim(index).stage == Stage::Held
    }

    /// Whether nobody waits, so that nobody counts what goes (I5).
    #[inline]
    pub(crate) fn nobody_waits(&self) -> bool {
        self.waiting == 0
    }

    /// Removes a hold while [nobody waits](Self::nobody_waits).
    #[inline]
    pub(crate) fn leave_unseen(&mut self, index: Index) {
        debug_assert!(self.nobody_waits() && self.is_held(index));
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
                // As if everybody behind it had counted it.
                old.access = Access::Write;
            }
        }
        self.tree.remove(index);
        self.settle(&old, &[], wakes);
    }

    /// Gives a hold the weaker `access`.
    pub(crate) fn weaken(&mut self, index: Index, access: Access, wakes: &mut Wakes) {
        let old = self.stake(index);
        self.tree.value_mut(index).access = access;
        self.settle(&old, &[Stake { access, ..old }], wakes);
    }

    /// Makes a hold smaller. `keep` lies within its span.
    pub(crate) fn shrink(&mut self, index: Index, keep: Span, wakes: &mut Wakes) {
        let old = self.stake(index);
        self.settle(&old, &[Stake { span: keep, ..old }], wakes);
        self.tree.resize(index, keep);
    }

    /// Cuts a hold in two; returns where the second part is. Who counted it counts those parts that it overlaps.
    pub(crate) fn split(&mut self, index: Index, low: Span, high: Span) -> Index {
        let old = self.stake(index);
        self.settle_quietly(&old, &[low, high].map(|span| Stake { span, ..old }));
        self.tree.resize(index, low);
        self.hold(high, old.access)
    }

    /// Makes a hold exclusive if nobody else holds part of its span, waiting upgrades included.
    pub(crate) fn try_upgrade(&mut self, index: Index) -> bool {
        let alone = self.other_holders(index) == 0;
        if alone {
            self.strengthen(index, Stage::Held, 0);
        }
        alone
    }

    /// Makes an upgradable hold exclusive, or lets it wait until its readers have left: true if it need not wait.
    pub(crate) fn upgrade(&mut self, index: Index) -> bool {
        let readers = self.other_holders(index);
        if readers == 0 {
            self.strengthen(index, Stage::Held, 0);
        } else {
            self.waiting += 1;
            self.strengthen(index, Stage::Upgrading, readers);
        }
        readers == 0
    }

    /// Sets whom to wake when the waiting request at `index` is granted; returns the waker before.
    pub(crate) fn set_waker(&mut self, index: Index, waker: Waker) -> Option<Waker> {
        debug_assert!(!self.is_held(index), "I6");
        let at = index as usize;
        if self.wakers.len() <= at {
            self.wakers.resize_with(at + 1, || None);
        }
        self.wakers[at].replace(waker)
    }

    /// Whether `waker` is the one that will be woken.
    pub(crate) fn will_wake(&self, index: Index, waker: &Waker) -> bool {
        matches!(self.wakers.get(index as usize), Some(Some(set)) if set.will_wake(waker))
    }

    /// Holders and waiters together.
    pub(crate) fn len(&self) -> usize {
        self.tree.len()
    }

    /// How many wait, upgrades included.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// What is held, by waiting upgrades too, in the order of the spans.
    pub(crate) fn holds(&self) -> impl Iterator<Item = (Span, Access)> {
        self.stakes().filter_map(|stake| match stake.order.0 {
            Stage::Held => Some((stake.span, stake.access)),
            Stage::Upgrading => Some((stake.span, Access::Upgradable)),
            Stage::Waiting => None,
        })
    }

    /// What is waited for, by upgrades too, in the order of the spans.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (Span, Access)> {
        let waits = self.stakes().filter(|stake| stake.order.0 != Stage::Held);
        waits.map(|stake| (stake.span, stake.access))
    }

    fn stakes(&self) -> impl Iterator<Item = Stake> {
        // Everything overlaps the full span.
        self.overlaps(Span::FULL).map(|index| self.stake(index))
    }

    /// Who overlaps `span`, in the order of the spans.
    #[inline]
    fn overlaps(&self, span: Span) -> impl Iterator<Item = Index> {
        let next = move |&index: &Index| self.tree.next_overlap(index, span);
        core::iter::successors(self.tree.first_overlap(span), next)
    }

    /// Bytes of the tree's nodes and the list of wakers.
    pub(crate) fn memory_usage(&self) -> usize {
        self.tree.memory_usage() + self.wakers.capacity() * size_of::<Option<Waker>>()
    }

    /// How many a new request has in its way: it comes last, so every conflict is a blocker.
    fn conflicts(&self, span: Span, access: Access) -> u32 {
        let conflicts = |&index: &Index| self.claim(index).access.conflicts_with(access);
        self.overlaps(span).filter(conflicts).count() as u32
    }

    #[inline]
    fn new_number(&mut self) -> u64 {
        let number = self.next_number;
        // A number a nanosecond lasts for five centuries.
        self.next_number += 1;
        number
    }

    fn add(&mut self, span: Span, access: Access, stage: Stage, number: u64) -> Index {
        let index = self.tree.insert(self.tree.gap(span), span);
        *self.tree.value_mut(index) = Claim::new(access, stage, number);
        index
    }

    /// Makes the node at `index` a request of one.
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

    /// How many others hold part of the span of the hold at `me`: what an upgrade waits for.
    fn other_holders(&self, me: Index) -> u32 {
        let holds = |&index: &Index| index != me && self.claim(index).stage != Stage::Waiting;
        self.overlaps(self.tree.span(me)).filter(holds).count() as u32
    }

    /// Gives a hold exclusive access, at `stage`.
    fn strengthen(&mut self, index: Index, stage: Stage, count: u32) {
        let old = self.stake(index);
        let access = Access::Write;
        let claim = self.tree.value_mut(index);
        (claim.access, claim.stage) = (access, stage);
        // By itself, also if it was taken in a batch.
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

    /// Makes I1 and I2 true again after a request that was `old` has become `new`, none of which lies outside of `old`:
    /// corrects the counts of the others, and grants those that count nobody any more.
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

    /// Grants a request: all nodes of its ring.
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

    /// [`settle`](Self::settle), where nobody ceases to be blocked.
    fn settle_quietly(&mut self, old: &Stake, new: &[Stake]) {
        let mut wakes = Wakes::default();
        self.settle(old, new, &mut wakes);
        debug_assert_eq!(
            wakes.len, 0,
            "a request was granted by one that asks for more"
        );
    }
}

/// How many wakers are kept without allocating.
const FEW: usize = 8;

/// Whom to wake, and wakers to drop, once the lock is open: a waker is the user's code.
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

    /// Wakes all, in the order of their spans, those after one that panics too.
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
