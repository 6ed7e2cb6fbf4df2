//! Random calls, some of which wait, against a plain model of bytes: who is granted, who is woken,
//! who is overdue, and which waits are circles. An owner may have several requests at once.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use spanlock_record_lock::{Error, Mode, Owner, RecordLock, Request};

const OWNERS: usize = 4;
const BYTES: usize = 6;
/// After this many conflicting grants, a waiting request is overdue.
const PASSES: u32 = 32;

#[derive(Clone, Debug)]
struct Want {
    owner: usize,
    range: Range<usize>,
    mode: Mode,
}

impl Want {
    fn conflicts_with(&self, other: &Want) -> bool {
        self.owner != other.owner
            && (self.mode == Mode::Write || other.mode == Mode::Write)
            && self.range.clone().any(|at| other.range.contains(&at))
    }

    fn bytes(&self) -> Range<u64> {
        self.range.start as u64..self.range.end as u64
    }
}

#[derive(Clone, Debug)]
enum Call {
    Lock(Want),
    Try(Want),
    Unlock(Want),
    Release(usize),
    /// The index is reduced to the number of requests that wait.
    Poll(usize),
    Drop(usize),
}

fn want(owners: Range<usize>) -> impl Strategy<Value = Want> + Clone {
    let mode = prop_oneof![2 => Just(Mode::Read), 1 => Just(Mode::Write)];
    let want = (owners, 0..BYTES, 1..=3_usize, mode);
    want.prop_map(|(owner, start, len, mode)| {
        let range = start..BYTES.min(start + len);
        Want { owner, range, mode }
    })
}

/// All calls, of all owners.
fn mixed() -> impl Strategy<Value = Vec<Call>> {
    let want = want(0..OWNERS);
    let call = prop_oneof![
        6 => want.clone().prop_map(Call::Lock),
        4 => want.clone().prop_map(Call::Try),
        6 => want.prop_map(Call::Unlock),
        1 => (0..4 * OWNERS).prop_map(|owner| Call::Release(owner % OWNERS)),
        3 => (0..100_usize).prop_map(Call::Poll),
        1 => (0..100_usize).prop_map(Call::Drop),
    ];
    prop::collection::vec(call, 1..400)
}

/// One owner reads a byte, another waits to write all, and the others pass it.
fn passing() -> impl Strategy<Value = Vec<Call>> {
    let mine = |owner, range, mode| Want { owner, range, mode };
    let call = prop_oneof![
        2 => want(2..OWNERS).prop_map(Call::Lock),
        3 => want(2..OWNERS).prop_map(Call::Try),
        3 => (2..OWNERS).prop_map(move |owner| Call::Unlock(mine(owner, 0..BYTES, Mode::Read))),
        1 => (0..100_usize).prop_map(Call::Poll),
    ];
    prop::collection::vec(call, 1..400).prop_map(move |mut calls| {
        calls.insert(0, Call::Try(mine(0, 0..1, Mode::Read)));
        calls.insert(1, Call::Lock(mine(1, 0..BYTES, Mode::Write)));
        calls
    })
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    prop_oneof![2 => mixed(), 1 => passing()]
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

struct Waiting {
    want: Want,
    passes: u32,
    request: Request,
    woken: Arc<Flag>,
}

fn poll(request: &mut Request) -> (Poll<Result<(), Error>>, Arc<Flag>) {
    let woken = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let polled = Pin::new(request).poll(&mut Context::from_waker(&waker));
    (polled, woken)
}

#[derive(Default)]
struct Model {
    held: [[Option<Mode>; OWNERS]; BYTES],
    /// In the order of arrival.
    waiting: Vec<Waiting>,
    /// How many calls found an overdue request, a circle, and a circle that a new hold closed.
    seen: [u32; 3],
}

impl Model {
    /// Returns the owners whose holds conflict.
    fn stops(&self, want: &Want) -> [bool; OWNERS] {
        let mut stops = [false; OWNERS];
        for owner in (0..OWNERS).filter(|&owner| owner != want.owner) {
            stops[owner] = want.range.clone().any(|at| {
                let held = self.held[at][owner];
                held.is_some_and(|held| held == Mode::Write || want.mode == Mode::Write)
            });
        }
        stops
    }

    fn conflicts(&self, want: &Want) -> bool {
        self.stops(want).contains(&true)
    }

    /// Returns whether nothing stops a request with these before it.
    fn is_ready(&mut self, want: &Want, earlier: usize) -> bool {
        let holds = self.held.iter().any(|byte| byte[want.owner].is_some());
        let mut earlier = self.waiting[..earlier].iter();
        let overdue = earlier.any(|it| it.passes >= PASSES && it.want.conflicts_with(want));
        let conflicts = self.conflicts(want);
        self.seen[0] += u32::from(overdue && !holds && !conflicts);
        !conflicts && (holds || !overdue)
    }

    /// Returns whether the owner waits for itself if this request waits with the others.
    fn is_circle(&self, want: &Want) -> bool {
        let mut reached = self.stops(want);
        for _ in 0..OWNERS {
            for it in &self.waiting {
                if reached[it.want.owner] {
                    let stops = self.stops(&it.want);
                    (0..OWNERS).for_each(|owner| reached[owner] |= stops[owner]);
                }
            }
        }
        reached[want.owner]
    }

    fn set(&mut self, want: &Want, mode: Option<Mode>) {
        want.range
            .clone()
            .for_each(|at| self.held[at][want.owner] = mode);
    }

    /// Grants a request with these before it.
    fn grant(&mut self, want: &Want, earlier: usize) {
        self.set(want, Some(want.mode));
        for it in &mut self.waiting[..earlier] {
            it.passes += u32::from(it.want.conflicts_with(want));
        }
        let mut at = 0;
        while at < self.waiting.len() {
            let other = self.waiting[at].want.clone();
            if other.conflicts_with(want) && self.is_circle(&other) {
                let mut ended = self.waiting.remove(at);
                assert!(ended.woken.0.load(SeqCst), "{other:?} is not woken");
                let polled = poll(&mut ended.request).0;
                assert!(
                    matches!(polled, Poll::Ready(Err(Error::Deadlock(_)))),
                    "{polled:?}"
                );
                self.seen[2] += 1;
            } else {
                at += 1;
            }
        }
    }

    fn lock(&mut self, owner: &Owner, want: Want) {
        let mut request = owner.lock(want.bytes(), want.mode);
        let (polled, woken) = poll(&mut request);
        if self.is_ready(&want, self.waiting.len()) {
            assert_eq!(polled, Poll::Ready(Ok(())), "{want:?}");
            self.grant(&want, self.waiting.len());
        } else if self.is_circle(&want) {
            assert!(
                matches!(polled, Poll::Ready(Err(Error::Deadlock(_)))),
                "{want:?}"
            );
            self.seen[1] += 1;
        } else {
            assert_eq!(polled, Poll::Pending, "{want:?}");
            let passes = 0;
            self.waiting.push(Waiting {
                want,
                passes,
                request,
                woken,
            });
        }
    }

    fn poll(&mut self, at: usize) {
        let want = self.waiting[at].want.clone();
        let (polled, woken) = poll(&mut self.waiting[at].request);
        self.waiting[at].woken = woken;
        if self.is_ready(&want, at) {
            assert_eq!(polled, Poll::Ready(Ok(())), "{want:?}");
            self.waiting.remove(at);
            self.grant(&want, at);
        } else {
            assert_eq!(polled, Poll::Pending, "{want:?}");
        }
    }

    fn release(&mut self, owner: usize) {
        self.held.iter_mut().for_each(|byte| byte[owner] = None);
        self.waiting.retain_mut(|it| {
            if it.want.owner == owner {
                assert!(it.woken.0.load(SeqCst), "{:?} is not woken", it.want);
                assert_eq!(poll(&mut it.request).0, Poll::Ready(Err(Error::Released)));
            }
            it.want.owner != owner
        });
    }

    /// Checks that no owner waits for itself, and that no wake is lost.
    fn check(&mut self) {
        let mut called: Vec<Want> = Vec::new();
        for at in 0..self.waiting.len() {
            let want = self.waiting[at].want.clone();
            assert!(!self.is_circle(&want), "{want:?} waits for itself");
            let conflicts = called.iter().any(|it| it.conflicts_with(&want));
            if self.is_ready(&want, at) && !conflicts {
                assert!(
                    self.waiting[at].woken.0.load(SeqCst),
                    "{want:?} is not woken"
                );
                called.push(want);
            }
        }
    }
}

/// Performs the calls; returns what they have shown.
fn perform(calls: Vec<Call>) -> [u32; 3] {
    let table = RecordLock::new();
    let new = |id: usize| table.owner(id as u64).expect("is new");
    let mut owners: Vec<_> = (0..OWNERS).map(|id| Some(new(id))).collect();
    let mut model = Model::default();
    for call in calls {
        let of = |want: &Want| owners[want.owner].as_ref().expect("exists");
        let waiting = model.waiting.len();
        match call {
            Call::Lock(want) => model.lock(of(&want), want),
            Call::Try(want) => {
                let tried = of(&want).try_lock(want.bytes(), want.mode);
                assert_eq!(tried.is_err(), model.conflicts(&want), "{want:?}");
                if tried.is_ok() {
                    model.grant(&want, waiting);
                }
            }
            Call::Unlock(want) => {
                of(&want).unlock(want.bytes()).expect("there is memory");
                model.set(&want, None);
            }
            Call::Release(owner) => {
                owners[owner] = None;
                model.release(owner);
                owners[owner] = Some(new(owner));
            }
            Call::Poll(at) if waiting > 0 => model.poll(at % waiting),
            Call::Drop(at) if waiting > 0 => drop(model.waiting.remove(at % waiting)),
            Call::Poll(_) | Call::Drop(_) => {}
        }
        model.check();
        assert_eq!(table.waiting().len(), model.waiting.len());
    }
    model.seen
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_requests_agree_with_a_plain_model(calls in calls()) {
        perform(calls);
    }
}

/// The random calls above would prove little if none of them met what is rare.
#[test]
fn random_requests_meet_overdue_ones_and_circles() {
    let mut runner = TestRunner::deterministic();
    let mut seen = [0; 3];
    for _ in 0..64 {
        let drawn = calls().new_tree(&mut runner).expect("draws").current();
        let now = perform(drawn);
        (0..3).for_each(|at| seen[at] += now[at]);
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}
