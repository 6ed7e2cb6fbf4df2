//! The configuration of a model: which faults happen, which call [site](Site) of the facade is
//! weakened, and which bug is injected. Exists only under a checker.
//!
//! This module can check any crate whose code uses the facade. A checker's *search* runs the model
//! many times; each run is an *execution*. A process runs one model, which calls:
//!
//! 1. [`configure`] once, before the first execution;
//! 2. optionally [`set_faults`] before a search: a [plan](FaultPlan) of spurious failures, spurious
//!    wakes and timeouts;
//! 3. [`begin_execution`] at the start of every execution, and optionally [`finished`] after each
//!    operation of the model;
//! 4. after the search, the functions that return what was reached: [`executions`], [`sites`],
//!    [`bugs`].
//!
//! ```
//! use spanlock_sync::atomic::{AtomicU32, Ordering::*};
//! use spanlock_sync::{Arc, check, thread};
//!
//! fn model() {
//!     check::begin_execution();
//!     let word = Arc::new(AtomicU32::new(0));
//!     let other = word.clone();
//!     let adder = thread::spawn(move || other.fetch_add(1, Relaxed));
//!     word.fetch_add(1, Relaxed);
//!     adder.join().unwrap();
//!     assert_eq!(word.load(Relaxed), 2);
//! }
//!
//! check::configure(check::Config::default()).expect("the first model of this process");
//! # #[cfg(spanlock_explorer)]
//! # spanlock_explorer::Search::new().explore(&mut (), model);
//! # #[cfg(spanlock_loom)]
//! loom::model(model);
//! # #[cfg(spanlock_shuttle)]
//! # shuttle::check_dfs(model, None);
//! assert!(check::executions() > 1);
//! assert_eq!(check::sites().len(), 3);
//! ```
//!
//! Everything here is plain std state, because the checkers run all threads of an execution on one
//! system thread. So every ordering in this module is Relaxed: there is no other thread to
//! synchronize with.

use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

mod bugs;
mod faults;
mod refused;
mod sites;

pub use bugs::{BugSite, bug_fired, bugs, is_injected};
pub use faults::{Fault, FaultPlan, Occasion, faults, injected, set_faults};
pub(crate) use faults::{fault, injected_wakeup};
pub(crate) use refused::is_barrier_refused;
pub use refused::refuse_barriers;
pub use sites::{Mutation, Op, Site, Weakening, sites, weakened};
pub(crate) use sites::{drop_drain, drop_flush, drop_wake, fence_ordering, ordering};

#[cfg(spanlock_explorer)]
pub use spanlock_explorer::{Moment, Plain};

/// A model's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The site to weaken, if any.
    pub weaken: Option<Weakening>,
    /// The name of the [bug](crate::injected_bug) to inject, if any.
    pub bug: Option<String>,
    /// Whether to record the actions of each thread, for [`steps`].
    pub trace: bool,
    /// How many threads the model has, main included; 4 by default. An [`Rcu`](crate::rcu::Rcu) has
    /// a counter for each thread.
    pub threads: Option<usize>,
}

static CONFIG: OnceLock<Config> = OnceLock::new();
static STEPS: Mutex<Vec<Step>> = Mutex::new(Vec::new());
static THREADS: AtomicUsize = AtomicUsize::new(0);
static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
#[cfg(spanlock_shuttle)]
static FINISHED: AtomicUsize = AtomicUsize::new(0);
#[cfg(spanlock_shuttle)]
static LONGEST: AtomicUsize = AtomicUsize::new(0);

/// One step of an execution: an action of a thread.
#[derive(Clone, Debug)]
pub struct Step {
    /// The thread's [index](crate::thread::index).
    pub thread: usize,
    /// The action.
    pub what: String,
    /// Where, as `file:line`; empty for a [`remark`].
    pub place: String,
}

/// Sets the configuration of this process.
///
/// # Errors
/// Returns `config` if another one was set before, or if the facade has already used the default: a
/// process runs one model.
pub fn configure(config: Config) -> Result<(), Config> {
    CONFIG.set(config)
}

/// Starts an execution: the counts of [occasions](Occasion) and the numbers of threads begin anew.
pub fn begin_execution() {
    faults::begin_execution();
    refused::begin_execution();
    THREADS.store(0, Relaxed);
    #[cfg(spanlock_shuttle)]
    FINISHED.store(0, Relaxed);
    locked(&STEPS).clear();
    super::operations::begin_execution();
    super::freed::begin_execution();
    #[cfg(spanlock_explorer)]
    super::foreign::begin_execution();
    EXECUTIONS.fetch_add(1, Relaxed);
}

/// Calls `f`, which may allocate memory that outlives the execution. Under the explorer, all other
/// memory that an execution allocates is freed at its end.
pub fn outside<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(spanlock_explorer)]
    return spanlock_explorer::arena::outside(f);
    #[cfg(not(spanlock_explorer))]
    f()
}

/// Returns how many executions have begun.
pub fn executions() -> usize {
    EXECUTIONS.load(Relaxed)
}

/// Returns a hash of the operations of the execution so far, in any order. The same schedule of the
/// same model has the same operations. The hash does not tell objects apart.
pub fn fingerprint() -> u64 {
    super::operations::fingerprint()
}

/// Notes that an operation of the model has finished.
///
/// Shuttle can bound the number of steps (`MaxSteps::FailAfter`). This call restarts shuttle's
/// count, so the bound applies to the steps between two finished operations.
pub fn finished() {
    #[cfg(spanlock_shuttle)]
    {
        let now = shuttle::current::context_switches();
        let steps = now - FINISHED.swap(now, Relaxed);
        LONGEST.fetch_max(steps, Relaxed);
        shuttle::current::reset_step_count();
    }
}

/// Returns the largest number of steps so far between two [finished](finished) operations. Steps of
/// all threads count.
#[cfg(spanlock_shuttle)]
pub fn longest() -> usize {
    LONGEST.load(Relaxed)
}

/// Returns the actions of all threads in the execution so far, in order. Empty unless the
/// configuration asks for a [trace](Config::trace).
pub fn steps() -> Vec<Step> {
    locked(&STEPS).clone()
}

/// Adds a remark of the model to the [`steps`].
pub fn remark(thread: usize, what: &str) {
    step(thread, what, String::new);
}

fn step(thread: usize, what: &str, place: impl FnOnce() -> String) {
    if config().trace {
        outside(|| {
            locked(&STEPS).push(Step {
                thread,
                what: what.to_owned(),
                place: place(),
            });
        });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config() -> &'static Config {
    CONFIG.get_or_init(Config::default)
}

/// Adds an action of the calling thread to the [`steps`]: one that has no [site](Site).
#[track_caller]
pub(crate) fn trace(what: &str) {
    // While a failure unwinds, the checker may have no current thread.
    if config().trace && !std::thread::panicking() {
        let at = Location::caller();
        step(crate::thread::index(), what, || {
            format!("{}:{}", at.file(), at.line())
        });
    }
}

pub(crate) fn next_thread_index() -> usize {
    let index = 1 + THREADS.fetch_add(1, Relaxed);
    if let Some(threads) = config().threads {
        assert!(
            index < threads,
            "the program starts more than the {threads} threads that it declares, main included: \
             declare all of them with `Program::threads`"
        );
    }
    index
}

/// Returns how many threads the model has.
pub(crate) fn threads() -> usize {
    config().threads.unwrap_or(4)
}

/// Returns how often an atomic, a cell or a mutex of the facade was touched so far. 0 after a
/// search means that the code under test does not use the facade.
pub fn operations() -> u64 {
    super::operations::operations()
}
