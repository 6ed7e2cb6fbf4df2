//! The search: visits every consistent execution graph of a program once.
//!
//! TruSt (POPL'22, Algorithm 1) is a recursion, `Visit`, which adds an event to a graph in every
//! way, and goes on with each result. Here, the program runs once for each complete graph. Each
//! step of a run adds the next event in one way, the maximal one, and keeps the others as
//! *branches*: a branch is the length of a prefix of the graph and an event to add to it. The last
//! branch of the deepest prefix comes first, so a graph is truncated, and never copied, except for
//! a revisit. A revisited graph has other prefixes, so it starts a new *level*, with branches of
//! its own.

use core::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use crate::MAX_EVENTS;
use crate::consistency::Model;
use crate::event::{EventId, Kind};
use crate::failure::Failure;
use crate::graph::Graph;
use crate::observer::Observer;
use crate::request::Ask;
use crate::run::{Entered, Runtime};
use crate::state::{Branch, Names, State, Then};

/// How a search ended.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Every execution was visited, and none failed.
    Exhausted,
    /// The limit or the deadline of the search was reached.
    Stopped,
    /// An execution failed.
    Failed(Box<Failure>),
}

/// What a search has counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Executions in which every thread returned.
    pub executions: u64,
    /// Executions that ended with a thread that waits for a value which is no longer the newest.
    pub blocked: u64,
    /// Executions that ended because no thread could go on.
    pub deadlocks: u64,
    /// Executions that ended with a thread in a spin loop whose rounds write: more
    /// [rounds](Search::rounds) may lead to others. Without these, a verdict is not bounded.
    pub bounded: u64,
    /// Executions that were given up, because nothing new could come of them.
    pub given_up: u64,
    /// How often the program was run.
    pub runs: u64,
    /// Reads that were made to read from a later write.
    pub revisits: u64,
    /// Graphs that the memory model does not permit.
    pub refused: u64,
    /// The events of all executions that ended.
    pub events: u64,
    /// The most events of an execution.
    pub most_events: usize,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Report {
    /// How the search ended.
    pub verdict: Verdict,
    /// What it counted.
    pub counts: Counts,
}

/// What a search may do.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub model: Model,
    pub faults: usize,
    pub rounds: u32,
    pub by_place: bool,
    pub allows_deadlocks: bool,
    pub stack: usize,
    pub events: usize,
    limit: u64,
    deadline: Option<Instant>,
}

/// Explores the executions of a program.
///
/// ```
/// use spanlock_explorer::{Atomic, Ordering, Search, Verdict, spawn};
/// use std::rc::Rc;
///
/// let report = Search::new().explore(&mut (), || {
///     let flag = Rc::new(Atomic::new(0));
///     let theirs = flag.clone();
///     let thread = spawn(move || theirs.store(1, Ordering::Release));
///     let _old_or_new = flag.load(Ordering::Acquire);
///     thread.join();
/// });
/// assert!(matches!(report.verdict, Verdict::Exhausted));
/// assert_eq!(report.counts.executions, 2);
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is explored before `explore`"]
pub struct Search(Settings);

impl Default for Search {
    fn default() -> Self {
        Search::new()
    }
}

impl Search {
    /// Returns a search under C++20, without faults, with one round of each thread's spin loops.
    pub fn new() -> Search {
        Search(Settings {
            model: Model::default(),
            faults: 0,
            rounds: 1,
            by_place: false,
            allows_deadlocks: false,
            stack: 256 << 10,
            events: 4_000,
            limit: u64::MAX,
            deadline: None,
        })
    }

    /// Sets the memory model.
    pub fn model(mut self, model: Model) -> Search {
        self.0.model = model;
        self
    }

    /// Permits this many [faults](crate::fault) in an execution: none, one, and so on.
    pub fn faults(mut self, most: usize) -> Search {
        self.0.faults = most;
        self
    }

    /// Permits each thread this many rounds of [spin loops](crate::spin). A loop whose rounds write
    /// needs as many as it can make; a verdict is bounded by them. One that only reads needs one.
    /// If it gives up after more rounds than these, the search fails.
    pub fn rounds(mut self, most: u32) -> Search {
        self.0.rounds = most;
        self
    }

    /// Permits the rounds to each place of the program that calls [`spin`](crate::spin), and not to
    /// all together.
    pub fn rounds_by_place(mut self) -> Search {
        self.0.by_place = true;
        self
    }

    /// Counts deadlocks instead of failing.
    pub fn allow_deadlocks(mut self) -> Search {
        self.0.allows_deadlocks = true;
        self
    }

    /// Sets the size of a thread's stack, in bytes. 256 KiB without this.
    pub fn stack(mut self, bytes: usize) -> Search {
        self.0.stack = bytes;
        self
    }

    /// Fails if a thread makes more operations than this, up to [`MAX_EVENTS`]. 4,000 without this.
    pub fn events(mut self, most: usize) -> Search {
        self.0.events = most.min(MAX_EVENTS);
        self
    }

    /// Stops after this many runs of the program.
    pub fn limit(mut self, runs: u64) -> Search {
        self.0.limit = runs;
        self
    }

    /// Stops at this time.
    pub fn deadline(mut self, deadline: Instant) -> Search {
        self.0.deadline = Some(deadline);
        self
    }

    /// Explores the executions of `program`, which runs as the main thread.
    ///
    /// The program must make the same operations whenever these return the same. If
    /// [`Arena`](crate::arena::Arena) is the global allocator, what the program allocates is gone
    /// after the execution. So the first execution is run once before the search without it: what
    /// the program initializes in statics then stays.
    pub fn explore(&self, observer: &mut dyn Observer, program: impl Fn() + 'static) -> Report {
        // SAFETY: only the lifetime changes. The search uses the observer within this call.
        let observer = unsafe {
            core::mem::transmute::<*mut dyn Observer, *mut (dyn Observer + 'static)>(observer)
        };
        let program: Rc<dyn Fn()> = Rc::new(program);
        let runtime = Runtime::new(self.state(observer));
        let _entered = Entered::new(&runtime);
        if runtime.use_arena() {
            let silent: *mut dyn Observer = &mut ();
            let once = Runtime::new(self.state(silent));
            let _entered = Entered::new(&once);
            once.run(&program);
        }
        let levels = RefCell::default();
        let is_exhausted = Exploration {
            runtime: &runtime,
            program,
            levels,
        }
        .visit_all();
        let state = runtime.state.borrow_mut();
        let verdict = match &state.failure {
            Some(failure) => Verdict::Failed(Box::new(failure.clone())),
            None if is_exhausted => Verdict::Exhausted,
            None => Verdict::Stopped,
        };
        let counts = state.counts;
        Report { verdict, counts }
    }

    fn state(&self, observer: *mut dyn Observer) -> State {
        State {
            settings: self.0.clone(),
            graph: Graph::new(),
            branches: Vec::new(),
            counts: Counts::default(),
            threads: Default::default(),
            current: 0,
            is_concurrent: false,
            is_live: false,
            is_over: false,
            failure: None,
            observer,
            names: Names::default(),
            probe: None,
            probed: Vec::new(),
        }
    }
}

/// A graph whose branches wait until those of a revisited one have been visited.
struct Level {
    graph: Graph,
    branches: Vec<Branch>,
}

struct Exploration<'a> {
    runtime: &'a Runtime,
    program: Rc<dyn Fn()>,
    levels: RefCell<Vec<Level>>,
}

impl Exploration<'_> {
    /// Visits all graphs. Returns false if the search stopped before.
    fn visit_all(&self) -> bool {
        self.runtime.run(&self.program);
        loop {
            let mut state = self.runtime.state.borrow_mut();
            if state.failure.is_some() || is_to_stop(&state) {
                return false;
            }
            let Some(branch) = state.branches.pop() else {
                let Some(level) = self.levels.borrow_mut().pop() else {
                    return true;
                };
                state.graph = level.graph;
                state.branches = level.branches;
                continue;
            };
            state.graph.truncate(branch.length);
            let is_new = self.take(&mut state, branch.then);
            drop(state);
            if is_new {
                self.runtime.run(&self.program);
            }
        }
    }

    /// Makes the graph that a branch leads to. Returns whether a run is to go on with it.
    fn take(&self, state: &mut State, then: Then) -> bool {
        match then {
            Then::Add(thread, event, position) => {
                let id = state.graph.push(thread, event);
                if event.kind == Kind::Write {
                    state.graph.place(id, position);
                }
                state.observe(|observer, graph| observer.deviated(graph, id));
                let is_beaten = event.exclusive
                    && (state.graph.modifier(event.location, event.reads_from, id)).is_some();
                match is_beaten {
                    true => revisit_only(state, id),
                    false => event.kind == Kind::Choice || is_permitted(state),
                }
            }
            Then::Revisit(thread, write, read, keep) => {
                let (graph, id) = state.graph.revisited(thread, &write, read, &keep);
                for graph in placed(&graph, id, read) {
                    let length = state.graph.order().len();
                    let then = Then::Visit(Box::new(graph));
                    state.branches.push(Branch { length, then });
                }
                false
            }
            Then::Visit(graph) => {
                let graph = core::mem::replace(&mut state.graph, *graph);
                let branches = core::mem::take(&mut state.branches);
                let is_new = is_permitted(state);
                if !is_new {
                    state.graph = graph;
                    state.branches = branches;
                    return false;
                }
                self.levels.borrow_mut().push(Level { graph, branches });
                state.counts.revisits += 1;
                let write = *state.graph.order().last().expect("the revisiting write");
                state.observe(|observer, graph| observer.revisited(graph, write));
                true
            }
        }
    }
}

fn is_to_stop(state: &State) -> bool {
    let settings = &state.settings;
    // The clock is slower than a short run.
    let is_late = |deadline| state.counts.runs % 64 == 0 && Instant::now() >= deadline;
    state.counts.runs >= settings.limit || settings.deadline.is_some_and(is_late)
}

fn is_permitted(state: &mut State) -> bool {
    let is_consistent = state.graph.is_consistent(state.settings.model);
    if !is_consistent {
        state.counts.refused += 1;
        state.observe(|observer, graph| observer.refused(graph));
    }
    is_consistent
}

/// Another read-modify-write modifies the value that this one reads: its write has no position, but
/// can revisit the other one's read. Returns false: no run goes on with this graph.
fn revisit_only(state: &mut State, read: EventId) -> bool {
    let event = *state.graph.event(read);
    let ask = Ask {
        request: event.request,
        location: event.location,
        initial: event.value,
        place: event.place,
    };
    let write = state.second_half(read, &ask);
    state.revisit_by(read.thread as usize, &write);
    state.counts.given_up += 1;
    false
}

/// Returns the revisited graph with the write at each position that coherence permits. TruSt,
/// Algorithm 1, `VisitCOs`.
fn placed(graph: &Graph, write: EventId, read: EventId) -> Vec<Graph> {
    let event = *graph.event(write);
    let accesses = graph.accesses(event.location);
    let newest = accesses.newest();
    let (half, positions) = match event.exclusive {
        true => {
            let half = EventId {
                index: write.index - 1,
                ..write
            };
            let source = accesses.position(graph.event(half).reads_from);
            (half, source..=source)
        }
        false => {
            let floor = graph.floor(event.location, &event.before);
            (EventId::INITIAL, floor..=newest)
        }
    };
    let before_read = graph.happened(read.thread as usize, read.index as usize);
    let mut placed = Vec::new();
    for after in positions {
        let previous = accesses.write(after);
        let modifier = graph.modifier(event.location, previous, half);
        if (after < newest || event.exclusive) && modifier.is_some() {
            continue;
        }
        let mut with = graph.clone();
        with.place(write, after + 1);
        // What the read knows already may be newer than the write.
        if with.floor(event.location, &before_read) <= after + 1 {
            placed.push(with);
        }
    }
    placed
}
