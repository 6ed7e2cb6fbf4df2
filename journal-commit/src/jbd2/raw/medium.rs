//! Poisoning: nothing is acknowledged during or after a failure of the medium.
//!
//! # The problem
//! When a write or a flush fails, all data that was written before and not yet flushed may be lost,
//! no matter which thread wrote it. Linux marks pages that it failed to write as clean, and the
//! next flush succeeds. After a failure, therefore, nothing may be acknowledged.
//!
//! It is not enough that a thread checks a flag after its own flush. Another thread's operation may
//! have failed *before* that flush and lost the first thread's blocks, but the other thread may not
//! have set the flag yet.
//!
//! Each operation therefore enters a list before it begins, and leaves the list when it has ended.
//! If it failed, its failure is recorded in the same step. After its flush, a thread waits for all
//! operations that have begun by then ([`settle`](Operations::settle)). It acknowledges only if
//! none of them has failed.
//!
//! # State
//!
//! ```text
//!              begin                       end(Ok)
//!   (none) ─────────────► under way ──────────────────► (none)        while no failure is recorded
//!                             │
//!                             └── end(Err) or dropped ──► failure recorded, then (none)
//!                                                         from now on `begin` is refused
//! ```
//!
//! # Invariants
//! - **P1** A failure is recorded before its operation leaves the list. A later failure does not
//!   replace the first.
//! - **P2** After a failure is recorded, no operation begins.
//! - **P3** `settle` returns `Ok` only if every operation that began before the call succeeded. So
//!   if a thread has flushed and then calls `settle`, and `settle` returns `Ok`, no operation
//!   failed before or during its flush.
//! - **P4** An operation that is dropped (its thread panicked in the storage) has failed.
//! - **P5** `has_failed` is set under the mutex, together with the failure, so a thread that sees
//!   the flag finds the failure. A thread that misses the flag behaves as if it had checked
//!   earlier. If it then goes to sleep, the failure wakes it. It then takes the mutex of the signal
//!   that woke it, and checks again.

use std::sync::Arc;

use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};
use spanlock_sync::{Mutex, injected_bug};

use super::signal::Signal;

/// The operations on a medium, and the first failure. `F` describes what failed.
#[derive(Debug)]
pub struct Operations<F> {
    state: Mutex<State<F>>,
    /// Lets `check` avoid the mutex while nothing has failed (P5).
    has_failed: AtomicBool,
    ended: Signal,
    /// The signals that a failure wakes, because their waiters wait for events that no longer come.
    alarm: Vec<Arc<Signal>>,
    /// The failure to record if an operation is dropped.
    if_dropped: F,
}

#[derive(Debug)]
struct State<F> {
    failure: Option<F>,
    /// The number of the next operation.
    next: u64,
    /// Operations that have begun and not ended.
    under_way: Vec<u64>,
}

impl<F: Clone> Operations<F> {
    /// Creates a medium without a failure. Failures will wake the signals in `alarm`.
    pub fn new(if_dropped: F, alarm: Vec<Arc<Signal>>) -> Self {
        Operations {
            state: Mutex::new(State {
                failure: None,
                next: 0,
                under_way: Vec::new(),
            }),
            has_failed: AtomicBool::new(false),
            ended: Signal::new(),
            alarm,
            if_dropped,
        }
    }

    /// Returns the first failure, if there has been one.
    pub fn check(&self) -> Result<(), F> {
        // Relaxed: the failure itself is read under the mutex; see P5.
        if !self.has_failed.load(Relaxed) {
            return Ok(());
        }
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Begins an operation, unless an earlier operation has failed (P2).
    pub fn begin(&self) -> Result<Operation<'_, F>, F> {
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let number = state.next;
        state.next += 1;
        state.under_way.push(number);
        Ok(Operation {
            medium: self,
            number,
        })
    }

    /// Performs one operation, from its beginning to its end.
    pub fn perform(&self, operation: impl FnOnce() -> Result<(), F>) -> Result<(), F> {
        let under_way = self.begin()?;
        under_way.end(operation())
    }

    /// Records a failure that belongs to no operation.
    pub fn fail(&self, failure: F) {
        self.note(&mut self.state.lock(), failure);
        self.sound();
    }

    /// Blocks until every operation that began before this call has ended, or one has failed.
    /// Returns `Ok` if none has failed (P3).
    pub fn settle(&self) -> Result<(), F> {
        if injected_bug!(
            "no-settle",
            "settle does not wait for the operations under way, which may still fail",
            killed_by = "beside-a-failure, beside-a-death"
        ) {
            return self.check();
        }
        let now = self.state.lock().next;
        self.ended.wait_until(|| {
            let state = self.state.lock();
            if let Some(failure) = &state.failure {
                return Some(Err(failure.clone()));
            }
            let all_ended = state.under_way.iter().all(|number| *number >= now);
            all_ended.then_some(Ok(()))
        })
    }

    fn end(&self, number: u64, failure: Option<F>) {
        let mut state = self.state.lock();
        let failed = failure.is_some();
        if let Some(failure) = failure {
            self.note(&mut state, failure);
        }
        state.under_way.retain(|it| *it != number);
        drop(state);
        if failed {
            self.sound();
        } else {
            self.ended.wake_all();
        }
    }

    /// Records a failure, unless there is an earlier one.
    fn note(&self, state: &mut State<F>, failure: F) {
        state.failure.get_or_insert(failure);
        // Relaxed: see P5.
        self.has_failed.store(true, Relaxed);
    }

    fn sound(&self) {
        if injected_bug!(
            "poison-untold",
            "a failure is recorded without waking the waiters",
            killed_by = "told, beside-a-failure, flush-fails, write-fails"
        ) {
            return;
        }
        self.ended.wake_all();
        for signal in &self.alarm {
            signal.wake_all();
        }
    }
}

/// An operation under way.
#[derive(Debug)]
#[must_use = "an operation that is dropped has failed"]
pub struct Operation<'a, F: Clone> {
    medium: &'a Operations<F>,
    number: u64,
}

impl<F: Clone> Operation<'_, F> {
    /// Ends the operation, with its result.
    pub fn end(self, result: Result<(), F>) -> Result<(), F> {
        self.medium.end(self.number, result.as_ref().err().cloned());
        core::mem::forget(self);
        result
    }
}

impl<F: Clone> Drop for Operation<'_, F> {
    fn drop(&mut self) {
        (self.medium).end(self.number, Some(self.medium.if_dropped.clone()));
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_stays() {
        let medium = Operations::new("dropped", Vec::new());
        let one = medium.begin().unwrap();
        let two = medium.begin().unwrap();
        assert_eq!(one.end(Err("one")), Err("one"));
        drop(two);
        assert_eq!(medium.check(), Err("one"));
        assert_eq!(medium.settle(), Err("one"));
        assert_eq!(medium.begin().err(), Some("one"));
    }

    #[test]
    fn a_dropped_operation_has_failed() {
        let medium = Operations::new("dropped", Vec::new());
        drop(medium.begin());
        assert_eq!(medium.check(), Err("dropped"));
    }

    #[test]
    fn settle_waits_only_for_earlier_operations() {
        let medium = &Operations::new("dropped", Vec::new());
        medium.settle().unwrap();
        let before = medium.begin().unwrap();
        std::thread::scope(|scope| {
            let settled = scope.spawn(|| medium.settle());
            let after = medium.begin().unwrap();
            before.end(Ok(())).unwrap();
            // `after` may have begun before the call to `settle`; then `settle` waits for it too.
            after.end(Ok(())).unwrap();
            settled.join().unwrap().unwrap();
        });
        let failing = medium.begin().unwrap();
        std::thread::scope(|scope| {
            let settled = scope.spawn(|| medium.settle());
            failing.end(Err("lost")).unwrap_err();
            assert_eq!(settled.join().unwrap(), Err("lost"));
        });
    }
}
