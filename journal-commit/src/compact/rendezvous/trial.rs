//! Whether waiting brings more commits a second than it costs: tried out, and compared.

/// Flushes that are measured in each of the three parts of a trial.
const MEASURED: u32 = 16;
/// Flushes before them that are not: the threads have to fall into step.
const SKIPPED: u32 = 4;
/// Waits that would have been made before the first trial.
const FIRST: u32 = 8;
/// Waits, made or left out, from a trial that has changed something to the next; and at most, between two of them.
const PATIENCE: [u32; 2] = [64, 4096];
/// The other way is given up when after so many measured flushes it brings less than this part of what was before.
const HOPELESS: (u32, f64) = (4, 0.85);
/// So much longer it takes to the next trial, when one has said what the one before it did.
const LONGER: u32 = 4;
/// So many times the commits a second must waiting bring: less could be chance.
const BETTER: f64 = 1.1;

/// A trial has three parts: as it is, the other way, as it is.
#[derive(Debug)]
pub(super) struct Trial {
    is_waiting: bool,
    patience: u32,
    stage: Stage,
    /// As it is, and the other way.
    rates: [Rate; 2],
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// No trial, for so many more waits.
    Settled {
        left: u32,
    },
    Part {
        nth: u32,
        flushes: u32,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    commits: usize,
    seconds: f64,
}

impl Rate {
    fn per_second(self) -> f64 {
        self.commits as f64 / self.seconds
    }
}

impl Trial {
    pub(super) fn new() -> Self {
        Trial {
            is_waiting: false,
            patience: PATIENCE[0],
            stage: Stage::Settled { left: FIRST },
            rates: [Rate::default(); 2],
        }
    }

    /// Whether a wait that is due is made.
    pub(super) fn says_wait(&self) -> bool {
        self.is_waiting != self.is_other_way()
    }

    fn is_other_way(&self) -> bool {
        matches!(self.stage, Stage::Part { nth: 1, .. })
    }

    /// A flush is over: whether a wait was due before it, how many commits it brought, and the seconds since the one before.
    pub(super) fn cycle(&mut self, was_wait_due: bool, commits: usize, seconds: f64) {
        self.stage = match self.stage {
            Stage::Settled { left: 0 } => {
                self.rates = [Rate::default(); 2];
                Stage::Part { nth: 0, flushes: 0 }
            }
            Stage::Settled { left } => Stage::Settled {
                left: left - u32::from(was_wait_due),
            },
            Stage::Part { nth, flushes } => {
                if flushes >= SKIPPED {
                    let rate = &mut self.rates[usize::from(self.is_other_way())];
                    rate.commits += commits;
                    rate.seconds += seconds;
                }
                let is_last = flushes + 1 == SKIPPED + MEASURED;
                let is_hopeless = nth == 1
                    && flushes + 1 == SKIPPED + HOPELESS.0
                    && self.rates[1].per_second() < HOPELESS.1 * self.rates[0].per_second();
                match nth {
                    _ if is_hopeless => self.judge(),
                    2 if is_last => self.judge(),
                    _ if is_last => Stage::Part {
                        nth: nth + 1,
                        flushes: 0,
                    },
                    _ => Stage::Part {
                        nth,
                        flushes: flushes + 1,
                    },
                }
            }
        };
    }

    fn judge(&mut self) -> Stage {
        let [same, other] = self.rates.map(|rate| rate.per_second());
        let (with, without) = if self.is_waiting {
            (same, other)
        } else {
            (other, same)
        };
        let is_better = with >= BETTER * without;
        self.patience = if is_better == self.is_waiting {
            (self.patience * LONGER).min(PATIENCE[1])
        } else {
            PATIENCE[0]
        };
        self.is_waiting = is_better;
        Stage::Settled {
            left: self.patience,
        }
    }
}
