//! Runs functions (*works*) in threads, and provides data that the threads share.

use std::sync::Arc;

use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;
use spanlock_verify::Program;

/// Returns a program with one thread for each entry of `performs`.
pub(crate) fn program<const N: usize>(
    property: &str,
    claim: &str,
    performs: [&[&str]; N],
    run: impl Fn() + Send + Sync + 'static,
) -> Program {
    let performs = performs.map(<[_]>::to_vec);
    Program::new(property, claim).performs(performs).run(run)
}

/// Returns a program of many threads, for random schedules. Such a program does not count as a test
/// of any pair of operations (see `performs`).
pub(crate) fn crowd(
    property: &str,
    claim: &str,
    threads: usize,
    run: impl Fn() + Send + Sync + 'static,
) -> Program {
    let program = Program::new(property, claim);
    program.threads(threads).operations(threads).run(run)
}

/// Runs each of `works` in a thread of its own, the first in the main thread. Passes each work the
/// number of its thread. Returns the results in order.
pub(crate) fn at_once<T, R>(shared: &Arc<T>, works: &[fn(usize, &T) -> R]) -> Vec<R>
where
    T: Send + Sync + 'static,
    R: Send + 'static,
{
    let (main, others) = works.split_first().expect("at least one work");
    let start = |(i, &work): (usize, &fn(usize, &T) -> R)| {
        let shared = shared.clone();
        thread::spawn(move || work(i + 1, &shared))
    };
    let others: Vec<_> = others.iter().enumerate().map(start).collect();
    let mut results = vec![main(0, shared)];
    let ends = others.into_iter().map(|other| other.join());
    results.extend(ends.map(|end| end.expect("a thread panicked")));
    results
}

/// Plain data that threads share without locks. If two accesses race, loom fails the program.
pub(crate) struct Cells<const N: usize>([UnsafeCell<u32>; N]);

// SAFETY: the state machine under test orders the accesses, and loom checks that it does.
unsafe impl<const N: usize> Send for Cells<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Cells<N> {}

impl<const N: usize> Cells<N> {
    pub(crate) fn new() -> Self {
        Cells(std::array::from_fn(|_| UnsafeCell::new(0)))
    }

    pub(crate) fn add(&self, at: usize, value: u32) {
        // SAFETY: as above.
        self.0[at].with_mut(|cell| unsafe { *cell += value });
    }

    pub(crate) fn get(&self, at: usize) -> u32 {
        // SAFETY: as above.
        self.0[at].with(|cell| unsafe { *cell })
    }

    pub(crate) fn all(&self) -> [u32; N] {
        std::array::from_fn(|at| self.get(at))
    }
}
