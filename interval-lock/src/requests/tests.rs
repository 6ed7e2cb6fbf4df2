//! Random changes to the requests. After each change, every count is recomputed from its
//! definition.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Wake, Waker};

use proptest::prelude::*;
use proptest::sample::Index as Pick;
use spanlock_range_lock::{Access, Span};

use super::{Index, Requests, Stage, Stake, Wakes};

/// A waker that counts its wakes.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        // Relaxed: one thread.
        self.0.fetch_add(1, Relaxed);
    }
}

impl Requests {
    fn indices(&self) -> Vec<Index> {
        self.overlaps(Span::FULL).collect()
    }

    /// Returns the number of waiting nodes.
    fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Asserts IL-I1, IL-I2, IL-I5, the part of IL-I6 that concerns one shard, and that no two
    /// holds conflict.
    pub(crate) fn check(&self) {
        self.tree.check();
        let indices = self.indices();
        let stakes: Vec<Stake> = indices.iter().map(|&index| self.stake(index)).collect();
        let (mut waiting, mut upgrading) = (0, 0);
        for (&index, stake) in indices.iter().zip(&stakes) {
            let claim = self.claim(index);
            let blockers = stakes.iter().filter(|other| other.blocks(stake)).count();
            assert_eq!(claim.count as usize, blockers, "IL-I1");
            let held = claim.stage == Stage::Held;
            assert!(!held || blockers == 0, "IL-I2");
            assert!(held || claim.wide || blockers > 0, "IL-I2");
            assert!(held || !claim.unclaimed);
            waiting += usize::from(!held);
            upgrading += usize::from(claim.stage == Stage::Upgrading);
            let waiter = self.waiters.get(index as usize);
            let has_waker = waiter.is_some_and(|waiter| waiter.waker.is_some());
            assert!(!has_waker || !held && blockers > 0, "IL-I6");
        }
        assert_eq!(waiting, self.waiting(), "IL-I5");
        assert_eq!(upgrading, self.upgrading as usize);
        let set = self.waiters.iter().filter(|it| it.waker.is_some()).count();
        assert!(set <= waiting, "IL-I6: a waker without a request");
        let held = |stake: &Stake| match stake.order.0 {
            Stage::Held => Some((stake.span, stake.access)),
            // A waiting upgrade still holds its span as upgradable.
            Stage::Upgrading => Some((stake.span, Access::Upgradable)),
            Stage::Waiting => None,
        };
        let held: Vec<_> = stakes.iter().filter_map(held).collect();
        for (i, (span, access)) in held.iter().enumerate() {
            for (other, theirs) in &held[..i] {
                assert!(!(span.overlaps(*other) && access.conflicts_with(*theirs)));
            }
        }
    }

    /// Returns whether the shard has no nodes.
    pub(crate) fn is_empty(&self) -> bool {
        self.tree.len() == 0
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enter(Span, Access),
    Pass(Span, Access),
    /// The owner of a request runs: it claims the request, or leaves its waker.
    Run(Pick),
    Leave(Pick),
    Downgrade(Pick),
    TryUpgrade(Pick),
    Upgrade(Pick),
    Withdraw(Pick),
    Shrink(Pick, Pick, Pick),
    Split(Pick, Pick),
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<Pick>;
    let access = prop_oneof![
        Just(Access::Read),
        Just(Access::Upgradable),
        Just(Access::Write)
    ];
    let request = (0..16_u64, 1..6_u64, access);
    let request = request.prop_map(|(start, len, access)| (span(start, start + len), access));
    prop_oneof![
        8 => request.clone().prop_map(|(span, access)| Step::Enter(span, access)),
        4 => request.prop_map(|(span, access)| Step::Pass(span, access)),
        4 => which().prop_map(Step::Run),
        6 => which().prop_map(Step::Leave),
        1 => which().prop_map(Step::Downgrade),
        1 => which().prop_map(Step::TryUpgrade),
        2 => which().prop_map(Step::Upgrade),
        1 => which().prop_map(Step::Withdraw),
        1 => (which(), which(), which()).prop_map(|(a, b, c)| Step::Shrink(a, b, c)),
        1 => (which(), which()).prop_map(|(a, b)| Step::Split(a, b)),
    ]
}

fn span(start: u64, end: u64) -> Span {
    Span::new(start..end).unwrap().unwrap()
}

/// The requests, and the expected number of wakes.
struct World {
    requests: Requests,
    counter: Arc<Counter>,
    wakes: usize,
}

impl World {
    fn new() -> Self {
        World {
            requests: Requests::new(),
            counter: Arc::default(),
            wakes: 0,
        }
    }

    fn enter(&mut self, span: Span, access: Access) {
        let requests = &mut self.requests;
        if let Some(index) = requests.try_hold(span, access).expect("memory") {
            assert!(requests.claim_grant(index));
        } else {
            let index = requests.queue(span, access);
            self.leave_waker(index);
        }
    }

    fn leave_waker(&mut self, index: Index) {
        let waker = Waker::from(self.counter.clone());
        assert!(self.requests.set_waker(index, waker).is_none());
    }

    /// Passes waiters if that is possible.
    fn pass(&mut self, span: Span, access: Access) {
        let before = self.requests.indices().len();
        let passed = self.requests.can_pass(span, access);
        let admitted = self.requests.admits(span, access);
        if !admitted {
            self.requests.reserve(1).expect("memory");
            self.change(|requests, wakes| {
                assert_eq!(requests.pass(span, access, wakes).is_some(), passed);
            });
        }
        let added = usize::from(passed && !admitted);
        assert_eq!(self.requests.indices().len(), before + added);
    }

    fn pick_held(&self) -> Option<Index> {
        let mut indices = self.requests.indices().into_iter();
        indices.find(|&index| self.requests.stake(index).order.0 == Stage::Held)
    }

    fn pick(&self, which: &Pick, suitable: impl Fn(Stake) -> bool) -> Option<Index> {
        let mut indices = self.requests.indices();
        indices.retain(|&index| suitable(self.requests.stake(index)));
        (!indices.is_empty()).then(|| *which.get(&indices))
    }

    /// Makes a change that may grant requests; asserts that it wakes the requests that it grants,
    /// unless they have been woken before.
    fn change(&mut self, change: impl FnOnce(&mut Requests, &mut Wakes)) {
        let wakers = |requests: &Requests| {
            let waiters = requests.waiters.iter();
            waiters.filter(|it| it.waker.is_some()).count()
        };
        let before = wakers(&self.requests);
        let mut wakes = Wakes::default();
        change(&mut self.requests, &mut wakes);
        let gone = usize::from(wakes.discarded.is_some());
        self.wakes += before - gone - wakers(&self.requests);
        wakes.wake();
        let woken = self.counter.0.load(Relaxed);
        assert_eq!(woken, self.wakes, "one wake per grant");
    }

    fn step(&mut self, step: &Step) {
        let held = |stake: Stake| stake.order.0 == Stage::Held;
        // Only a hold that has been claimed has an owner that can change it.
        if let Step::Downgrade(_)
        | Step::TryUpgrade(_)
        | Step::Upgrade(_)
        | Step::Shrink(..)
        | Step::Split(..) = step
        {
            for index in self.requests.indices() {
                self.requests.claim_grant(index);
            }
        }
        match step {
            Step::Enter(span, access) => self.enter(*span, *access),
            Step::Pass(span, access) => self.pass(*span, *access),
            Step::Run(which) => {
                if let Some(index) = self.pick(which, |_| true) {
                    if !self.requests.claim_grant(index) && !self.requests.has_waker(index) {
                        self.leave_waker(index);
                    }
                }
            }
            Step::Leave(which) => {
                // A waiting upgrade is withdrawn instead.
                let leaver = self.pick(which, |stake| stake.order.0 != Stage::Upgrading);
                if let Some(index) = leaver {
                    self.change(|requests, wakes| requests.leave(index, wakes));
                }
            }
            Step::Downgrade(which) => {
                let holder = self.pick(which, |s| held(s) && s.access != Access::Read);
                if let Some(index) = holder {
                    self.change(|requests, wakes| requests.downgrade(index, Access::Read, wakes));
                }
            }
            Step::TryUpgrade(which) => {
                if let Some(index) = self.pick(which, |s| held(s) && s.access != Access::Write) {
                    self.change(|requests, _| {
                        if requests.other_holders(index) == 0 {
                            requests.make_exclusive(index);
                        }
                    });
                }
            }
            Step::Upgrade(which) => {
                let holder = self.pick(which, |s| held(s) && s.access == Access::Upgradable);
                let Some(index) = holder else { return };
                if self.requests.other_holders(index) == 0 {
                    self.requests.make_exclusive(index);
                } else {
                    self.requests.queue_upgrade(index, false);
                    self.leave_waker(index);
                }
            }
            Step::Withdraw(which) => {
                let upgrading = self.pick(which, |stake| stake.order.0 == Stage::Upgrading);
                if let Some(index) = upgrading {
                    self.change(|requests, wakes| requests.withdraw_upgrade(index, wakes));
                    assert_eq!(self.requests.stake(index).access, Access::Upgradable);
                }
            }
            Step::Shrink(which, start, len) => {
                if let Some(index) = self.pick(which, held) {
                    let old = self.requests.stake(index).span;
                    let start = old.start() + start.index(old.len() as usize) as u64;
                    let len = 1 + len.index((old.end() - start) as usize) as u64;
                    let keep = span(start, start + len);
                    self.change(|requests, wakes| requests.shrink(index, keep, wakes));
                }
            }
            Step::Split(which, at) => {
                if let Some(index) = self.pick(which, |s| held(s) && s.span.len() > 1) {
                    let old = self.requests.stake(index).span;
                    let at = old.start() + 1 + at.index(old.len() as usize - 1) as u64;
                    let (low, high) = (span(old.start(), at), span(at, old.end()));
                    self.change(|requests, _| {
                        requests.reserve(1).expect("memory");
                        let new = requests.split(index, low, high);
                        assert_eq!(requests.stake(index).span, low);
                        assert_eq!(requests.stake(new).span, high);
                    });
                }
            }
        }
    }
}

/// Multiplies a number by `SPANLOCK_ROUNDS`, which `.ci/full` sets, and rounds up.
fn scaled(number: usize) -> usize {
    let given = std::env::var("SPANLOCK_ROUNDS").ok();
    let factor = given.map_or(1.0, |it| it.parse().expect("SPANLOCK_ROUNDS is a number"));
    (number as f64 * factor).ceil() as usize
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(64) as u32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_match_their_definition(steps in prop::collection::vec(step(), 200)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.requests.check();
        }
        // Release holds until none is left: every waiter must have been granted by then.
        while let Some(index) = world.pick_held() {
            world.change(|requests, wakes| requests.leave(index, wakes));
            world.requests.check();
        }
        prop_assert!(world.requests.is_empty());
    }
}

#[test]
fn a_release_can_wake_fifty_waiters() {
    let mut world = World::new();
    world.enter(span(0, 100), Access::Write);
    for reader in 0..50 {
        world.enter(span(reader, reader + 50), Access::Read);
    }
    let writer = world.requests.indices()[0];
    world.change(|requests, wakes| requests.leave(writer, wakes));
    assert_eq!((world.wakes, world.requests.waiting()), (50, 0));
    world.requests.check();
}

/// A reader that was granted, but has not run yet, is overtaken. The upgrade that waited for it
/// then comes first.
#[test]
fn an_upgrade_precedes_a_reader_whose_grant_is_revoked() {
    let mut world = World::new();
    world.enter(span(8, 9), Access::Upgradable);
    let upgrade = world.requests.indices()[0];
    world.enter(span(0, 10), Access::Write);
    let all = world.requests.indices();
    let writer = *all.iter().find(|&&it| it != upgrade).unwrap();
    world.enter(span(0, 10), Access::Read);
    world.change(|requests, wakes| requests.leave(writer, wakes));
    world.requests.queue_upgrade(upgrade, false);
    world.leave_waker(upgrade);
    world.requests.check();
    world.pass(span(0, 5), Access::Write);
    world.requests.check();
    assert_eq!(world.requests.waiting(), 1, "only the reader waits");
    assert!(world.requests.claim_grant(upgrade));
}
