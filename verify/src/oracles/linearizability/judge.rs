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
//!
//! An execution graph may permit fewer orders than its history: an answer that comes before a call
//! of another thread may change what that thread can read. [`judge_permitted`] asks for each order.

use std::collections::{BTreeSet, HashSet};

use super::history::{End, History, THREADS};
use super::model::Model;

pub(super) type States<M> = BTreeSet<<M as Model>::State>;
pub(super) type HistoryOf<M> = History<<M as Model>::Op, <M as Model>::Answer>;

/// How many events of each thread the search has processed.
type Cut = [usize; THREADS];

/// What the search knows at a point: the states, and which answers come before which calls.
type Point<M> = (Cut, States<M>, Vec<(At, At)>);

/// An event: its thread, and its position there.
pub type At = (usize, usize);

/// Says whether each answer can come before the call that it is paired with, all at once.
pub type Permits<'a> = dyn Fn(&[(At, At)]) -> bool + 'a;

/// Checks that the specification explains every order that the history allows.
///
/// # Errors
/// Returns the first order without an explanation, as the thread of each event up to the one that
/// no state explains.
pub fn judge<M: Model>(history: &HistoryOf<M>, model: &M) -> Result<(), Vec<usize>> {
    search(history, model, None)
}

/// As [`judge`], for the orders that `permits` permits.
///
/// # Errors
/// As [`judge`].
pub fn judge_permitted<M: Model>(
    history: &HistoryOf<M>,
    model: &M,
    permits: &Permits<'_>,
) -> Result<(), Vec<usize>> {
    search(history, model, Some(permits))
}

fn search<M: Model>(
    history: &HistoryOf<M>,
    model: &M,
    permits: Option<&Permits<'_>>,
) -> Result<(), Vec<usize>> {
    let mut search = Search {
        history,
        model,
        permits,
        seen: HashSet::new(),
        order: Vec::new(),
    };
    match search.go([0; THREADS], BTreeSet::from([model.initial()]), &[]) {
        true => Ok(()),
        false => Err(search.order),
    }
}

struct Search<'a, M: Model> {
    history: &'a HistoryOf<M>,
    model: &'a M,
    permits: Option<&'a Permits<'a>>,
    seen: HashSet<Point<M>>,
    order: Vec<usize>,
}

impl<M: Model> Search<'_, M> {
    /// Whether every order from here on has an explanation. If not, `order` holds one without. The
    /// order so far puts the answers in `ordered` before the calls that they are paired with.
    fn go(&mut self, cut: Cut, states: States<M>, ordered: &[(At, At)]) -> bool {
        let mut next: Vec<usize> = (0..self.history.0.len())
            .filter(|&thread| self.is_next(cut, thread))
            .collect();
        // An order that is not permitted says nothing about those with a later answer.
        if self.permits.is_none() {
            let returns = |&thread: &usize| {
                let end = self.history.0[thread][cut[thread]].end;
                matches!(end, End::Return(..))
            };
            let first = next.iter().copied().find(|thread| returns(thread));
            next = first.map_or(next, |thread| vec![thread]);
        }
        if next.len() > 1 && !self.seen.insert((cut, states.clone(), ordered.to_vec())) {
            return true;
        }
        for thread in next {
            let end = self.history.0[thread][cut[thread]].end;
            let mut ordered = ordered.to_vec();
            if let (Some(permits), End::Return(..)) = (self.permits, end)
                && self.order_before_calls(cut, thread, &mut ordered)
                && !permits(&ordered)
            {
                continue;
            }
            self.order.push(thread);
            let after = step(self.model, &states, thread, end);
            let mut further = cut;
            further[thread] += 1;
            if after.is_empty() || !self.go(further, after, &ordered) {
                return false;
            }
            self.order.pop();
        }
        true
    }

    /// Puts the answer of this thread that comes next before the next call of each other thread.
    /// Returns whether that is not so anyway.
    fn order_before_calls(&self, cut: Cut, thread: usize, ordered: &mut Vec<(At, At)>) -> bool {
        let answer = (thread, cut[thread]);
        let mut is_new = false;
        for other in (0..self.history.0.len()).filter(|other| *other != thread) {
            let mut left = self.history.0[other].iter().enumerate().skip(cut[other]);
            let call = left.find(|(_, event)| matches!(event.end, End::Call(..)));
            let Some((at, call)) = call else { continue };
            if usize::from(call.after[thread]) <= answer.1 {
                // It comes after the earlier answers of this thread, too.
                ordered.retain(|((of, _), call)| *of != thread || *call != (other, at));
                ordered.push((answer, (other, at)));
                is_new = true;
            }
        }
        is_new
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
