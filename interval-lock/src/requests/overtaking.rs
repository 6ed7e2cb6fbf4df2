//! How a blocking request passes waiters that have been woken but have not run yet.
//!
//! # The problem
//! A waiter that has been granted or may claim its nodes is *ready*. It may be asleep: if its range
//! stayed idle until it woke up, the scheduler would set the pace of the lock. So while it has not
//! run yet, a blocking narrow request that conflicts with it may *pass* it. A grant that has not
//! been claimed is *revoked*: the request waits again, in its old place in the order. Each waiter's
//! [`Passes`] bound how often, and how long.
//!
//! An arrival passes only if no hold that has been claimed and no upgrade blocks it, and if the
//! first waiter that it conflicts with is ready. It is charged to all ready waiters that it
//! conflicts with, and passes the others for free: they wait for their turn behind a waiter that is
//! charged.
//!
//! # Invariant
//! - **IL-I8** A waiter is passed only while it or an earlier waiter is ready, and each pass is
//!   charged to at least one of these. So with *w* earlier waiters, it is passed at most *w* + 1
//!   times as often as [`Passes`] allows, in each shard that it touches.

use spanlock_range_lock::{Access, Span};
use spanlock_sync::injected_bug;

use super::{Index, Requests, Stage, Stake, Wakes};

impl Requests {
    /// Adds a hold by passing waiters; returns its index. Returns `None` and changes nothing if a
    /// hold or an upgrade blocks it, or if the waiters cannot be passed. Needs room.
    #[cold]
    pub(crate) fn pass(&mut self, span: Span, access: Access, wakes: &mut Wakes) -> Option<Index> {
        if !self.can_pass(span, access) {
            return None;
        }
        let number = self.new_number();
        let index = self.add(span, access, Stage::Held, number);
        let me = self.stake(index);
        let mut next = self.tree.first_overlap(span);
        while let Some(other) = next {
            next = self.tree.next_overlap(other, span);
            let claim = *self.claim(other);
            if other == index || !claim.access.conflicts_with(access) {
                continue;
            }
            if claim.count == 0
                && !injected_bug!(
                    "pass-not-charged",
                    "an arrival that passes a waiter is not counted",
                    killed_by = "passes"
                )
            {
                self.waiters[other as usize].passes.charge();
            }
            if claim.stage == Stage::Held {
                self.revoke(other, wakes);
            } else {
                debug_assert!(me.blocks(&self.stake(other)));
                self.claim_mut(other).count += 1;
            }
        }
        Some(index)
    }

    /// Returns whether a new request may pass all nodes that it conflicts with (IL-I8).
    pub(super) fn can_pass(&self, span: Span, access: Access) -> bool {
        let (mut first, mut first_is_ready) = (u64::MAX, false);
        let mut next = self.tree.first_overlap(span);
        while let Some(other) = next {
            next = self.tree.next_overlap(other, span);
            let claim = *self.claim(other);
            if !claim.access.conflicts_with(access) {
                continue;
            }
            let is_ready = match claim.stage {
                Stage::Held => claim.unclaimed,
                Stage::Upgrading => false,
                Stage::Waiting => claim.count == 0,
            };
            if is_ready {
                if self.waiters[other as usize].passes.is_over() {
                    return false;
                }
            } else if claim.stage != Stage::Waiting {
                return false;
            }
            if claim.number < first {
                (first, first_is_ready) = (claim.number, is_ready);
            }
        }
        first_is_ready
    }

    /// Makes a granted request wait again, in its old place. A node that blocks it has been added.
    fn revoke(&mut self, index: Index, wakes: &mut Wakes) {
        if injected_bug!(
            "grant-not-revoked",
            "an arrival that passes a granted waiter leaves it its grant",
            killed_by = "passes"
        ) {
            return;
        }
        let old = self.stake(index);
        let claim = self.claim_mut(index);
        // Only the new node blocks it, and it still blocks the later waiters.
        (claim.stage, claim.unclaimed, claim.count) = (Stage::Waiting, false, 1);
        self.waiting += 1;
        if self.upgrading > 0 {
            self.let_upgrades_ahead(index, &old, wakes);
        }
    }

    /// Restores IL-I1 after the grant `old` has been revoked: an upgrade that the granted reader
    /// blocked now comes before it.
    fn let_upgrades_ahead(&mut self, index: Index, old: &Stake, wakes: &mut Wakes) {
        let new = self.stake(index);
        let others = self.overlaps(old.span).filter(|&other| other != index);
        let blocking = others.filter(|&other| self.stake(other).blocks(&new));
        self.claim_mut(index).count = blocking.count() as u32;
        self.settle(old, &[new], wakes);
    }
}
