//! Fault injection by plan. An *occasion* is a point at which a fault is possible.
//!
//! An occasion is identified by its thread and by how many occasions of its kind that thread had
//! before. So an occasion is the same in all executions that differ only in the order of
//! independent steps. A search therefore need not try both orders of two occasions.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Wakeup;

/// An event at run time that a correct program must tolerate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A weak compare-exchange fails although the value is the expected one.
    WeakCas,
    /// A sleep ends without a wake.
    SpuriousWake,
    /// A sleep with a deadline ends because the deadline has passed.
    TimeOut,
}

/// A point at which a fault is possible: a weak compare-exchange, a sleep, a sleep with a deadline.
///
/// Written `weak-cas@1.0`: the first weak compare-exchange of thread 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occasion {
    /// The fault that is possible there.
    pub fault: Fault,
    /// The thread's [index](crate::thread::index).
    pub thread: usize,
    /// How many occasions of this kind the thread had before, in this execution.
    pub nth: u32,
}

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.fault {
            Fault::WeakCas => "weak-cas",
            Fault::SpuriousWake => "spurious-wake",
            Fault::TimeOut => "time-out",
        };
        write!(f, "{fault}@{}.{}", self.thread, self.nth)
    }
}

/// The occasions at which faults are injected, in every execution that reaches them.
pub type FaultPlan = Vec<Occasion>;

/// How many occasions of each kind a thread had.
type Counts = [u32; Fault::TimeOut as usize + 1];

struct State {
    plan: FaultPlan,
    injected: usize,
    /// The counts of each thread, in the current execution.
    counts: Vec<Counts>,
}

static STATE: Mutex<State> = Mutex::new(State {
    plan: Vec::new(),
    injected: 0,
    counts: Vec::new(),
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the faults of all executions from now on, and resets the counts.
pub fn set_faults(plan: FaultPlan) {
    let mut state = state();
    *state = State {
        plan,
        injected: 0,
        counts: Vec::new(),
    };
}

/// Returns the current plan; empty by default.
pub fn faults() -> FaultPlan {
    state().plan.clone()
}

/// Returns how many faults were injected since the plan was [set](set_faults). 0 after a search
/// means that no execution reaches an occasion of the plan.
pub fn injected() -> usize {
    state().injected
}

pub(super) fn begin_execution() {
    state().counts.clear();
}

/// Counts an occasion of the calling thread for `fault`, and returns whether it is in the plan.
pub(crate) fn fault(fault: Fault) -> bool {
    #[cfg(spanlock_explorer)]
    if faults().is_empty() {
        return spanlock_explorer::fault(2) == 1;
    }
    let thread = crate::thread::index();
    let mut state = state();
    let state = &mut *state;
    let threads = state.counts.len().max(thread + 1);
    state.counts.resize(threads, Counts::default());
    let count = &mut state.counts[thread][fault as usize];
    let nth = *count;
    *count += 1;
    let hit = state.plan.contains(&Occasion { fault, thread, nth });
    state.injected += usize::from(hit);
    hit
}

/// Returns the result of this sleep if the plan ends it at once.
pub(crate) fn injected_wakeup(has_deadline: bool) -> Option<Wakeup> {
    if fault(Fault::SpuriousWake) {
        return Some(Wakeup::Woken);
    }
    (has_deadline && fault(Fault::TimeOut)).then_some(Wakeup::TimedOut)
}
