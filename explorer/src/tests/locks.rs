//! Locks.
//!
//! Most of these locks are no mutexes: other threads write to them, too. A lock that
//! [waits](crate::awaited) must then read what it would read if it had not been removed.

use super::known::explored;
use super::program::Operation::{self, Load, Lock, Store};
use super::{MODELS, axioms};
use crate::Ordering::{Acquire, Relaxed, Release};

const X: usize = 0;
const Y: usize = 1;

fn lock(current: u64, new: u64) -> Operation {
    Lock(X, current, new, Relaxed)
}

fn store(value: u64) -> Operation {
    Store(X, value, Relaxed)
}

fn agree<const N: usize>(threads: [Vec<Operation>; N]) {
    let program = threads.into_iter().collect();
    for model in MODELS {
        let expected = axioms::executions(&program, model);
        let difference = explored(&program, model).difference(&expected);
        assert!(difference.is_empty(), "{model:?}\n{program}{difference}");
    }
}

#[test]
fn semaphores() {
    agree([vec![lock(0, 1)], vec![lock(0, 1)], vec![store(0)]]);
    agree([
        vec![lock(1, 0)],
        vec![lock(1, 0)],
        vec![store(1)],
        vec![store(1)],
    ]);
}

#[test]
fn a_lock_does_not_wait_for_an_older_one() {
    agree([vec![store(1)], vec![lock(0, 0)], vec![lock(1, 1)]]);
    agree([vec![store(0)], vec![lock(0, 0)], vec![lock(0, 1), store(0)]]);
}

#[test]
fn a_lock_waits_for_its_owner() {
    agree([
        vec![lock(0, 1)],
        vec![store(1)],
        vec![lock(0, 2), lock(1, 1)],
    ]);
    agree([
        vec![store(0)],
        vec![lock(0, 0)],
        vec![lock(0, 1)],
        vec![lock(1, 0)],
    ]);
}

#[test]
fn another_lock_goes_on_while_one_waits() {
    agree([
        vec![lock(0, 0)],
        vec![lock(0, 1)],
        vec![store(0)],
        vec![lock(1, 0)],
    ]);
}

#[test]
pub(super) fn a_wait_ends_if_its_thread_does_something_else() {
    let owner = vec![lock(0, 2), Store(Y, 1, Relaxed)];
    agree([vec![Load(Y, Relaxed), lock(0, 0)], vec![store(0)], owner]);
    let owner = vec![lock(0, 2), Load(X, Relaxed), Store(Y, 1, Relaxed)];
    agree([vec![Load(Y, Relaxed), lock(0, 1)], vec![store(3)], owner]);
}

#[test]
fn mutexes() {
    let change = vec![Lock(X, 0, 1, Acquire), Store(X, 0, Release)];
    agree([change.clone(), change.clone(), change.clone()]);
    let write = [&change[..1], &[Store(Y, 1, Relaxed)], &change[1..]].concat();
    agree([write.clone(), write]);
}
