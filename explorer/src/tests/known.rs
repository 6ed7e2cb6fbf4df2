//! Programs whose number of executions is known, from combinatorics or from the literature.

use std::rc::Rc;

use super::execution::Executions;
use super::program::Operation::{self, Add, CompareExchange, Fence, Load, Lock, Store};
use super::program::{Program, Statement};
use super::{MODELS, axioms, explored};
use crate::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::{Atomic, Model, Search, Verdict, spawn};

const X: usize = 0;
const Y: usize = 1;

/// Returns what the explorer visits.
pub(super) fn explored(program: &Program, model: Model) -> Executions {
    let found = explored::executions(program, model);
    found.unwrap_or_else(|error| panic!("{model:?}\n{program}{error}"))
}

/// Asserts how many complete executions a program has, whose threads these are.
fn count(expected: usize, threads: impl IntoIterator<Item = Vec<Operation>>) {
    let program: Program = threads.into_iter().collect();
    for model in MODELS {
        let found = explored(&program, model);
        assert_eq!(found.complete.len(), expected, "{model:?}\n{program}");
        assert!(found.deadlocks.is_empty(), "{model:?}\n{program}");
    }
}

fn factorial(n: usize) -> usize {
    (1..=n).product()
}

fn binomial(n: usize, k: usize) -> usize {
    factorial(n) / factorial(k) / factorial(n - k)
}

#[test]
fn updates_of_one_location_are_ordered_in_every_way() {
    for n in 1..=6 {
        count(factorial(n), vec![vec![Add(X, Relaxed)]; n]);
    }
    for n in 1..=5 {
        count(binomial(2 * n, n), vec![vec![Add(X, AcqRel); n]; 2]);
    }
}

#[test]
fn stores_to_one_location_are_ordered_in_every_way() {
    for n in 1..=6 {
        count(
            factorial(n),
            (1..=n as u64).map(|value| vec![Store(X, value, Relaxed)]),
        );
    }
}

#[test]
fn a_load_reads_from_any_concurrent_store() {
    // n! orders of the stores, and n + 1 values to read.
    for n in 1..=5 {
        let stores = (1..=n as u64).map(|value| vec![Store(X, value, Relaxed)]);
        count(factorial(n + 1), stores.chain([vec![Load(X, Relaxed)]]));
    }
}

#[test]
fn loads_of_several_threads_are_independent() {
    for n in 1..=6 {
        let loads = vec![vec![Load(X, Relaxed)]; n];
        count(
            1 << n,
            loads.into_iter().chain([vec![Store(X, 1, Relaxed)]]),
        );
    }
}

#[test]
fn loads_of_one_thread_do_not_go_back() {
    // The sources of the loads ascend: a multiset of the values.
    for (stores, loads) in [(1, 3), (3, 3), (4, 2), (5, 4)] {
        for ordering in [Relaxed, SeqCst] {
            let stored = (1..=stores as u64)
                .map(|value| Store(X, value, ordering))
                .collect();
            let loaded = vec![Load(X, ordering); loads];
            count(binomial(stores + loads, loads), [stored, loaded]);
        }
    }
}

#[test]
fn locks_are_taken_in_every_order() {
    for n in 1..=5 {
        let section = vec![Lock(X, 0, 1, Acquire), Store(X, 0, Release)];
        count(factorial(n), vec![section; n]);
    }
}

#[test]
fn choices_multiply() {
    let skippable = Statement {
        optional: true,
        operation: Fence(AcqRel),
    };
    for n in 1..=4 {
        let thread = vec![skippable; n];
        let program = Program {
            threads: vec![thread.clone(), thread],
        };
        let found = explored(&program, Model::Cpp20);
        assert_eq!(found.complete.len(), 1 << (2 * n));
    }
}

/// Compare-exchanges that rotate a value. The numbers are those of the benchmark `casrot` of
/// GenMC (Kokologiannakis, Raad and Vafeiadis, PLDI'19, doi 10.1145/3314221.3314609).
#[test]
fn rotating_compare_exchanges() {
    for (n, expected) in [(2, 2), (3, 5), (4, 14), (5, 43), (6, 144)] {
        let rotate = |it| vec![CompareExchange(X, it, it + 1, SeqCst, SeqCst)];
        count(expected, (0..n).map(rotate));
    }
}

/// The benchmark `lastzero` of Abdulla, Aronis, Jonsson and Sagonas, "Optimal Dynamic Partial
/// Order Reduction", POPL'14, doi 10.1145/2535838.2535845: each thread makes its element of an
/// array one more than the element below; another one looks for the last element that is 0.
#[test]
fn last_zero() {
    for n in 2..=6_usize {
        let report = Search::new().explore(&mut (), move || {
            let array: Rc<[Atomic]> = (0..=n).map(|_| Atomic::new(0)).collect();
            let mut threads = Vec::new();
            for element in 1..=n {
                let array = array.clone();
                threads.push(spawn(move || {
                    let below = array[element - 1].load(SeqCst);
                    array[element].store(below + 1, SeqCst);
                }));
            }
            let all = array.clone();
            threads.push(spawn(move || {
                let _last = (0..=n)
                    .rev()
                    .find(|&element| all[element].load(SeqCst) == 0);
            }));
            threads.into_iter().for_each(|thread| thread.join());
        });
        assert!(matches!(report.verdict, Verdict::Exhausted));
        assert_eq!(
            report.counts.executions,
            (1 << (n - 2)) * (n as u64 + 3),
            "{n}"
        );
    }
}

#[test]
fn opposite_lock_orders_deadlock() {
    let take = |first, second| {
        let locks = [Lock(first, 0, 1, Acquire), Lock(second, 0, 1, Acquire)];
        let unlocks = [Store(second, 0, Release), Store(first, 0, Release)];
        [locks, unlocks].concat()
    };
    let program: Program = [take(X, Y), take(Y, X)].into_iter().collect();
    let found = explored(&program, Model::Cpp20);
    assert_eq!(found, axioms::executions(&program, Model::Cpp20));
    assert_eq!((found.complete.len(), found.deadlocks.len()), (2, 1));
}
