//! Linearizability of generated scenarios: a sequential specification must explain every answer.
//!
//! A [`Model`] lists the operations of an object, generates and runs a sequence of operations for
//! each thread, and specifies which answers are possible. Each execution yields a
//! [`History`](history::History) of calls and answers. The history has an *explanation* if the
//! specification allows its answers.
//!
//! An operation may take effect in several steps between its call and its answer, which
//! [`Model::effects`] lists. For example, a request that waits for a lock may block other requests
//! before it gets the lock itself.
//!
//! The harness reduces a failing scenario to a smaller one, and shows its history as a table.

#[cfg(any(spanlock_explorer, spanlock_shuttle))]
pub(crate) mod explore;
pub mod history;
pub mod judge;
mod model;
#[cfg(any(spanlock_explorer, spanlock_shuttle))]
pub mod run;
pub mod scenario;
pub mod table;

#[cfg(any(spanlock_explorer, spanlock_shuttle))]
pub(crate) use explore::explore;
pub use history::{Recorder, THREADS};
pub use model::Model;
pub use scenario::{Scenario, Scenarios};

/// Runs scenarios, under the explorer and shuttle only.
#[cfg(not(any(spanlock_explorer, spanlock_shuttle)))]
pub(crate) fn explore<M>(_: &crate::execution::Search, _: &M, _: Scenarios) {
    crate::execution::refuse("scenarios run under the explorer, and under shuttle");
}
