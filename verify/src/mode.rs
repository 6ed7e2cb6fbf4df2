//! The checkers, and the modes in which they explore executions. A *row* is a program in one mode.

use serde::{Deserialize, Serialize};

/// A way in which a checker explores executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The explorer: every execution graph that C++20 allows, except load buffering.
    Explorer,
    /// Loom.
    Weak,
    /// Shuttle: every schedule with few preemptions. With crashes, the images at each step.
    Bounded,
    /// Shuttle: random schedules.
    Random,
    /// Shuttle: probabilistic concurrency testing (random thread priorities, with few changes).
    Pct,
    /// Shuttle: selectively uniform concurrency testing (all schedules are about equally likely).
    Urw,
    /// Spin: every state of a Promela model, to check properties of the form *eventually*.
    Ltl,
    /// Shuttle, with crashes: sequences of operations of one thread.
    Sequence,
}

impl Mode {
    /// The modes that search systematically. Every run explores the same executions, so the
    /// repository records their numbers.
    pub const SEARCHES: [Mode; 4] = [Mode::Explorer, Mode::Weak, Mode::Bounded, Mode::Sequence];

    /// Returns the mode's name, as in the names of rows.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Explorer => "explorer",
            Mode::Weak => "weak",
            Mode::Bounded => "bounded",
            Mode::Random => "random",
            Mode::Pct => "pct",
            Mode::Urw => "urw",
            Mode::Ltl => "ltl",
            Mode::Sequence => "sequence",
        }
    }

    /// Whether the mode draws random schedules. The bound of a row is then their number.
    pub const fn is_random(self) -> bool {
        matches!(self, Mode::Random | Mode::Pct | Mode::Urw)
    }

    /// Whether the number of executions of a row is recorded, because every run explores the same.
    pub fn is_counted(self) -> bool {
        Mode::SEARCHES.contains(&self)
    }

    /// Returns the checker that has this mode.
    pub const fn checker(self) -> Checker {
        match self {
            Mode::Explorer => Checker::Explorer,
            Mode::Weak => Checker::Loom,
            Mode::Ltl => Checker::Spin,
            _ => Checker::Shuttle,
        }
    }

    /// Names what the mode cannot check, however long it runs.
    pub const fn blind_spot(self) -> &'static str {
        match self {
            Mode::Explorer => "load buffering",
            Mode::Weak => "stores that race with another thread's load-then-store; load buffering",
            Mode::Bounded => {
                "more preemptions; weak orderings (all are SeqCst); data races on cells"
            }
            Mode::Sequence => "orders of threads",
            Mode::Random | Mode::Pct | Mode::Urw => {
                "schedules not drawn; weak orderings (all are SeqCst); data races on cells"
            }
            Mode::Ltl => "the Rust code (the model restates it); weak orderings (all are SeqCst)",
        }
    }
}

/// A model checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Checker {
    /// The explorer, which explores execution graphs.
    Explorer,
    /// Loom, which explores memory orderings.
    Loom,
    /// Shuttle, which explores interleavings.
    Shuttle,
    /// Spin, which checks properties of the form *eventually* in Promela models.
    Spin,
}

impl Checker {
    /// The checkers that run Rust code. Each needs its own build.
    pub const OF_CODE: [Checker; 3] = [Checker::Explorer, Checker::Loom, Checker::Shuttle];

    /// Returns the checker's name, as in the names of rows.
    pub const fn name(self) -> &'static str {
        match self {
            Checker::Explorer => "explorer",
            Checker::Loom => "loom",
            Checker::Shuttle => "shuttle",
            Checker::Spin => "spin",
        }
    }

    /// Returns the checker for which this code was built, if any.
    pub const fn of_this_build() -> Option<Self> {
        if cfg!(spanlock_explorer) {
            Some(Checker::Explorer)
        } else if cfg!(spanlock_loom) {
            Some(Checker::Loom)
        } else if cfg!(spanlock_shuttle) {
            Some(Checker::Shuttle)
        } else {
            None
        }
    }
}
