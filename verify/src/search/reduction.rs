//! Dynamic partial-order reduction for shuttle: an exhaustive search of interleavings, up to the
//! order of independent steps.
//!
//! Two neighbouring steps are *independent* if they touch different objects, or if both only read.
//! Otherwise, they are *dependent*. Swapping independent steps changes nothing. Interleavings that
//! differ only by such swaps form a *class*, and one execution of each class is enough. There are
//! thousands of times fewer classes than interleavings.
//!
//! # The algorithm
//!
//! Abdulla, Aronis, Jonsson and Sagonas, "Optimal dynamic partial order reduction" (POPL 2014,
//! [DOI](https://doi.org/10.1145/2535838.2535845)): Algorithm 1, with *source sets*. A **node** is
//! a point where the search chooses the thread that makes the next step. An execution is a path
//! through nodes. At each step, the search handles two things:
//!
//! - **Races**: a step races with an earlier, dependent step of another thread if nothing between
//!   them orders the two. Then the search must also try the other order. So at the node before the
//!   earlier step, it adds a thread that begins the other order to the threads to *try*.
//! - **Sleep sets** (Godefroid): the search tries one thread's step at a node, and later another's.
//!   Below the second step, the first thread sleeps until some thread makes a step that depends on
//!   the first thread's step. Until then, running it would only repeat explored executions.
//!
//! # With a bound
//!
//! With a bound on *preemptions* (a switch from a thread that could go on), the search explores
//! every interleaving within the bound, without the reduction. The reduction would skip an
//! interleaving because another one of its class is explored, which may be past the bound. At the
//! point where a thread has just been spawned, a switch is no preemption: each thread may begin.
//! Otherwise the spawning thread would begin, and the other one would need two preemptions to be
//! interrupted by it.
//!
//! # Why it is sound
//!
//! The algorithm explores every class if it treats every two steps whose order matters as
//! *dependent*. `docs/searches.md` argues that it does, and lists what a program must not do. The
//! search panics if a program yields outside a loop that waits, or if a repeated step has another
//! *footprint* (the objects that it touches, and how) than the first time.

use std::collections::HashMap;
use std::rc::Rc;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use spanlock_sync::footprint::{self, Access, EVERYTHING, Touch, dependent};

use crate::search::NOT_REPEATABLE;
use crate::search::order::{AT, Clock, Step, THREADS, Watch};

/// A set of threads, one bit per thread.
type Threads = u8;

/// The number of a step in its execution, counted from 1. 0 means none.
type At = u32;

fn join(clock: &mut Clock, other: &Clock) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

fn members(threads: Threads) -> impl Iterator<Item = usize> {
    (0..THREADS).filter(move |thread| threads & 1 << thread != 0)
}

type Footprint = Rc<[Touch]>;

/// A point where the search chooses a thread, and that thread's step in the current execution.
struct Node {
    enabled: Threads,
    /// Threads to try, including those in `done`.
    tried: Threads,
    /// Threads whose steps from here have been explored.
    done: Vec<(usize, Footprint)>,
    /// Threads whose steps from here would only repeat explored executions.
    asleep: Vec<(usize, Footprint)>,
    thread: usize,
    touched: Footprint,
    clock: Clock,
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

fn threads_of(steps: &[(usize, Footprint)]) -> Threads {
    steps.iter().fold(0, |set, (thread, _)| set | 1 << thread)
}

/// The last step that touched an object, for each kind of access.
#[derive(Default)]
struct Seen {
    write: At,
    reads: [At; THREADS],
    wake: At,
    lock: At,
    unlock: At,
}

/// A thread between two steps.
#[derive(Clone, Default)]
struct Thread {
    clock: Clock,
    /// The mutex that the thread is about to lock.
    locking: Option<u64>,
    /// The objects that the thread has read since its last yield, each with the step.
    looked: Vec<(u64, At)>,
    /// Set by a yield: the objects that the thread had read before, each with the step.
    yielded: Option<Vec<(u64, At)>>,
    /// Set by a yield: the next step that touches anything must touch one of these objects.
    again: Option<Vec<u64>>,
    begun: bool,
}

/// The scheduler that makes the reduced search.
#[derive(Default)]
pub(crate) struct Reduced {
    /// The current path.
    nodes: Vec<Node>,
    /// How many steps of the current execution have begun.
    at: usize,
    /// The number of steps that the current execution repeats from the previous one.
    new_from: usize,
    threads: [Thread; THREADS],
    seen: HashMap<u64, Seen>,
    /// The threads that sleep at the next node.
    asleep: Vec<(usize, Footprint)>,
    /// The thread that makes the current step.
    running: usize,
    begun: bool,
    /// Whether the search ignores the rest of this execution, since it would repeat an explored one
    /// or no thread can run.
    leave: bool,
    /// The most preemptions in an execution. `None` means no bound, and then the search is reduced.
    bound: Option<u64>,
    watch: Option<Watch>,
}

impl Reduced {
    /// Creates a search for this system thread, with a bound on preemptions if there is one. The
    /// search calls `watch` with the steps of one execution of each class or, with a bound, of each
    /// execution.
    pub(crate) fn new(bound: Option<u64>, watch: Option<Watch>) -> Self {
        footprint::record();
        Reduced {
            bound,
            watch,
            ..Self::default()
        }
    }

    /// Shows the ended execution to `watch`. Returns whether the search goes on.
    fn goes_on(&mut self) -> bool {
        let Some(watch) = self.watch.as_mut().filter(|_| self.begun && !self.leave) else {
            return true;
        };
        let steps = self.nodes[..self.at].iter().map(|node| Step {
            thread: node.thread,
            clock: node.clock,
        });
        watch(&steps.collect::<Vec<_>>())
    }

    fn node(&self, at: At) -> &Node {
        &self.nodes[at as usize - 1]
    }

    /// Whether step `first` comes before step `second` in every execution of this class.
    fn before(&self, first: At, second: At) -> bool {
        self.node(second).clock[self.node(first).thread] >= first
    }

    /// Takes the footprint of the step that has just ended. Finds the steps that it depends on, and
    /// the other orders to try.
    fn end_step(&mut self) {
        let mut touched = footprint::take();
        self.look_again(&touched);
        if self.leave || self.at == 0 {
            return;
        }
        let at = self.at as At;
        let thread = self.running;
        let state = &mut self.threads[thread];
        let yielded = state.yielded.take();
        // Only a thread's first step, or one after a yield, may have no operation of the facade.
        let unknown = touched.is_empty() && state.begun && yielded.is_none();
        state.begun = true;
        let access = if unknown { Access::Write } else { Access::Read };
        let object = EVERYTHING;
        touched.push(Touch { object, access });
        touched.sort_unstable();
        touched.dedup();

        let (mut clock, races) = self.order(thread, &touched, yielded.unwrap_or_default());
        clock[thread] = at;
        self.threads[thread].clock = clock;
        let is_new = self.at > self.new_from;
        let node = &mut self.nodes[at as usize - 1];
        if is_new {
            node.touched = touched.into();
        } else {
            assert!(
                *node.touched == *touched && node.clock == clock,
                "step {at} of T{thread} touched {:?}, but {touched:?} when it is repeated. {}",
                node.touched,
                NOT_REPEATABLE
            );
        }
        node.clock = clock;
        let touched = node.touched.clone();
        self.see(thread, at, &touched);
        if self.bound.is_some() {
            return;
        }
        let node = &self.nodes[at as usize - 1];
        self.asleep = (node.asleep.iter().chain(&node.done))
            .filter(|(sleeper, step)| *sleeper != thread && !dependent(step, &touched))
            .cloned()
            .collect();
        if is_new {
            races.into_iter().for_each(|race| self.reverse(race, at));
        }
    }

    /// Panics if the thread has yielded outside a loop.
    fn look_again(&mut self, touched: &[Touch]) {
        let again = &mut self.threads[self.running].again;
        // The step after a yield may have no operation of the facade.
        let looked = if touched.is_empty() {
            None
        } else {
            again.take()
        };
        let looks = |at: Vec<u64>| touched.iter().any(|touch| at.contains(&touch.object));
        assert!(
            looked.is_none_or(looks),
            "T{} has yielded, but its next operation touches nothing that it read before. Yield \
             only in a loop that reads atomics until another thread changes one. Elsewhere, remove \
             the yield, or wait by parking (`spanlock_sync::Parker`).",
            self.running
        );
    }

    /// Returns the clock of a step, without its own number, and the earlier steps it races with.
    fn order(&self, thread: usize, touched: &[Touch], looked: Vec<(u64, At)>) -> (Clock, Vec<At>) {
        let mut clock = self.threads[thread].clock;
        let mut races = Vec::new();
        let nothing = Seen::default();
        let seen = |object| self.seen.get(object).unwrap_or(&nothing);
        let is_later = |clock: &Clock, at: At| at > 0 && clock[self.node(at).thread] < at;
        // `after`: steps that enabled this one, so they do not race. `clashes`: conflicting steps.
        let written = looked.iter().map(|(object, _)| seen(object).write);
        let mut after: Vec<At> = written.collect();
        let mut clashes = Vec::new();
        for Touch { object, access } in touched {
            let seen = seen(object);
            match access {
                Access::Lock => {
                    races.extend(is_later(&clock, seen.lock).then_some(seen.lock));
                    after.push(seen.unlock);
                }
                Access::Unlock => {}
                Access::Read => clashes.push(seen.write),
                Access::Write | Access::Wake | Access::Wait => {
                    clashes.push(seen.write);
                    clashes.extend(seen.reads);
                }
            }
            if *access == Access::Wait {
                after.push(seen.wake);
            }
        }
        for at in after.into_iter().filter(|&at| at > 0) {
            join(&mut clock, &self.node(at).clock);
        }
        clashes.retain(|&at| at > 0);
        races.extend(clashes.iter().filter(|&&at| is_later(&clock, at)));
        for at in clashes {
            join(&mut clock, &self.node(at).clock);
        }
        races.sort_unstable();
        races.dedup();
        // If another racing step lies between two steps, they are not neighbours. Their race shows
        // up after the search has reversed the race with the step in between.
        let mut neighbours = races.clone();
        neighbours.retain(|&at| !races.iter().any(|&it| it != at && self.before(at, it)));
        (clock, neighbours)
    }

    /// Adds a thread to try, so that step `late` comes before step `early`.
    fn reverse(&mut self, early: At, late: At) {
        // The new order runs the later steps that need not follow `early`, and then `late`, in
        // place of `early`. Find the threads that could begin that sequence.
        let mut instead: Vec<At> = Vec::new();
        let (mut met, mut first): (Threads, Threads) = (0, 0);
        for at in early + 1..=late {
            if at < late && self.before(early, at) {
                continue;
            }
            let thread = 1 << self.node(at).thread;
            if met & thread == 0 && !instead.iter().any(|&other| self.before(other, at)) {
                first |= thread;
            }
            met |= thread;
            instead.push(at);
        }
        let node = &mut self.nodes[early as usize - 1];
        if first & (node.tried | threads_of(&node.asleep)) != 0 {
            return;
        }
        node.tried |= match first & node.enabled {
            // Not expected, but it is always sound to try every thread.
            0 => node.enabled,
            first => first & first.wrapping_neg(),
        };
    }

    /// Records the objects that a step has touched.
    fn see(&mut self, thread: usize, at: At, touched: &[Touch]) {
        for &Touch { object, access } in touched {
            let seen = self.seen.entry(object).or_default();
            match access {
                Access::Read => {
                    seen.reads[thread] = at;
                    self.threads[thread].looked.push((object, at));
                }
                Access::Write | Access::Wait => seen.write = at,
                Access::Wake => (seen.write, seen.wake) = (at, at),
                Access::Lock => seen.lock = at,
                Access::Unlock => seen.unlock = at,
            }
        }
    }

    /// Whether a thread that shuttle calls runnable can make progress. Otherwise, its step would
    /// only find that it must wait.
    fn is_enabled(&self, thread: usize) -> bool {
        let thread = &self.threads[thread];
        let seen = |object: u64| self.seen.get(&object);
        let is_free = |object| seen(object).is_none_or(|it| it.lock <= it.unlock);
        let has_changed = |looked: &Vec<(u64, At)>| {
            let mut looked = looked.iter();
            looked.any(|&(object, at)| seen(object).is_some_and(|it| it.write > at))
        };
        let is_free = thread.locking.is_none_or(is_free);
        is_free && thread.yielded.as_ref().is_none_or(has_changed)
    }

    /// Returns the thread that makes the next step, or `None` if every enabled thread is asleep.
    fn choose(&mut self, enabled: Threads, current: Option<usize>) -> Option<usize> {
        if let Some(node) = self.nodes.get(self.at) {
            assert_eq!(
                node.enabled, enabled,
                "step {}: different threads can run when it is repeated. {NOT_REPEATABLE}",
                self.at
            );
            return Some(node.thread);
        }
        let awake = enabled & !threads_of(&self.asleep);
        // Prefer the running thread, because a switch takes time.
        let thread = current.filter(|thread| awake & 1 << thread != 0);
        let thread = thread.or_else(|| members(awake).next())?;
        let before = self.nodes.last();
        let known = before.map_or(0, |node| node.known);
        let has_spawned = enabled & !known != 0;
        let can_go_on = |thread: &usize| enabled & 1 << *thread != 0;
        let mut node = Node {
            enabled,
            known: known | enabled,
            tried: 1 << thread,
            done: Vec::new(),
            asleep: std::mem::take(&mut self.asleep),
            thread,
            touched: Rc::default(),
            clock: Clock::default(),
            current: current.filter(|thread| !has_spawned && can_go_on(thread)),
            preemptions: before.map_or(0, |node| node.preemptions_with(node.thread)),
        };
        if let Some(bound) = self.bound {
            let fits = |&thread: &usize| node.preemptions_with(thread) <= bound;
            node.tried |= members(enabled)
                .filter(fits)
                .fold(0, |set, it| set | 1 << it);
        }
        self.nodes.push(node);
        Some(thread)
    }
}

impl Scheduler for Reduced {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.end_step();
        footprint::take_locking();
        if !self.goes_on() {
            return None;
        }
        if std::mem::replace(&mut self.begun, true) {
            loop {
                let node = self.nodes.last_mut()?;
                node.done.push((node.thread, node.touched.clone()));
                let left = node.tried & !threads_of(&node.done) & !threads_of(&node.asleep);
                if let Some(thread) = members(left).next() {
                    node.thread = thread;
                    break;
                }
                self.nodes.pop();
            }
        }
        self.at = 0;
        self.new_from = self.nodes.len().saturating_sub(1);
        self.threads = Default::default();
        self.seen.clear();
        self.asleep.clear();
        self.leave = false;
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        yields: bool,
    ) -> Option<TaskId> {
        self.end_step();
        let locking = footprint::take_locking();
        let current = current.map(usize::from);
        if let Some(current) = current {
            let state = &mut self.threads[current];
            state.locking = locking;
            // A thread that parks also reports a yield, but it may wake spuriously at any time.
            let parked = |task: &&&Task| usize::from(task.id()) == current && task.blocked();
            // In the rest of an execution that the search ignores, reads are not recorded.
            if yields && !self.leave && !runnable.iter().any(|task| parked(&task)) {
                let looked = std::mem::take(&mut state.looked);
                let objects = looked.iter().map(|&(object, _)| object);
                state.again = Some(objects.filter(|&object| object != EVERYTHING).collect());
                state.yielded = Some(looked);
            }
        }
        let threads: Vec<usize> = runnable.iter().map(|task| task.id().into()).collect();
        if !self.leave {
            let enabled = threads.iter().filter(|&&thread| self.is_enabled(thread));
            let enabled = enabled.fold(0, |set, thread| set | 1 << thread);
            if let Some(thread) = self.choose(enabled, current) {
                self.at += 1;
                AT.set(self.at as At);
                self.threads[thread].locking = None;
                self.running = thread;
                return Some(thread.into());
            }
            self.leave = true;
        }
        // A thread that yields makes no progress before others have run.
        let other = threads
            .iter()
            .find(|&&thread| !yields || Some(thread) != current);
        let other = *other.or(threads.first())?;
        self.running = other;
        Some(other.into())
    }

    fn next_u64(&mut self) -> u64 {
        panic!("an exhaustive search cannot follow random choices: remove them from the program");
    }
}
