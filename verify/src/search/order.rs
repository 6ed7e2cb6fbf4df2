//! The partial order of an execution's steps: what could have happened earlier or later.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[cfg(spanlock_shuttle)]
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// At least as many threads as any program has.
pub const THREADS: usize = 8;

/// For each thread the number of its last step that comes before; all of its earlier steps do, too.
/// Steps are numbered from 1; 0 is none.
pub type Clock = [u32; THREADS];

/// A step: what a thread does from one switch point to the next.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The thread.
    pub thread: usize,
    /// What comes before the step in every execution of its class, the step itself included.
    pub clock: Clock,
}

/// A callback that is shown the steps of each execution that has ended, and says whether the search
/// goes on.
pub type Watch = Box<dyn FnMut(&[Step]) -> bool>;

// Relaxed: a checker runs all threads of an execution on one system thread.
static AT: AtomicU32 = AtomicU32::new(0);

/// Returns the number of the present step.
pub fn at() -> u32 {
    AT.load(Relaxed)
}

/// Begins step `at`.
pub fn begin_step(at: u32) {
    AT.store(at, Relaxed);
}

/// A scheduler that chooses as another does, and records all steps in a total order.
#[cfg(spanlock_shuttle)]
pub(crate) struct Watched<S> {
    scheduler: S,
    steps: Vec<Step>,
    watch: Watch,
    begun: bool,
}

#[cfg(spanlock_shuttle)]
impl<S> Watched<S> {
    /// Creates a scheduler that chooses as `scheduler` does, and shows `watch` each execution.
    pub(crate) fn new(scheduler: S, watch: Watch) -> Self {
        Watched {
            scheduler,
            steps: Vec::new(),
            watch,
            begun: false,
        }
    }
}

#[cfg(spanlock_shuttle)]
impl<S: Scheduler> Scheduler for Watched<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        if std::mem::replace(&mut self.begun, true) && !(self.watch)(&self.steps) {
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
        begin_step(clock[thread]);
        Some(task)
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}
