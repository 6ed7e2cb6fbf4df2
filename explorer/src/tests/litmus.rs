//! Litmus tests: small programs, and what the models say about their weak outcomes.

use super::known::explored;
use super::program::Operation::{self, Add, CompareExchange, Fence, Load, Store, Wait};
use super::program::Program;
use super::{MODELS, axioms};
use crate::Model;
use crate::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

const X: usize = 0;
const Y: usize = 1;
const Z: usize = 2;

/// What a model says about an outcome.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Says {
    Permitted,
    Forbidden,
}
use Says::{Forbidden, Permitted};

/// Asserts that the explorer and the axioms find as many complete executions as expected, and
/// whether they find an outcome: the values that each thread reads, a digit for each.
pub(super) fn judge(
    model: Model,
    program: &Program,
    executions: usize,
    outcome: &[&str],
    expected: Says,
) {
    let found = explored(program, model);
    let difference = found.difference(&axioms::executions(program, model));
    assert!(difference.is_empty(), "{model:?}\n{program}{difference}");
    let digits = |word: &&str| word.bytes().map(|it| u64::from(it - b'0')).collect();
    let outcome: Vec<Vec<u64>> = outcome.iter().map(digits).collect();
    let is_found = found.complete.values().any(|values| *values == outcome);
    let says = if is_found { Permitted } else { Forbidden };
    let about = format!("{model:?}, {outcome:?}\n{program}");
    assert_eq!(
        (found.complete.len(), says),
        (executions, expected),
        "{about}"
    );
}

/// Under both models.
fn both<const N: usize>(
    executions: usize,
    outcome: [&str; N],
    expected: Says,
    threads: [Vec<Operation>; N],
) {
    let program = threads.into_iter().collect();
    MODELS
        .into_iter()
        .for_each(|model| judge(model, &program, executions, &outcome, expected));
}

#[test]
fn store_buffering() {
    let test = |store, fences: [&[Operation]; 2], load, executions, expected| {
        let threads = [
            [&[Store(X, 1, store)], fences[0], &[Load(Y, load)]].concat(),
            [&[Store(Y, 1, store)], fences[1], &[Load(X, load)]].concat(),
        ];
        both(executions, ["0", "0"], expected, threads);
    };
    let fence: &[Operation] = &[Fence(SeqCst)];
    test(Relaxed, [&[], &[]], Relaxed, 4, Permitted);
    test(Release, [&[], &[]], Acquire, 4, Permitted);
    test(SeqCst, [&[], &[]], Relaxed, 4, Permitted);
    test(
        Relaxed,
        [&[Fence(AcqRel)], &[Fence(AcqRel)]],
        Relaxed,
        4,
        Permitted,
    );
    test(Relaxed, [fence, &[]], Relaxed, 4, Permitted);
    test(Relaxed, [fence, fence], Relaxed, 3, Forbidden);
    test(SeqCst, [&[], &[]], SeqCst, 3, Forbidden);
    test(SeqCst, [fence, &[]], SeqCst, 3, Forbidden);
}

#[test]
fn store_buffering_with_updates() {
    for (ordering, executions, expected) in [(AcqRel, 4, Permitted), (SeqCst, 3, Forbidden)] {
        let thread = |mine, other| vec![Add(mine, ordering), Load(other, SeqCst)];
        both(
            executions,
            ["00", "00"],
            expected,
            [thread(X, Y), thread(Y, X)],
        );
    }
}

/// Message passing: `release` publishes the first store, and `acquire` reads it.
fn message(
    release: &[Operation],
    acquire: &[Operation],
    executions: usize,
    outcome: &str,
    expected: Says,
) {
    let writer = [&[Store(X, 1, Relaxed)], release].concat();
    let reader = [acquire, &[Load(X, Relaxed)]].concat();
    both(executions, ["", outcome], expected, [writer, reader]);
}

#[test]
pub(super) fn message_passing() {
    let store = |ordering| Store(Y, 1, ordering);
    let load = |ordering| Load(Y, ordering);
    let test = |release: &[Operation], acquire: &[Operation], expected| {
        let executions = if expected == Permitted { 4 } else { 3 };
        message(release, acquire, executions, "10", expected);
    };
    test(&[store(Relaxed)], &[load(Relaxed)], Permitted);
    test(&[store(Release)], &[load(Relaxed)], Permitted);
    test(&[store(Relaxed)], &[load(Acquire)], Permitted);
    test(&[store(Release)], &[load(Acquire)], Forbidden);
    test(&[store(SeqCst)], &[load(SeqCst)], Forbidden);
    for fence in [Release, AcqRel, SeqCst] {
        test(&[Fence(fence), store(Relaxed)], &[load(Acquire)], Forbidden);
        test(&[Fence(fence), store(Relaxed)], &[load(Relaxed)], Permitted);
    }
    for fence in [Acquire, AcqRel, SeqCst] {
        test(&[store(Release)], &[load(Relaxed), Fence(fence)], Forbidden);
        test(&[store(Relaxed)], &[load(Relaxed), Fence(fence)], Permitted);
    }
    test(
        &[Fence(Release), store(Relaxed)],
        &[load(Relaxed), Fence(Acquire)],
        Forbidden,
    );
    test(
        &[Fence(Acquire), store(Relaxed)],
        &[load(Relaxed), Fence(Release)],
        Permitted,
    );
    test(
        &[store(Relaxed), Fence(Release)],
        &[Fence(Acquire), load(Relaxed)],
        Permitted,
    );
}

#[test]
fn message_passing_to_a_failed_compare_exchange() {
    let fails = |success, failure| CompareExchange(Y, 2, 3, success, failure);
    message(
        &[Store(Y, 1, Release)],
        &[fails(Relaxed, Acquire)],
        3,
        "10",
        Forbidden,
    );
    message(
        &[Store(Y, 1, Release)],
        &[fails(AcqRel, Relaxed)],
        4,
        "10",
        Permitted,
    );
}

#[test]
fn message_passing_to_a_wait() {
    message(
        &[Store(Y, 1, Release)],
        &[Wait(Y, Acquire)],
        1,
        "10",
        Forbidden,
    );
    message(
        &[Store(Y, 1, Release)],
        &[Wait(Y, Relaxed)],
        2,
        "10",
        Permitted,
    );
}

/// C++20 permits the outcome of relaxed accesses. The explorer excludes it.
#[test]
fn load_buffering() {
    for (load, store) in [(Relaxed, Relaxed), (Acquire, Release), (SeqCst, SeqCst)] {
        let thread = |from, to| vec![Load(from, load), Store(to, 1, store)];
        both(3, ["1", "1"], Forbidden, [thread(X, Y), thread(Y, X)]);
    }
}

#[test]
fn independent_reads_of_independent_writes() {
    let test = |store, load, fence: &[Operation], executions, expected| {
        let reader = |first, second| [&[Load(first, load)], fence, &[Load(second, load)]].concat();
        let writer = |at| vec![Store(at, 1, store)];
        let threads = [writer(X), writer(Y), reader(X, Y), reader(Y, X)];
        both(executions, ["", "", "10", "10"], expected, threads);
    };
    test(Release, Acquire, &[], 16, Permitted);
    test(SeqCst, Acquire, &[], 16, Permitted);
    test(SeqCst, SeqCst, &[], 15, Forbidden);
    test(Relaxed, Relaxed, &[Fence(AcqRel)], 16, Permitted);
    test(Relaxed, Relaxed, &[Fence(SeqCst)], 15, Forbidden);
}

#[test]
fn two_plus_two_writes() {
    // Of the four pairs of coherence orders, one makes a cycle.
    let test = |store, fence: &[Operation], executions| {
        let write = |at, value| Store(at, value, store);
        let thread = |first, second| [&[write(first, 1)], fence, &[write(second, 2)]].concat();
        both(
            executions,
            ["", ""],
            Permitted,
            [thread(X, Y), thread(Y, X)],
        );
    };
    test(Release, &[], 4);
    test(SeqCst, &[], 3);
    test(Relaxed, &[Fence(AcqRel)], 4);
    test(Relaxed, &[Fence(SeqCst)], 3);
}

#[test]
fn coherence() {
    let write = |value| Store(X, value, Relaxed);
    let read = Load(X, Relaxed);
    // Of two reads, the second does not read an older value.
    both(3, ["", "10"], Forbidden, [vec![write(1)], vec![read, read]]);
    // A read does not read what its thread has overwritten.
    both(1, ["1"], Forbidden, [vec![write(1), write(2), read]]);
    // A store comes after what its thread has read; 0 leaves two orders, 2 leaves one.
    both(
        3,
        ["2", ""],
        Permitted,
        [vec![read, write(1)], vec![write(2)]],
    );
    // A read of another thread's store orders the own one before it.
    both(
        3,
        ["2", ""],
        Permitted,
        [vec![write(1), read], vec![write(2)]],
    );
    // Happens-before across threads: the message, then the older value.
    let release = vec![Load(X, Relaxed), Store(Y, 1, Release)];
    let acquire = vec![Load(Y, Acquire), Load(X, Relaxed)];
    both(
        7,
        ["", "1", "10"],
        Forbidden,
        [vec![write(1)], release, acquire.clone()],
    );
    let relaxed = vec![Load(X, Relaxed), Store(Y, 1, Relaxed)];
    both(
        8,
        ["", "1", "10"],
        Permitted,
        [vec![write(1)], relaxed, acquire],
    );
}

#[test]
fn happens_before_is_transitive() {
    let test = |release, acquire, executions, expected| {
        let first = vec![Store(X, 1, Relaxed), Store(Y, 1, release)];
        let second = vec![Load(Y, acquire), Store(Z, 1, release)];
        let third = vec![Load(Z, acquire), Load(X, Relaxed)];
        both(
            executions,
            ["", "1", "10"],
            expected,
            [first, second, third],
        );
    };
    test(Release, Acquire, 7, Forbidden);
    test(Relaxed, Acquire, 8, Permitted);
    test(Release, Relaxed, 8, Permitted);
}

#[test]
pub(super) fn updates_continue_a_release_sequence() {
    let test = |release: &[Operation], acquire: &[Operation], expected| {
        let first = [&[Store(X, 1, Relaxed)], release].concat();
        let third = [acquire, &[Load(X, Relaxed)]].concat();
        let executions = if expected == Permitted { 12 } else { 9 };
        both(
            executions,
            ["", "1", "20"],
            expected,
            [first, vec![Add(Y, Relaxed)], third],
        );
    };
    test(&[Store(Y, 1, Release)], &[Load(Y, Acquire)], Forbidden);
    test(
        &[Fence(Release), Store(Y, 1, Relaxed)],
        &[Load(Y, Acquire)],
        Forbidden,
    );
    test(
        &[Store(Y, 1, Release)],
        &[Load(Y, Relaxed), Fence(Acquire)],
        Forbidden,
    );
    test(&[Store(Y, 1, Relaxed)], &[Load(Y, Acquire)], Permitted);
}

/// C++11 forbade the first outcome, because the store of the same thread continued the sequence.
#[test]
fn stores_end_a_release_sequence() {
    let first = [Store(X, 1, Relaxed), Store(Y, 1, Release)];
    let last = vec![Load(Y, Acquire), Load(X, Relaxed)];
    let own = [&first[..], &[Store(Y, 2, Relaxed)]].concat();
    both(5, ["", "20"], Permitted, [own, last.clone()]);
    let other = vec![Store(Y, 2, Relaxed)];
    both(10, ["", "", "20"], Permitted, [first.to_vec(), other, last]);
}

/// Of the paper on RC11: read-to-write causality, with fences.
#[test]
fn fences_order_what_others_have_seen() {
    let test = |fence, executions, expected| {
        let first = vec![Store(X, 1, Relaxed)];
        let second = vec![Load(X, Relaxed), fence, Load(Y, Relaxed)];
        let third = vec![Store(Y, 1, Relaxed), fence, Load(X, Relaxed)];
        both(
            executions,
            ["", "10", "0"],
            expected,
            [first, second, third],
        );
    };
    test(Fence(AcqRel), 8, Permitted);
    test(Fence(SeqCst), 7, Forbidden);
}

/// A SeqCst operation strongly happens before another one if `po ; hb ; po` leads to it: here, from
/// the store to `X` to the load of `Z`.
#[test]
pub(super) fn strongly_happens_before_orders_seq_cst() {
    let test = |release, executions, expected| {
        let first = vec![Store(X, 1, SeqCst), Store(Y, 1, release)];
        let second = vec![Load(Y, Acquire), Load(Z, SeqCst)];
        let third = vec![Store(Z, 1, SeqCst), Load(X, SeqCst)];
        both(
            executions,
            ["", "10", "0"],
            expected,
            [first, second, third],
        );
    };
    test(Release, 7, Forbidden);
    test(Relaxed, 8, Permitted);
}

/// `hb` alone does not order SeqCst operations: here, the first update and the load of `Z`. There
/// is no program order in the update, though it reads and then writes.
#[test]
pub(super) fn an_update_is_one_operation() {
    for update in [
        Store(Y, 1, SeqCst),
        Add(Y, SeqCst),
        CompareExchange(Y, 0, 1, SeqCst, SeqCst),
    ] {
        let first = vec![update];
        let second = vec![Load(Y, Acquire), Load(Z, SeqCst)];
        let third = vec![Store(Z, 1, SeqCst), Load(Y, SeqCst)];
        let own = if matches!(update, Store(..)) { "" } else { "0" };
        both(8, [own, "10", "0"], Permitted, [first, second, third]);
    }
}

/// Z6.U of the paper on RC11: compilers for Power show the outcome, so C++20 permits it.
#[test]
fn strongly_happens_before_is_less_than_happens_before() {
    let first = vec![Store(X, 1, SeqCst), Store(Y, 1, Release)];
    let second = vec![Add(Y, SeqCst), Load(Y, Relaxed)];
    let third = vec![Store(Y, 3, SeqCst), Load(X, SeqCst)];
    both(24, ["", "13", "0"], Permitted, [first, second, third]);
}
