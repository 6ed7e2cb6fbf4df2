//! A trial: measures whether commits per second are higher with or without waiting. A wait is *due*
//! when the policy decides to wait; the trial then decides whether to make the wait or to leave it
//! out.

/// The number of flushes measured in each of the three parts of a trial.
const MEASURED: u32 = 16;
/// The number of flushes not measured at the start of the second and third part, while the threads
/// adapt to the change.
const SKIPPED: u32 = 4;
/// If no wait was due in the first part of a trial, another trial begins after this many due waits.
const FIRST: u32 = 8;
/// The number of due waits between two trials: the initial value and the maximum. A trial that
/// changes the current choice resets the number to the initial value.
const PATIENCE: [u32; 2] = [64, 4096];
/// The factor by which that number grows when a trial confirms the current choice.
const LONGER: u32 = 4;
/// The policy waits only if waiting multiplies the commits per second by this factor. A smaller
/// gain could be chance.
const BETTER: f64 = 1.1;
/// If the other choice multiplies the commits per second by more than this factor, the trial needs
/// no third part.
const CLEAR: f64 = 1.25;
/// After this many measured flushes, the trial ends if the other choice brings less than this
/// fraction of the commits per second.
const HOPELESS: (u32, f64) = (4, 0.85);

/// A trial in three parts: with the current choice, with the other choice, and with the current
/// choice again.
#[derive(Debug)]
pub(super) struct Trial {
    is_waiting: bool,
    patience: u32,
    stage: Stage,
    /// The rates with the current choice and with the other choice.
    rates: [Rate; 2],
    /// Whether a wait was due since the trial began.
    was_any_due: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// No trial runs until this many more waits were due.
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
    /// Creates a trial that begins without waiting.
    pub(super) fn new() -> Self {
        Trial {
            is_waiting: false,
            // So that the interval after a first trial that changes nothing is the shortest one.
            patience: PATIENCE[0] / LONGER,
            stage: Stage::Part { nth: 0, flushes: 0 },
            rates: [Rate::default(); 2],
            was_any_due: false,
        }
    }

    /// Creates a trial that waits and never tries anything else. For models.
    pub(super) fn waiting_for_good() -> Self {
        Trial {
            is_waiting: true,
            stage: Stage::Settled { left: u32::MAX },
            ..Trial::new()
        }
    }

    /// Returns whether to make a wait that is due.
    pub(super) fn says_wait(&self) -> bool {
        self.is_waiting != self.is_other_way()
    }

    fn is_other_way(&self) -> bool {
        matches!(self.stage, Stage::Part { nth: 1, .. })
    }

    /// Notes the end of a flush: whether a wait was due before it, the number of its commits, and
    /// the seconds since the end of the previous flush.
    pub(super) fn cycle(&mut self, was_wait_due: bool, commits: usize, seconds: f64) {
        self.was_any_due |= was_wait_due;
        self.stage = match self.stage {
            Stage::Settled { left: 0 } => {
                self.rates = [Rate::default(); 2];
                self.was_any_due = was_wait_due;
                Stage::Part { nth: 0, flushes: 0 }
            }
            Stage::Settled { left } => Stage::Settled {
                left: left - u32::from(was_wait_due),
            },
            Stage::Part { nth, flushes } => {
                let skipped = if nth == 0 { 0 } else { SKIPPED };
                if flushes >= skipped {
                    let rate = &mut self.rates[usize::from(self.is_other_way())];
                    rate.commits += commits;
                    rate.seconds += seconds;
                }
                self.after(nth, flushes + 1, flushes + 1 - skipped.min(flushes + 1))
            }
        };
    }

    /// Returns the stage after `flushes` flushes of part `nth`. Of these, `measured` were measured.
    fn after(&mut self, nth: u32, flushes: u32, measured: u32) -> Stage {
        let [same, other] = self.rates.map(Rate::per_second);
        let is_over = measured == MEASURED;
        match nth {
            0 if is_over && !self.was_any_due => Stage::Settled { left: FIRST },
            1 if measured == HOPELESS.0 && other < HOPELESS.1 * same => self.judge(),
            1 if is_over && other > CLEAR * same => self.judge(),
            2 if is_over => self.judge(),
            _ if is_over => Stage::Part {
                nth: nth + 1,
                flushes: 0,
            },
            _ => Stage::Part { nth, flushes },
        }
    }

    fn judge(&mut self) -> Stage {
        let [same, other] = self.rates.map(Rate::per_second);
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
