//! The moments that any order of an execution's steps passes through, from one order.

use std::collections::HashSet;

use super::record::{Event, Found, Moment, Trace, What, lock};

/// The events of an execution, by thread.
struct Cuts<'a> {
    events: &'a [Event],
    /// For each thread, its events in order, as places in `events`.
    threads: Vec<Vec<usize>>,
    /// For each event: how many events of each thread must come before it.
    needs: Vec<Vec<usize>>,
    /// For each `End`, the place of its `Begin`.
    beginnings: Vec<Option<usize>>,
}

/// A cut: how many events of each thread it has, and the moment that they lead to.
#[derive(Clone)]
struct Cut {
    many: Vec<usize>,
    moment: Moment,
    /// The places of the beginnings, in the order in which they were added.
    begun: Vec<usize>,
}

/// Records the images of all cuts of an execution that began at `start`.
///
/// Only cuts to which no tightening event can be added are recorded: they have all images and all
/// conditions of the cuts with the same loosening events (see the module above).
pub(super) fn record(
    start: &Moment,
    trace: &Trace,
    comes_before: &dyn Fn(u32, u32) -> bool,
    found: &mut Found,
) {
    let events = lock(trace).clone();
    let cuts = Cuts::of(&events, comes_before);
    let mut first = Cut {
        many: vec![0; cuts.threads.len()],
        moment: start.clone(),
        begun: Vec::new(),
    };
    cuts.tighten(&mut first);
    let mut seen = HashSet::from([first.many.clone()]);
    let mut left = vec![first];
    while let Some(cut) = left.pop() {
        // A trace in the order of the cut, for reports.
        let own: Trace = Trace::default();
        let inside = |at: &usize| {
            let thread = cuts.threads.iter().position(|its| its.contains(at));
            thread.is_some_and(|thread| {
                cuts.threads[thread].iter().position(|it| it == at) < Some(cut.many[thread])
            })
        };
        lock(&own).extend(
            (0..events.len())
                .filter(inside)
                .map(|at| events[at].clone()),
        );
        let len = lock(&own).len();
        found.record(&cut.moment, &own, len);
        for thread in 0..cuts.threads.len() {
            if cuts.next(&cut, thread).is_some() {
                let mut more = cut.clone();
                cuts.add(&mut more, thread);
                cuts.tighten(&mut more);
                if seen.insert(more.many.clone()) {
                    left.push(more);
                }
            }
        }
    }
}

impl<'a> Cuts<'a> {
    fn of(events: &'a [Event], comes_before: &dyn Fn(u32, u32) -> bool) -> Self {
        let many = events.iter().map(|it| it.thread + 1).max().unwrap_or(0);
        let of = |thread| {
            let its = (0..events.len()).filter(move |&at: &usize| events[at].thread == thread);
            its.collect::<Vec<_>>()
        };
        let threads: Vec<Vec<usize>> = (0..many).map(of).collect();
        let need = |event: &Event| {
            let count = |its: &Vec<usize>| {
                // A thread's own events come in order; those of one step, too.
                its.iter()
                    .take_while(|&&at| {
                        let other = &events[at];
                        other.thread != event.thread && comes_before(other.step, event.step)
                    })
                    .count()
            };
            threads.iter().map(count).collect()
        };
        let needs = events.iter().map(need).collect();
        let mut begun = Vec::new();
        let mut beginnings = Vec::new();
        for (at, event) in events.iter().enumerate() {
            if let What::Begin { .. } = event.what {
                begun.push(at);
            }
            beginnings.push(match event.what {
                What::End { begun: number, .. } => Some(begun[number]),
                _ => None,
            });
        }
        Cuts {
            events,
            threads,
            needs,
            beginnings,
        }
    }

    /// Returns the next event of a thread, if the cut has all that must come before it.
    fn next(&self, cut: &Cut, thread: usize) -> Option<usize> {
        let at = *self.threads[thread].get(cut.many[thread])?;
        let mut both = self.needs[at].iter().zip(&cut.many);
        both.all(|(need, many)| need <= many).then_some(at)
    }

    /// Adds the next event of a thread.
    fn add(&self, cut: &mut Cut, thread: usize) {
        let at = self.threads[thread][cut.many[thread]];
        cut.many[thread] += 1;
        if let What::Begin { .. } = self.events[at].what {
            cut.begun.push(at);
        }
        let begun = self.beginnings[at];
        let begun = begun.and_then(|begun| cut.begun.iter().position(|&it| it == begun));
        cut.moment.apply(&self.events[at], begun.unwrap_or(0));
    }

    /// Adds all tightening events that can be added.
    fn tighten(&self, cut: &mut Cut) {
        loop {
            let tightens = |&thread: &usize| {
                let next = self.next(cut, thread);
                next.is_some_and(|at| !self.events[at].what.loosens())
            };
            let Some(thread) = (0..self.threads.len()).find(tightens) else {
                return;
            };
            self.add(cut, thread);
        }
    }
}
