//! The sequential specification: a list of who holds what, and what may change it.
//!
//! A range lock is no register: most of what it does takes time, and its callers see that. So an operation is not one point between its call and its answer:
//!
//! - **A request** stands in the way of tries from its call until it is granted, when it becomes a hold; one that is given up, until it answers. (The contract: a try takes its span "if no
//!   conflicting hold or request stands in the way".)
//! - **Granted** is at one point, at which no hold conflicts; the same for an upgrade.
//! - **A try that fails** has a point at which something stood in its way: a hold that conflicts, its own thread's too, or another's request; or as many readers as have room.
//! - **An upgrade that fails** has a point at which somebody else held part of it. Requests do not count, but for one that is given up: it may be granted before its thread gives it up, and is a hold then.
//! - **A release**, a downgrade, a shrink has a point at which it takes effect.
//!
//! Where a lock takes ranges piece by piece ([`Rules::pieces`]), and only there: a release takes effect unit by unit; a request that has not been granted may hold units, so that an upgrade can fail for it;
//! and a try that will fail stands in the way while it lasts. ("Two tries at the same time may both fail", says `srl/src/lock.rs`.) Elsewhere a try that fails is in nobody's way.

use std::fmt;

use spanlock_range_lock::Access::{self, Read, Write};

use super::history::{Answer, THREADS};
use super::scenario::{Op, Place, Way};

/// What of the contract depends on the lock.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Units are positions; else each place is the whole.
    pub granular: bool,
    /// It takes a range piece by piece. If it is not granular, units are slots: of the whole, readers hold the one of their thread, others all.
    pub pieces: bool,
    /// So many readers have room in a unit.
    pub readers: usize,
}

const UNITS: usize = 2;

/// Of each unit, how it is held or wanted.
type Units = [Option<Access>; UNITS];

/// A hold: of each unit, how it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Hold {
    thread: usize,
    units: Units,
}

impl Hold {
    fn conflicts(&self, other: &Units) -> bool {
        let clash = |(a, b): (&Option<Access>, &Option<Access>)| matches!((a, b), (Some(a), Some(b)) if a.conflicts_with(*b));
        self.units.iter().zip(other).any(clash)
    }
}

/// What a thread is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Doing {
    #[default]
    Nothing,
    /// It has called, and this has not taken effect, or not everywhere.
    Called(Op, Answer),
    /// It has not answered.
    Settled(Op, Answer),
}

/// What holds at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// Those of a thread in the order in which it took them.
    holds: Vec<Hold>,
    doing: [Doing; THREADS],
}

impl Rules {
    fn units(self, thread: usize, place: Place, access: Access) -> Units {
        let is_wanted = |unit: usize| match place {
            _ if !self.granular && self.pieces => access != Read || unit == thread % UNITS,
            _ if !self.granular => unit == 0,
            Place::Low => unit == 0,
            Place::High => unit == 1,
            Place::Both => true,
        };
        std::array::from_fn(|unit| is_wanted(unit).then_some(access))
    }

    /// What an upgrade of that makes of it.
    fn upgraded(self, held: Units) -> Units {
        match !self.granular && self.pieces {
            true => [Some(Write); UNITS],
            false => held.map(|unit| unit.and(Some(Write))),
        }
    }
}

impl State {
    /// `thread` calls.
    pub fn call(&self, thread: usize, op: Op, answer: Answer) -> State {
        let mut next = self.clone();
        next.doing[thread] = Doing::Called(op, answer);
        next
    }

    /// `thread` answers, if it can.
    pub fn answer(&self, thread: usize) -> Option<State> {
        if !matches!(self.doing[thread], Doing::Settled(..)) {
            return None;
        }
        let mut next = self.clone();
        next.doing[thread] = Doing::Nothing;
        Some(next)
    }

    fn last(&self, thread: usize) -> Option<usize> {
        self.holds.iter().rposition(|hold| hold.thread == thread)
    }

    /// What may take effect next.
    pub fn effects(&self, rules: Rules) -> Vec<State> {
        let mut next = Vec::new();
        for thread in 0..THREADS {
            if let Doing::Called(op, answer) = self.doing[thread] {
                self.effects_of(thread, op, answer, rules, &mut next);
            }
        }
        next
    }

    fn effects_of(
        &self,
        thread: usize,
        op: Op,
        answer: Answer,
        rules: Rules,
        next: &mut Vec<State>,
    ) {
        let settled = || {
            let mut state = self.clone();
            state.doing[thread] = Doing::Settled(op, answer);
            state
        };
        let last = self.last(thread);
        match (op, answer) {
            (Op::Take(_, access, place), Answer::Done) => {
                let units = rules.units(thread, place, access);
                if !self.holds.iter().any(|hold| hold.conflicts(&units)) {
                    let mut state = settled();
                    let at = state.holds.partition_point(|hold| hold.thread <= thread);
                    state.holds.insert(at, Hold { thread, units });
                    next.push(state);
                }
            }
            (Op::Take(_, access, place), Answer::Busy) => {
                let units = rules.units(thread, place, access);
                if self.is_in_the_way(thread, &units, None, rules) {
                    next.push(settled());
                }
            }
            (Op::TryUpgrade | Op::Upgrade, _) => {
                let Some(last) = last else { return };
                let units = rules.upgraded(self.holds[last].units);
                if answer == Answer::Busy {
                    if self.is_in_the_way(thread, &units, Some(last), rules) {
                        next.push(settled());
                    }
                } else {
                    let is_alone = (self.holds.iter().enumerate())
                        .all(|(i, hold)| i == last || !hold.conflicts(&units));
                    if is_alone {
                        let mut state = settled();
                        state.holds[last].units = units;
                        next.push(state);
                    }
                }
            }
            (Op::Release, _) => self.weaken(thread, op, [None; UNITS], rules, next),
            (Op::Downgrade, _) => {
                let to = rules.units(thread, Place::Both, Read);
                self.weaken(thread, op, to, rules, next);
            }
            (Op::Shrink(keep), _) => {
                let Some(last) = last else { return };
                let kept = rules.units(thread, keep, Read);
                let held = self.holds[last].units;
                let to = std::array::from_fn(|i| kept[i].and(held[i]));
                self.weaken(thread, op, to, rules, next);
            }
        }
    }

    /// The last hold becomes `to`, where it is held: at once, or unit by unit.
    fn weaken(&self, thread: usize, op: Op, to: Units, rules: Rules, next: &mut Vec<State>) {
        let Some(last) = self.last(thread) else {
            return;
        };
        let held = self.holds[last].units;
        let to: Units = std::array::from_fn(|i| held[i].and(to[i]));
        let changes = (0..UNITS).filter(|&i| to[i] != held[i]);
        let steps: Vec<Units> = match rules.pieces && held != to {
            true => changes
                .map(|i| std::array::from_fn(|j| if i == j { to[j] } else { held[j] }))
                .collect(),
            false => vec![to],
        };
        for units in steps {
            let mut state = self.clone();
            state.holds[last].units = units;
            if units == to {
                state.doing[thread] = Doing::Settled(op, Answer::Done);
                if units == [None; UNITS] {
                    state.holds.remove(last);
                }
            }
            next.push(state);
        }
    }

    /// Whether something stands in the way of one who wants `units`, as an upgrade of a hold of its own if there is one: other holds, and such requests as count.
    fn is_in_the_way(
        &self,
        thread: usize,
        units: &Units,
        upgraded: Option<usize>,
        rules: Rules,
    ) -> bool {
        let holds = self.holds.iter().enumerate();
        let holds = holds
            .filter(|&(i, _)| Some(i) != upgraded)
            .map(|(_, &hold)| hold);
        let counts = |other: usize| upgraded.is_none() || rules.pieces || self.gives_up(other);
        let others = (0..THREADS).filter(|&other| other != thread && counts(other));
        let others = others.filter_map(|other| self.request(other, rules));
        let all: Vec<Hold> = holds.chain(others).collect();
        let is_full = |unit: usize| {
            let reads = |access: Option<Access>| access.is_some_and(|access| access != Write);
            let readers = all.iter().filter(|hold| reads(hold.units[unit])).count();
            reads(units[unit]) && readers >= rules.readers
        };
        all.iter().any(|hold| hold.conflicts(units)) || (0..UNITS).any(is_full)
    }

    /// Whether a thread has a request that it will give up. It may have been granted without knowing.
    fn gives_up(&self, thread: usize) -> bool {
        let (Doing::Called(op, answer) | Doing::Settled(op, answer)) = self.doing[thread] else {
            return false;
        };
        matches!(op, Op::Take(Way::Brief, ..)) && answer == Answer::Busy
    }

    /// What a thread asks for, as long as that stands in the way of others.
    fn request(&self, thread: usize, rules: Rules) -> Option<Hold> {
        let (op, fails) = match self.doing[thread] {
            Doing::Called(op, answer) => (op, answer == Answer::Busy),
            Doing::Settled(op, Answer::Busy) => (op, true),
            _ => return None,
        };
        let at_once = matches!(op, Op::Take(Way::Try, ..) | Op::TryUpgrade);
        if fails && at_once && !rules.pieces {
            return None;
        }
        let units = match op {
            Op::Take(_, access, place) => rules.units(thread, place, access),
            Op::TryUpgrade | Op::Upgrade => {
                let held = self.holds[self.last(thread)?].units;
                rules.upgraded(held)
            }
            _ => return None,
        };
        Some(Hold { thread, units })
    }

    /// Who holds what; empty: nobody anything.
    pub fn held(&self) -> String {
        let holds = self.holds.iter().map(Hold::to_string);
        holds.collect::<Vec<_>>().join(", ")
    }

    /// The operations that have been called and have not taken effect everywhere.
    pub fn open(&self) -> String {
        let open = (0..THREADS).filter_map(|thread| match self.doing[thread] {
            Doing::Called(op, _) => Some(format!("T{thread} {op}")),
            _ => None,
        });
        open.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.thread)?;
        let told = |access: &Access| format!("{access:?}").to_lowercase();
        match self.units {
            [Some(low), Some(high)] if low == high => write!(f, " {} 0..2", told(&low)),
            [low, high] => {
                if let Some(low) = low {
                    write!(f, " {} 0..1", told(&low))?;
                }
                if let Some(high) = high {
                    write!(f, " {} 1..2", told(&high))?;
                }
                Ok(())
            }
        }
    }
}
