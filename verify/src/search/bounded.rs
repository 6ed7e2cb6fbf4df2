//! A search of every schedule with few *preemptions*: switches from a thread that could go on.
//!
//! Musuvathi and Qadeer, "Iterative context bounding for systematic testing of multithreaded
//! programs" (PLDI 2007, [DOI](https://doi.org/10.1145/1250734.1250785)). Two switches are no
//! preemptions here:
//!
//! - At the point where a thread has just been spawned, each thread may begin. Otherwise the
//!   spawning thread would begin, and the other one would need two preemptions to be interrupted by
//!   it.
//! - A thread that yields lets each of the others make a step before it goes on. So a loop that
//!   waits for another thread ends.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

use crate::search::NOT_REPEATABLE;

/// A set of threads, one bit per thread.
type Threads = u64;

fn members(threads: Threads) -> impl Iterator<Item = usize> {
    (0..Threads::BITS as usize).filter(move |thread| threads & 1 << thread != 0)
}

/// A point where the search chooses the thread that makes the next step.
struct Node {
    /// The threads that can go on.
    runnable: Threads,
    /// The threads that are still to be tried here.
    left: Threads,
    thread: usize,
    /// The threads that exist or have ended.
    known: Threads,
    /// The thread that made the step before, if a switch from it is a preemption.
    current: Option<usize>,
    /// The number of preemptions before this point.
    preemptions: u64,
}

impl Node {
    /// Returns the number of preemptions if `thread` makes the step.
    fn preemptions_with(&self, thread: usize) -> u64 {
        let preempts = self.current.is_some_and(|current| current != thread);
        self.preemptions + u64::from(preempts)
    }
}

/// The scheduler that makes the search.
pub(crate) struct Bounded {
    /// The most preemptions in an execution.
    bound: u64,
    /// The current path.
    nodes: Vec<Node>,
    /// How many steps of the current execution have begun.
    at: usize,
    begun: bool,
    /// For each thread, the threads that must make a step before it, because it has yielded.
    after: [Threads; Threads::BITS as usize],
}

impl Bounded {
    /// Creates a search with at most `bound` preemptions.
    pub(crate) fn new(bound: u64) -> Self {
        Bounded {
            bound,
            nodes: Vec::new(),
            at: 0,
            begun: false,
            after: [0; Threads::BITS as usize],
        }
    }

    /// Returns a new point. `current` has made the step before.
    fn node(&self, runnable: Threads, current: Option<usize>) -> Node {
        let before = self.nodes.last();
        let known = before.map_or(0, |node| node.known);
        let may_go_on = |&thread: &usize| self.after[thread] & runnable == 0;
        let enabled = members(runnable).filter(may_go_on);
        let enabled: Threads = enabled.fold(0, |set, thread| set | 1 << thread);
        let current = current.filter(|thread| enabled & 1 << thread != 0);
        // The running thread comes first, because a switch takes time.
        let thread = current.or_else(|| members(enabled).next());
        let has_spawned = runnable & !known != 0;
        let mut node = Node {
            runnable,
            left: enabled,
            thread: thread.expect("of the threads that wait for others, the first can go on"),
            known: known | runnable,
            current: current.filter(|_| !has_spawned),
            preemptions: before.map_or(0, |node| node.preemptions_with(node.thread)),
        };
        let fits = |&thread: &usize| node.preemptions_with(thread) <= self.bound;
        node.left = members(enabled)
            .filter(fits)
            .fold(0, |set, it| set | 1 << it);
        node
    }
}

impl Scheduler for Bounded {
    fn new_execution(&mut self) -> Option<Schedule> {
        if std::mem::replace(&mut self.begun, true) {
            loop {
                let node = self.nodes.last_mut()?;
                node.left &= !(1 << node.thread);
                if let Some(thread) = members(node.left).next() {
                    node.thread = thread;
                    break;
                }
                self.nodes.pop();
            }
        }
        self.at = 0;
        self.after.fill(0);
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        yields: bool,
    ) -> Option<TaskId> {
        let all = runnable.iter().map(|task| usize::from(task.id()));
        let all: Threads = all.fold(0, |set, thread| set | 1 << thread);
        let current = current.map(usize::from);
        if let Some(current) = current.filter(|_| yields) {
            self.after[current] = all & !(1 << current);
        }
        match self.nodes.get(self.at) {
            Some(node) => assert_eq!(
                node.runnable, all,
                "step {}: different threads can run when it is repeated. {NOT_REPEATABLE}",
                self.at
            ),
            None => {
                let node = self.node(all, current);
                self.nodes.push(node);
            }
        }
        let thread = self.nodes[self.at].thread;
        self.at += 1;
        self.after.iter_mut().for_each(|set| *set &= !(1 << thread));
        Some(thread.into())
    }

    fn next_u64(&mut self) -> u64 {
        panic!("a search of all schedules cannot follow random choices: remove them")
    }
}
