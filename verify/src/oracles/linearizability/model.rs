//! What a program says about the object whose histories it judges.

use std::fmt::{Debug, Display};
use std::hash::Hash;

use super::history::Recorder;

/// An object, what threads may do with it, and its sequential specification.
pub trait Model: Send + Sync + 'static {
    /// An operation with its arguments.
    type Op: Copy + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static;
    /// An operation's answer.
    type Answer: Copy + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static;
    /// A state of the specification: that of the object, and the operation that each thread is in.
    type State: Clone + Ord + Hash;
    /// The object under test. Threads share it by reference.
    type Object: Send + Sync + 'static;

    /// Creates the object of an execution.
    fn object(&self) -> Self::Object;

    /// Performs the operations of a thread. Runs each operation inside [`Recorder::record`], and
    /// calls [`finished`](crate::finished) after it.
    fn work(
        &self,
        object: &Self::Object,
        thread: usize,
        ops: &[Self::Op],
        recorder: &Recorder<Self::Op, Self::Answer>,
    );

    /// Runs in the main thread after all others have ended, to try what must then succeed.
    fn at_end(&self, object: &Self::Object, recorder: &Recorder<Self::Op, Self::Answer>);

    /// Returns the state before the first call.
    fn initial(&self) -> Self::State;

    /// Returns the state after `thread` has called `op`, which will give `answer`.
    fn call(
        &self,
        state: &Self::State,
        thread: usize,
        op: Self::Op,
        answer: Self::Answer,
    ) -> Self::State;

    /// Returns every state that can come next when an operation that has been called takes effect,
    /// in whole or in part.
    fn effects(&self, state: &Self::State) -> Vec<Self::State>;

    /// Returns the state after `thread` gets its answer. `None` if its operation had no effect yet.
    fn answer(&self, state: &Self::State, thread: usize) -> Option<Self::State>;

    /// Describes a state, for example by the locks that are held. May be empty.
    fn state_text(&self, state: &Self::State) -> String;

    /// Describes the called operations that have had no effect so far. Empty if there are none.
    fn open_text(&self, state: &Self::State) -> String;

    /// Says why no state explains this answer.
    fn unexplained_text(&self, op: Self::Op, answer: Self::Answer) -> String;

    /// Returns every sequence of at most `most` operations that a thread may perform, the shorter
    /// ones first, beginning with the empty one.
    fn threads(&self, most: usize) -> Vec<Vec<Self::Op>>;

    /// Whether a thread may perform this sequence of operations.
    fn is_well_formed(&self, ops: &[Self::Op]) -> bool;

    /// Parses an operation from the text that `Display` writes, for scenarios that a person types.
    ///
    /// # Errors
    /// Fails if there is no such operation, or the object does not support it.
    fn parse(&self, word: &str) -> Result<Self::Op, String>;
}
