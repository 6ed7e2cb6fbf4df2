//! Group commit: one thread runs an operation, such as a flush, for all threads that wait for it.
//!
//! # The problem
//! A flush takes as long for one thread as for a hundred. But a thread can rely only on a flush
//! that began after the thread had written. So threads that arrive during a flush wait for its end,
//! and then one of them flushes for all of them.
//!
//! # Properties
//! A **run** is one execution of the operation.
//!
//! - **Progress**: there is no background thread. One of the waiting threads runs, in its own call.
//! - **Fairness**: a call waits at most for the run under way when it arrives, and for one more.
//! - **Cost**: a call that finds no run under way locks the mutex twice. Waking costs a system
//!   call, which is omitted if no thread sleeps.
//! - **Failure**: an error is shared like any other result, and the next run may succeed.
//!
//! # Invariants
//! - **N-R1** Runs are numbered in the order in which they begin, and only one is under way at a
//!   time. A call that arrives when `begun` runs have begun is covered by a run with a larger
//!   number.
//! - **N-R2** `ended` is the largest number of a run that has returned, and `result` is its result.
//!   A run that unwinds changes neither. So the calls that it would have served find no run under
//!   way, and one of them runs.
//! - **N-R3** A thread sleeps only while a run is under way, and the end of a run wakes all
//!   sleepers. So no thread sleeps for ever, unless a run never ends.
//!
//! # Models
//! The rows `node-log-rendezvous/…`, and for the flush of the data half `node-log-flush/…`.

use spanlock_sync::wait::is_wake_left_out;
use spanlock_sync::{Condvar, Mutex, injected_bug};

use crate::error::Error;

/// Where threads meet that need the same operation. Each call of [`pass`](Rendezvous::pass) is
/// covered by a run that *began* after the call. One thread runs, and all calls that arrived before
/// the run began share its result.
#[derive(Debug)]
pub struct Rendezvous {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    /// The number of runs that have begun.
    begun: u64,
    is_running: bool,
    /// The number of the last run that returned.
    ended: u64,
    result: Result<(), Error>,
    /// The number of sleeping threads.
    sleepers: u32,
}

/// A run under way. Dropping it ends the run, also while unwinding.
struct Run<'r> {
    of: &'r Rendezvous,
    number: u64,
    result: Option<Result<(), Error>>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if injected_bug!(
            "unwound-under-way",
            "a run that unwinds stays under way",
            killed_by = "node-log-rendezvous/unwinds"
        ) && self.result.is_none()
        {
            return;
        }
        let mut state = self.of.state.lock();
        state.is_running = false;
        if let Some(result) = self.result.take() {
            state.ended = self.number;
            state.result = result;
        }
        let is_awaited = state.sleepers > 0;
        drop(state);
        if is_awaited && !is_wake_left_out() {
            self.of.ended.notify_all();
        }
    }
}

impl Rendezvous {
    /// Creates a rendezvous at which no thread waits.
    #[allow(
        clippy::new_without_default,
        reason = "nothing in this crate needs a default"
    )]
    pub fn new() -> Self {
        Rendezvous {
            state: Mutex::new(State {
                begun: 0,
                is_running: false,
                ended: 0,
                result: Ok(()),
                sleepers: 0,
            }),
            ended: Condvar::new(),
        }
    }

    /// Blocks until a run that began after this call has ended, and returns that run's result. If a
    /// run unwinds, one of the calls that it would have served runs next.
    ///
    /// Everything before the call happens before that run, and the run happens before the return.
    pub fn pass(&self, run: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let mut state = self.state.lock();
        let least = if injected_bug!(
            "joined-late",
            "a call shares the run that was under way when it came",
            killed_by = "node-log-rendezvous/two, node-log-rendezvous/three"
        ) && state.is_running
        {
            state.begun
        } else {
            state.begun + 1
        };
        while state.ended < least && state.is_running {
            state.sleepers += 1;
            state = self.ended.wait(state);
            state.sleepers -= 1;
        }
        if state.ended >= least {
            return state.result.clone();
        }
        state.begun += 1;
        state.is_running = true;
        let mut under_way = Run {
            of: self,
            number: state.begun,
            result: None,
        };
        drop(state);
        let result = run();
        under_way.result = Some(result.clone());
        result
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::{io, thread};

    use super::*;

    #[test]
    fn each_call_is_covered_by_a_run_that_began_after_it() {
        let rendezvous = Rendezvous::new();
        let (written, flushed) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mine = written.fetch_add(1, SeqCst) + 1;
                        let passed = rendezvous.pass(|| {
                            let all = written.load(SeqCst);
                            thread::yield_now();
                            flushed.fetch_max(all, SeqCst);
                            Ok(())
                        });
                        passed.unwrap();
                        assert!(flushed.load(SeqCst) >= mine);
                    }
                });
            }
        });
    }

    /// Two calls come while a run is under way. They share one run, and its failure.
    #[test]
    fn calls_that_wait_share_a_run_and_its_failure() {
        let rendezvous = Rendezvous::new();
        let (begun, begins) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let runs = AtomicU64::new(0);
        thread::scope(|scope| {
            let rendezvous = &rendezvous;
            scope.spawn(move || {
                rendezvous.pass(|| {
                    begun.send(()).unwrap();
                    goes.recv().unwrap();
                    Ok(())
                })
            });
            begins.recv().unwrap();
            let wait = || {
                rendezvous.pass(|| {
                    runs.fetch_add(1, SeqCst);
                    Err(Error::io("a flush")(io::Error::other("pulled out")))
                })
            };
            let waiters = [scope.spawn(wait), scope.spawn(wait)];
            while rendezvous.state.lock().sleepers < 2 {
                thread::yield_now();
            }
            go.send(()).unwrap();
            for waiter in waiters {
                let error = waiter.join().unwrap().unwrap_err();
                assert!(error.to_string().contains("pulled out"), "{error}");
            }
        });
        assert_eq!(runs.load(SeqCst), 1);
        assert!(rendezvous.pass(|| Ok(())).is_ok());
    }

    #[test]
    fn a_run_that_unwinds_leaves_the_work_to_those_that_wait() {
        let rendezvous = Rendezvous::new();
        let (begun, begins) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let rendezvous = &rendezvous;
            let unwinds = scope.spawn(move || {
                let run = || {
                    rendezvous.pass(|| {
                        begun.send(()).unwrap();
                        goes.recv().unwrap();
                        panic!("a medium panics")
                    })
                };
                assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            });
            begins.recv().unwrap();
            let mut has_run = false;
            let waits = scope.spawn(move || {
                let passed = rendezvous.pass(|| {
                    has_run = true;
                    Ok(())
                });
                passed.is_ok() && has_run
            });
            while rendezvous.state.lock().sleepers < 1 {
                thread::yield_now();
            }
            go.send(()).unwrap();
            unwinds.join().unwrap();
            assert!(waits.join().unwrap());
        });
    }
}
