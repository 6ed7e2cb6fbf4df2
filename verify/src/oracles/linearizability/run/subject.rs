//! What is run, and what that shows.

use std::sync::Arc;

use super::super::judge::HistoryOf;

/// The model of the scenarios, and how to run them.
pub struct Subject<M> {
    /// The model.
    pub model: Arc<M>,
    /// The number of random schedules of each scenario under shuttle, from seed 1. The explorer
    /// searches each scenario.
    pub schedules: usize,
    /// The most steps of all threads between two finished operations, under shuttle.
    pub steps: u64,
}

/// What the executions of a scenario show: how many histories differ, and a history without an
/// explanation, with an order of its events that has none.
pub(super) type Shown<M> = (u64, Option<(HistoryOf<M>, Vec<usize>)>);
