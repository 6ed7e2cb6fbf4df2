//! Which model runs under which checker, in which mode, with which bound.

use crate::models::{MODELS, Model};
use crate::primitives::{PRIMITIVES, Primitive};

/// A checker's way of exploring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Loom, loads as written.
    Weak,
    /// Loom, loads as read-modify-writes.
    RmwLoad,
    /// Shuttle, every schedule.
    Dfs,
    /// Shuttle, random schedules.
    Random,
    /// Shuttle, probabilistic concurrency testing.
    Pct,
}

impl Mode {
    /// Its name in rows.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Weak => "weak",
            Mode::RmwLoad => "rmw-load",
            Mode::Dfs => "dfs",
            Mode::Random => "random",
            Mode::Pct => "pct",
        }
    }

    /// The checker that has it.
    pub const fn checker(self) -> &'static str {
        match self {
            Mode::Weak | Mode::RmwLoad => "loom",
            _ => "shuttle",
        }
    }
}

/// One row to run.
pub struct Job {
    /// The lock.
    pub primitive: &'static Primitive,
    /// The property.
    pub model: &'static Model,
    /// How.
    pub mode: Mode,
    /// Preemption bound, or number of schedules; none: no bound.
    pub bound: Option<u64>,
    /// Part of `--quick`.
    pub quick: bool,
}

impl Job {
    /// The name that `--filter` and `--replay` take: `srl-array/exclusion/loom/weak`.
    pub fn name(&self) -> String {
        let (primitive, property) = (self.primitive.name, self.model.property);
        format!(
            "{primitive}/{property}/{}/{}",
            self.mode.checker(),
            self.mode.name()
        )
    }
}

/// Every row.
pub fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for primitive in PRIMITIVES {
        for model in MODELS
            .iter()
            .filter(|model| primitive.granular || !model.granular)
        {
            let mut add = |mode, bound, quick| {
                jobs.push(Job {
                    primitive,
                    model,
                    mode,
                    bound,
                    quick,
                })
            };
            if model.threads == 2 {
                add(Mode::Weak, None, true);
                add(Mode::RmwLoad, None, true);
                add(Mode::Dfs, None, true);
            } else {
                add(Mode::Weak, Some(3), false);
                add(Mode::RmwLoad, Some(3), false);
                add(Mode::Random, Some(20_000), true);
                add(Mode::Pct, Some(20_000), true);
            }
        }
    }
    jobs
}
