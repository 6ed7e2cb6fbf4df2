//! The explorer against its oracles.
//!
//! - [`axioms`]: all candidate executions, judged by the clauses of the standard. Shares no code
//!   with the search, and finds every error in small programs.
//! - [`naive`]: the same graphs, extended in every thread order, without revisits. Shares the
//!   consistency predicate, and finds errors of the search in larger programs.
//! - [`known`], [`litmus`]: numbers of executions that combinatorics gives, and outcomes from the
//!   literature. They find errors that the oracles might share.
//! - [`mutants`]: errors planted into the explorer, which find gaps in the others.
//!
//! [`random`] draws programs for the oracles. It prints a difference with the smallest program that
//! has one. [`models`] are the programs on which C++20 and RC11 differ, and [`locks`] those in
//! which the search takes short cuts.

mod axioms;
mod execution;
mod explored;
mod known;
mod litmus;
mod locks;
mod models;
mod mutants;
mod naive;
mod program;
mod random;
mod relation;

use crate::Model;

const MODELS: [Model; 2] = [Model::Cpp20, Model::Rc11];
