//! What happened in an execution: for a failure the order of events, and for the comparison of checkers the outcome,
//! which is what each thread saw. (The order of events of different threads is no outcome: a checker that reduces
//! partial orders explores one of several orders that nobody can tell apart.)
//!
//! Plain std state that no checker sees: both run the threads of an execution on one system thread, one at a
//! time, so the order of notes is the order of the execution, and noting adds no scheduling point.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pairs::Operation;
use crate::row::Overtaking;

static EVENTS: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
static PERFORMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static OUTCOMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static OVERTAKING: Mutex<Option<Overtaking>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the events of the execution before.
pub fn begin() {
    lock(&EVENTS).clear();
}

/// Who notes what is so when all threads have ended.
pub const END: usize = usize::MAX;

/// What `who` does next, for those who read the interleaving. No event.
pub fn remark(who: usize, what: &str) {
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::remark(who, what);
    let _ = (who, what);
}

/// Notes that `who` did `what`.
pub fn note(who: usize, what: impl Into<String>) {
    let what = what.into();
    remark(if who == END { 0 } else { who }, &what);
    lock(&EVENTS).push((who, what));
}

/// An operation has been finished: the steps until the next one count anew ([`crate::plan::Job::step_bound`]).
pub fn finished() {
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::finished();
}

/// A later arrival has tried to pass one that waits; `passes` is how many now have, of at most `bound`.
///
/// # Panics
/// They are more.
pub fn pass(passed: bool, passes: u32, bound: u32) {
    assert!(passes <= bound, "{passes} passed one that waits");
    let mut overtaking = OVERTAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = overtaking.get_or_insert_default();
    seen.bound = bound;
    seen.most = seen.most.max(passes);
    seen.refused |= !passed;
}

/// What was seen of passing so far; none if nobody tried.
pub fn overtaking() -> Option<Overtaking> {
    *OVERTAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that the calling thread has done this, in this execution at least: what a program claims, it must have done at the end of the search. It is [`finished`].
pub fn perform(operation: Operation) {
    let me = spanlock_sync::thread::index();
    lock(&PERFORMED).insert(performed_by(me, operation));
    finished();
}

/// As [`perform`]ed operations are written: `1:cancel`.
pub fn performed_by(thread: usize, operation: Operation) -> String {
    format!("{thread}:{operation}")
}

/// Every operation so far, and who did it.
pub fn performed() -> Vec<String> {
    lock(&PERFORMED).iter().cloned().collect()
}

/// Ends an execution: what each thread saw is an outcome.
pub fn end() {
    let mut events = lock(&EVENTS).clone();
    // Stable: the order within a thread stays.
    events.sort_by_key(|&(who, _)| who);
    lock(&OUTCOMES).insert(text(&events));
}

/// The events of the execution so far, in order: what led to a failure.
pub fn events() -> String {
    text(&lock(&EVENTS))
}

/// Every outcome so far.
pub fn outcomes() -> Vec<String> {
    lock(&OUTCOMES).iter().cloned().collect()
}

fn text(events: &[(usize, String)]) -> String {
    let events: Vec<_> = events
        .iter()
        .map(|(who, what)| match *who {
            END => format!("end:{what}"),
            who => format!("T{who}:{what}"),
        })
        .collect();
    events.join(" ")
}
