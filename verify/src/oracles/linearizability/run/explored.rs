//! The executions of a scenario under the explorer.

use std::collections::HashSet;
use std::sync::Arc;

use spanlock_explorer::{End, Graph, Model as MemoryModel, Moment, Observer, Search, Verdict};

use super::super::history::Recorder;
use super::super::judge::{At, HistoryOf, judge, judge_permitted};
use super::super::model::Model;
use super::subject::{Shown, Subject};
use crate::trace;

/// Searches every execution.
///
/// # Errors
/// The message of an execution that fails.
pub(super) fn search<M: Model>(
    subject: &Subject<M>,
    recorder: &Recorder<M::Op, M::Answer>,
    body: impl Fn() + Send + Sync + 'static,
) -> Result<Shown<M>, String> {
    let mut histories = Histories {
        model: &subject.model,
        recorder,
        explained: HashSet::new(),
        others: 0,
        wrong: None,
    };
    let report = Search::new().explore(&mut histories, body);
    trace::found().executions += report.counts.executions;
    match report.verdict {
        Verdict::Failed(failure) => Err(failure.message),
        _ => Ok((
            histories.explained.len() as u64 + histories.others,
            histories.wrong,
        )),
    }
}

/// Judges the history of each execution.
struct Histories<'a, M: Model> {
    model: &'a Arc<M>,
    recorder: &'a Recorder<M::Op, M::Answer>,
    /// The histories of which every order has an explanation.
    explained: HashSet<HistoryOf<M>>,
    /// How many others there are, whose executions do not permit every order.
    others: u64,
    wrong: Option<(HistoryOf<M>, Vec<usize>)>,
}

impl<M: Model> Observer for Histories<'_, M> {
    fn ended(&mut self, graph: &Graph, end: End) {
        if end != End::Complete || self.wrong.is_some() {
            return;
        }
        let moment = Moment::from_bits;
        let is_before = |a, b| graph.is_before(moment(a), moment(b));
        let (history, places) = self.recorder.history(&is_before);
        if self.explained.contains(&history) {
            return;
        }
        if judge(&history, &**self.model).is_ok() {
            self.explained.insert(history);
            return;
        }
        let place = |(thread, nth): At| moment(places[thread][nth]);
        let permits = |ordered: &[(At, At)]| {
            let ordered = ordered.iter().map(|(a, b)| (place(*a), place(*b)));
            let ordered = ordered.collect::<Vec<_>>();
            graph.with_order(&ordered, MemoryModel::Cpp20).is_some()
        };
        let judged = judge_permitted(&history, &**self.model, &permits);
        self.others += 1;
        self.wrong = judged.err().map(|order| (history, order));
    }
}
