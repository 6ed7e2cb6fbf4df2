//! The partial order of an execution's steps: which steps must come before which.

use std::cell::Cell;

#[cfg(spanlock_shuttle)]
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// An upper bound on the threads of a program.
pub(crate) const THREADS: usize = 8;

/// A step's vector clock: for each thread, the number of its last step that must come before.
/// Steps are numbered from 1, and 0 means none.
pub(crate) type Clock = [u32; THREADS];

/// A step: the code that a thread runs from one scheduling point to the next.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub thread: usize,
    /// The steps that come before this one in every equivalent execution, and this step itself.
    pub clock: Clock,
}

/// A callback that receives the steps of each finished execution; returns whether to go on.
#[cfg(spanlock_shuttle)]
pub(crate) type Watch = Box<dyn FnMut(&[Step]) -> bool>;

thread_local! {
    /// The number of the current step, for all threads: a checker runs them on one system thread.
    pub(crate) static AT: Cell<u32> = const { Cell::new(0) };
}

/// A wrapper of a scheduler that records all steps in a total order, and passes them to `watch`.
#[cfg(spanlock_shuttle)]
pub(crate) struct Watched<S> {
    pub(crate) scheduler: S,
    pub(crate) steps: Vec<Step>,
    pub(crate) watch: Watch,
}

#[cfg(spanlock_shuttle)]
impl<S: Scheduler> Scheduler for Watched<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        if !self.steps.is_empty() && !(self.watch)(&self.steps) {
            return None;
        }
        self.steps.clear();
        self.scheduler.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        yields: bool,
    ) -> Option<TaskId> {
        let task = self.scheduler.next_task(runnable, current, yields)?;
        let thread = usize::from(task);
        let mut clock = self.steps.last().map_or([0; THREADS], |step| step.clock);
        clock[thread] = self.steps.len() as u32 + 1;
        self.steps.push(Step { thread, clock });
        AT.set(clock[thread]);
        Some(task)
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}
