//! Whether a history can be explained by the specification.
//!
//! The search of Wing and Gong ("Testing and verifying concurrent objects", JPDC 1993, [DOI](https://doi.org/10.1006/jpdc.1993.1015)), with the states that have been seen kept, as Lowe has it; run along
//! the history: after each event we have *all* states in which the lock may be, and there is no explanation when none is left.
//!
//! A history leaves some of the order of its events open ([`super::history`]), and each order that it allows must have an explanation. An answer that comes earlier and a
//! call that comes later make that harder, never easier: so answers come as soon as they can, and only the order of calls is tried.

use std::collections::{BTreeSet, HashSet};

use super::history::{End, History, THREADS};
use super::spec::{Rules, State};

/// An order of a history's events, by thread, that has no explanation: after the last of them, or before if that is so from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexplained {
    /// Whose event comes next, each time.
    pub order: Vec<usize>,
}

type States = BTreeSet<State>;

/// How many events of each thread have been.
type Cut = [usize; THREADS];

/// Looks for an order that the history allows and the specification does not.
///
/// # Errors
/// The first that was found.
pub fn judge(history: &History, rules: Rules) -> Result<(), Unexplained> {
    let mut search = Search {
        history,
        rules,
        seen: HashSet::new(),
        order: Vec::new(),
    };
    match search.go([0; THREADS], States::from([State::default()])) {
        true => Ok(()),
        false => Err(Unexplained {
            order: search.order,
        }),
    }
}

struct Search<'a> {
    history: &'a History,
    rules: Rules,
    seen: HashSet<(Cut, States)>,
    order: Vec<usize>,
}

impl Search<'_> {
    /// Whether every order from here on has an explanation; if not, `order` is left as the one that has none.
    fn go(&mut self, cut: Cut, states: States) -> bool {
        let next: Vec<usize> = (0..self.history.0.len())
            .filter(|&thread| is_next(self.history, cut, thread))
            .collect();
        let returns = |&thread: &usize| {
            let end = self.history.0[thread][cut[thread]].end;
            matches!(end, End::Return(..))
        };
        let first = next.iter().copied().find(|thread| returns(thread));
        let next = first.map_or(next, |thread| vec![thread]);
        if next.len() > 1 && !self.seen.insert((cut, states.clone())) {
            return true;
        }
        for thread in next {
            self.order.push(thread);
            let end = self.history.0[thread][cut[thread]].end;
            let after = step(&states, thread, end, self.rules);
            let mut further = cut;
            further[thread] += 1;
            if after.is_empty() || !self.go(further, after) {
                return false;
            }
            self.order.pop();
        }
        true
    }
}

fn is_next(history: &History, cut: Cut, thread: usize) -> bool {
    let event = history.0[thread].get(cut[thread]);
    event.is_some_and(|event| {
        let needs = event.after.iter().map(|&n| usize::from(n));
        needs.zip(cut).all(|(needed, been)| needed <= been)
    })
}

/// The states after an event of `thread`.
pub fn step(states: &States, thread: usize, end: End, rules: Rules) -> States {
    match end {
        End::Call(op, answer) => {
            let called = states.iter().map(|state| state.call(thread, op, answer));
            called.collect()
        }
        End::Return(..) => {
            let states = closed(states, rules);
            let answered = states.iter().filter_map(|state| state.answer(thread));
            answered.collect()
        }
    }
}

/// The states, and those in which what was called has taken effect.
pub fn closed(states: &States, rules: Rules) -> States {
    let mut all = states.clone();
    let mut new: Vec<State> = states.iter().cloned().collect();
    while let Some(state) = new.pop() {
        for next in state.effects(rules) {
            if all.insert(next.clone()) {
                new.push(next);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
