//! Random calls, some of which wait, against a plain model of bytes: who is granted, who is woken,
//! and which waits are circles. An owner may have several requests at once.

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

fn want() -> impl Strategy<Value = Want> + Clone {
    let mode = prop_oneof![2 => Just(Mode::Read), 1 => Just(Mode::Write)];
    let want = (0..OWNERS, 0..BYTES, 1..=3_usize, mode);
    want.prop_map(|(owner, start, len, mode)| {
        let range = start..BYTES.min(start + len);
        Want { owner, range, mode }
    })
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let want = want();
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

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

struct Waiting {
    want: Want,
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
    /// How many calls found a circle, one that another hold than the first closes, and one that a
    /// new hold has closed.
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

    /// Returns the holds that conflict: their first bytes and their owners.
    fn conflicting(&self, want: &Want) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for owner in (0..OWNERS).filter(|&owner| self.stops(want)[owner]) {
            let held: Vec<_> = self.held.iter().map(|byte| byte[owner]).collect();
            let mut at = 0;
            for run in held.chunk_by(PartialEq::eq) {
                let range = at..at + run.len();
                at = range.end;
                let Some(mode) = run[0] else {
                    continue;
                };
                let start = range.start as u64;
                let hold = Want { owner, range, mode };
                if hold.conflicts_with(want) {
                    found.push((start, owner as u64));
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Returns whether an owner waits for another one, also through others.
    fn waits_for(&self, owner: usize, other: usize) -> bool {
        let mut reached = [false; OWNERS];
        reached[owner] = true;
        for _ in 0..OWNERS {
            for it in &self.waiting {
                if reached[it.want.owner] {
                    let stops = self.stops(&it.want);
                    (0..OWNERS).for_each(|owner| reached[owner] |= stops[owner]);
                }
            }
        }
        reached[other]
    }

    /// Returns whether the owner waits for itself if this request waits with the others.
    fn is_circle(&self, want: &Want) -> bool {
        let stops = self.stops(want);
        (0..OWNERS).any(|owner| stops[owner] && self.waits_for(owner, want.owner))
    }

    /// Checks that a request has failed because of the first hold that closes a circle.
    fn check_circle(&mut self, want: &Want, polled: Poll<Result<(), Error>>) {
        let Poll::Ready(Err(Error::Deadlock(hold))) = polled else {
            panic!("{want:?}: {polled:?}");
        };
        let conflicting = self.conflicting(want);
        let closes = |&(_, owner): &(u64, u64)| self.waits_for(owner as usize, want.owner);
        let (closing, others): (Vec<_>, Vec<_>) = conflicting.into_iter().partition(closes);
        assert!(
            closing.contains(&(hold.first, hold.owner)),
            "{hold:?}, {closing:?}"
        );
        assert_eq!(hold.first, closing[0].0, "{want:?}");
        self.seen[0] += 1;
        self.seen[1] += u32::from(others.iter().any(|other| other.0 < hold.first));
    }

    fn set(&mut self, want: &Want, mode: Option<Mode>) {
        want.range
            .clone()
            .for_each(|at| self.held[at][want.owner] = mode);
    }

    fn grant(&mut self, want: &Want) {
        self.set(want, Some(want.mode));
        let mut at = 0;
        while at < self.waiting.len() {
            let other = self.waiting[at].want.clone();
            if other.conflicts_with(want) && self.is_circle(&other) {
                let mut ended = self.waiting.remove(at);
                assert!(ended.woken.0.load(SeqCst), "{other:?} is not woken");
                let polled = poll(&mut ended.request).0;
                self.check_circle(&other, polled);
                self.seen[2] += 1;
            } else {
                at += 1;
            }
        }
    }

    fn lock(&mut self, owner: &Owner, want: Want) {
        let mut request = owner.lock(want.bytes(), want.mode);
        let (polled, woken) = poll(&mut request);
        if !self.conflicts(&want) {
            assert_eq!(polled, Poll::Ready(Ok(())), "{want:?}");
            self.grant(&want);
        } else if self.is_circle(&want) {
            self.check_circle(&want, polled);
        } else {
            assert_eq!(polled, Poll::Pending, "{want:?}");
            self.waiting.push(Waiting {
                want,
                request,
                woken,
            });
        }
    }

    fn poll(&mut self, at: usize) {
        let want = self.waiting[at].want.clone();
        let (polled, woken) = poll(&mut self.waiting[at].request);
        self.waiting[at].woken = woken;
        if !self.conflicts(&want) {
            assert_eq!(polled, Poll::Ready(Ok(())), "{want:?}");
            self.waiting.remove(at);
            self.grant(&want);
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
        let mut called: Vec<&Want> = Vec::new();
        for Waiting { want, woken, .. } in &self.waiting {
            assert!(!self.is_circle(want), "{want:?} waits for itself");
            if woken.0.load(SeqCst) {
                called.push(want);
            } else if !self.conflicts(want) {
                let behind = called.iter().any(|it| it.conflicts_with(want));
                assert!(behind, "{want:?} is not woken");
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
                    model.grant(&want);
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
        let holds = table.holds(..).expect("there is memory").len();
        let waits = table.waiting().expect("there is memory").len();
        assert_eq!(waits, model.waiting.len());
        // Requests that have ended are gone.
        let told = format!("holds: {holds}, owners: {OWNERS}, requests: {waits}");
        assert_eq!(format!("{table:?}"), format!("RecordLock {{ {told} }}"));
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
fn random_requests_meet_circles() {
    let mut runner = TestRunner::deterministic();
    let mut seen = [0; 3];
    for _ in 0..64 {
        let drawn = calls().new_tree(&mut runner).expect("draws").current();
        let now = perform(drawn);
        (0..3).for_each(|at| seen[at] += now[at]);
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}
