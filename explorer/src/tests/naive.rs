//! A naive search over the graphs of a [`Program`]: it extends each graph by the next event of
//! every thread, in every way that the explorer's predicates permit, and keeps a record of the
//! graphs that it has met.
//!
//! It has no revisits, no maximality and no order of threads, so it errs in other ways than the
//! explorer. It shares [`Graph`] and its predicates, which the [axioms](super::axioms) check.

use core::panic;
use std::collections::HashSet;

use super::execution::Executions;
use super::explored;
use super::program::{Operation, Program, Statement};
use crate::event::{Event, EventId, Kind, Location};
use crate::request::{Ask, Condition, Op, Request, Update};
use crate::{Graph, Model};

/// Returns the executions of `program`, or `None` if it has more than `limit` graphs.
pub(super) fn executions(program: &Program, model: Model, limit: usize) -> Option<Executions> {
    let mut found = Executions::default();
    let mut met = HashSet::new();
    let mut left = vec![started(program)];
    while let Some(mut graph) = left.pop() {
        if !met.insert(key(&graph)) {
            continue;
        }
        if met.len() > limit {
            return None;
        }
        let execution = explored::of_graph(&graph, program);
        let next = |thread: usize| program.threads[thread].get(execution.threads[thread].len());
        let running = (0..program.threads.len()).filter_map(|thread| Some((thread, next(thread)?)));
        let running: Vec<(usize, &Statement)> = running.collect();
        for &(thread, statement) in &running {
            let extended = extended(&graph, thread + 1, statement).into_iter();
            left.extend(extended.filter_map(|it| permitted(it, model)));
        }
        if running.is_empty() {
            found
                .complete
                .insert(execution, explored::values(&graph, program));
        } else if running
            .iter()
            .all(|(thread, it)| block(&mut graph, thread + 1, it))
        {
            found.deadlocks.insert(explored::of_graph(&graph, program));
        }
    }
    Some(found)
}

/// The choices, the sources and the coherence orders of a graph. They determine the rest.
fn key(graph: &Graph) -> Vec<(u16, u16)> {
    const END: (u16, u16) = (u16::MAX, u16::MAX);
    let mut key = Vec::new();
    for thread in 0..graph.threads() {
        key.extend(graph.events(thread).iter().map(|event| match event.kind {
            Kind::Choice => (0, event.value as u16),
            _ => (event.reads_from.thread, event.reads_from.index),
        }));
        key.push(END);
    }
    for location in 0..graph.locations() {
        let order = graph.coherence(Location(location as u32));
        key.extend(order.iter().map(|write| (write.thread, write.index)));
        key.push(END);
    }
    key
}

/// Returns the graph if the model permits it.
fn permitted(graph: Graph, model: Model) -> Option<Graph> {
    graph.is_consistent(model).then_some(graph)
}

/// The graph in which the main thread has started the threads.
fn started(program: &Program) -> Graph {
    let mut graph = Graph::new();
    for thread in 1..=program.threads.len() {
        let value = thread as u64;
        push(
            &mut graph,
            0,
            Event {
                value,
                ..Event::new(Kind::Spawn, &ask(Request::Spawn, None))
            },
        );
    }
    graph
}

fn push(graph: &mut Graph, thread: usize, mut event: Event) -> EventId {
    graph.derive(thread, graph.events(thread).len(), &mut event);
    graph.push(thread, event)
}

/// Whether the thread must first choose whether to perform the statement.
fn must_choose(graph: &Graph, thread: usize, statement: &Statement) -> bool {
    let has_chosen = |last: &Event| last.kind == Kind::Choice && last.value == 0;
    statement.optional && !graph.last(thread).is_some_and(has_chosen)
}

/// Returns the graph with the next event of the thread, in every way that coherence permits.
fn extended(graph: &Graph, thread: usize, statement: &Statement) -> Vec<Graph> {
    let with = |event: Event| {
        let mut graph = graph.clone();
        let id = push(&mut graph, thread, event);
        (graph, id)
    };
    if must_choose(graph, thread, statement) {
        let choice = Event::new(Kind::Choice, &ask(Request::Choose(2, false), None));
        return [0, 1].map(|value| with(Event { value, ..choice }).0).into();
    }
    let ask = request(statement.operation);
    let accesses = graph.accesses(ask.location);
    let known = graph.happened(thread, graph.events(thread).len());
    let positions = || graph.floor(ask.location, &known)..=accesses.newest();
    let is_modified = |position: usize| {
        let write = accesses.write(position);
        graph
            .modifier(ask.location, write, EventId::INITIAL)
            .is_some()
    };
    match ask.request {
        Request::Fence(ordering) => vec![
            with(Event {
                ordering,
                ..Event::new(Kind::Fence, &ask)
            })
            .0,
        ],
        Request::Store(value, ordering) => {
            let store = Event {
                value,
                ordering,
                ..Event::new(Kind::Write, &ask)
            };
            let placed = |position: usize| {
                let (mut graph, id) = with(store);
                graph.place(id, position + 1);
                graph
            };
            positions()
                .filter(|it| !is_modified(*it))
                .map(placed)
                .collect()
        }
        _ => positions()
            .filter_map(|position| {
                let source = accesses.write(position);
                let read = reading(graph, &ask, source);
                if read.blocked || read.exclusive && is_modified(position) {
                    return None;
                }
                let (mut graph, _) = with(read);
                if let Some(value) = ask.request.effect(read.value).written {
                    let write = Event {
                        value,
                        exclusive: true,
                        ordering: read.ordering,
                        ..Event::new(Kind::Write, &ask)
                    };
                    let id = push(&mut graph, thread, write);
                    graph.place(id, position + 1);
                }
                Some(graph)
            })
            .collect(),
    }
}

/// Adds a wait for the newest value to change. Returns false if the thread need not wait.
fn block(graph: &mut Graph, thread: usize, statement: &Statement) -> bool {
    let ask = request(statement.operation);
    if must_choose(graph, thread, statement) || !ask.request.reads() {
        return false;
    }
    let accesses = graph.accesses(ask.location);
    let read = reading(graph, &ask, accesses.write(accesses.newest()));
    if read.blocked {
        push(graph, thread, read);
    }
    read.blocked
}

fn reading(graph: &Graph, ask: &Ask, source: EventId) -> Event {
    let value = if source.is_initial() {
        ask.initial
    } else {
        graph.event(source).value
    };
    let mut read = Event::new(Kind::Read, ask);
    Graph::read_from(&mut read, source, value);
    read
}

fn ask(request: Request, location: Option<usize>) -> Ask {
    let location = location.map_or(Location::NONE, |it| Location(it as u32));
    Ask {
        request,
        location,
        initial: 0,
        place: panic::Location::caller(),
    }
}

fn request(operation: Operation) -> Ask {
    let request = match operation {
        Operation::Load(_, ordering) => Request::Load(ordering),
        Operation::Store(_, value, ordering) => Request::Store(value, ordering),
        Operation::Add(_, ordering) => Request::Update(Update::new(Op::Add, 1), ordering),
        Operation::CompareExchange(_, current, new, success, failure) => {
            Request::CompareExchange(current, new, success, failure)
        }
        Operation::Wait(_, ordering) => Request::WaitUntil(Condition::differs(0), ordering),
        Operation::Lock(_, current, new, ordering) => Request::ExchangeWhen(current, new, ordering),
        Operation::Fence(ordering) => Request::Fence(ordering),
    };
    ask(request, operation.location())
}
