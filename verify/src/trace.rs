//! The events of an execution, which its threads record as notes.
//!
//! The report of a failure lists the events in order. To compare checkers, the harness uses the
//! *outcome*: the events of each thread. The order between threads is not part of it, because the
//! explorer and loom explore only one of several equivalent orders.
//!
//! Notes are plain std state, which no checker sees, so they add no scheduling point. Each checker
//! runs all threads on one system thread, so the order of notes is the order of the execution.

// Without a checker no program runs, and nothing reads the notes.
#![cfg_attr(
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)),
    allow(dead_code)
)]

use std::ops::Range;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
pub(crate) use spanlock_sync::check::outside;

use crate::messages::Found;

static EVENTS: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
static FOUND: LazyLock<Mutex<Found>> = LazyLock::new(Mutex::default);

/// Without a checker, there is no execution.
#[cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    f()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what this process has found so far.
pub(crate) fn found() -> MutexGuard<'static, Found> {
    lock(&FOUND)
}

/// Replaces the thread's number in events after all threads have ended.
const END: usize = usize::MAX;

/// Adds a remark of `thread` to the steps that a replay shows. It is not part of the outcome.
pub fn remark(thread: usize, what: &str) {
    #[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::remark(thread, what);
    let _ = (thread, what);
}

/// Records an event of the calling thread, such as a value that it read, as part of the outcome.
pub fn note(what: impl Into<String>) {
    note_as(spanlock_sync::thread::index(), what);
}

/// Records an event of `thread`, as part of the outcome.
pub fn note_as(thread: usize, what: impl Into<String>) {
    let what = what.into();
    remark(if thread == END { 0 } else { thread }, &what);
    outside(|| lock(&EVENTS).push((thread, what.clone())));
}

/// Records a fact that holds after all threads have ended, as part of the outcome.
pub fn note_at_end(what: impl Into<String>) {
    note_as(END, what);
}

/// Marks the end of an operation. The count of steps towards the
/// [step bound](crate::Suite::step_bound) restarts here.
pub fn finished() {
    #[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::finished();
}

/// Makes heavy barriers ([`spanlock_sync::barrier::heavy`]) of the calling thread fail, as if the
/// system refused them. `calls` says which: 0 is the thread's next heavy barrier.
pub fn refuse_barriers(calls: Range<u32>) {
    #[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
    spanlock_sync::check::refuse_barriers(calls.clone());
    let _ = calls;
}

/// Records that an arriving thread tried to overtake a waiter. `passed` says whether it did, and
/// `passes` is the number of arrivals that have overtaken the waiter so far.
///
/// # Panics
/// Panics if `passes` exceeds `bound`.
pub fn overtake(passed: bool, passes: u32, bound: u32) {
    assert!(passes <= bound, "{passes} arrivals overtook a waiter");
    let mut found = found();
    let seen = found.overtaking.get_or_insert_default();
    seen.bound = bound;
    seen.most = seen.most.max(passes);
    seen.refused |= !passed;
}

/// Records that the calling thread has performed an operation, and [ends](finished) it. By the end
/// of the search, each thread must have performed the operations that its program states.
pub fn perform(operation: impl AsRef<str>) {
    let thread = spanlock_sync::thread::index();
    outside(|| {
        let operation = operation.as_ref().to_owned();
        found().performed.insert((thread, operation));
    });
    finished();
}

/// Begins an execution: forgets the events of the previous one.
pub(crate) fn begin() {
    lock(&EVENTS).clear();
}

/// Ends an execution, and records its outcome.
pub(crate) fn end() {
    outside(|| {
        let mut events = lock(&EVENTS).clone();
        // Stable: the order within a thread stays.
        events.sort_by_key(|&(thread, _)| thread);
        found().outcomes.insert(text(&events));
    });
}

/// Returns the events of the execution so far, in order, for the report of a failure.
pub(crate) fn events() -> String {
    text(&lock(&EVENTS))
}

fn text(events: &[(usize, String)]) -> String {
    let text = |(thread, what): &(usize, String)| match *thread {
        END => format!("end:{what}"),
        thread => format!("T{thread}:{what}"),
    };
    Vec::from_iter(events.iter().map(text)).join(" ")
}
