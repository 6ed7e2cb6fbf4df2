//! Runs random operations on a lock, and shrinks histories that fail.

use std::cell::{Cell, RefCell};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::op::{self, Op};
use crate::rounds::{factor, number};
use crate::sequential::{self, Order};
use crate::{Driven, threads};

/// The default number of operations for each lock and kind of history, small enough for `cargo
/// test`. `.ci/full` runs a million.
const OPERATIONS: u64 = 100_000;

/// The maximum length of a single-threaded history.
const STEPS: usize = 256;

/// The number of threads of a history, and the maximum number of operations of each.
const THREADS: core::ops::RangeInclusive<usize> = 2..=6;
const STEPS_EACH: usize = 400;

/// How many times each smaller history runs after a failure on real threads, because it may fail
/// only sometimes.
const AGAIN: usize = 20;

/// The environment variable that sets the seed, a number.
pub const SEED: &str = "SPANLOCK_SEED";

/// Returns the seed of this run.
pub fn seed() -> u64 {
    number(SEED, 1)
}

fn operations() -> u64 {
    (OPERATIONS as f64 * factor()) as u64
}

/// Returns a runner that draws the same histories for the same seed. The runner shrinks a failing
/// history, and the caller reports the result.
pub fn runner(seed: u64, cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        // In milliseconds: on real threads, each shrinking step runs the history many times.
        max_shrink_time: 5_000,
        ..Config::default()
    };
    let mut bytes = [0x5A; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    // Use the cheap generator: each choice between strategies creates a new generator.
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &bytes))
}

/// Draws and runs histories until enough operations have run. `run` returns how many operations a
/// history ran. `test` names the test in a failure message.
fn many<S: Strategy>(
    test: &str,
    strategy: &S,
    mut run: impl FnMut(&S::Value) -> Result<u64, TestCaseError>,
) {
    let (seed, operations) = (seed(), operations());
    let done = Cell::new(0);
    let run = RefCell::new(&mut run);
    for round in 0.. {
        if done.get() >= operations {
            break;
        }
        // A runner's limit on cases applies to all its runs together, so each round needs a new
        // runner.
        let result = runner(seed.wrapping_add(round << 32), 64).run(strategy, |history| {
            done.set(done.get() + run.borrow_mut()(&history)?);
            Ok(())
        });
        if let Err(error) = result {
            panic!("{test}, round {round}: {error}\nto repeat: {SEED}={seed}");
        }
    }
}

/// Compares random operations of one thread, which plays many owners, with a list of holds.
pub fn of_one_thread(make: impl Fn() -> Driven, order: Order) {
    let strategy = vec(op::op(&make()), 1..=STEPS);
    many("one thread", &strategy, |history: &Vec<Op>| {
        sequential::run(&make(), order, history)
    });
}

/// Runs random operations on real threads.
pub fn of_real_threads(make: impl Fn() -> Driven) {
    let strategy = op::program(&make(), THREADS, STEPS_EACH);
    let mut has_failed = false;
    many("real threads", &strategy, |program| {
        // After the first failure, proptest runs smaller histories, and these may fail only
        // sometimes.
        let mut done = 0;
        for _ in 0..if has_failed { AGAIN } else { 1 } {
            done += threads::run(make(), program).map_err(|wrong| {
                has_failed = true;
                TestCaseError::fail(wrong)
            })?;
        }
        Ok(done)
    });
}
