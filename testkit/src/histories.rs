//! A million operations a lock, and small histories out of large ones that fail.

use std::cell::{Cell, RefCell};
use std::env;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::op::{self, Op};
use crate::sequential::{self, Order};
use crate::{Driven, threads};

/// Operations that find something to do, for each lock and each kind of history, unless [`HOW_MANY`] says otherwise.
const OPERATIONS: u64 = 1_000_000;

/// The variable that chooses another number of operations: fewer, where each takes longer, as under a sanitizer.
pub const HOW_MANY: &str = "SPANLOCK_OPERATIONS";

/// Operations of one history of one thread.
const STEPS: usize = 256;

/// Threads of a history, and operations of each: a few times more threads than cores.
const THREADS: core::ops::RangeInclusive<usize> = 2..=6;
const STEPS_EACH: usize = 400;

/// How often a history of several threads is run again, to see whether a smaller one fails too.
const AGAIN: usize = 20;

/// The variable that chooses other histories than usually: any number.
pub const SEED: &str = "SPANLOCK_SEED";

/// The seed of this run.
pub fn seed() -> u64 {
    number(SEED, 1)
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let given = env::var(variable).ok();
    given.map_or(otherwise, |given| {
        given
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={given}: no number"))
    })
}

/// What draws histories, the same for the same seed; the failure of one is made small, and told by the caller.
pub fn runner(seed: u64, cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        // In milliseconds: a failure on real threads is run many times for each step down.
        max_shrink_time: 5_000,
        ..Config::default()
    };
    let mut bytes = [0x5A; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    // The cheap one: each choice between strategies makes a generator of its own.
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &bytes))
}

/// Runs cases until a million operations have been done; `run` says how many were, and `test` is its name in a failure.
fn million<S: Strategy>(
    test: &str,
    strategy: &S,
    mut run: impl FnMut(&S::Value) -> Result<u64, TestCaseError>,
) {
    let (seed, operations) = (seed(), number(HOW_MANY, OPERATIONS));
    let done = Cell::new(0);
    let run = RefCell::new(&mut run);
    for round in 0.. {
        if done.get() >= operations {
            break;
        }
        // A runner counts its cases over all its runs: so each round has one of its own.
        let result = runner(seed.wrapping_add(round << 32), 64).run(strategy, |history| {
            done.set(done.get() + run.borrow_mut()(&history)?);
            Ok(())
        });
        if let Err(error) = result {
            panic!("{test}, round {round}: {error}\nagain with {SEED}={seed}");
        }
    }
}

/// A million operations of one thread that plays many owners, against a list of holds.
pub fn of_one_thread(make: impl Fn() -> Driven, order: Order) {
    let strategy = vec(op::op(&make()), 1..=STEPS);
    million("one thread", &strategy, |history: &Vec<Op>| {
        sequential::run(&make(), order, history)
    });
}

/// A million operations of real threads.
pub fn of_real_threads(make: impl Fn() -> Driven) {
    let strategy = op::program(&make(), THREADS, STEPS_EACH);
    let mut has_failed = false;
    million("real threads", &strategy, |program| {
        // What failed once may do so again only sometimes.
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
