//! Runs a [`Program`] on the explorer, by its public interface.

use core::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::execution::{Did, Execution, Executions, Place, Values};
use super::program::{Operation, Program, Statement};
use crate::{
    Atomic, Condition, End, Event, EventId, Graph, Kind, Location, Model, Observer, Op, Search,
    Update, Verdict, choose, fence, spawn,
};

/// The most runs of a search.
const RUNS: u64 = 20_000;

/// Says how what the explorer visits differs from what it should visit; empty if it does not.
pub(super) fn difference(program: &Program, model: Model, expected: &Executions) -> String {
    match executions(program, model) {
        Ok(found) => found.difference(expected),
        Err(error) => error,
    }
}

/// Returns the executions that the explorer visits.
///
/// # Errors
/// If the explorer visits a graph twice, miscounts, fails, panics or does not end.
pub(super) fn executions(program: &Program, model: Model) -> Result<Executions, String> {
    let shared = Rc::new(program.clone());
    let read = Rc::new(Read::new(program));
    let mut visited = Visited {
        program: shared.clone(),
        read: read.clone(),
        executions: Executions::default(),
        blocked: BTreeSet::new(),
        repeated: None,
    };
    let search = Search::new()
        .model(model)
        .allow_deadlocks()
        .limit(RUNS)
        .stack(64 << 10);
    let explore = || search.explore(&mut visited, move || run(&shared, &read));
    let report = catch_unwind(AssertUnwindSafe(explore)).map_err(|_| "a panic".to_owned())?;
    match report.verdict {
        Verdict::Exhausted => {}
        Verdict::Stopped => return Err(format!("more than {RUNS} runs")),
        Verdict::Failed(failure) => return Err(failure.to_string()),
    }
    let Visited {
        executions,
        blocked,
        repeated,
        ..
    } = visited;
    if let Some(execution) = repeated {
        return Err(format!("visited twice:\n{execution}"));
    }
    let counts = [
        report.counts.executions,
        report.counts.deadlocks,
        report.counts.blocked,
    ];
    let seen = [
        executions.complete.len(),
        executions.deadlocks.len(),
        blocked.len(),
    ];
    if counts != seen.map(|it| it as u64) {
        return Err(format!(
            "complete, deadlocks, blocked: {seen:?}, counted {counts:?}"
        ));
    }
    Ok(executions)
}

/// The values that the statements have read in the present execution, by thread and statement.
struct Read(Vec<Vec<Cell<Option<u64>>>>);

impl Read {
    fn new(program: &Program) -> Read {
        let cells = |statements: &Vec<Statement>| vec![Cell::default(); statements.len()];
        Read(program.threads.iter().map(cells).collect())
    }

    fn forget(&self) {
        self.0.iter().flatten().for_each(|it| it.set(None));
    }

    fn values(&self) -> Values {
        self.0
            .iter()
            .map(|thread| thread.iter().filter_map(Cell::get).collect())
            .collect()
    }
}

fn run(program: &Rc<Program>, read: &Rc<Read>) {
    read.forget();
    let locations = (0..program.locations()).map(|_| Atomic::new(0));
    let locations: Rc<[Atomic]> = locations.collect();
    let thread = |index: usize| {
        let (program, read, locations) = (program.clone(), read.clone(), locations.clone());
        spawn(move || {
            for (statement, cell) in program.threads[index].iter().zip(&read.0[index]) {
                if !statement.optional || choose(2) == 0 {
                    cell.set(perform(statement.operation, &locations));
                }
            }
        })
    };
    let threads: Vec<_> = (0..program.threads.len()).map(thread).collect();
    for thread in threads {
        thread.join();
    }
}

/// Returns the value that the operation reads.
fn perform(operation: Operation, locations: &[Atomic]) -> Option<u64> {
    match operation {
        Operation::Load(at, ordering) => Some(locations[at].load(ordering)),
        Operation::Store(at, value, ordering) => {
            locations[at].store(value, ordering);
            None
        }
        Operation::Add(at, ordering) => {
            Some(locations[at].update(Update::new(Op::Add, 1), ordering))
        }
        Operation::CompareExchange(at, current, new, success, failure) => {
            let result = locations[at].compare_exchange(current, new, success, failure);
            assert_eq!(result.is_ok(), result == Ok(current));
            Some(result.unwrap_or_else(|old| old))
        }
        Operation::Wait(at, ordering) => {
            Some(locations[at].wait_until(Condition::differs(0), ordering))
        }
        Operation::Lock(at, current, new, ordering) => {
            locations[at].exchange_when(current, new, ordering);
            Some(current)
        }
        Operation::Fence(ordering) => {
            fence(ordering);
            None
        }
    }
}

/// Collects the executions.
struct Visited {
    program: Rc<Program>,
    read: Rc<Read>,
    executions: Executions,
    /// The executions that ended because of a wait for a value that is no longer the newest.
    blocked: BTreeSet<Execution>,
    /// An execution that was visited a second time.
    repeated: Option<Execution>,
}

impl Observer for Visited {
    fn ended(&mut self, graph: &Graph, end: End) {
        let execution = of_graph(graph, &self.program);
        let Executions {
            complete,
            deadlocks,
        } = &mut self.executions;
        let is_new = match end {
            End::Complete => complete
                .insert(execution.clone(), self.read.values())
                .is_none(),
            End::Deadlock => deadlocks.insert(execution.clone()),
            End::Blocked => self.blocked.insert(execution.clone()),
        };
        if !is_new {
            self.repeated = Some(execution);
        }
    }
}

/// Returns what the statements of a program did in a graph. The graph's main thread has started a
/// thread for each one of the program.
pub(super) fn of_graph(graph: &Graph, program: &Program) -> Execution {
    let threads = program.threads.iter().enumerate();
    let reached = threads.map(|(thread, its)| reached(its, events(graph, thread)));
    let reached: Vec<Vec<Option<usize>>> = reached.collect();
    let place = |id: EventId| {
        let thread = id.thread as usize - 1;
        let is_first = |it: &Option<usize>| it.is_some_and(|first| first <= id.index as usize);
        let statement = reached[thread]
            .iter()
            .rposition(is_first)
            .expect("its statement");
        Place { thread, statement }
    };
    let mut locations: Vec<Option<Location>> = vec![None; program.locations()];
    let mut did: Vec<Vec<Did>> = vec![Vec::new(); program.threads.len()];
    for (thread, its) in reached.iter().enumerate() {
        for (first, statement) in its.iter().zip(&program.threads[thread]) {
            let event = first.map(|first| &events(graph, thread)[first]);
            if let (Some(event), Some(at)) = (event, statement.operation.location()) {
                let location = *locations[at].get_or_insert(event.location);
                assert_eq!(location, event.location, "two locations for one");
            }
            did[thread].push(event.map_or(Did::Skipped, |event| of_event(event, place)));
        }
    }
    let order = |location: Option<Location>| location.map_or(&[][..], |it| graph.coherence(it));
    let order = |location| order(location).iter().copied().map(place).collect();
    Execution {
        threads: did,
        coherence: locations.into_iter().map(order).collect(),
    }
}

/// Returns the values that the statements of each thread have read in a graph.
pub(super) fn values(graph: &Graph, program: &Program) -> Values {
    let read = |event: &Event| (event.kind == Kind::Read).then_some(event.value);
    let threads = 0..program.threads.len();
    threads
        .map(|it| events(graph, it).iter().filter_map(read).collect())
        .collect()
}

/// The events of a thread of the program.
fn events(graph: &Graph, thread: usize) -> &[Event] {
    // A revisit may remove the starts of threads.
    if thread + 1 < graph.threads() {
        graph.events(thread + 1)
    } else {
        &[]
    }
}

/// Returns the index of the event of each statement that a thread has reached, or `None` if it has
/// skipped the statement.
fn reached(statements: &[Statement], events: &[Event]) -> Vec<Option<usize>> {
    let mut reached = Vec::new();
    let mut next = 0;
    for statement in statements {
        if statement.optional {
            let Some(choice) = events.get(next) else {
                break;
            };
            assert_eq!(choice.kind, Kind::Choice);
            next += 1;
            if choice.value == 1 {
                reached.push(None);
                continue;
            }
        }
        let Some(event) = events.get(next) else { break };
        reached.push(Some(next));
        next += if event.kind == Kind::Read && event.exclusive {
            2
        } else {
            1
        };
    }
    assert_eq!(next, events.len(), "a statement for each event");
    reached
}

fn of_event(event: &Event, place: impl Fn(EventId) -> Place) -> Did {
    let source = (!event.reads_from.is_initial()).then(|| place(event.reads_from));
    match event.kind {
        Kind::Fence => Did::Fenced,
        Kind::Write => Did::Stored,
        Kind::Read if event.exclusive => Did::Updated(source),
        Kind::Read if event.blocked => Did::Blocked(source),
        Kind::Read => Did::Read(source),
        kind => panic!("a statement is no {kind:?}"),
    }
}
