//! An exhaustive search of interleavings that leaves out those that nobody can tell from others: dynamic partial-order reduction for shuttle.
//!
//! # The problem
//! Plain depth-first search tries every order of all steps of all threads. Two neighbouring steps that touch different things, or only look at the same
//! one, come to the same in either order: so the interleavings fall into classes, and one of each class is enough. There are thousands of times
//! fewer classes.
//!
//! # How
//! Abdulla, Aronis, Jonsson and Sagonas, "Optimal dynamic partial order reduction" (POPL 2014, [DOI](https://doi.org/10.1145/2535838.2535845)), the
//! algorithm with *source sets* (its Algorithm 1). A node is a point at which one of several threads is to make a step. One execution goes down, and at each of its steps:
//!
//! - **Races**: does the step touch what an earlier one of another thread touched, with nothing between that orders the two? Then the other order
//!   must be tried: a thread that begins the other order is added to the threads to *try* at the node before the earlier step.
//! - **Sleep sets** (Godefroid): when a node has been left by a thread's step, and is left again by another's, the first thread sleeps below, until
//!   somebody makes a step that its step depends on: before that, to let it make its step would lead where the search has been.
//!
//! Each class is explored once, all outcomes, failures and deadlocks are found. With two threads nothing is explored in vain either: the thread that
//! is added at a node comes, by the steps that it made before, to the one that the sleeper's step depends on.
//!
//! # Why it is sound
//! What the algorithm asks for is that *dependent* be said of all pairs of steps whose order matters.
//!
//! 1. A step goes from one switch point to the next: an operation of the door, and the thread's own code behind it. Its footprint ([`footprint`]) is
//!    taken when it has ended, and holds the operation's object, the cells that the code behind it touched, and whatever else the door shares
//!    between threads outside of operations (a parker's flag, the numbering of threads). The models share nothing else but their log,
//!    which is sorted by thread before it counts. Memory under a mutex is the mutex's.
//! 2. A sleeper's footprint is not guessed: its step was made, from the same node, before it went to sleep, and as long as nobody touches what it touched it is
//!    the same step with the same objects, whose numbers do not depend on the interleaving.
//! 3. Labels are by effect: an operation that changed nothing is a read. Two neighbouring reads of one object commute, whatever they would have been elsewhere.
//! 4. A step of which the door knows no footprint (a condition variable's, a failed attempt to block) touches [everything](footprint::EVERYTHING).
//! 5. What a thread does at the end of the step before it blocks (looking whether a mutex is free, joining a queue of the checker's) has no effect that others see:
//!    the checker wakes all who wait, and lets them race.
//!
//! Steps that are not always possible:
//!
//! - **Mutexes**. A thread that is about to lock one that is held is not runnable, whatever the checker says of it. The race of a lock is with the *lock* of the
//!   holder before: before the unlock it was not possible.
//! - **Sleeps, joins, starts**: they come after the wake, the end, the spawning, and are in no race with these.
//! - **Yields**: a thread that yields has looked in vain at something in a loop, and need not run again before somebody has changed what it looked at since
//!   it yielded last: the round between would be the same. (So a loop that yields must have no effect but looking.) If nobody else can run,
//!   it does, and nothing is searched behind that. A yield elsewhere than in such a loop would so cut off what comes behind it, and nobody would be told: who has yielded and does
//!   not first look again at something that it looked at before panics. (What looks again for another reason is taken for a loop.)
//!
//! Every replayed step must have the footprint that it had the first time: a model whose executions differ for another reason than the schedule panics.

use std::collections::HashMap;
use std::rc::Rc;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use spanlock_sync::footprint::{self, Access, EVERYTHING, Touch, dependent};

use crate::search::order::{self, Clock, Step, THREADS, Watch};

/// A set of threads, a bit each.
type Threads = u8;

/// The number of a step in its execution, from 1; 0 is none.
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

/// A point at which a thread is to make a step, and the step that it makes in the present execution.
struct Node {
    enabled: Threads,
    /// Those to try.
    tried: Threads,
    /// Those whose steps have been tried.
    done: Vec<(usize, Footprint)>,
    /// Those whose steps lead where the search has been.
    asleep: Vec<(usize, Footprint)>,
    thread: usize,
    touched: Footprint,
    clock: Clock,
}

fn threads_of(steps: &[(usize, Footprint)]) -> Threads {
    steps.iter().fold(0, |set, (thread, _)| set | 1 << thread)
}

/// The last steps that touched an object.
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
    /// The mutex that it is about to lock.
    locking: Option<u64>,
    /// What it has looked at since it yielded, and when.
    looked: Vec<(u64, At)>,
    /// It has yielded, after looking at these.
    yielded: Option<Vec<(u64, At)>>,
    /// It has yielded, and is to look at one of these before it touches anything else.
    again: Option<Vec<u64>>,
    begun: bool,
}

/// The scheduler.
#[derive(Default)]
pub(crate) struct Reduced {
    /// The way to the present step.
    nodes: Vec<Node>,
    /// How many steps of the present execution have begun.
    at: usize,
    /// Steps before this one are repeated.
    new_from: usize,
    threads: [Thread; THREADS],
    seen: HashMap<u64, Seen>,
    /// Who sleeps at the next node.
    asleep: Vec<(usize, Footprint)>,
    /// Who makes the present step.
    running: usize,
    begun: bool,
    /// This execution has come where the search has been, or where nobody can run, and is only run to its end.
    leave: bool,
    watch: Option<Watch>,
}

impl Reduced {
    /// A search that has not begun, in this system thread.
    pub(crate) fn new() -> Self {
        footprint::record();
        Self::default()
    }

    /// The same, and `watch` is shown the order of each execution, once of each class.
    pub(crate) fn watched(watch: Watch) -> Self {
        Reduced {
            watch: Some(watch),
            ..Self::new()
        }
    }

    /// Whether whoever watches wants to see more.
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

    /// Whether step `first` comes before step `second`, both of this execution, in every execution of its class.
    fn before(&self, first: At, second: At) -> bool {
        self.node(second).clock[self.node(first).thread] >= first
    }

    /// Takes the footprint of the step that has just ended, finds what it depends on, and what other orders are to be tried.
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
        // The first step is the thread's own code alone; that behind a yield may be.
        let unknown = touched.is_empty() && state.begun && yielded.is_none();
        state.begun = true;
        let access = if unknown { Access::Write } else { Access::Read };
        touched.push(Touch {
            object: EVERYTHING,
            access,
        });
        touched.sort_unstable();
        touched.dedup();

        let (clock, races) = self.order(thread, &touched, yielded.unwrap_or_default());
        self.threads[thread].clock = clock;
        self.threads[thread].clock[thread] = at;
        let is_new = self.at > self.new_from;
        let clock = self.threads[thread].clock;
        let node = &mut self.nodes[at as usize - 1];
        if is_new {
            node.touched = touched.into();
        } else {
            assert!(
                *node.touched == *touched && node.clock == clock,
                "step {at} of T{thread} was {:?}, and is {touched:?}: what else than the schedule does the model depend on?",
                node.touched
            );
        }
        node.clock = clock;
        let touched = node.touched.clone();
        self.asleep = (node.asleep.iter().chain(&node.done))
            .filter(|(sleeper, step)| *sleeper != thread && !dependent(step, &touched))
            .cloned()
            .collect();
        if is_new {
            races.into_iter().for_each(|race| self.reverse(race, at));
        }
        self.see(thread, at, &touched);
    }

    /// Sees to it that who has yielded is in a loop.
    fn look_again(&mut self, touched: &[Touch]) {
        // That behind a yield may be the thread's own code alone.
        if touched.is_empty() {
            return;
        }
        let Some(looked) = self.threads[self.running].again.take() else {
            return;
        };
        assert!(
            touched.iter().any(|touch| looked.contains(&touch.object)),
            "T{} has yielded, and what it does then does not begin with a look at anything that it looked at before: a model or a lock may yield only \
             in a loop that looks at atomics until another thread changes one. Leave the yield out, or wait by the door's parking (`spanlock_sync`)",
            self.running
        );
    }

    /// The clock of a step, its own number not yet in it, and the earlier steps that it is in a race with.
    fn order(&self, thread: usize, touched: &[Touch], looked: Vec<(u64, At)>) -> (Clock, Vec<At>) {
        let mut clock = self.threads[thread].clock;
        let mut races = Vec::new();
        let nothing = Seen::default();
        let seen = |object| self.seen.get(object).unwrap_or(&nothing);
        let is_later = |clock: &Clock, at: At| at > 0 && clock[self.node(at).thread] < at;
        // First what made it possible, which it is in no race with.
        let mut after = Vec::new();
        for Touch { object, access } in touched {
            match access {
                Access::Lock => {
                    let holder = seen(object).lock;
                    races.extend(is_later(&clock, holder).then_some(holder));
                    after.push(seen(object).unlock);
                }
                Access::Wait => after.push(seen(object).wake),
                _ => {}
            }
        }
        after.extend(looked.iter().map(|(object, _)| seen(object).write));
        for at in after.into_iter().filter(|&at| at > 0) {
            join(&mut clock, &self.node(at).clock);
        }
        let mut clashes = Vec::new();
        for Touch { object, access } in touched {
            let seen = seen(object);
            match access {
                Access::Lock | Access::Unlock => {}
                Access::Read => clashes.push(seen.write),
                Access::Write | Access::Wake | Access::Wait => {
                    clashes.push(seen.write);
                    clashes.extend(seen.reads);
                }
            }
        }
        clashes.retain(|&at| at > 0);
        races.extend(clashes.iter().filter(|&&at| is_later(&clock, at)));
        for at in clashes {
            join(&mut clock, &self.node(at).clock);
        }
        races.sort_unstable();
        races.dedup();
        // If another of them is between, they are no neighbours: that race comes up when the other is the other way round.
        let between = |race: &At| {
            races
                .iter()
                .any(|other| other != race && self.before(*race, *other))
        };
        let neighbours = races
            .iter()
            .filter(|race| !between(race))
            .copied()
            .collect();
        (clock, neighbours)
    }

    /// The step `late` could have come before `early`: sees to it that this is tried.
    fn reverse(&mut self, early: At, late: At) {
        // What would come in the stead of `early`: all that does not come after it, then `late`. Who could begin that?
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
            // It cannot be, but if it were, this is right.
            0 => node.enabled,
            first => first & first.wrapping_neg(),
        };
    }

    /// Remembers what the step has touched.
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

    /// Whether a thread that the checker takes for runnable can make a step, and not only find that it must wait.
    fn is_enabled(&self, thread: usize) -> bool {
        let thread = &self.threads[thread];
        let held = |object: &u64| {
            self.seen
                .get(object)
                .is_some_and(|seen| seen.lock > seen.unlock)
        };
        let changed =
            |&(object, at): &(u64, At)| self.seen.get(&object).is_some_and(|seen| seen.write > at);
        let must_wait = thread.locking.as_ref().is_some_and(held)
            || (thread.yielded.as_ref()).is_some_and(|looked| !looked.iter().any(changed));
        !must_wait
    }

    /// The thread that makes the next step; none if all who could are asleep, or nobody can.
    fn choose(&mut self, enabled: Threads, current: Option<usize>) -> Option<usize> {
        if let Some(node) = self.nodes.get(self.at) {
            assert_eq!(
                node.enabled, enabled,
                "step {}: what else than the schedule does the model depend on?",
                self.at
            );
            return Some(node.thread);
        }
        let awake = enabled & !threads_of(&self.asleep);
        // Who runs already, if it can: switching takes time.
        let thread = current.filter(|thread| awake & 1 << thread != 0);
        let thread = thread.or_else(|| members(awake).next())?;
        self.nodes.push(Node {
            enabled,
            tried: 1 << thread,
            done: Vec::new(),
            asleep: std::mem::take(&mut self.asleep),
            thread,
            touched: Rc::default(),
            clock: Clock::default(),
        });
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
            // Who parks says that it yields too, and may go on by itself at any time.
            let parked = |task: &&&Task| usize::from(task.id()) == current && task.blocked();
            // Where the search has been, nobody notes what is looked at.
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
                order::begin_step(self.at as u32);
                self.threads[thread].locking = None;
                self.running = thread;
                return Some(thread.into());
            }
            self.leave = true;
        }
        // Who yields has nothing to do before others have run.
        let other = threads
            .iter()
            .find(|&&thread| !yields || Some(thread) != current);
        let other = *other.or(threads.first())?;
        self.running = other;
        Some(other.into())
    }

    fn next_u64(&mut self) -> u64 {
        panic!("an exhaustive search draws nothing at random");
    }
}
