//! What happened in an execution.
//!
//! A failure shows the events in their order. The comparison of checkers uses the *outcome*: what
//! each thread saw. The order of events of different threads is no outcome, since a checker that
//! reduces partial orders explores one of several orders that no thread can tell apart.
//!
//! This is plain std state that no checker sees. Both checkers run the threads of an execution on
//! one system thread, one at a time, so the order of notes is the order of the execution, and
//! noting adds no scheduling point.

// Without a checker no program runs, and nothing reads the notes.
#![cfg_attr(not(any(spanlock_loom, spanlock_shuttle)), allow(dead_code))]

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::rows::row::Overtaking;

static EVENTS: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
static PERFORMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static OUTCOMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static OVERTAKING: Mutex<Option<Overtaking>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the events of the previous execution.
pub(crate) fn begin() {
    lock(&EVENTS).clear();
}

/// Stands for the time after all threads have ended.
const END: usize = usize::MAX;

/// Adds a remark of `thread` to the steps that a replay shows. It is no part of the outcome.
pub fn remark(thread: usize, what: &str) {
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::remark(thread, what);
    let _ = (thread, what);
}

/// Notes what the calling thread saw: a part of the outcome.
pub fn note(what: impl Into<String>) {
    note_as(me(), what);
}

/// Notes what `thread` saw.
pub fn note_as(thread: usize, what: impl Into<String>) {
    let what = what.into();
    remark(thread, &what);
    lock(&EVENTS).push((thread, what));
}

/// Notes what holds when all threads have ended.
pub fn note_at_end(what: impl Into<String>) {
    let what = what.into();
    remark(0, &what);
    lock(&EVENTS).push((END, what));
}

fn me() -> usize {
    spanlock_sync::thread::index()
}

/// Ends an operation of the program: the bound on steps counts anew from here
/// ([`Suite::step_bound`](crate::Suite::step_bound)).
pub fn finished() {
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::finished();
}

/// Has the system refuse heavy barriers ([`spanlock_sync::barrier::heavy`]) to the calling thread:
/// those of its `calls` from now on, counted from 0.
pub fn refuse_barriers(calls: Range<u32>) {
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::refuse_barriers(calls.clone());
    let _ = calls;
}

/// Notes that an arrival has tried to overtake a waiter; `passes` is how many now have, of at most
/// `bound`.
///
/// # Panics
/// They are more.
pub fn overtake(passed: bool, passes: u32, bound: u32) {
    assert!(passes <= bound, "{passes} arrivals overtook a waiter");
    let mut overtaking = lock(&OVERTAKING);
    let seen = overtaking.get_or_insert_default();
    seen.bound = bound;
    seen.most = seen.most.max(passes);
    seen.refused |= !passed;
}

/// Returns what was seen of overtaking so far; none if no arrival tried.
pub(crate) fn overtaking() -> Option<Overtaking> {
    *lock(&OVERTAKING)
}

/// Notes that the calling thread has performed an operation, and [ends](finished) it. By the end
/// of the search each thread must have performed what its program says.
pub fn perform(operation: impl AsRef<str>) {
    lock(&PERFORMED).insert(performed_by(me(), operation.as_ref()));
    finished();
}

/// Returns how a performed operation is written: `1:cancel`.
pub(crate) fn performed_by(thread: usize, operation: &str) -> String {
    format!("{thread}:{operation}")
}

/// Returns every operation so far, and the thread that performed it.
pub(crate) fn performed() -> Vec<String> {
    lock(&PERFORMED).iter().cloned().collect()
}

/// Ends an execution: what each thread saw is an outcome.
pub(crate) fn end() {
    let mut events = lock(&EVENTS).clone();
    // Stable: the order within a thread stays.
    events.sort_by_key(|&(who, _)| who);
    lock(&OUTCOMES).insert(text(&events));
}

/// Returns the events of the execution so far, in order: what led to a failure.
pub(crate) fn events() -> String {
    text(&lock(&EVENTS))
}

/// Returns every outcome so far.
pub(crate) fn outcomes() -> Vec<String> {
    lock(&OUTCOMES).iter().cloned().collect()
}

fn text(events: &[(usize, String)]) -> String {
    let text = |(thread, what): &(usize, String)| match *thread {
        END => format!("end:{what}"),
        thread => format!("T{thread}:{what}"),
    };
    Vec::from_iter(events.iter().map(text)).join(" ")
}
