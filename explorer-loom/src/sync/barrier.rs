//! The barrier.

use spanlock_explorer::Ordering::{AcqRel, Acquire, Release};
use spanlock_explorer::{Condition, Op, Update};

use crate::execution::{Kept, kept, require};

/// How often the threads of a barrier can meet.
const MEETINGS: u64 = 64;

/// A place where a number of threads meet. Loom has a stub of it.
#[derive(Debug)]
pub struct Barrier {
    size: u64,
    arrived: Kept,
    /// A bit for each meeting that is over.
    over: Kept,
}

/// Whether the thread was the last one that has arrived.
#[derive(Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns true for one of the threads that have met.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Returns a barrier for `size` threads.
    ///
    /// # Panics
    /// Outside a model.
    #[track_caller]
    pub fn new(size: usize) -> Barrier {
        require("sync::Barrier::new");
        Barrier {
            size: (size as u64).max(1),
            arrived: kept(0),
            over: kept(0),
        }
    }

    /// Waits until as many threads have arrived as the barrier is for.
    ///
    /// # Panics
    /// At the 65th meeting of an execution.
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        // AcqRel: what the threads did before happens before the leader's store.
        let before = self.arrived.update(Update::new(Op::Add, 1), AcqRel);
        let meeting = before / self.size;
        assert!(
            meeting < MEETINGS,
            "a `loom::sync::Barrier` is for {MEETINGS} meetings"
        );
        let is_leader = before % self.size == self.size - 1;
        let bit = 1 << meeting;
        match is_leader {
            // Release: pairs with the Acquire of those that wait.
            true => drop(self.over.update(Update::new(Op::Or, bit), Release)),
            false => drop(
                self.over
                    .wait_until(Condition::masked(bit, bit, true), Acquire),
            ),
        }
        BarrierWaitResult(is_leader)
    }
}
