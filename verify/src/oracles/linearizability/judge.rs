//! Decides whether the specification explains a history.
//!
//! This is the search of Wing and Gong ("Testing and verifying concurrent objects", JPDC 1993,
//! [DOI](https://doi.org/10.1006/jpdc.1993.1015)). As Lowe proposed, it remembers visited states.
//! It processes the events in order, and keeps the set of *all* possible states after each event.
//! If the set becomes empty, the history has no explanation.
//!
//! A history allows several orders of its events ([`super::history`]), and each of them must have
//! an explanation. Moving an answer earlier or a call later can only rule explanations out. So the
//! search takes each answer as early as possible, and tries only the orders of calls.

use std::collections::{BTreeSet, HashSet};

use super::history::{End, History, THREADS};
use super::model::Model;

pub(super) type States<M> = BTreeSet<<M as Model>::State>;
pub(super) type HistoryOf<M> = History<<M as Model>::Op, <M as Model>::Answer>;

/// How many events of each thread the search has processed.
type Cut = [usize; THREADS];

/// Checks that the specification explains every order that the history allows.
///
/// # Errors
/// Returns the first order without an explanation, as the thread of each event up to the one that
/// no state explains.
pub fn judge<M: Model>(history: &HistoryOf<M>, model: &M) -> Result<(), Vec<usize>> {
    let mut search = Search {
        history,
        model,
        seen: HashSet::new(),
        order: Vec::new(),
    };
    match search.go([0; THREADS], BTreeSet::from([model.initial()])) {
        true => Ok(()),
        false => Err(search.order),
    }
}

struct Search<'a, M: Model> {
    history: &'a HistoryOf<M>,
    model: &'a M,
    seen: HashSet<(Cut, States<M>)>,
    order: Vec<usize>,
}

impl<M: Model> Search<'_, M> {
    /// Whether every order from here on has an explanation. If not, `order` holds one without.
    fn go(&mut self, cut: Cut, states: States<M>) -> bool {
        let next: Vec<usize> = (0..self.history.0.len())
            .filter(|&thread| self.is_next(cut, thread))
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
            let after = step(self.model, &states, thread, end);
            let mut further = cut;
            further[thread] += 1;
            if after.is_empty() || !self.go(further, after) {
                return false;
            }
            self.order.pop();
        }
        true
    }

    fn is_next(&self, cut: Cut, thread: usize) -> bool {
        let event = self.history.0[thread].get(cut[thread]);
        event.is_some_and(|event| {
            let needs = event.after.iter().map(|&n| usize::from(n));
            needs.zip(cut).all(|(needed, been)| needed <= been)
        })
    }
}

/// Returns the possible states after an event of `thread`.
pub(super) fn step<M: Model>(
    model: &M,
    states: &States<M>,
    thread: usize,
    end: End<M::Op, M::Answer>,
) -> States<M> {
    match end {
        End::Call(op, answer) => {
            let called = states.iter();
            called
                .map(|it| model.call(it, thread, op, answer))
                .collect()
        }
        End::Return(..) => {
            let states = closed(model, states);
            let answered = states.iter();
            answered.filter_map(|it| model.answer(it, thread)).collect()
        }
    }
}

/// Returns `states`, and all states that follow as called operations take effect.
pub(super) fn closed<M: Model>(model: &M, states: &States<M>) -> States<M> {
    let mut all = states.clone();
    let mut new: Vec<M::State> = states.iter().cloned().collect();
    while let Some(state) = new.pop() {
        for next in model.effects(&state) {
            if all.insert(next.clone()) {
                new.push(next);
            }
        }
    }
    all
}
