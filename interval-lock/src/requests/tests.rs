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

    /// Returns the number of waiting requests; a batch counts as one.
    fn leaders(&self) -> usize {
        let waits = |&i: &Index| !self.is_held(i) && self.claim(i).leader == i;
        self.indices().into_iter().filter(waits).count()
    }

    /// Returns the nodes of the request at `index`. A hold has one node.
    fn ring(&self, index: Index) -> Vec<Index> {
        if self.is_held(index) {
            return vec![index];
        }
        let leader = self.claim(index).leader;
        let mut ring = vec![leader];
        while self.claim(*ring.last().unwrap()).next != leader {
            ring.push(self.claim(*ring.last().unwrap()).next);
        }
        assert!(
            ring.iter().all(|&i| self.claim(i).leader == leader),
            "IL-I7"
        );
        assert!(ring.contains(&index), "IL-I7");
        ring
    }

    /// Asserts IL-I1, IL-I2, IL-I5, IL-I6, IL-I7, and that no two holds conflict.
    fn check(&self) {
        self.tree.check();
        let indices = self.indices();
        let stakes: Vec<Stake> = indices.iter().map(|&index| self.stake(index)).collect();
        let (mut waiting, mut leaders) = (0, 0);
        for (&index, stake) in indices.iter().zip(&stakes) {
            let claim = self.claim(index);
            let ring = self.ring(index);
            let leads = claim.stage != Stage::Held && claim.leader == index;
            waiting += usize::from(claim.stage != Stage::Held);
            leaders += usize::from(leads);
            let waker = self.wakers.get(index as usize).and_then(Option::as_ref);
            assert_eq!(waker.is_some(), leads, "IL-I6");
            if claim.leader != index && claim.stage != Stage::Held {
                continue;
            }
            let blockers = |of: &Stake| stakes.iter().filter(|other| other.blocks(of)).count();
            let counted: usize = ring.iter().map(|&i| blockers(&self.stake(i))).sum();
            assert_eq!(claim.stage == Stage::Held, counted == 0, "IL-I2");
            if leads {
                assert_eq!(claim.count as usize, counted, "IL-I1");
            }
            for &other in &ring {
                let (one, other) = (stake, self.stake(other));
                assert_eq!(one.order, other.order, "nodes of a batch wait together");
            }
        }
        assert_eq!(waiting, self.waiting, "IL-I5");
        let set = self.wakers.iter().flatten().count();
        assert_eq!(set, leaders, "IL-I6: a waker without a request");
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
}

#[derive(Clone, Debug)]
enum Step {
    Enter(Span, Access),
    /// Each part is the gap after the previous part, a length, and an access.
    EnterAll(Vec<(u64, u64, Access)>),
    Leave(Pick),
    Downgrade(Pick),
    TryUpgrade(Pick),
    Upgrade(Pick),
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
    let part = (0..5_u64, 1..5_u64, access.clone());
    let enter_all = prop::collection::vec(part, 1..5).prop_map(Step::EnterAll);
    let enter = (0..16_u64, 1..6_u64, access)
        .prop_map(|(start, len, access)| Step::Enter(span(start, start + len), access));
    prop_oneof![
        8 => enter,
        3 => enter_all,
        6 => which().prop_map(Step::Leave),
        1 => which().prop_map(Step::Downgrade),
        1 => which().prop_map(Step::TryUpgrade),
        2 => which().prop_map(Step::Upgrade),
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
            requests: Requests::with_capacity(0),
            counter: Arc::default(),
            wakes: 0,
        }
    }

    fn enter(&mut self, span: Span, access: Access) {
        let requests = &mut self.requests;
        if requests.try_hold(span, access).is_none() {
            let index = requests.queue(span, access);
            let waker = Waker::from(self.counter.clone());
            assert!(requests.set_waker(index, waker).is_none());
        }
    }

    fn enter_all(&mut self, parts: &[(u64, u64, Access)]) {
        let mut at = 0;
        let batch = Vec::from_iter(parts.iter().map(|&(gap, len, access)| {
            at += gap + len;
            (span(at - len, at), access)
        }));
        let requests = &mut self.requests;
        if batch.iter().all(|&(span, how)| requests.admits(span, how)) {
            batch
                .iter()
                .for_each(|&(span, how)| _ = requests.hold(span, how));
        } else {
            let mut told = Vec::new();
            requests.queue_all(&batch, |index| told.push(index));
            let waker = Waker::from(self.counter.clone());
            assert!(requests.set_waker(told[0], waker).is_none());
            let spans = told.iter().map(|&i| requests.stake(i).span);
            assert!(spans.eq(batch.iter().map(|&(span, _)| span)));
        }
    }

    fn pick(&self, which: &Pick, suitable: impl Fn(Stake) -> bool) -> Option<Index> {
        let mut indices = self.requests.indices();
        indices.retain(|&index| suitable(self.requests.stake(index)));
        (!indices.is_empty()).then(|| *which.get(&indices))
    }

    /// Makes a change that may grant requests; asserts one wake per grant.
    fn change(&mut self, change: impl FnOnce(&mut Requests, &mut Wakes)) {
        let requests = &mut self.requests;
        let waiting = requests.leaders();
        let mut wakes = Wakes::default();
        change(requests, &mut wakes);
        let gone = usize::from(wakes.discarded.is_some());
        self.wakes += waiting - gone - requests.leaders();
        wakes.wake();
        assert_eq!(
            self.counter.0.load(Relaxed),
            self.wakes,
            "one wake per grant"
        );
    }

    fn step(&mut self, step: &Step) {
        let held = |stake: Stake| stake.order.0 == Stage::Held;
        match step {
            Step::Enter(span, access) => self.enter(*span, *access),
            Step::EnterAll(parts) => self.enter_all(parts),
            Step::Leave(which) => {
                // A waiting upgrade or batch cannot be cancelled.
                let leaver = self.pick(which, |stake| stake.order.0 != Stage::Upgrading);
                if let Some(index) = leaver.filter(|&i| self.requests.ring(i).len() == 1) {
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
                    self.change(|requests, _| _ = requests.try_upgrade(index));
                }
            }
            Step::Upgrade(which) => {
                let holder = self.pick(which, |s| held(s) && s.access == Access::Upgradable);
                if let Some(index) = holder
                    && !self.requests.upgrade(index)
                {
                    let waker = Waker::from(self.counter.clone());
                    assert!(self.requests.set_waker(index, waker).is_none());
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
                        let new = requests.split(index, low, high);
                        assert_eq!(requests.stake(index).span, low);
                        assert_eq!(requests.stake(new).span, high);
                    });
                }
            }
        }
    }
}

/// Returns the number of cases; `.ci/full` multiplies it by `SPANLOCK_ROUNDS`.
fn cases() -> u32 {
    let given = std::env::var("SPANLOCK_ROUNDS").ok();
    let factor = given.map_or(1.0, |it| it.parse().expect("SPANLOCK_ROUNDS is a number"));
    (64.0_f64 * factor).ceil() as u32
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_match_their_definition(steps in prop::collection::vec(step(), 200)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.requests.check();
        }
        // Release holds until none is left: every waiter must have been granted by then.
        while let Some(index) = world.requests.indices().into_iter().find(|&i| world.requests.is_held(i)) {
            world.change(|requests, wakes| requests.leave(index, wakes));
            world.requests.check();
        }
        prop_assert_eq!(world.requests.len(), 0);
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
