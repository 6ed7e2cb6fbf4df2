//! The order of the steps of an execution, as far as it is one: for those who ask what could have happened earlier or later.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// More threads than any model has.
pub const THREADS: usize = 8;

/// Of each thread, its last step that comes before, by number: all of its steps up to that one do. Steps are numbered from 1; 0 is none.
pub type Clock = [u32; THREADS];

/// A step: what a thread does from one switch point to the next.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Whose.
    pub thread: usize,
    /// What comes before it, itself included, in every execution of its class.
    pub clock: Clock,
}

/// Is shown the steps of each execution that has come to its end; says whether the search goes on.
pub type Watch = Box<dyn FnMut(&[Step]) -> bool>;

// Relaxed: a checker runs all threads of an execution on one system thread.
static AT: AtomicU32 = AtomicU32::new(0);

/// The number of the present step.
pub fn at() -> u32 {
    AT.load(Relaxed)
}

/// Step `at` begins.
pub fn begin_step(at: u32) {
    AT.store(at, Relaxed);
}

/// A scheduler that chooses as another does, and keeps all steps in order: each comes before the next.
#[cfg(spanlock_shuttle)]
pub struct Watched<S> {
    scheduler: S,
    steps: Vec<Step>,
    watch: Watch,
    begun: bool,
}

#[cfg(spanlock_shuttle)]
impl<S> Watched<S> {
    /// As `scheduler`, and `watch` is shown each execution.
    pub fn new(scheduler: S, watch: Watch) -> Self {
        Watched {
            scheduler,
            steps: Vec::new(),
            watch,
            begun: false,
        }
    }
}

#[cfg(spanlock_shuttle)]
impl<S: shuttle::scheduler::Scheduler> shuttle::scheduler::Scheduler for Watched<S> {
    fn new_execution(&mut self) -> Option<shuttle::scheduler::Schedule> {
        if std::mem::replace(&mut self.begun, true) && !(self.watch)(&self.steps) {
            return None;
        }
        self.steps.clear();
        self.scheduler.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&shuttle::scheduler::Task],
        current: Option<shuttle::scheduler::TaskId>,
        yields: bool,
    ) -> Option<shuttle::scheduler::TaskId> {
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
