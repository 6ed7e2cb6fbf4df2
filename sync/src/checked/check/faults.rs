//! Faults by plan, and on which occasions there could be one.
//!
//! An occasion is known by its thread and by how many of its kind that thread had before. So it is the same in all executions that differ only in the order of
//! independent steps, and a search need not try both orders of two of them.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Wakeup;

/// What can go wrong at run time without anybody's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A weak compare-exchange fails although the value is the expected one.
    WeakCas,
    /// A sleep ends although nobody woke it.
    SpuriousWake,
    /// A sleep with a deadline ends because the deadline has passed.
    TimeOut,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Fault; 3] = [Fault::WeakCas, Fault::SpuriousWake, Fault::TimeOut];
}

/// Where a fault can be: a weak compare-exchange, a sleep, a sleep with a deadline. Written `weak-cas@1.0`: the first one of thread 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occasion {
    /// What goes wrong there.
    pub fault: Fault,
    /// The thread's [index](crate::thread::index).
    pub thread: usize,
    /// How many of the kind the thread had before, in this execution.
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

/// Which occasions are faults, in every execution that comes to them.
pub type FaultPlan = Vec<Occasion>;

/// How many occasions of each kind a thread had.
type Counts = [u32; Fault::ALL.len()];

struct State {
    plan: FaultPlan,
    injected: usize,
    /// Of each thread, in the present execution.
    counts: Vec<Counts>,
    /// Of each thread the most, in executions that had the whole plan.
    most: Vec<Counts>,
    /// Faults in the present execution.
    here: usize,
}

static STATE: Mutex<State> = Mutex::new(State {
    plan: Vec::new(),
    injected: 0,
    counts: Vec::new(),
    most: Vec::new(),
    here: 0,
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the faults of all executions from now on; what was counted is forgotten.
pub fn set_faults(plan: FaultPlan) {
    let mut state = state();
    *state = State {
        plan,
        injected: 0,
        counts: Vec::new(),
        most: Vec::new(),
        here: 0,
    };
}

/// The plan that is set; empty unless one was.
pub fn faults() -> FaultPlan {
    state().plan.clone()
}

/// How many faults were injected since the plan was [set](set_faults). 0 at the end means that its occasions are never reached.
pub fn injected() -> usize {
    state().injected
}

/// The occasions of the executions since the plan was [set](set_faults) that had all of its faults; these included.
pub fn occasions() -> Vec<Occasion> {
    let state = state();
    let mut occasions = Vec::new();
    for (thread, counts) in state.most.iter().enumerate() {
        for fault in Fault::ALL {
            let of_it = 0..counts[fault as usize];
            occasions.extend(of_it.map(|nth| Occasion { fault, thread, nth }));
        }
    }
    occasions
}

pub(super) fn begin_execution() {
    let mut state = state();
    state.counts.clear();
    state.here = 0;
}

/// Whether the next occasion of the calling thread for `fault` is in the plan. Counts it.
pub(crate) fn fault(fault: Fault) -> bool {
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
    state.here += usize::from(hit);
    if state.here == state.plan.len() {
        let threads = state.most.len().max(threads);
        state.most.resize(threads, Counts::default());
        for (most, counts) in state.most.iter_mut().zip(&state.counts) {
            for (most, &count) in most.iter_mut().zip(counts) {
                *most = count.max(*most);
            }
        }
    }
    hit
}

/// How a sleep ends at once by plan, if it does.
pub(crate) fn injected_wakeup(has_deadline: bool) -> Option<Wakeup> {
    if fault(Fault::SpuriousWake) {
        return Some(Wakeup::Woken);
    }
    (has_deadline && fault(Fault::TimeOut)).then_some(Wakeup::TimedOut)
}
