//! Random histories on one thread, which plays many owners of holds and requests. The test compares
//! each result with the simplest possible lock: a list of holds and requests.
//!
//! The lock must return every result that the contract determines:
//!
//! - A try in a free gap succeeds, and a try that conflicts with a hold fails.
//! - A downgrade, upgrade, shrink or split changes the hold as documented.
//! - A granted request conflicts with no hold.
//! - The lock has woken each waiting request that nothing blocks.
//! - If waiting requests block only each other, the lock has woken at least one of them.
//!
//! A lock that serves requests first come, first served ([`Order::Arrival`]) is checked more
//! strictly. The list predicts which requests each operation grants. The lock must wake each of
//! them once, and no others.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use spanlock_range_lock::{Access, RangeError, RangeLockExt, Span, TryLockError};

use crate::Driven;
use crate::op::{Extent, Op, Pick, Points};
use crate::owner::{Asked, Hold};

/// The order in which a lock grants conflicting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Conflicting requests are granted first come, first served. A release grants the requests
    /// that it unblocks, and the next poll of each request returns its hold.
    Arrival,
    /// Any order that respects the lock's bound on overtaking.
    Bounded,
}

/// While there are at least this many owners, operations that add owners are skipped, except for
/// splits. Each owner has one hold or one request. A batch or a split may exceed this number.
const CROWD: usize = 16;

/// The maximum number of polls and releases that the end of a history may take.
const PATIENCE: usize = 10_000;

#[derive(Debug)]
enum State<'a> {
    Held(Hold<'a>),
    /// A request that waits, or that was granted after its last poll.
    Asked(Asked<'a>),
}

/// An entry of the list: one owner.
struct Entry<'a> {
    span: Span,
    access: Access,
    /// Whether the list considers the span held. Under [`Order::Arrival`], a granted request may
    /// not have been polled yet.
    granted: bool,
    state: State<'a>,
}

impl Entry<'_> {
    fn is_held(&self) -> bool {
        matches!(self.state, State::Held(_))
    }
}

/// The result that the contract requires of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Succeeds,
    Fails,
    /// The contract allows both results: the lock may prefer a waiter, or refuse a reader because a
    /// unit has its maximum number of readers.
    Open,
}

struct World<'a> {
    lock: &'a Driven,
    points: &'a Points,
    order: Order,
    /// The owners, in the order of arrival.
    all: Vec<Entry<'a>>,
    done: u64,
}

/// Runs a history on an unused lock, and returns how many operations ran. While there are many
/// owners, an operation that would add one is skipped and not counted, unless it is a split. An
/// operation that finds no hold or request to act on is counted.
///
/// # Errors
/// The first result or wakeup that differs from the list's prediction.
pub fn run(lock: &Driven, order: Order, history: &[Op]) -> Result<u64, TestCaseError> {
    let mut world = World {
        lock,
        points: &Points::of(lock),
        order,
        all: Vec::new(),
        done: 0,
    };
    let result = world.live(history);
    // Cancel all requests that are left: they must not outlive their lock, because a later lock may
    // be allocated at the same address.
    for entry in world.all {
        if let State::Asked(asked) = entry.state {
            asked.cancel();
        }
    }
    result.map(|()| world.done)
}

impl<'a> World<'a> {
    fn live(&mut self, history: &[Op]) -> TestCaseResult {
        for &op in history {
            self.step(op)?;
            self.settle()?;
        }
        self.end()
    }

    fn step(&mut self, op: Op) -> TestCaseResult {
        let before = self.done;
        self.done += 1;
        let crowded = self.all.len() >= CROWD;
        match op {
            Op::Try(extent) if !crowded => self.try_lock(extent),
            Op::Lock(extent) if !crowded => self.lock(extent),
            Op::Ask(extent) if !crowded => self.ask(extent),
            Op::Within(extent, looks) => self.within(extent, looks),
            Op::Odd(extent) => self.odd(extent),
            Op::TryAll(extents) if !crowded => self.several(extents, false),
            Op::LockAll(extents) if !crowded => self.several(extents, true),
            Op::Unlock(pick) => self.unlock(pick),
            Op::Poll(pick) => self.poll(pick),
            Op::Cancel(pick) => self.cancel(pick),
            Op::Downgrade(pick) => self.downgrade(pick),
            Op::TryUpgrade(pick) => self.upgrade(pick, false),
            Op::Upgrade(pick) => self.upgrade(pick, true),
            Op::Shrink(pick, a, b) => self.shrink(pick, a, b),
            Op::Split(pick, at) => self.split(pick, at),
            _ => {
                self.done = before;
                Ok(())
            }
        }
    }

    /// Predicts the result of an attempt to lock `span`. `me` is the index of the entry that makes
    /// the attempt, if it is already in the list.
    fn verdict(&self, span: Span, access: Access, me: Option<usize>) -> Verdict {
        let others = || (self.all.iter().enumerate()).filter(|&(i, _)| Some(i) != me);
        let conflicts = |entry: &Entry<'_>| {
            self.lock
                .conflict((entry.span, entry.access), (span, access))
        };
        if others().any(|(_, entry)| entry.granted && conflicts(entry)) {
            return Verdict::Fails;
        }
        if self.is_crowded(span, access, me) {
            return Verdict::Open;
        }
        match self.order {
            Order::Arrival if others().any(|(_, entry)| conflicts(entry)) => Verdict::Fails,
            Order::Bounded if others().any(|(_, e)| !e.granted && self.lock.meet(e.span, span)) => {
                Verdict::Open
            }
            _ => Verdict::Succeeds,
        }
    }

    /// Returns whether a reader of `span` may find a unit with the maximum number of readers,
    /// counting upgradable ones.
    fn is_crowded(&self, span: Span, access: Access, me: Option<usize>) -> bool {
        let others = (self.all.iter().enumerate()).filter(|&(i, _)| Some(i) != me);
        let readers = others.filter(|(_, entry)| {
            entry.granted && entry.access != Access::Write && self.lock.meet(entry.span, span)
        });
        access != Access::Write && readers.count() >= self.lock.readers
    }

    fn check(
        &self,
        verdict: Verdict,
        worked: bool,
        what: &str,
        span: Span,
        access: Access,
    ) -> TestCaseResult {
        let expected = match verdict {
            Verdict::Succeeds => true,
            Verdict::Fails => false,
            Verdict::Open => return Ok(()),
        };
        prop_assert_eq!(worked, expected, "{} of {:?} {:?}", what, access, span);
        Ok(())
    }

    fn push(&mut self, state: State<'a>) {
        let (span, access, granted) = match &state {
            State::Held(hold) => (hold.span(), hold.access(), true),
            State::Asked(asked) => (asked.span(), asked.access(), false),
        };
        self.all.push(Entry {
            span,
            access,
            granted,
            state,
        });
    }

    fn try_lock(&mut self, extent: Extent) -> TestCaseResult {
        let (span, access) = (self.points.span(extent), extent.access);
        let verdict = self.verdict(span, access, None);
        let tried = Hold::try_lock(self.lock, span, access);
        let refused = tried.as_ref().err();
        prop_assert!(matches!(refused, None | Some(TryLockError::WouldBlock)));
        self.check(verdict, tried.is_ok(), "a try", span, access)?;
        if let Ok(hold) = tried {
            self.push(State::Held(hold));
        }
        Ok(())
    }

    /// Locks a span. If the blocking call might block, begins a request or tries instead, because
    /// no other thread could unblock this one.
    fn lock(&mut self, extent: Extent) -> TestCaseResult {
        let (span, access) = (self.points.span(extent), extent.access);
        if self.verdict(span, access, None) == Verdict::Succeeds {
            let hold = Hold::lock(self.lock, span, access).map_err(refused)?;
            self.push(State::Held(hold));
            return Ok(());
        }
        match self.lock.wait {
            Some(_) => self.ask(extent),
            None => self.try_lock(extent),
        }
    }

    fn ask(&mut self, extent: Extent) -> TestCaseResult {
        let (span, access) = (self.points.span(extent), extent.access);
        let verdict = self.verdict(span, access, None);
        let mut asked = Asked::new(self.lock, span, access);
        let hold = asked.poll().map_err(refused)?;
        self.check(verdict, hold.is_some(), "a request", span, access)?;
        self.push(hold.map_or(State::Asked(asked), State::Held));
        Ok(())
    }

    /// Requests a range, polls at most `looks` times without a pause, and then cancels.
    fn within(&mut self, extent: Extent, looks: u8) -> TestCaseResult {
        let (span, access) = (self.points.span(extent), extent.access);
        let verdict = self.verdict(span, access, None);
        let mut asked = Asked::new(self.lock, span, access);
        for _ in 0..looks {
            let hold = asked.poll().map_err(refused)?;
            self.check(verdict, hold.is_some(), "a short wait", span, access)?;
            if let Some(hold) = hold {
                hold.release();
                return Ok(());
            }
        }
        asked.cancel();
        Ok(())
    }

    /// Checks that the lock refuses an invalid range with the right error, and accepts an empty
    /// range whatever is held.
    fn odd(&mut self, extent: Extent) -> TestCaseResult {
        let range = self.points.odd(extent);
        let (start, end) = (range.start, range.end);
        let capacity = self.lock.raw.capacity();
        let expected = if start > end {
            Some(RangeError::Reversed { start, end })
        } else if start < end && end > capacity {
            Some(RangeError::PastCapacity {
                start,
                end,
                capacity,
            })
        } else if start == end {
            None
        } else {
            // No range ends past a capacity of `u64::MAX`.
            return Ok(());
        };
        let expected = expected.map(TryLockError::from);
        let tried = match extent.access {
            Access::Read => self.lock.raw.try_read(range.clone()).map(drop),
            Access::Upgradable => self.lock.raw.try_upgradable_read(range.clone()).map(drop),
            Access::Write => self.lock.raw.try_write(range.clone()).map(drop),
        };
        prop_assert_eq!(tried.err(), expected, "a try of {:?}", &range);
        let locked = self.lock.raw.write(range.clone()).map(drop);
        prop_assert_eq!(locked.err().map(Into::into), expected, "{:?}", range);
        Ok(())
    }

    fn several(&mut self, extents: [Extent; 3], blocking: bool) -> TestCaseResult {
        let batch = self.points.batch(self.lock, extents);
        let verdicts = batch
            .iter()
            .map(|&(span, how)| self.verdict(span, how, None));
        let verdict = verdicts.fold(Verdict::Succeeds, |all, one| match (all, one) {
            (Verdict::Fails, _) | (_, Verdict::Fails) => Verdict::Fails,
            (Verdict::Open, _) | (_, Verdict::Open) => Verdict::Open,
            _ => Verdict::Succeeds,
        });
        let taken = if blocking && verdict == Verdict::Succeeds {
            Hold::lock_all(self.lock, &batch).map_err(TryLockError::from)
        } else {
            Hold::try_lock_all(self.lock, &batch)
        };
        let (span, access) = batch[0];
        self.check(verdict, taken.is_ok(), "a batch", span, access)?;
        for hold in taken.into_iter().flatten() {
            self.push(State::Held(hold));
        }
        Ok(())
    }

    fn unlock(&mut self, pick: Pick) -> TestCaseResult {
        if let Some(i) = pick.among(&self.all, Entry::is_held)
            && let State::Held(hold) = self.all.remove(i).state
        {
            hold.release();
        }
        Ok(())
    }

    fn poll(&mut self, pick: Pick) -> TestCaseResult {
        match pick.among(&self.all, |entry| !entry.is_held()) {
            Some(i) => self.poll_at(i),
            None => Ok(()),
        }
    }

    fn poll_at(&mut self, i: usize) -> TestCaseResult {
        let (span, access) = (self.all[i].span, self.all[i].access);
        let verdict = match self.order {
            Order::Arrival if self.all[i].granted => Verdict::Succeeds,
            Order::Arrival => Verdict::Fails,
            Order::Bounded => self.verdict(span, access, Some(i)),
        };
        let State::Asked(asked) = &mut self.all[i].state else {
            return Ok(());
        };
        let hold = asked.poll().map_err(refused)?;
        self.check(verdict, hold.is_some(), "a poll", span, access)?;
        if let Some(hold) = hold {
            self.all[i].granted = true;
            self.all[i].state = State::Held(hold);
        }
        Ok(())
    }

    fn cancel(&mut self, pick: Pick) -> TestCaseResult {
        if let Some(i) = pick.among(&self.all, |entry| !entry.is_held())
            && let State::Asked(asked) = self.all.remove(i).state
        {
            asked.cancel();
        }
        Ok(())
    }

    /// Returns the index and the access of the hold that `pick` selects among those with a suitable
    /// access.
    fn held(&mut self, pick: Pick, suitable: impl Fn(Access) -> bool) -> Option<(usize, Access)> {
        let i = pick.among(&self.all, |e| e.is_held() && suitable(e.access))?;
        Some((i, self.all[i].access))
    }

    /// Changes the hold at `i`, and updates its entry.
    fn change<T>(&mut self, i: usize, change: impl FnOnce(&mut Hold<'a>) -> T) -> T {
        let entry = &mut self.all[i];
        let State::Held(hold) = &mut entry.state else {
            unreachable!("only holds were picked");
        };
        let result = change(hold);
        (entry.span, entry.access) = (hold.span(), hold.access());
        result
    }

    fn downgrade(&mut self, pick: Pick) -> TestCaseResult {
        if let Some((i, _)) = self.held(pick, |access| access != Access::Read) {
            self.change(i, Hold::downgrade);
        }
        Ok(())
    }

    fn upgrade(&mut self, pick: Pick, blocking: bool) -> TestCaseResult {
        let suitable = |access| match blocking {
            true => access == Access::Upgradable,
            false => access != Access::Write,
        };
        let Some((i, access)) = self.held(pick, suitable) else {
            return Ok(());
        };
        let span = self.all[i].span;
        let beside = |granted: bool| {
            let others = (self.all.iter().enumerate()).filter(|&(j, _)| j != i);
            let mut others = others.filter(|(_, e)| e.granted == granted);
            others.any(|(_, e)| self.lock.meet(e.span, span))
        };
        let verdict = if beside(true) {
            Verdict::Fails
        } else if self.order == Order::Bounded && beside(false) {
            Verdict::Open
        } else {
            Verdict::Succeeds
        };
        if !blocking {
            let worked = self.change(i, Hold::try_upgrade);
            return self.check(verdict, worked, "an upgrade", span, access);
        }
        if verdict == Verdict::Succeeds {
            self.change(i, Hold::upgrade);
        }
        Ok(())
    }

    fn shrink(&mut self, pick: Pick, a: u8, b: u8) -> TestCaseResult {
        if let Some((i, _)) = self.held(pick, |_| true) {
            let keep = self.points.part(self.all[i].span, a, b);
            self.change(i, |hold| hold.shrink(keep));
        }
        Ok(())
    }

    fn split(&mut self, pick: Pick, at: u8) -> TestCaseResult {
        if let Some((i, _)) = self.held(pick, |_| true) {
            let unit = self.lock.raw.granularity();
            if let Some(at) = self.points.cut(self.all[i].span, at, unit) {
                let high = self.change(i, |hold| hold.split(at));
                // The order of the list matters for requests only, so the new hold can go last.
                self.push(State::Held(high));
            }
        }
        Ok(())
    }

    /// Checks the wakeups after each operation. Under [`Order::Arrival`], first updates which
    /// requests are granted.
    fn settle(&mut self) -> TestCaseResult {
        match self.order {
            Order::Arrival => self.grant(),
            Order::Bounded => self.check_no_waiter_is_forgotten(),
        }
    }

    /// Grants requests in the order of arrival. Checks that the lock has woken each granted request
    /// once, and no other request.
    fn grant(&mut self) -> TestCaseResult {
        for i in 0..self.all.len() {
            let me = &self.all[i];
            // A holder blocks requests at any position in the list; a waiter blocks only later
            // ones.
            let blocks = |(j, other): (usize, &Entry<'_>)| {
                let before = other.granted || j < i;
                let (other, me) = ((other.span, other.access), (me.span, me.access));
                j != i && before && self.lock.conflict(other, me)
            };
            let granted = me.granted || !self.all.iter().enumerate().any(blocks);
            self.all[i].granted = granted;
            if let State::Asked(asked) = &self.all[i].state {
                let wakes = asked.wakes();
                prop_assert_eq!(wakes, usize::from(granted), "{:?}", asked);
            }
        }
        Ok(())
    }

    fn check_no_waiter_is_forgotten(&self) -> TestCaseResult {
        let (mut anybody, mut awake, mut held_up) = (false, false, false);
        for (i, entry) in self.all.iter().enumerate() {
            let State::Asked(asked) = &entry.state else {
                continue;
            };
            let verdict = self.verdict(entry.span, entry.access, Some(i));
            prop_assert!(
                verdict != Verdict::Succeeds || asked.is_woken(),
                "nothing blocks {:?}, yet it was not woken",
                asked
            );
            anybody = true;
            awake |= asked.is_woken();
            held_up |=
                verdict == Verdict::Fails || self.is_crowded(entry.span, entry.access, Some(i));
        }
        prop_assert!(
            !anybody || awake || held_up,
            "requests block only each other, yet none has been woken"
        );
        Ok(())
    }

    /// Releases every hold and polls every woken request, until no owner is left.
    fn end(&mut self) -> TestCaseResult {
        for _ in 0..PATIENCE {
            let ready = |entry: &Entry<'_>| match &entry.state {
                State::Held(_) => true,
                State::Asked(asked) => asked.is_woken(),
            };
            let Some(i) = self.all.iter().position(ready) else {
                break;
            };
            if self.all[i].is_held() {
                if let State::Held(hold) = self.all.remove(i).state {
                    hold.release();
                }
            } else {
                self.poll_at(i)?;
            }
            self.settle()?;
        }
        let left: Vec<_> = self.all.iter().map(|entry| &entry.state).collect();
        prop_assert!(left.is_empty(), "holds or requests are left: {:?}", left);
        let everything = crate::owner::span(0..self.lock.raw.capacity());
        let all = Hold::try_lock(self.lock, everything, Access::Write);
        prop_assert!(
            all.is_ok(),
            "nothing is held or requested, yet a try of the whole range fails"
        );
        all.into_iter().for_each(Hold::release);
        Ok(())
    }
}

fn refused(error: RangeError) -> TestCaseError {
    TestCaseError::fail(format!("the lock refused a valid range: {error}"))
}
