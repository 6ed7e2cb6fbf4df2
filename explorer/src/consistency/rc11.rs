//! RC11's condition: `psc` has no cycle (PLDI'17, section 3.3). A read-modify-write is two events
//! here, as it is there.

use crate::event::{Event, EventId, Kind};
use crate::graph::Graph;

/// A relation of the events of a graph: the targets of each source, as a set of bits.
#[derive(Clone)]
struct Relation(Vec<Vec<u64>>);

impl Relation {
    fn new(events: usize) -> Relation {
        Relation(vec![vec![0; events.div_ceil(64)]; events])
    }

    /// Returns the pairs for which `holds`.
    fn of(events: usize, holds: impl Fn(usize, usize) -> bool) -> Relation {
        let mut relation = Relation::new(events);
        for (from, row) in relation.0.iter_mut().enumerate() {
            let targets = (0..events).filter(|to| holds(from, *to));
            targets.for_each(|to| row[to / 64] |= 1 << (to % 64));
        }
        relation
    }

    fn has(&self, from: usize, to: usize) -> bool {
        self.0[from][to / 64] >> (to % 64) & 1 == 1
    }

    fn or(mut self, other: &Relation) -> Relation {
        for (row, others) in self.0.iter_mut().zip(&other.0) {
            row.iter_mut()
                .zip(others)
                .for_each(|(mine, its)| *mine |= its);
        }
        self
    }

    /// Returns `self; other`.
    fn then(&self, other: &Relation) -> Relation {
        let events = self.0.len();
        let mut both = Relation::new(events);
        for from in 0..events {
            for by in (0..events).filter(|by| self.has(from, *by)) {
                let (row, others) = (&mut both.0[from], &other.0[by]);
                row.iter_mut()
                    .zip(others)
                    .for_each(|(mine, its)| *mine |= its);
            }
        }
        both
    }

    fn closed(mut self) -> Relation {
        for by in 0..self.0.len() {
            let through = self.0[by].clone();
            for from in 0..self.0.len() {
                if self.has(from, by) {
                    let row = self.0[from].iter_mut().zip(&through);
                    row.for_each(|(mine, its)| *mine |= its);
                }
            }
        }
        self
    }
}

/// Returns whether `psc` has no cycle.
pub(super) fn is_acyclic(graph: &Graph) -> bool {
    // A choice is no event of the model: from an access to a choice, `po` would lead elsewhere.
    let is_event = |id: &EventId| {
        graph.event(*id).kind != Kind::Choice || mutant!("choices-are-events-of-the-model")
    };
    let ids: Vec<EventId> = graph.order().iter().copied().filter(is_event).collect();
    let events: Vec<&Event> = ids.iter().map(|id| graph.event(*id)).collect();
    let of = |holds: &dyn Fn(usize, usize) -> bool| Relation::of(ids.len(), holds);
    let is_access = |at: usize| matches!(events[at].kind, Kind::Read | Kind::Write);
    let same = |a: usize, b: usize| {
        is_access(a) && is_access(b) && events[a].location == events[b].location
    };
    let is_po = |a: usize, b: usize| ids[a].thread == ids[b].thread && ids[a].index < ids[b].index;

    let po = of(&is_po);
    let po_elsewhere = of(&|a, b| is_po(a, b) && !same(a, b));
    let hb = of(&|a, b| a != b && events[b].before.contains(ids[a]));
    let hb_here = of(&|a, b| a != b && same(a, b) && events[b].before.contains(ids[a]));
    let position = |at: usize| {
        let accesses = graph.accesses(events[at].location);
        let write = match events[at].kind {
            Kind::Write => ids[at],
            _ => events[at].reads_from,
        };
        accesses.position(write)
    };
    let is = |at: usize, kind: Kind| events[at].kind == kind;
    let co = of(&|a, b| {
        same(a, b) && is(a, Kind::Write) && is(b, Kind::Write) && position(a) < position(b)
    });
    let rb = of(&|a, b| {
        same(a, b) && is(a, Kind::Read) && is(b, Kind::Write) && position(a) < position(b)
    });
    let rf = of(&|a, b| is(b, Kind::Read) && events[b].reads_from == ids[a]);
    let eco = rf.or(&co).or(&rb).closed();

    let through_hb = po_elsewhere.then(&hb).then(&po_elsewhere);
    let scb = po.or(&through_hb).or(&hb_here).or(&co).or(&rb);
    let is_sc = |at: usize| events[at].is_seq_cst();
    let is_fence = |at: usize| is_sc(at) && is(at, Kind::Fence);
    let fence_then_hb = of(&|a, b| is_fence(a) && (a == b || hb.has(a, b)));
    let hb_then_fence = of(&|a, b| is_fence(b) && (a == b || hb.has(a, b)));
    let from = of(&|a, b| a == b && is_sc(a)).or(&fence_then_hb);
    let to = of(&|a, b| a == b && is_sc(a)).or(&hb_then_fence);
    let psc_base = from.then(&scb).then(&to);
    let hb_eco_hb = hb.then(&eco).then(&hb);
    let psc_f = of(&|a, b| is_fence(a) && is_fence(b) && (hb.has(a, b) || hb_eco_hb.has(a, b)));
    let psc = psc_base.or(&psc_f).closed();
    (0..ids.len()).all(|at| !psc.has(at, at))
}
