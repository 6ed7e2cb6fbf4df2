//! Random operations on a lock with four small shards. After each, every count is recomputed from
//! its definition.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Wake;

use proptest::prelude::*;
use proptest::sample::Index as Pick;
use spanlock_range_lock::{
    RawRangeLock, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockWait,
};

use super::*;
use crate::IntervalLock;

/// A waker that counts its wakes.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        // Relaxed: one thread.
        self.0.fetch_add(1, Relaxed);
    }
}

impl Core {
    /// Asserts the invariants of each shard, and those that concern the nodes of these requests:
    /// holds, and waiting requests.
    fn check_all(&self, waiting: &[Waiting]) {
        let mut locked = self.shards.lock(self.shards.all());
        locked.each().for_each(|(_, requests)| requests.check());
        for it in waiting {
            let (mut wakers, mut ready) = (0, true);
            self.each(
                &mut locked,
                &it.batch,
                &it.tokens,
                |locked, shard, index| {
                    wakers += usize::from(locked.shard(shard).has_waker(index));
                    ready &= locked.shard(shard).is_ready(index);
                },
            );
            assert!(wakers <= 1, "IL-I6");
            // Each owner has left its waker, and has been woken if it has none.
            let woken = it.counter.0.load(Relaxed) == it.asked;
            assert_eq!(wakers == 0, woken, "IL-I6");
            assert!(!ready || woken, "a ready request has not been woken");
        }
    }
}

/// A waiting request.
struct Waiting {
    batch: Vec<(Span, Access)>,
    tokens: Vec<Token>,
    counter: Arc<Counter>,
    /// How many wakers the owner has left.
    asked: usize,
}

struct World {
    lock: IntervalLock,
    held: Vec<(Span, Access, Token)>,
    waiting: Vec<Waiting>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Each part is the gap after the previous part, a length, and an access.
    Enter(Vec<(u64, u64, Access)>),
    Run(Pick),
    Cancel(Pick),
    Leave(Pick),
    /// Releases all holds but so many.
    LeaveAll(Pick),
    Downgrade(Pick),
    TryUpgrade(Pick),
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
    let part = (0..12_u64, 1..20_u64, access);
    prop_oneof![
        8 => prop::collection::vec(part, 1..4).prop_map(Step::Enter),
        8 => which().prop_map(Step::Run),
        1 => which().prop_map(Step::Cancel),
        5 => which().prop_map(Step::Leave),
        1 => which().prop_map(Step::LeaveAll),
        1 => which().prop_map(Step::Downgrade),
        1 => which().prop_map(Step::TryUpgrade),
        1 => (which(), which(), which()).prop_map(|(a, b, c)| Step::Shrink(a, b, c)),
        1 => (which(), which()).prop_map(|(a, b)| Step::Split(a, b)),
    ]
}

fn span(start: u64, end: u64) -> Span {
    Span::new(start..end).unwrap().unwrap()
}

// SAFETY of all calls below: `held` lists the holds with their tokens, and each call replaces the
// entry of its hold.
impl World {
    fn enter(&mut self, parts: &[(u64, u64, Access)]) {
        let mut at = 0;
        let batch = Vec::from_iter(parts.iter().map(|&(gap, len, access)| {
            at += gap + len;
            (span(at - len, at), access)
        }));
        let mut tokens = vec![Token::NONE; batch.len()];
        let core = &self.lock.core;
        let (nodes, touched) = core.shards.nodes(&batch);
        let mut locked = core.shards.lock(touched);
        if core.hold_all(&mut locked, &nodes, &batch, &mut tokens) == Ok(true) {
            let held = batch.iter().zip(&tokens);
            self.held
                .extend(held.map(|(&(span, access), &token)| (span, access, token)));
            return;
        }
        core.queue_all(&mut locked, &batch, &mut tokens);
        drop(locked);
        self.waiting.push(Waiting {
            batch,
            tokens,
            counter: Arc::default(),
            asked: 0,
        });
        self.run(self.waiting.len() - 1);
    }

    /// Lets the owner of a waiting request run.
    fn run(&mut self, at: usize) {
        let core = &self.lock.core;
        let it = &mut self.waiting[at];
        let waker = Waker::from(it.counter.clone());
        let mut locked = core.shards.lock(core.shards.nodes(&it.batch).1);
        let clone = &mut Some(waker.clone());
        let found = core.check(&mut locked, &it.batch, &it.tokens, &waker, clone);
        drop(locked);
        match found {
            Found::Claimed => {
                let it = self.waiting.remove(at);
                let held = it.batch.iter().zip(&it.tokens);
                self.held
                    .extend(held.map(|(&(span, access), &token)| (span, access, token)));
            }
            Found::Blocked(old) => {
                assert!(old.is_none(), "the owner left its waker twice");
                it.asked += usize::from(clone.is_none());
            }
            Found::NoWaker => unreachable!("there is a clone"),
        }
    }

    fn held(&self, which: &Pick, suitable: impl Fn(Access) -> bool) -> Option<usize> {
        let mut all = Vec::from_iter(0..self.held.len());
        all.retain(|&at| suitable(self.held[at].1));
        (!all.is_empty()).then(|| *which.get(&all))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Enter(parts) => self.enter(parts),
            Step::Run(which) if !self.waiting.is_empty() => {
                self.run(which.index(self.waiting.len()));
            }
            Step::Cancel(which) if !self.waiting.is_empty() => {
                let at = which.index(self.waiting.len());
                let [(span, access)] = self.waiting[at].batch[..] else {
                    return;
                };
                if self.lock.core.shards.home(span).is_none() {
                    let it = self.waiting.remove(at);
                    let place = Some(index(it.tokens[0]));
                    let mut request = IntervalRequest { place };
                    // SAFETY: above.
                    unsafe { self.lock.cancel(span, access, Pin::new(&mut request)) };
                }
            }
            Step::Run(_) | Step::Cancel(_) => {}
            Step::Leave(which) => {
                if let Some(at) = self.held(which, |_| true) {
                    let (span, access, token) = self.held.remove(at);
                    // SAFETY: above.
                    unsafe { self.lock.unlock(span, access, token) };
                }
            }
            Step::LeaveAll(rest) => {
                let rest = rest.index(self.held.len() + 1);
                let left = self.held.drain(rest..);
                let (batch, tokens): (Vec<_>, Vec<_>) = left
                    .map(|(span, access, token)| ((span, access), token))
                    .unzip();
                // SAFETY: above.
                unsafe { self.lock.unlock_all(&batch, &tokens) };
            }
            Step::Downgrade(which) => {
                if let Some(at) = self.held(which, |access| access != Access::Read) {
                    let (span, access, mut token) = self.held[at];
                    // SAFETY: above.
                    unsafe { (self.lock).downgrade(span, access, Access::Read, &mut token) };
                    self.held[at] = (span, Access::Read, token);
                }
            }
            Step::TryUpgrade(which) => {
                if let Some(at) = self.held(which, |access| access != Access::Write) {
                    let (span, access, token) = self.held[at];
                    // SAFETY: above.
                    if let Ok(token) = unsafe { self.lock.try_upgrade(span, access, token) } {
                        self.held[at] = (span, Access::Write, token);
                    }
                }
            }
            Step::Shrink(which, start, len) => {
                if let Some(at) = self.held(which, |_| true) {
                    let (old, access, mut token) = self.held[at];
                    let start = old.start() + start.index(old.len() as usize) as u64;
                    let len = 1 + len.index((old.end() - start) as usize) as u64;
                    let keep = span(start, start + len);
                    // SAFETY: above.
                    unsafe { self.lock.shrink(old, access, &mut token, keep) };
                    self.held[at] = (keep, access, token);
                }
            }
            Step::Split(which, cut) => {
                let Some(at) = self.held(which, |_| true) else {
                    return;
                };
                let (old, access, mut low) = self.held[at];
                if old.len() > 1 {
                    let cut = old.start() + 1 + cut.index(old.len() as usize - 1) as u64;
                    let mut high = Token::NONE;
                    // SAFETY: above.
                    unsafe { (self.lock).split(old, access, &mut low, cut, &mut high) }
                        .expect("memory");
                    self.held[at] = (span(old.start(), cut), access, low);
                    self.held.push((span(cut, old.end()), access, high));
                }
            }
        }
    }

    fn check(&self) {
        self.lock.core.check_all(&self.waiting);
        let mut expected = Vec::from_iter(self.held.iter().map(|&(span, how, _)| (span, how)));
        let mut listed = self.lock.held_ranges();
        for list in [&mut expected, &mut listed] {
            list.sort_by_key(|(span, access)| (span.start(), span.end(), *access));
        }
        assert_eq!(listed, expected);
        let waiting: usize = self.waiting.iter().map(|it| it.batch.len()).sum();
        assert_eq!(self.lock.waiting(), waiting);
        assert_eq!(self.lock.len(), waiting + expected.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_match_their_definition_in_every_shard(steps in prop::collection::vec(step(), 150)) {
        let lock = IntervalLock::with_shards(4, 4);
        let mut world = World { lock, held: Vec::new(), waiting: Vec::new() };
        for step in &steps {
            world.step(step);
            world.check();
        }
        // Release all holds and run the owners that were woken, until none is left.
        loop {
            while let Some((span, access, token)) = world.held.pop() {
                // SAFETY: above.
                unsafe { world.lock.unlock(span, access, token) };
                world.check();
            }
            let woken = |it: &Waiting| it.counter.0.load(Relaxed) == it.asked;
            let Some(at) = world.waiting.iter().position(woken) else { break };
            world.run(at);
            world.check();
        }
        prop_assert!(world.waiting.is_empty(), "nobody was woken");
        prop_assert!(world.lock.is_empty());
    }
}

/// Threads often use ranges at multiples of a power of two, such as FxMark's 8 MiB.
#[test]
fn stripes_a_power_of_two_apart_have_different_shards() {
    for shards in [8, 16] {
        let shards = crate::shards::Shards::new(shards, 1, 0).expect("memory");
        let shard = |stripe: u64| shards.touched(span(stripe, stripe + 1)).first();
        for apart in (0..63).map(|power| 1 << power) {
            let mut stripe = 0;
            for _ in 0..100 {
                assert_ne!(shard(stripe), shard(stripe + apart), "{stripe} + {apart}");
                stripe = (stripe + 0x1357_9BDF_0246_8ACE) % (1 << 63);
            }
        }
        for apart in (0..60).map(|power| 1 << power) {
            let used: std::collections::BTreeSet<_> = (0..8).map(|n| shard(n * apart)).collect();
            assert!(used.len() >= 4, "{used:?} of multiples of {apart}");
        }
    }
}

#[test]
fn a_part_of_a_span_touches_no_other_shards() {
    for shards in [1, 2, 4, 8, 16] {
        let shards = crate::shards::Shards::new(shards, 4, 0).expect("memory");
        for start in 0..200 {
            for len in (1..80).chain([u64::MAX - 200]) {
                let whole = shards.touched(span(start, start + len));
                let part = shards.touched(span(start + len / 3, start + len));
                assert_eq!(whole.union(part), whole, "IL-S4");
            }
        }
    }
}
