//! The candidate executions of a program: all paths of its threads, all sources of their reads,
//! all orders of their writes.
//!
//! Three kinds of candidates are left out at once, because no model permits them: those where
//! `po ∪ rf` has a cycle; where another write is between a read-modify-write and its source; and
//! where two writes of a location are not in the order in which one happens before the other.

use core::iter;

use super::{Candidate, Events, acquires, releases, synchronizes_with};
use crate::Ordering::{self, SeqCst};
use crate::tests::execution::{Did, Execution, Executions, Place, Values};
use crate::tests::program::{Operation, Program, Statement};
use crate::tests::relation::{EVENTS, Relation, Set};

/// Returns the candidates that are `permitted` and in which every read finds the value that its
/// thread's path assumes. A thread that does not end waits, and has read the newest value.
pub(super) fn those(program: &Program, permitted: &dyn Fn(&Candidate) -> bool) -> Executions {
    let mut found = Executions::default();
    let threads: Vec<Vec<Path>> = program.threads.iter().map(|it| paths(it)).collect();
    let mut chosen = vec![0; threads.len()];
    loop {
        let paths = chosen
            .iter()
            .zip(&threads)
            .map(|(&path, thread)| &thread[path]);
        let mut search = Search::new(paths.collect(), program.locations(), permitted, &mut found);
        search.sources(0, &search.events.po.clone());
        // The next combination: the paths are the digits of a number.
        let mut thread = 0;
        while thread < threads.len() && chosen[thread] + 1 == threads[thread].len() {
            chosen[thread] = 0;
            thread += 1;
        }
        match chosen.get_mut(thread) {
            Some(path) => *path += 1,
            None => return found,
        }
    }
}

/// What a thread does if its choices and the outcomes of its conditions are given.
#[derive(Clone, Default)]
struct Path {
    events: Vec<Event>,
    /// What the statements do. Their sources are still open.
    did: Vec<Did>,
}

#[derive(Clone, Copy)]
struct Event {
    statement: usize,
    location: Option<usize>,
    ordering: Ordering,
    reads: Option<Finds>,
    writes: Option<Writes>,
}

/// The value that a path assumes.
#[derive(Clone, Copy)]
enum Finds {
    Any,
    Only(u64),
    AnyBut(u64),
}

impl Finds {
    fn accepts(self, value: u64) -> bool {
        match self {
            Finds::Any => true,
            Finds::Only(only) => value == only,
            Finds::AnyBut(not) => value != not,
        }
    }
}

#[derive(Clone, Copy)]
enum Writes {
    Value(u64),
    /// The value that the event reads, plus 1.
    Successor,
}

fn paths(statements: &[Statement]) -> Vec<Path> {
    let mut ended = Vec::new();
    let mut running = vec![Path::default()];
    for (
        index,
        &Statement {
            operation,
            optional,
        },
    ) in statements.iter().enumerate()
    {
        let mut next = Vec::new();
        for path in running {
            if optional {
                let mut skips = path.clone();
                skips.did.push(Did::Skipped);
                next.push(skips);
            }
            for (event, did) in ways(index, operation) {
                let mut takes = path.clone();
                takes.events.push(event);
                takes.did.push(did);
                if matches!(did, Did::Blocked(_)) {
                    &mut ended
                } else {
                    &mut next
                }
                .push(takes);
            }
        }
        running = next;
    }
    ended.extend(running);
    ended
}

/// The ways in which an operation may go.
fn ways(statement: usize, operation: Operation) -> Vec<(Event, Did)> {
    use Finds::{Any, AnyBut, Only};
    let event = |location, ordering, reads, writes| {
        let did = match (reads, writes) {
            (None, None) => Did::Fenced,
            (None, Some(_)) => Did::Stored,
            (Some(_), None) => Did::Read(None),
            (Some(_), Some(_)) => Did::Updated(None),
        };
        (
            Event {
                statement,
                location,
                ordering,
                reads,
                writes,
            },
            did,
        )
    };
    let read = |at, ordering, finds| event(Some(at), ordering, Some(finds), None);
    let update = |at, ordering, finds, writes| event(Some(at), ordering, Some(finds), Some(writes));
    let blocked = |(event, _)| (event, Did::Blocked(None));
    match operation {
        Operation::Load(at, ordering) => vec![read(at, ordering, Any)],
        Operation::Store(at, value, ordering) => {
            vec![event(Some(at), ordering, None, Some(Writes::Value(value)))]
        }
        Operation::Add(at, ordering) => vec![update(at, ordering, Any, Writes::Successor)],
        Operation::CompareExchange(at, current, new, success, failure) => vec![
            update(at, success, Only(current), Writes::Value(new)),
            read(at, failure, AnyBut(current)),
        ],
        Operation::Wait(at, ordering) => {
            vec![
                read(at, ordering, AnyBut(0)),
                blocked(read(at, ordering, Only(0))),
            ]
        }
        Operation::Lock(at, current, new, ordering) => vec![
            update(at, ordering, Only(current), Writes::Value(new)),
            blocked(read(at, ordering, AnyBut(current))),
        ],
        Operation::Fence(ordering) => vec![event(None, ordering, None, None)],
    }
}

/// The candidates with given paths.
struct Search<'a> {
    paths: Vec<&'a Path>,
    /// The events of all threads, with the number of the thread.
    all: Vec<(usize, Event)>,
    events: Events,
    blocked: Set,
    /// For each event that reads, the write whose value it reads; `None` is the initial value.
    source: Vec<Option<usize>>,
    /// The modification order of each location, as far as it is chosen.
    order: Vec<Vec<usize>>,
    permitted: &'a dyn Fn(&Candidate) -> bool,
    found: &'a mut Executions,
}

impl<'a> Search<'a> {
    fn new(
        paths: Vec<&'a Path>,
        locations: usize,
        permitted: &'a dyn Fn(&Candidate) -> bool,
        found: &'a mut Executions,
    ) -> Search<'a> {
        let numbered = paths.iter().enumerate();
        let all: Vec<(usize, Event)> = numbered
            .flat_map(|(thread, path)| path.events.iter().map(move |it| (thread, *it)))
            .collect();
        assert!(all.len() <= EVENTS, "a program too large for the axioms");
        let set = |has: &dyn Fn(&Event) -> bool| {
            Set::of((0..all.len()).filter(|&event| has(&all[event].1)))
        };
        let pairs = |related: &dyn Fn(usize, usize) -> bool| {
            let mut relation = Relation::default();
            for from in 0..all.len() {
                (0..all.len())
                    .filter(|&to| related(from, to))
                    .for_each(|to| relation.insert(from, to));
            }
            relation
        };
        let events = Events {
            reads: set(&|it| it.reads.is_some()),
            writes: set(&|it| it.writes.is_some()),
            fences: set(&|it| it.location.is_none()),
            acquire: set(&|it| acquires(it.ordering)),
            release: set(&|it| releases(it.ordering)),
            seq_cst: set(&|it| it.ordering == SeqCst),
            po: pairs(&|from, to| from < to && all[from].0 == all[to].0),
            same_location: pairs(&|from, to| {
                all[from].1.location.is_some() && all[from].1.location == all[to].1.location
            }),
        };
        let blocked = Set::of((0..all.len()).filter(|&event| {
            let (thread, Event { statement, .. }) = all[event];
            matches!(paths[thread].did[statement], Did::Blocked(_))
        }));
        let (source, order) = (vec![None; all.len()], vec![Vec::new(); locations]);
        Search {
            paths,
            all,
            events,
            blocked,
            source,
            order,
            permitted,
            found,
        }
    }

    /// Chooses the sources of the events from number `first` on. `before` is `(po ∪ rf)⁺`.
    fn sources(&mut self, first: usize, before: &Relation) {
        let Some(read) = (first..self.all.len()).find(|&it| self.events.reads.contains(it)) else {
            return self.with_sources();
        };
        let Events {
            reads,
            writes,
            same_location,
            ..
        } = &self.events;
        let here = Set::of((0..self.all.len()).filter(|&it| same_location.contains(read, it)));
        let sources = iter::once(None).chain((*writes & here).iter().map(Some));
        let updates = *reads & *writes & here;
        let possible = |source: &Option<usize>| {
            // A read-modify-write directly follows its source in the modification order.
            let rivals = || {
                updates
                    .iter()
                    .any(|it| it < read && self.source[it] == *source)
            };
            let has_cycle = || source.is_some_and(|it| it == read || before.contains(read, it));
            !(updates.contains(read) && rivals() || has_cycle())
        };
        let possible: Vec<Option<usize>> = sources.filter(possible).collect();
        for source in possible {
            self.source[read] = source;
            let mut before = *before;
            if let Some(write) = source {
                before.connect(write, read);
            }
            self.sources(read + 1, &before);
        }
    }

    /// The value that an event reads. This ends, because rf has no cycle.
    fn value_read(&self, event: usize) -> u64 {
        self.source[event].map_or(0, |write| match self.all[write].1.writes {
            Some(Writes::Value(value)) => value,
            Some(Writes::Successor) => self.value_read(write) + 1,
            None => unreachable!("the source of a read writes"),
        })
    }

    /// Goes on if all reads find what the paths assume.
    fn with_sources(&mut self) {
        let mut values: Values = vec![Vec::new(); self.paths.len()];
        let mut rf = Relation::default();
        for event in self.events.reads.iter() {
            let value = self.value_read(event);
            let (thread, Event { reads, .. }) = self.all[event];
            if !reads.is_some_and(|finds| finds.accepts(value)) {
                return;
            }
            values[thread].push(value);
            if let Some(write) = self.source[event] {
                rf.insert(write, event);
            }
        }
        let sw = synchronizes_with(&self.events, &rf);
        if !(self.events.po | rf).is_acyclic() {
            return;
        }
        let hb = (self.events.po | sw).closure();
        self.orders(0, &rf, &sw, &hb, &values);
    }

    /// Chooses the modification orders from location number `location` on.
    fn orders(
        &mut self,
        location: usize,
        rf: &Relation,
        sw: &Relation,
        hb: &Relation,
        values: &Values,
    ) {
        if location == self.order.len() {
            return self.judge(rf, sw, hb, values);
        }
        let here = |&it: &usize| self.all[it].1.location == Some(location);
        let writes = Set::of(self.events.writes.iter().filter(here));
        let placed = Set::of(self.order[location].iter().copied());
        let left = writes & placed.complement();
        if left.is_empty() {
            return self.orders(location + 1, rf, sw, hb, values);
        }
        let newest = self.order[location].last().copied();
        let follows =
            |&write: &usize| self.events.reads.contains(write) && self.source[write] == newest;
        let updates = Set::of(left.iter().filter(follows));
        let stores = left & self.events.reads.complement();
        for next in if updates.is_empty() { stores } else { updates }.iter() {
            if left.iter().any(|other| hb.contains(other, next)) {
                continue;
            }
            self.order[location].push(next);
            self.orders(location, rf, sw, hb, values);
            self.order[location].pop();
        }
    }

    fn judge(&mut self, rf: &Relation, sw: &Relation, hb: &Relation, values: &Values) {
        let newest = |event: usize| {
            let location = self.all[event].1.location.expect("a fence does not block");
            self.source[event] == self.order[location].last().copied()
        };
        if !self.blocked.iter().all(newest) {
            return;
        }
        let mut co = Relation::default();
        for order in &self.order {
            for (place, &write) in order.iter().enumerate() {
                order[place + 1..]
                    .iter()
                    .for_each(|&later| co.insert(write, later));
            }
        }
        let mut fr = rf.inverse().then(&co).irreflexive();
        for read in self
            .events
            .reads
            .iter()
            .filter(|&it| self.source[it].is_none())
        {
            let location = self.all[read].1.location.expect("a read has a location");
            let later = self.order[location].iter().filter(|&&write| write != read);
            later.for_each(|&write| fr.insert(read, write));
        }
        let candidate = Candidate {
            events: &self.events,
            rf: *rf,
            co,
            fr,
            sw: *sw,
            hb: *hb,
        };
        if !(self.permitted)(&candidate) {
            return;
        }
        let execution = self.execution();
        let new = if self.blocked.is_empty() {
            self.found
                .complete
                .insert(execution, values.clone())
                .is_none()
        } else {
            self.found.deadlocks.insert(execution)
        };
        assert!(new, "the candidates differ");
    }

    fn execution(&self) -> Execution {
        let place = |event: usize| {
            let (thread, Event { statement, .. }) = self.all[event];
            Place { thread, statement }
        };
        let mut threads: Vec<Vec<Did>> = self.paths.iter().map(|path| path.did.clone()).collect();
        for event in self.events.reads.iter() {
            let Place { thread, statement } = place(event);
            if let Did::Read(from) | Did::Updated(from) | Did::Blocked(from) =
                &mut threads[thread][statement]
            {
                *from = self.source[event].map(place);
            }
        }
        let order = |order: &Vec<usize>| order.iter().copied().map(place).collect();
        Execution {
            threads,
            coherence: self.order.iter().map(order).collect(),
        }
    }
}
