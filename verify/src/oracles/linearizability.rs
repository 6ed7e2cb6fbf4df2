//! Linearizability of generated scenarios: whether everything that callers saw can be explained by
//! a sequential specification.
//!
//! A [`Model`] names the operations of an object, generates what its threads may do, runs them, and
//! specifies sequentially which answers are possible. Each execution yields a
//! [`History`](history::History) of calls and answers, which must have an explanation.
//!
//! An operation need not take effect at a single point. Between its call and its answer it may take
//! effect in several steps, which [`Model::effects`] lists. A blocking request, for example, stands
//! in the way of others from its call until it is granted.
//!
//! A scenario that fails is reduced to a smallest one, and shown as a table.

pub mod history;
pub mod judge;
#[cfg(spanlock_shuttle)]
pub mod run;
pub mod scenario;
pub mod table;

use std::fmt::{Debug, Display};
use std::hash::Hash;

pub use history::Recorder;
pub use scenario::Scenario;

/// The most threads of a scenario.
pub const THREADS: usize = 3;

/// An object, what threads may do with it, and its sequential specification.
pub trait Model: Send + Sync + 'static {
    /// An operation as it is called.
    type Op: Copy + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static;
    /// An operation's answer.
    type Answer: Copy + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static;
    /// What the specification knows at a moment: the object's state, and what is being done by each
    /// thread.
    type State: Clone + Ord + Hash;
    /// The object under test. Threads share it by reference.
    type Object: Send + Sync + 'static;

    /// Creates a fresh object, in every execution.
    fn object(&self) -> Self::Object;

    /// Performs the operations of a thread. Calls [`Recorder::record`] around each operation, and
    /// [`finished`](crate::finished) behind it.
    fn work(
        &self,
        object: &Self::Object,
        thread: usize,
        ops: &[Self::Op],
        recorder: &Recorder<Self::Op, Self::Answer>,
    );

    /// Runs in the main thread when all others have ended: a last operation, for example, that must
    /// succeed.
    fn at_end(&self, object: &Self::Object, recorder: &Recorder<Self::Op, Self::Answer>);

    /// Returns the state before anything is called.
    fn initial(&self) -> Self::State;

    /// Returns the state after `thread` has called `op`, which will give `answer`.
    fn call(
        &self,
        state: &Self::State,
        thread: usize,
        op: Self::Op,
        answer: Self::Answer,
    ) -> Self::State;

    /// Returns every state that follows when one operation that has been called takes effect, or a
    /// further part of its effect.
    fn effects(&self, state: &Self::State) -> Vec<Self::State>;

    /// Returns the state after `thread` has its answer; none if its operation has not taken effect.
    fn answer(&self, state: &Self::State, thread: usize) -> Option<Self::State>;

    /// Describes a state, for example by its holds. Empty if there is nothing to tell.
    fn state_text(&self, state: &Self::State) -> String;

    /// Describes the operations that have been called without effect so far. Empty if none.
    fn open_text(&self, state: &Self::State) -> String;

    /// Says why no state explains this answer.
    fn unexplained_text(&self, op: Self::Op, answer: Self::Answer) -> String;

    /// Returns every sequence of at most `most` operations that a thread of a scenario may do, the
    /// shorter ones first, beginning with the empty one.
    fn threads(&self, most: usize) -> Vec<Vec<Self::Op>>;

    /// Whether a thread may do this: for the reduction of failing scenarios.
    fn is_well_formed(&self, ops: &[Self::Op]) -> bool;

    /// Reads an operation as it is displayed, for scenarios that a person gives.
    ///
    /// # Errors
    /// There is no such operation, or the object does not have it.
    fn parse(&self, word: &str) -> Result<Self::Op, String>;
}

/// How many scenarios a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenarios {
    /// Every scenario of at most two threads. Each is searched.
    All {
        /// Operations a thread in the normal run, at the most.
        operations: usize,
        /// The same in the full run.
        in_full_run: usize,
        /// Random schedules of each scenario in the full run, in place of the search.
        schedules: Option<u64>,
    },
    /// Scenarios of full size, drawn at random, each under 100 random schedules.
    Sampled {
        /// Threads.
        threads: usize,
        /// Operations of each.
        operations: usize,
    },
}

/// Schedules of each scenario that is not searched.
#[cfg(spanlock_shuttle)]
pub(crate) const SCHEDULES_OF_EACH: u64 = 100;
