//! The moments that any order of an execution's steps passes through, from one order.

use std::collections::{BTreeSet, HashSet};

use super::cache::Act;
use super::record::{Event, Found, Moment, Trace, What, lock};
use super::{ComesBefore, WithOrder};

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

/// Records the images of all cuts of an execution that began at `start`, in each order of the
/// operations that the execution permits.
pub(super) fn record(
    start: &Moment,
    trace: &Trace,
    comes_before: &ComesBefore<'_>,
    with_order: &WithOrder<'_>,
    found: &mut Found,
) {
    let events = lock(trace).clone();
    record_order(start, &events, comes_before, found);
    for order in Cuts::of(&events, comes_before).orders() {
        if let Some(comes_before) = with_order(&order) {
            record_order(start, &events, &*comes_before, found);
        }
    }
}

/// Records the images of all cuts in one order of the operations.
///
/// Only cuts to which no tightening event can be added are recorded: they have all images and all
/// conditions of the cuts with the same loosening events (see the module above).
fn record_order(
    start: &Moment,
    events: &[Event],
    comes_before: &ComesBefore<'_>,
    found: &mut Found,
) {
    let cuts = Cuts::of(events, comes_before);
    cuts.assert_units_are_ordered();
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
        let begun_places = cut.begun.clone();
        let begun = self.beginnings[at];
        let begun = begun.and_then(|begun| cut.begun.iter().position(|&it| it == begun));
        let is_before = |number: usize| self.is_ended_before(begun_places[number], at);
        let event = &self.events[at];
        cut.moment.apply(event, begun.unwrap_or(0), is_before);
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

    /// Whether the operation that begins at one place ends before the event at another.
    fn is_ended_before(&self, begun: usize, at: usize) -> bool {
        let end = self.beginnings.iter().position(|it| *it == Some(begun));
        end.is_some_and(|end| self.is_before(end, at))
    }

    /// Whether the event at one place comes before that at another.
    fn is_before(&self, one: usize, other: usize) -> bool {
        let thread = self.events[one].thread;
        match thread == self.events[other].thread {
            true => one < other,
            false => {
                let its = &self.threads[thread][..self.needs[other][thread]];
                its.contains(&one)
            }
        }
    }

    /// A flush covers the stores that come before it. Which these are, must not depend on the order
    /// of stores that have none.
    fn assert_units_are_ordered(&self) {
        let units = |at: usize| match &self.events[at].what {
            What::Act(Act::Store(stores)) => stores.iter().map(|(unit, _)| *unit).collect(),
            _ => Vec::new(),
        };
        for one in 0..self.events.len() {
            for other in one + 1..self.events.len() {
                let is_shared = || units(one).iter().any(|unit| units(other).contains(unit));
                let is_ordered = || self.is_before(one, other) || self.is_before(other, one);
                assert!(
                    self.events[one].thread == self.events[other].thread
                        || !is_shared()
                        || is_ordered(),
                    "the stores at {} and {} are to one unit of the medium, and have no order",
                    self.events[one].place,
                    self.events[other].place
                );
            }
        }
    }

    /// Returns the orders that operations may have beside that of the events: in each, some
    /// operations end before others begin. As steps, the end first.
    fn orders(&self) -> BTreeSet<Vec<(u32, u32)>> {
        let mut orders = BTreeSet::new();
        let marks = self.threads.iter().map(|its| {
            let is_mark = |at: &usize| !matches!(self.events[*at].what, What::Act(_));
            its.iter().copied().filter(is_mark).collect::<Vec<_>>()
        });
        let marks = marks.collect::<Vec<_>>();
        let mut left = vec![(vec![0; marks.len()], Vec::new())];
        let mut seen = HashSet::new();
        while let Some((many, order)) = left.pop() {
            if !seen.insert((many.clone(), order.clone())) {
                continue;
            }
            let mut is_last = true;
            for thread in 0..marks.len() {
                let Some(&at) = marks[thread].get(many[thread]) else {
                    continue;
                };
                is_last = false;
                let (mut many, mut order) = (many.clone(), order.clone());
                if let What::Begin { .. } = self.events[at].what {
                    for other in (0..marks.len()).filter(|other| *other != thread) {
                        let before = &marks[other][..many[other]];
                        let is_end = |at: &&usize| self.beginnings[**at].is_some();
                        let ended = before.iter().rev().find(is_end);
                        let new = ended.filter(|end| !self.is_before(**end, at));
                        order.extend(new.map(|end| (self.events[*end].step, self.events[at].step)));
                    }
                }
                many[thread] += 1;
                left.push((many, order));
            }
            if is_last && !order.is_empty() {
                orders.insert(order);
            }
        }
        orders
    }
}
