//! The sequential specification: a list of holds, and the operations that may change it.
//!
//! Most operations of a range lock take time, and other callers can observe an unfinished
//! operation. So an operation may affect others at several points between its call and its answer:
//!
//! - **A request** blocks tries from its call until the lock grants it; then it becomes a hold. A
//!   cancelled request blocks tries until its call answers. (The contract says that a try acquires
//!   its span "unless a conflicting hold or request stands in the way".)
//! - **A grant** happens at one point, at which no hold conflicts with the request. The same is
//!   true of an upgrade that succeeds.
//! - **A try fails** only if it is blocked at some point. It can be blocked by a conflicting hold,
//!   even of its own thread, by another thread's request, or by the maximum number of readers.
//! - **An upgrade fails** only if another hold covers part of its range at some point. Another
//!   thread's request does not make the upgrade fail, unless that request is being cancelled. The
//!   lock may have granted it first, and until its cancellation it was then a hold.
//! - **A release**, a downgrade or a shrink takes effect at one point.
//!
//! Three rules differ for a lock that acquires ranges piece by piece ([`Rules::pieces`]):
//!
//! - A release, a downgrade or a shrink takes effect one unit at a time.
//! - A request that has not been granted may hold units, so it can make an upgrade fail.
//! - A try or an upgrade that will fail blocks others until it answers. "Two tries at the same time
//!   may both fail", says `srl/src/lock.rs`.

use std::fmt;

use spanlock_range_lock::Access::{self, Read, Write};
use spanlock_verify::oracles::linearizability::THREADS;

use super::Answer;
use super::scenario::{Op, Place, Way};

/// The parts of the contract that depend on the lock.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether each position is a unit. Otherwise every place is the whole lock.
    pub granular: bool,
    /// Whether the lock acquires a range piece by piece. If such a lock is not granular, its units
    /// are slots: a reader holds its own thread's slot, and an upgradable reader or a writer holds
    /// all slots.
    pub pieces: bool,
    /// The maximum number of readers that hold a unit at once.
    pub readers: usize,
}

const UNITS: usize = 2;

/// The access with which each unit is held or requested, if it is.
type Units = [Option<Access>; UNITS];

/// A thread's hold, with its access to each unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Hold {
    thread: usize,
    units: Units,
}

impl Hold {
    fn conflicts(&self, other: &Units) -> bool {
        let pairs = self.units.iter().zip(other);
        let mut held_and_wanted = pairs.filter_map(|(a, b)| a.zip(*b));
        held_and_wanted.any(|(a, b)| a.conflicts_with(b))
    }
}

/// The operation that a thread is performing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Doing {
    #[default]
    Nothing,
    /// The thread has called an operation that has not taken full effect.
    Called(Op, Answer),
    /// The operation has taken full effect and has not answered.
    Settled(Op, Answer),
}

/// The state of the specification at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// Sorted by thread, and each thread's holds in the order of acquisition.
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

    /// Returns the units of a hold after its upgrade.
    fn upgraded(self, held: Units) -> Units {
        match !self.granular && self.pieces {
            true => [Some(Write); UNITS],
            false => held.map(|unit| unit.and(Some(Write))),
        }
    }
}

impl State {
    /// Returns the state after `thread` has called `op`, which will answer `answer`.
    pub fn call(&self, thread: usize, op: Op, answer: Answer) -> State {
        let mut next = self.clone();
        next.doing[thread] = Doing::Called(op, answer);
        next
    }

    /// Returns the state after `thread` has received its answer, or `None` if its operation has not
    /// taken full effect.
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

    /// Returns each state that can follow when one called operation takes effect, in full or in
    /// part.
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
                if self.is_blocked(thread, &units, None, rules) {
                    next.push(settled());
                }
            }
            (Op::TryUpgrade | Op::Upgrade, _) => {
                let Some(last) = last else { return };
                let units = rules.upgraded(self.holds[last].units);
                if answer == Answer::Busy {
                    if self.is_blocked(thread, &units, Some(last), rules) {
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
            (Op::Release, _) => self.reduce(thread, op, [None; UNITS], rules, next),
            (Op::Downgrade, _) => {
                let to = rules.units(thread, Place::Both, Read);
                self.reduce(thread, op, to, rules, next);
            }
            (Op::Shrink(keep), _) => {
                let Some(last) = last else { return };
                let kept = rules.units(thread, keep, Read);
                let held = self.holds[last].units;
                let to = std::array::from_fn(|i| kept[i].and(held[i]));
                self.reduce(thread, op, to, rules, next);
            }
        }
    }

    /// Reduces the thread's last hold to the units and accesses in `to`, all at once or one unit at
    /// a time.
    fn reduce(&self, thread: usize, op: Op, to: Units, rules: Rules, next: &mut Vec<State>) {
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

    /// Returns whether a hold, another thread's request, or the maximum number of readers blocks a
    /// request of `thread` for `units`. If `upgraded` is given, the request upgrades that hold. In
    /// this case, another thread's request counts only if it may hold units.
    fn is_blocked(
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
        let counts = |other: usize| upgraded.is_none() || rules.pieces || self.will_cancel(other);
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

    /// Returns whether a thread has a request that it will cancel. The lock may grant the request
    /// before the thread cancels it.
    fn will_cancel(&self, thread: usize) -> bool {
        let (Doing::Called(op, answer) | Doing::Settled(op, answer)) = self.doing[thread] else {
            return false;
        };
        matches!(op, Op::Take(Way::Brief, ..)) && answer == Answer::Busy
    }

    /// If the thread has a request that blocks others, returns that request, represented as the
    /// hold it asks for.
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

    /// Describes each hold and its thread. The text is empty if there are no holds.
    pub fn held(&self) -> String {
        let holds = self.holds.iter().map(Hold::to_string);
        holds.collect::<Vec<_>>().join(", ")
    }

    /// Lists the operations that have been called but have not taken full effect.
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
