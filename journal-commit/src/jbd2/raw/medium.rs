//! Poisoning: no acknowledgement after a failure of the medium, nor beside one.
//!
//! # The problem
//! When a write or a flush fails, what was written before and not flushed may be lost, whoever wrote it: Linux marks pages that it failed to write as
//! clean, and the next flush succeeds. So after a failure nothing may be acknowledged any more. It is not enough to look at a flag after one's own flush: another
//! thread's operation may have failed *before* that flush, and lost our blocks, while that thread has not come to raise the flag yet.
//!
//! So every operation is entered in a list before it begins and leaves it, with its failure, when it has ended; and who has flushed acknowledges only after
//! it has waited for all operations that had begun by then ([`settle`](Medium::settle)).
//!
//! # Invariants
//! - **P1** A failure is recorded before its operation leaves the list. The first one stays.
//! - **P2** After a failure is recorded no operation begins.
//! - **P3** `settle` returns `Ok` only if every operation that began before it was called has ended well. So no failure came before, or beside, the
//!   flush that its caller has made.
//! - **P4** An operation that is dropped (its thread panicked in the storage) has failed.
//! - **P5** `has_failed` is raised under the lock, with the failure: who sees it finds that. Who does not is as one who looked before; who would sleep then is
//!   woken by the failure, and looks again after that wake's lock.

use std::sync::Arc;

use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};
use spanlock_sync::{Mutex, injected_bug};

use super::signal::Signal;

/// The operations on a medium, and the first failure. `F` says what failed.
#[derive(Debug)]
pub struct Medium<F> {
    state: Mutex<State<F>>,
    /// A look that needs no lock (P5).
    has_failed: AtomicBool,
    ended: Signal,
    /// Woken by a failure: all who wait for something that will not come any more.
    alarm: Vec<Arc<Signal>>,
    /// What failed if an operation is dropped.
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

impl<F: Clone> Medium<F> {
    /// A medium without failure. `alarm` is woken by the first one.
    pub fn new(if_dropped: F, alarm: Vec<Arc<Signal>>) -> Self {
        Medium {
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

    /// The first failure, if there has been one.
    pub fn check(&self) -> Result<(), F> {
        // Relaxed: what failed is read under the lock; and P5.
        if !self.has_failed.load(Relaxed) {
            return Ok(());
        }
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Begins an operation, unless one has failed (P2).
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

    /// One operation, from its beginning to its end.
    pub fn perform(&self, operation: impl FnOnce() -> Result<(), F>) -> Result<(), F> {
        let under_way = self.begin()?;
        under_way.end(operation())
    }

    /// Records a failure that is no operation's.
    pub fn fail(&self, failure: F) {
        self.note(&mut self.state.lock(), failure);
        self.sound();
    }

    /// Sleeps until every operation has ended that has begun by now; `Ok` if none has failed (P3).
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

    /// The first one stays.
    fn note(&self, state: &mut State<F>, failure: F) {
        state.failure.get_or_insert(failure);
        // Relaxed: P5.
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
    medium: &'a Medium<F>,
    number: u64,
}

impl<F: Clone> Operation<'_, F> {
    /// It has ended, well or not.
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

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_stays() {
        let medium = Medium::new("dropped", Vec::new());
        let one = medium.begin().unwrap();
        let two = medium.begin().unwrap();
        assert_eq!(one.end(Err("one")), Err("one"));
        drop(two);
        assert_eq!(medium.check(), Err("one"));
        assert_eq!(medium.settle(), Err("one"));
        assert_eq!(medium.begin().err(), Some("one"));
    }

    #[test]
    fn who_is_dropped_has_failed() {
        let medium = Medium::new("dropped", Vec::new());
        drop(medium.begin());
        assert_eq!(medium.check(), Err("dropped"));
    }

    #[test]
    fn settling_waits_for_those_before_it_only() {
        let medium = &Medium::new("dropped", Vec::new());
        medium.settle().unwrap();
        let before = medium.begin().unwrap();
        std::thread::scope(|scope| {
            let settled = scope.spawn(|| medium.settle());
            let after = medium.begin().unwrap();
            before.end(Ok(())).unwrap();
            // It may have begun before or after the call; if before, it must end.
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
