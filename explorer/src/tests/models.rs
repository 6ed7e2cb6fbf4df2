//! The programs on which C++20 and RC11 differ.
//!
//! Both order SeqCst operations that communicate through SeqCst accesses. They differ in what a
//! SeqCst access learns from a *weaker* store: C++20 orders everything that is coherence-ordered
//! before it ([atomics.order] 4.1), even through `rf` from a relaxed store, while the relation scb
//! of RC11 contains `rf` only where it makes happens-before. So RC11 permits more. About one
//! random program in 1,000 shows a difference; here are the kinds that a search over such programs
//! has found, each shrunk.

use super::axioms;
use super::litmus::Says::{Forbidden, Permitted};
use super::litmus::judge;
use super::program::Operation::{self, Fence, Load, Store};
use super::program::Program;
use super::random::SMALL;
use crate::Model::{Cpp20, Rc11};
use crate::Ordering::{Acquire, Relaxed, Release, SeqCst};

const X: usize = 0;
const Y: usize = 1;

/// Asserts that RC11 alone permits an outcome, which is one execution.
fn differ<const N: usize>(executions: usize, outcome: [&str; N], threads: [Vec<Operation>; N]) {
    let program = threads.into_iter().collect();
    judge(Cpp20, &program, executions, &outcome, Forbidden);
    judge(Rc11, &program, executions + 1, &outcome, Permitted);
}

/// The load of 2 is after the store of 1 in C++20's order, so the second load is after the store
/// to `Y`.
#[test]
fn a_load_of_a_later_relaxed_store() {
    let writer = vec![
        Store(Y, 1, SeqCst),
        Store(X, 1, SeqCst),
        Store(X, 2, Relaxed),
    ];
    differ(
        4,
        ["", "20"],
        [writer, vec![Load(X, SeqCst), Load(Y, SeqCst)]],
    );
}

/// Store buffering with a relaxed store, which its own thread loads. Compilers for x86 make this
/// two plain instructions, which the processor reorders: C++20 forbids what they emit.
#[test]
fn a_load_of_the_own_relaxed_store() {
    let first = vec![Store(X, 1, Relaxed), Load(X, SeqCst), Load(Y, SeqCst)];
    let second = vec![Store(Y, 1, SeqCst), Load(X, SeqCst)];
    differ(3, ["10", "0"], [first, second]);
}

/// The same with the store in a third thread.
#[test]
fn a_load_of_another_relaxed_store() {
    let first = vec![Load(X, SeqCst), Load(Y, SeqCst)];
    let second = vec![Store(Y, 1, SeqCst), Load(X, SeqCst)];
    differ(
        7,
        ["10", "0", ""],
        [first, second, vec![Store(X, 1, Relaxed)]],
    );
}

/// Independent reads of independent writes, if only the reads are SeqCst.
#[test]
fn loads_of_independent_relaxed_stores() {
    let reader = |first, second| vec![Load(first, SeqCst), Load(second, SeqCst)];
    let writer = |at| vec![Store(at, 1, Relaxed)];
    let threads = [writer(X), writer(Y), reader(X, Y), reader(Y, X)];
    differ(15, ["", "", "10", "10"], threads);
}

/// The load of 0 is before the fence in C++20's order, because the other thread has seen what
/// overwrote the 0.
#[test]
fn a_fence_after_a_load_of_a_relaxed_store() {
    let first = vec![Store(X, 1, SeqCst), Load(Y, SeqCst), Store(Y, 1, Relaxed)];
    let second = vec![Load(Y, Relaxed), Fence(SeqCst), Load(X, Relaxed)];
    differ(3, ["0", "10"], [first, second]);
}

/// In RC11, `po` between accesses of one location is no part of `po ; hb ; po`: the load of `X` in
/// the first thread is not ordered before the load of `Y`, though it happens before. A choice
/// between the two accesses changes nothing, because it is no event of the models.
#[test]
pub(super) fn program_order_within_a_location() {
    let first = [Load(X, SeqCst), Store(X, 1, Release)];
    let second = vec![Store(X, 1, SeqCst)];
    let third = vec![Store(Y, 1, SeqCst), Store(X, 2, SeqCst)];
    let fourth = vec![Load(X, Acquire), Load(Y, SeqCst)];
    let threads = [first.to_vec(), second, third, fourth];
    let mut program: Program = threads.into_iter().collect();
    // In the execution that differs, the second thread's store is between the others'.
    let outcome = ["1", "", "", "10"];
    judge(Cpp20, &program, 80, &outcome, Permitted);
    judge(Rc11, &program, 81, &outcome, Permitted);
    program.threads[0][1].optional = true;
    judge(Cpp20, &program, 110, &outcome, Permitted);
    judge(Rc11, &program, 111, &outcome, Permitted);
}

#[test]
fn rc11_permits_what_cpp20_permits() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..2_000 {
        let program = Program::random(&mut random, SMALL);
        let (cpp20, rc11) = (
            axioms::executions(&program, Cpp20),
            axioms::executions(&program, Rc11),
        );
        let is_permitted = |(execution, values)| rc11.complete.get(execution) == Some(values);
        assert!(cpp20.complete.iter().all(is_permitted), "{program}");
        assert!(cpp20.deadlocks.is_subset(&rc11.deadlocks), "{program}");
    }
}
