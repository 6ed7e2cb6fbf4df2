//! Whether a graph is consistent: an execution that the memory model permits.
//!
//! Most of the model holds by construction, because an event is only ever added in a way that
//! [`coherence`](crate::coherence) permits. What is left is the order of SeqCst operations, on
//! which the two [models](Model) differ. Neither permits a cycle of `po ∪ rf`, so load buffering
//! is excluded.

mod cpp20;
mod rc11;

use crate::event::{Event, EventId, Kind};
use crate::graph::Graph;
use crate::moment::Moment;

/// What SeqCst means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Model {
    /// C++20, which Rust has adopted: a total order S of all SeqCst operations, by
    /// [atomics.order]/3 and /4.
    #[default]
    Cpp20,
    /// `psc` is acyclic, as in RC11 (Lahav, Vafeiadis, Kang, Hur and Dreyer, PLDI'17, section 3.3).
    /// It permits a little more than C++20. Release sequences are those of C++20.
    Rc11,
}

/// Returns whether a moment comes before itself, by these pairs and the order of each thread.
fn has_cycle(ordered: &[(Moment, Moment)]) -> bool {
    let follows = |(_, at): &(Moment, Moment), (from, _): &(Moment, Moment)| {
        from.thread == at.thread && from.events >= at.events
    };
    let mut left: Vec<&(Moment, Moment)> = ordered.iter().collect();
    // A pair that no other one follows is in no cycle.
    loop {
        let before = left.len();
        let kept = left.clone();
        left.retain(|pair| kept.iter().any(|next| follows(pair, next)));
        if left.len() == before {
            return !left.is_empty();
        }
    }
}

impl Graph {
    /// Returns whether the SeqCst operations can be ordered as the model demands.
    pub(crate) fn is_consistent(&self, model: Model) -> bool {
        let is_used = |thread: &usize| self.events(*thread).iter().any(|it| it.is_seq_cst());
        // Program order orders the operations of one thread.
        if (0..self.threads()).filter(is_used).count() < 2 {
            return true;
        }
        match model {
            Model::Cpp20 => cpp20::has_total_order(self),
            Model::Rc11 => rc11::is_acyclic(self),
        }
    }

    /// Returns the same execution, in which each first moment also happens before the second, or
    /// `None` if the model does not permit that: as if a thread had told another one something that
    /// is no event, the time for example.
    ///
    /// A moment is one point: if it comes after one moment and before another, these two are
    /// ordered, too. [`Moment::begin`] tells two points apart.
    pub fn with_order(&self, ordered: &[(Moment, Moment)], model: Model) -> Option<Graph> {
        if has_cycle(ordered) {
            return None;
        }
        let mut graph = self.clone();
        graph.ordered = ordered.to_vec();
        (graph.derive_all() && graph.is_consistent(model)).then_some(graph)
    }

    /// Derives the clocks of all events anew. Returns whether happens-before has no cycle, and
    /// every access is where coherence permits it.
    pub(crate) fn derive_all(&mut self) -> bool {
        let mut past = vec![0; self.threads()];
        for _ in 0..self.order().len() {
            let is_next = |thread: &usize| self.can_be_next(*thread, &past);
            let Some(thread) = (0..self.threads()).find(is_next) else {
                return false;
            };
            let id = EventId::new(thread, past[thread]);
            let mut event = *self.event(id);
            self.derive(thread, past[thread], &mut event);
            *self.event_mut(id) = event;
            past[thread] += 1;
            if !self.is_coherent(id, &event) {
                return false;
            }
        }
        true
    }

    /// Returns whether all that causes the next event of a thread is among the first events of each
    /// thread.
    fn can_be_next(&self, thread: usize, past: &[usize]) -> bool {
        let index = past[thread];
        let Some(event) = self.events(thread).get(index) else {
            return false;
        };
        let is_past = |id: EventId| id.is_initial() || past[id.thread as usize] > id.index as usize;
        let is_joined = event.kind != Kind::Join
            || past[event.value as usize] == self.events(event.value as usize).len();
        let now = Moment {
            thread,
            events: index,
        };
        let mut ordered = self.ordered.iter().filter(|(_, later)| *later == now);
        is_joined
            && (index > 0 || is_past(self.spawned_by(thread)))
            && is_past(event.reads_from)
            && ordered.all(|(earlier, _)| {
                // A thread has no moments before its start.
                past[earlier.thread] >= earlier.events && is_past(self.spawned_by(earlier.thread))
            })
    }

    /// Returns whether the event reads from, or stands after, no older write than
    /// [`floor`](Self::floor) says.
    fn is_coherent(&self, id: EventId, event: &Event) -> bool {
        let accesses = self.accesses(event.location);
        let floor = self.floor(event.location, &event.before);
        match event.kind {
            Kind::Read => accesses.position(event.reads_from) >= floor,
            Kind::Write => accesses.position(id) > floor,
            _ => true,
        }
    }
}
