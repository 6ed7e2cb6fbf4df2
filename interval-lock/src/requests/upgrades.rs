//! Upgrades: at once, waiting, and withdrawn.

use spanlock_range_lock::Access;
use spanlock_sync::injected_bug;

use super::{Requests, Stage, Stake, Wakes};
use crate::tree::Index;

impl Requests {
    /// Returns the number of other holds that overlap the hold at `me`. An upgrade waits for these.
    pub(crate) fn other_holders(&self, me: Index) -> u32 {
        let holds = |&index: &Index| index != me && self.claim(index).stage != Stage::Waiting;
        self.overlaps(self.tree.span(me)).filter(holds).count() as u32
    }

    /// Makes a hold exclusive. No other hold may overlap it.
    pub(crate) fn make_exclusive(&mut self, index: Index) {
        self.make_writer(index, Stage::Held, 0);
    }

    /// Makes a node of an upgradable hold wait for the readers that overlap it.
    pub(crate) fn queue_upgrade(&mut self, index: Index, wide: bool) {
        let readers = self.other_holders(index);
        (self.waiting, self.upgrading) = (self.waiting + 1, self.upgrading + 1);
        self.claim_mut(index).wide = wide;
        self.make_writer(index, Stage::Upgrading, readers);
        self.make_waiter(index);
    }

    /// Makes a node of a waiting or granted upgrade an upgradable hold again. The lock's
    /// `downgrade` of a hold, but for a node that may still wait for readers. Then these no longer
    /// count for it, because nothing blocks a hold.
    pub(crate) fn withdraw_upgrade(&mut self, index: Index, wakes: &mut Wakes) {
        let old = self.stake(index);
        if old.order.0 == Stage::Upgrading {
            self.end_wait(index);
            wakes.discard(self.take_waker(index));
        }
        let claim = self.claim_mut(index);
        (claim.access, claim.count) = (Access::Upgradable, 0);
        let (access, order) = (Access::Upgradable, (Stage::Held, old.order.1));
        if injected_bug!(
            "withdrawn-upgrade-blocks",
            "a withdrawn upgrade is still counted by the readers that it kept out",
            killed_by = "upgrade-cancel"
        ) {
            return;
        }
        self.settle(
            &old,
            &[Stake {
                access,
                order,
                ..old
            }],
            wakes,
        );
    }

    /// Changes the access of a hold to `Write`, and sets its stage and count.
    fn make_writer(&mut self, index: Index, stage: Stage, count: u32) {
        let old = self.stake(index);
        let access = Access::Write;
        let claim = self.claim_mut(index);
        (claim.access, claim.stage, claim.count) = (access, stage, count);
        let (span, order) = (old.span, (stage, old.order.1));
        self.settle_quietly(
            &old,
            &[Stake {
                span,
                access,
                order,
            }],
        );
    }
}
