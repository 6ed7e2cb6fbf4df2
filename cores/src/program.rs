//! A program, and how long it runs.

use core::fmt;
use std::rc::Rc;

use crate::machine::{MAX_CORES, Percent};
use crate::outcome::Outcome;
use crate::outside::{self, Place};
use crate::{arena, run};

/// A program for simulated cores: how many, how long, and what is drawn.
#[derive(Clone, Debug)]
pub struct Program {
    cores: usize,
    seed: u64,
    warm_up: u64,
    time: u64,
    percent: Percent,
}

/// A program has no cores, or more than the model has parameters for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoresError(usize);

impl fmt::Display for CoresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CoresError(cores) = self;
        write!(
            f,
            "{cores} simulated cores: the model has parameters for 1 to {MAX_CORES}"
        )
    }
}

impl core::error::Error for CoresError {}

impl Program {
    /// Returns a program for this many cores. It runs for 100 µs, after 20 µs that do not count.
    ///
    /// # Errors
    /// There are no cores, or more than [`MAX_CORES`].
    pub fn new(cores: usize) -> Result<Self, CoresError> {
        if !(1..=MAX_CORES).contains(&cores) {
            return Err(CoresError(cores));
        }
        Ok(Program {
            cores,
            seed: 1,
            warm_up: 20_000,
            time: 100_000,
            percent: Percent::default(),
        })
    }

    /// Draws other times of work.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the nanoseconds that do not count, and those that do.
    pub fn time(mut self, warm_up: u64, time: u64) -> Self {
        (self.warm_up, self.time) = (warm_up, time);
        self
    }

    /// Sets how long transfers take, in percent of the modelled machine's times.
    pub fn transfers(mut self, percent: u32) -> Self {
        self.percent.transfers = percent;
        self
    }

    /// Sets how long system calls, sleeps, wakes and interrupts take, in percent of the modelled
    /// machine's times.
    pub fn system(mut self, percent: u32) -> Self {
        self.percent.system = percent;
        self
    }

    /// Calls `body` on each core, with the number of the core. It repeats an operation while
    /// [`goes_on`](crate::goes_on), and ends each with [`count`](crate::count).
    ///
    /// # Panics
    /// Panics if all cores sleep that have not returned, or within another program.
    pub fn run(&self, body: impl Fn(usize) + 'static) -> Outcome {
        run::run(
            self.cores,
            self.seed,
            (self.warm_up, self.time),
            self.percent,
            Rc::new(body),
        )
    }
}

/// Calls `f`, whose memory is that of the [arena](crate::Arena), which begins anew in this layout.
///
/// # Safety
/// No thread uses memory of an earlier call any more.
pub unsafe fn set_up<R>(layout: u64, f: impl FnOnce() -> R) -> R {
    arena::reset(layout);
    let _set_up = outside::enter(Place::SetUp);
    f()
}
