//! The partial order of an execution's steps: what could have happened earlier or later.

use std::cell::Cell;

#[cfg(spanlock_shuttle)]
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// At least as many threads as any program has.
pub(crate) const THREADS: usize = 8;

/// For each thread the number of its last step that comes before; all of its earlier steps do, too.
/// Steps are numbered from 1; 0 is none.
pub(crate) type Clock = [u32; THREADS];

/// A step: what a thread does from one switch point to the next.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub thread: usize,
    /// What comes before the step in every execution of its class, the step itself included.
    pub clock: Clock,
}

/// A callback that is shown the steps of each execution that has ended, and says whether the search
/// goes on.
#[cfg(spanlock_shuttle)]
pub(crate) type Watch = Box<dyn FnMut(&[Step]) -> bool>;

thread_local! {
    /// The number of the present step: a checker runs all threads on one system thread.
    pub(crate) static AT: Cell<u32> = const { Cell::new(0) };
}

/// A scheduler that chooses as another does, records all steps in a total order, and shows them.
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
