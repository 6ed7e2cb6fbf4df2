//! The machines that JBD2's commit is made of (`journal-commit/src/jbd2/raw/`), one primitive a file.

mod medium;
mod owner;
mod rendezvous;
mod signal;
mod submission;
mod tickets;
mod updates;

use std::sync::Arc;

use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;

use crate::pairs::Operation as Op;
use crate::program::{Program, Run};

/// Every program of these.
pub fn programs() -> Vec<Program> {
    let mut programs = signal::programs();
    programs.extend(tickets::programs());
    programs.extend(owner::programs());
    programs.extend(updates::programs());
    programs.extend(medium::programs());
    programs.extend(submission::programs());
    programs.extend(rendezvous::programs());
    programs
}

/// A program of as many threads as `performs` has entries.
pub(super) fn program<const N: usize>(
    primitive: &'static str,
    property: &'static str,
    claim: &'static str,
    performs: [&[Op]; N],
    run: fn(),
) -> Program {
    let program = crowd(primitive, property, claim, N, run);
    let operations = performs.iter().map(|does| does.len() as u32).sum();
    Program {
        operations,
        ..program.performs(performs)
    }
}

/// A program of so many threads, under random schedules if they are many: which have no part in the table of pairs.
pub(super) fn crowd(
    primitive: &'static str,
    property: &'static str,
    claim: &'static str,
    threads: usize,
    run: fn(),
) -> Program {
    Program {
        primitive,
        property,
        claim,
        threads: threads as u32,
        operations: threads as u32,
        performs: Vec::new(),
        faults: &[],
        expected: None,
        run: Run::Once(Arc::new(run)),
    }
}

/// Runs each of `works` in a thread of its own, the first in main, with its number. What they return, in order.
pub(super) fn at_once<T, R>(shared: &Arc<T>, works: &[fn(usize, &T) -> R]) -> Vec<R>
where
    T: Send + Sync + 'static,
    R: Send + 'static,
{
    let (main, others) = works.split_first().expect("somebody works");
    let start = |(i, &work): (usize, &fn(usize, &T) -> R)| {
        let shared = shared.clone();
        thread::spawn(move || work(i + 1, &shared))
    };
    let others: Vec<_> = others.iter().enumerate().map(start).collect();
    let mut results = vec![main(0, shared)];
    let ends = others.into_iter().map(|other| other.join());
    results.extend(ends.map(|end| end.expect("none fails, or waits for ever")));
    results
}

/// Plain data that threads hand to each other: loom fails the model if two accesses race.
pub(super) struct Cells<const N: usize>([UnsafeCell<u32>; N]);

// SAFETY: that the machine suffices to use them by one at a time is what loom checks.
unsafe impl<const N: usize> Send for Cells<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Cells<N> {}

impl<const N: usize> Cells<N> {
    pub(super) fn new() -> Self {
        Cells(std::array::from_fn(|_| UnsafeCell::new(0)))
    }

    pub(super) fn add(&self, at: usize, value: u32) {
        // SAFETY: as above.
        self.0[at].with_mut(|cell| unsafe { *cell += value });
    }

    pub(super) fn get(&self, at: usize) -> u32 {
        // SAFETY: as above.
        self.0[at].with(|cell| unsafe { *cell })
    }

    pub(super) fn all(&self) -> [u32; N] {
        std::array::from_fn(|at| self.get(at))
    }
}
