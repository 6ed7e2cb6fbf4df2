//! A million steps of one thread, against the plainest lock there is: a list in the order of arrival, looked through from front to
//! back after each step.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

mod common;

use std::thread;

use common::{Asked, Rng, Taken, span};
use spanlock::{Access, Span};
use spanlock_interval::IntervalLock;

const STEPS: u64 = 1_000_000;
const POSITIONS: u64 = 24;
/// Requests at once.
const CROWD: usize = 16;

/// What the list knows of a request.
#[derive(Clone, Copy)]
struct Entry {
    span: Span,
    access: Access,
    held: bool,
}

impl Entry {
    fn conflicts(&self, other: &Entry) -> bool {
        self.span.overlaps(other.span) && self.access.conflicts_with(other.access)
    }
}

/// A request of the lock under test.
enum Real<'a> {
    /// Not granted, or not known to be.
    Asked(Asked<'a>),
    Taken(Taken<'a>),
}

struct World<'a> {
    lock: &'a IntervalLock,
    /// In the order of arrival; what the list says beside what is.
    all: Vec<(Entry, Real<'a>)>,
    rng: Rng,
}

impl<'a> World<'a> {
    /// Grants in the order of arrival, and asserts that exactly those that are granted were woken.
    fn grant(&mut self) {
        for i in 0..self.all.len() {
            let entry = self.all[i].0;
            // No holder wherever it stands, and nobody who waits in front.
            let free = entry.held
                || (self.all.iter().enumerate())
                    .all(|(j, (e, _))| !(e.held || j < i) || j == i || !e.conflicts(&entry));
            self.all[i].0.held = free;
            if let Real::Asked(asked) = &self.all[i].1 {
                assert_eq!(asked.wakes(), usize::from(free), "{:?}", self.lock);
            }
        }
    }

    fn some_span(&mut self) -> Span {
        let start = self.rng.below(POSITIONS);
        let longest = if self.rng.below(8) == 0 { POSITIONS } else { 5 };
        span(start..start + 1 + self.rng.below(longest))
    }

    /// One of those that are suitable.
    fn pick(&mut self, suitable: impl Fn(&(Entry, Real<'a>)) -> bool) -> Option<usize> {
        let found = self.all.iter().filter(|one| suitable(one)).count();
        let nth = self.rng.below(found.max(1) as u64) as usize;
        let mut suitable = (0..self.all.len()).filter(|&i| suitable(&self.all[i]));
        suitable.nth(nth)
    }

    fn pick_taken(&mut self) -> Option<(usize, Taken<'a>)> {
        let i = self.pick(|(_, real)| matches!(real, Real::Taken(_)))?;
        match &self.all[i].1 {
            Real::Taken(taken) => Some((i, *taken)),
            Real::Asked(_) => None,
        }
    }

    /// The hold at `i` has become `taken`.
    fn set(&mut self, i: usize, taken: Taken<'a>) {
        let (span, access) = (taken.span, taken.access);
        let held = true;
        self.all[i] = (Entry { span, access, held }, Real::Taken(taken));
    }

    fn arrive(&mut self) {
        let (span, access) = (self.some_span(), self.rng.access());
        let mut entry = Entry {
            span,
            access,
            held: false,
        };
        let free = !self.all.iter().any(|(other, _)| other.conflicts(&entry));
        if self.rng.below(3) == 0 {
            let tried = Taken::try_lock(self.lock, span.range(), access);
            assert_eq!(tried.is_some(), free, "try {access:?} {span:?}");
            if let Some(taken) = tried {
                entry.held = true;
                self.all.push((entry, Real::Taken(taken)));
            }
            return;
        }
        let mut asked = Asked::new(self.lock, span.range(), access);
        let taken = asked.poll();
        assert_eq!(taken.is_some(), free, "{access:?} {span:?}");
        entry.held = free;
        let real = taken.map_or(Real::Asked(asked), Real::Taken);
        self.all.push((entry, real));
    }

    fn look(&mut self) {
        if let Some(i) = self.pick(|(_, real)| matches!(real, Real::Asked(_)))
            && let (entry, Real::Asked(asked)) = &mut self.all[i]
        {
            let taken = asked.poll();
            assert_eq!(taken.is_some(), entry.held);
            if let Some(taken) = taken {
                self.set(i, taken);
            }
        }
    }

    fn give_up(&mut self) {
        if let Some(i) = self.pick(|(_, real)| matches!(real, Real::Asked(_)))
            && let (_, Real::Asked(mut asked)) = self.all.remove(i)
        {
            asked.cancel();
        }
    }

    fn release(&mut self) {
        if let Some((i, taken)) = self.pick_taken() {
            taken.release();
            self.all.remove(i);
        }
    }

    fn change(&mut self) {
        let Some((i, taken)) = self.pick_taken() else {
            return;
        };
        let (span, len) = (taken.span, taken.span.len());
        match self.rng.below(4) {
            0 if taken.access != Access::Read => self.set(i, taken.downgrade()),
            1 if taken.access != Access::Write => {
                let others =
                    |(j, (e, _)): (usize, &(Entry, _))| j != i && e.held && e.span.overlaps(span);
                let alone = !self.all.iter().enumerate().any(others);
                let (taken, worked) = taken.try_upgrade();
                assert_eq!(worked, alone, "upgrade of {span:?}");
                self.set(i, taken);
            }
            2 => {
                let start = span.start() + self.rng.below(len);
                let end = start + 1 + self.rng.below(span.end() - start);
                self.set(i, taken.shrink(start..end));
            }
            3 if len > 1 => {
                let at = span.start() + 1 + self.rng.below(len - 1);
                let (low, high) = taken.split(at);
                self.set(i, low);
                // Where it stands is of no account: it holds.
                let entry = Entry {
                    span: high.span,
                    ..self.all[i].0
                };
                self.all.push((entry, Real::Taken(high)));
            }
            _ => {}
        }
    }

    /// The whole state, as the lock tells it.
    fn compare(&self) {
        let list = |held| {
            let entries = self.all.iter().filter(|(entry, _)| entry.held == held);
            let list = entries.map(|(e, _)| (e.span.range(), e.access));
            sorted(list.map(|(range, access)| (range.start, range.end, access)))
        };
        let told = |ranges: Vec<(Span, Access)>| {
            sorted(ranges.into_iter().map(|(s, how)| (s.start(), s.end(), how)))
        };
        assert_eq!(told(self.lock.held_ranges()), list(true));
        assert_eq!(told(self.lock.waiting_ranges()), list(false));
        assert_eq!(self.lock.len(), self.all.len());
    }
}

fn sorted(ranges: impl Iterator<Item = (u64, u64, Access)>) -> Vec<(u64, u64, Access)> {
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_by_key(|&(start, end, access)| (start, end, access as u8));
    ranges
}

fn live(seed: u64, steps: u64) {
    let lock = IntervalLock::new();
    let mut world = World {
        lock: &lock,
        all: Vec::new(),
        rng: Rng::new(seed),
    };
    for step in 0..steps {
        match world.rng.below(12) {
            0..4 if world.all.len() < CROWD => world.arrive(),
            0..6 => world.release(),
            6..8 => world.look(),
            8 => world.give_up(),
            _ => world.change(),
        }
        world.grant();
        if step % 64 == 0 {
            world.compare();
        }
    }
    while !world.all.is_empty() {
        world.release();
        world.grant();
        world.look();
    }
    assert!(lock.is_empty());
}

#[test]
fn a_million_steps_agree_with_a_list() {
    thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(move || live(seed, STEPS / 2));
        }
    });
}
