//! Whether a graph is consistent: an execution that the memory model permits.
//!
//! Most of the model holds by construction, because an event is only ever added in a way that
//! [`coherence`](crate::coherence) permits. What is left is the order of SeqCst operations, on
//! which the two [models](Model) differ. Neither permits a cycle of `po ∪ rf`, so load buffering
//! is excluded.

mod cpp20;
mod rc11;

use crate::graph::Graph;

/// What SeqCst means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Model {
    /// C++20, which Rust has adopted: a total order S of all SeqCst operations, by
    /// [atomics.order]/3 and /4.
    #[default]
    Cpp20,
    /// `psc` is acyclic, as in RC11 (Lahav, Vafeiadis, Kang, Hur and Dreyer, PLDI'17, section 3.3).
    /// It permits a little more than C++20. Release sequences are those of C++20.
    Rc11,
}

impl Graph {
    /// Returns whether the SeqCst operations can be ordered as the model demands.
    pub(crate) fn is_consistent(&self, model: Model) -> bool {
        let is_used = |thread: &usize| self.events(*thread).iter().any(|it| it.is_seq_cst());
        // Program order orders the operations of one thread.
        if (0..self.threads()).filter(is_used).count() < 2 {
            return true;
        }
        match model {
            Model::Cpp20 => cpp20::has_total_order(self),
            Model::Rc11 => rc11::is_acyclic(self),
        }
    }
}
