//! Group commit: threads that wait for their records to become durable share one flush, and one of
//! them, the *leader*, performs it.
//!
//! # The problem
//! A flush takes as long for one record as for a thousand. Records therefore collect while a flush
//! is under way. One of the waiting threads, the *leader*, then writes and flushes all of them at
//! once, while the others sleep.
//!
//! The remaining question is when the leader starts. In most logs it starts at once. The threads
//! that the last flush woke then return a moment after the next flush has begun, and wait for two
//! flushes. Half of the threads always miss a flush: *N* threads that only commit get *N*/2 records
//! per flush.
//!
//! A leader may therefore wait for the threads that are about to return. This wait is called the
//! *rendezvous*. A [`Gather`] decides whether and how long a leader waits; the log uses the
//! [`Gather`] named [`Rendezvous`].
//!
//! This file uses neither a storage nor a clock. The leader's work is a closure, and the [`Gather`]
//! computes the deadline of the sleep.
//!
//! # Properties
//! - **One leader at a time**: the leader is a thread that waits for its own *ticket*, the number
//!   that it got when it joined the batch. The group has no thread of its own, so nothing is
//!   committed while no thread waits.
//! - **Order**: tickets become durable in the order in which they were given. A flush makes all
//!   tickets up to some number durable at once.
//! - **Failure** is final: once a leader's closure has failed or panicked, no further ticket
//!   becomes durable. Every waiter and later caller gets the reason, unless it waits for a ticket
//!   that was already durable.
//! - **Fairness**: a waiter waits at most for the flush that is under way when it arrives, for a
//!   rendezvous, and for its own flush. It never waits for a third flush.
//! - **Cost**: joining locks the mutex once. Waiting for a ticket that is already durable does not
//!   lock it. Any other waiter locks it once at first, and again each time it wakes before its
//!   ticket is durable. A leader locks it once more, after its closure has returned or panicked.
//! - **Allocation**: each flush allocates a list of the threads to wake, if there are any.
//!
//! # State
//! Under the mutex. The *candidate* is the waiter that sleeps with a deadline; if no other thread
//! leads before, it then becomes the leader.
//!
//! ```text
//!            a waiter asks the Gather: no hold
//!    ┌─────────────────────────────────────────────┐
//!    │                                             ▼
//!   Idle ──hold──► Gathering ──enough arrive, ──► Leading ──the closure returns or panics──► Idle
//!                              or the deadline
//!                              passes
//! ```
//!
//! | phase | changed by |
//! |---|---|
//! | `Idle` | a waiter whose ticket is not durable, after it has asked the [`Gather`] |
//! | `Gathering` | an arriving waiter, if enough have come; the candidate, after its deadline |
//! | `Leading` | the leader, when its closure has returned or panicked |
//!
//! | word | changed by | how |
//! |---|---|---|
//! | `next`, the next ticket to give | a thread that joins | rises |
//! | `durable`, the last durable ticket | the leader, unless something failed | rises |
//! | `failed` | the leader, or [`fail`](Group::fail) | `None` to `Some`, once |
//! | `sleepers` | waiters enter; the leader removes those that are done | in order of entry |
//!
//! ```text
//!   tickets  1 2 3 4 5 6 7 8 9        threads wait for 5, 7 and 9; the waiter for 7 leads
//!                    │     │ │
//!              durable     │ next - 1         1..=4   durable
//!                          taken              5..=7   on their way: taken, being flushed
//!                                             8..=9   joined: for the next leader
//! ```
//!
//! # Invariants
//! - **C-I1** `durable` < every ticket *on its way* (taken by a leader, and not yet durable) <
//!   every ticket that joined later < `next`. A leader takes all tickets that have joined,
//!   including its own.
//! - **C-I2** `durable` rises only after a leader's closure has returned `Ok`, and only if nothing
//!   failed before. All tickets up to the new value were passed to this closure or to earlier ones.
//! - **C-I3** While a sleeper's ticket is not durable and nothing has failed, there is a leader, a
//!   candidate with a deadline, or a *newly woken* waiter. A newly woken waiter was woken after the
//!   last leader left, and has not locked the mutex since. So some thread will lead, and no thread
//!   sleeps for ever.
//! - **C-I4** Every sleeper has an entry in `sleepers`. It made the entry no later than the
//!   critical section in which it last checked its ticket. The thread that makes the ticket durable
//!   or fails the group removes the entry in the same critical section, and then wakes the sleeper.
//!   A sleeper that becomes the leader removes its own entry.
//! - **C-I5** Neither a leader's closure nor a waker runs under the mutex.
//!
//! # Orderings
//! The mutex protects all decisions. One word, `durable`, is also read without the mutex:
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | `durable` rises | Release | B | `compact-group/look` |
//! | B | the load of `durable` | Acquire | A | `compact-group/look` |
//!
//! # Not guaranteed
//! - A ticket for which no thread waits may never become durable.
//! - The methods of a [`Batch`] or a [`Gather`] must not panic, because they run under the mutex. A
//!   leader's closure may panic.
//!
//! # Models
//! `compact-group` and `compact-rendezvous`, in `models/compact.rs`:
//!
//! | pair of operations | model |
//! |---|---|
//! | wait, wait | `commit-each`, `commit-3`; with a [`Gather`] that waits, `meet` |
//! | wait, join | `late` |
//! | wait, look | `look` |
//! | wait, failure | `fail-each`, `fail-one`, `fail-beside`, `fail-alone` |
//! | deadline, arrival | `meet`, `nobody-comes`, `third` |
//!
//! `tests/all/compact_failures.rs` shows that a panic counts as a failure. No model shows this,
//! because the checkers do not switch threads during unwinding.

use core::task::Waker;
use std::time::Instant;

use spanlock_sync::atomic::{AtomicU64, Ordering::*};
use spanlock_sync::wait::is_wake_left_out;
use spanlock_sync::{Mutex, MutexGuard, Park, Parker, Wakeup, injected_bug};

use crate::rendezvous::Rendezvous;
use crate::unwind::OnUnwind;

/// Collects the data of the threads that join. Its methods run under the group's mutex and must not
/// panic.
pub trait Batch {
    /// The load that a leader takes to the medium.
    type Load;
    /// Removes and returns everything that has joined.
    fn take(&mut self) -> Self::Load;
    /// Takes back a load whose commit has succeeded or failed, so that its memory can be reused.
    fn put_back(&mut self, load: Self::Load);
}

/// Decides when a leader starts. Its methods run under the group's mutex and must not panic.
pub trait Gather {
    /// Notes that a thread has come to wait for a ticket that is not durable.
    fn arrived(&mut self);
    /// Returns the time until which a leader should wait for more threads, or `None` if it should
    /// start now. `waiting` counts the threads that wait, including the calling thread.
    ///
    /// The group calls this again at each arrival before the deadline. Later calls must not move
    /// the deadline, so that a leader starts eventually.
    fn hold(&mut self, waiting: usize) -> Option<Instant>;
    /// Notes that a leader starts.
    fn started(&mut self);
    /// Notes that the leader is done and that `released` threads, including the leader, are about
    /// to continue. Not called after a failure, because no further commit follows.
    fn finished(&mut self, released: usize);
}

/// `None` never waits: plain group commit.
impl Gather for Option<Rendezvous> {
    fn arrived(&mut self) {
        if let Some(this) = self {
            this.arrived_at(Instant::now());
        }
    }

    fn hold(&mut self, waiting: usize) -> Option<Instant> {
        self.as_mut()
            .and_then(|this| this.hold_at(Instant::now(), waiting))
    }

    fn started(&mut self) {
        if let Some(this) = self {
            this.started_at(Instant::now());
        }
    }

    fn finished(&mut self, released: usize) {
        if let Some(this) = self {
            this.finished_at(Instant::now(), released);
        }
    }
}

/// The reason why a group has failed and commits nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// A leader's closure returned this error, or [`Group::fail`] was called with it.
    Failed(E),
    /// A leader's closure panicked.
    Panicked,
}

/// Threads that commit together. See the [module](self).
///
/// ```
/// use spanlock_journal_commit::compact::group::{Batch, Failure, Group};
/// use spanlock_journal_commit::compact::rendezvous::Rendezvous;
///
/// #[derive(Default)]
/// struct Words(Vec<&'static str>);
///
/// impl Batch for Words {
///     type Load = Vec<&'static str>;
///     fn take(&mut self) -> Self::Load {
///         std::mem::take(&mut self.0)
///     }
///     fn put_back(&mut self, _: Self::Load) {}
/// }
///
/// let group = Group::<_, String, _>::new(1, Words::default(), Some(Rendezvous::new()));
/// let (ticket, ()) = group.join(|words, _| Ok::<_, ()>(words.0.push("hello"))).unwrap().unwrap();
/// assert_eq!((ticket, group.durable()), (1, 0));
/// group.wait(ticket, |words| Ok(assert_eq!(words[..], ["hello"])))?;
/// assert_eq!(group.durable(), 1);
/// # Ok::<(), Failure<String>>(())
/// ```
#[derive(Debug)]
pub struct Group<B, E, G> {
    state: Mutex<State<B, E, G>>,
    durable: AtomicU64,
}

#[derive(Debug)]
struct State<B, E, G> {
    phase: Phase,
    open: B,
    next: u64,
    failed: Option<Failure<E>>,
    sleepers: Vec<Sleeper>,
    entries: u64,
    gather: G,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The candidate sleeps with a deadline.
    Gathering,
    Leading,
}

#[derive(Debug)]
struct Sleeper {
    id: u64,
    ticket: u64,
    waker: Waker,
}

/// The next step of a waiter.
enum NextStep {
    Lead,
    Sleep { until: Option<Instant> },
}

impl<B: Batch, E: Clone, G: Gather> Group<B, E, G> {
    /// Creates a group whose first ticket is `first`, at least 1. All tickets before it count as
    /// durable.
    pub fn new(first: u64, open: B, gather: G) -> Self {
        let first = first.max(1);
        Group {
            state: Mutex::new(State {
                phase: Phase::Idle,
                open,
                next: first,
                failed: None,
                sleepers: Vec::new(),
                entries: 0,
                gather,
            }),
            durable: AtomicU64::new(first - 1),
        }
    }

    /// Adds to the open batch, which the next leader takes. `add` gets the batch and the ticket. It
    /// runs under the mutex, so it must be brief and must not panic half-way.
    ///
    /// If `add` returns an error, the result is `Ok(Err(…))` and the ticket is not used up.
    ///
    /// # Errors
    /// The group has failed.
    pub fn join<R, X>(
        &self,
        add: impl FnOnce(&mut B, u64) -> Result<R, X>,
    ) -> Result<Result<(u64, R), X>, Failure<E>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(failure) = &state.failed {
            return Err(failure.clone());
        }
        Ok(add(&mut state.open, state.next).map(|result| {
            let ticket = state.next;
            state.next += 1;
            (ticket, result)
        }))
    }

    /// Reads or changes the open batch, without a ticket.
    pub fn open<R>(&self, look: impl FnOnce(&mut B) -> R) -> R {
        look(&mut self.state.lock().open)
    }

    /// Blocks until `ticket`, which [`join`](Self::join) gave, is durable. The thread sleeps, or
    /// becomes the leader. A leader calls `commit` once, outside the mutex, with everything that
    /// has joined.
    ///
    /// # Errors
    /// The group failed before the ticket was acknowledged. The data may nevertheless be durable on
    /// the medium.
    ///
    /// # Panics
    /// If `commit` panics. The group has then failed for all other threads.
    pub fn wait(
        &self,
        ticket: u64,
        commit: impl FnOnce(&mut B::Load) -> Result<(), E>,
    ) -> Result<(), Failure<E>> {
        if self.is_durable(ticket) {
            return Ok(());
        }
        Parker::with(|parker| self.wait_or_lead(ticket, parker, commit))
    }

    /// Returns the last durable ticket. Its commit happens-before the return.
    #[inline]
    pub fn durable(&self) -> u64 {
        // Acquire [B→A]: a thread that sees the ticket sees everything that its commit did.
        self.durable.load(Acquire)
    }

    /// Returns the last ticket given.
    pub fn last(&self) -> u64 {
        self.state.lock().next - 1
    }

    /// Returns why the group has failed, if it has.
    pub fn failure(&self) -> Option<Failure<E>> {
        self.state.lock().failed.clone()
    }

    /// Fails the group, unless it has failed already. From now on no ticket becomes durable, not
    /// even a ticket that a leader has already taken.
    pub fn fail(&self, why: Failure<E>) {
        let calls = self.state.lock().fail(why);
        wake(calls);
    }

    fn is_durable(&self, ticket: u64) -> bool {
        self.durable() >= ticket
    }

    fn wait_or_lead(
        &self,
        ticket: u64,
        parker: &Parker,
        commit: impl FnOnce(&mut B::Load) -> Result<(), E>,
    ) -> Result<(), Failure<E>> {
        let mut state = self.state.lock();
        debug_assert!(ticket < state.next, "ticket {ticket} was never given");
        if !self.is_durable(ticket) {
            state.gather.arrived();
        }
        let mut wait = WaitState::default();
        loop {
            // Checked before the failure: a ticket that was durable when the group failed stays
            // durable.
            if self.is_durable(ticket) {
                return Ok(());
            }
            if let Some(failure) = &state.failed {
                return Err(failure.clone());
            }
            let until = match state.turn(&mut wait) {
                NextStep::Lead => return self.lead(state, &wait, commit),
                NextStep::Sleep { until } => until,
            };
            state.enter(&mut wait, ticket, parker);
            drop(state);
            let wakeup = parker.park_until(until);
            wait.has_waited = until.is_some() && wakeup == Wakeup::TimedOut;
            if self.is_durable(ticket) {
                return Ok(());
            }
            state = self.state.lock();
        }
    }

    fn lead(
        &self,
        mut state: MutexGuard<'_, State<B, E, G>>,
        wait: &WaitState,
        commit: impl FnOnce(&mut B::Load) -> Result<(), E>,
    ) -> Result<(), Failure<E>> {
        state.leave(wait);
        state.gather.started();
        let mut load = state.open.take();
        let last = state.next - 1;
        state.phase = Phase::Leading;
        drop(state);
        let poison = OnUnwind::run(|| {
            // A panic makes no ticket durable.
            let _ = self.finish(0, None, Err(Failure::Panicked));
        });
        let mut result = commit(&mut load);
        if injected_bug!(
            "flush-error-swallowed",
            "a failed commit is reported as a success",
            killed_by = "fail-each, fail-one"
        ) {
            result = Ok(());
        }
        poison.disarm();
        self.finish(last, Some(load), result.map_err(Failure::Failed))
    }

    /// Ends a leader's turn. Tickets up to `last` become durable if `result` is `Ok` and nothing
    /// else has failed meanwhile.
    fn finish(
        &self,
        last: u64,
        load: Option<B::Load>,
        result: Result<(), Failure<E>>,
    ) -> Result<(), Failure<E>> {
        let mut state = self.state.lock();
        state.phase = Phase::Idle;
        if let Some(load) = load {
            state.open.put_back(load);
        }
        let calls = match result {
            Err(failure) => state.fail(failure),
            Ok(())
                if state.failed.is_some()
                    && !injected_bug!(
                        "no-settle",
                        "a commit succeeds although another operation has failed meanwhile",
                        killed_by = "fail-beside"
                    ) =>
            {
                Vec::new()
            }
            Ok(()) => {
                // Release [A→B]: publishes the effects of the commit to threads that read without
                // the mutex.
                self.durable.store(last, Release);
                state.release(last)
            }
        };
        let result = state.failed.clone().map_or(Ok(()), Err);
        drop(state);
        wake(calls);
        result
    }
}

impl<B, E: Clone, G: Gather> State<B, E, G> {
    fn turn(&mut self, wait: &mut WaitState) -> NextStep {
        if self.phase == Phase::Leading {
            wait.is_candidate = false;
            return NextStep::Sleep { until: None };
        }
        let is_candidate = self.phase == Phase::Idle || wait.is_candidate;
        if is_candidate && wait.has_waited {
            return NextStep::Lead;
        }
        let waiting = self.sleepers.len() + usize::from(wait.id.is_none());
        match self.gather.hold(waiting) {
            None => NextStep::Lead,
            Some(_) if !is_candidate => NextStep::Sleep { until: None },
            until => {
                wait.is_candidate = true;
                self.phase = Phase::Gathering;
                NextStep::Sleep { until }
            }
        }
    }

    fn enter(&mut self, wait: &mut WaitState, ticket: u64, parker: &Parker) {
        if wait.id.is_some() {
            return;
        }
        wait.id = Some(self.entries);
        self.sleepers.push(Sleeper {
            id: self.entries,
            ticket,
            waker: parker.waker().clone(),
        });
        self.entries += 1;
    }

    fn leave(&mut self, wait: &WaitState) {
        if let Some(id) = wait.id {
            self.sleepers.retain(|sleeper| sleeper.id != id);
        }
    }

    /// Removes the sleepers whose tickets are now durable. Returns their wakers. If a sleeper is
    /// left, its waker comes first, so that it can lead next.
    fn release(&mut self, durable: u64) -> Vec<Waker> {
        let mut calls = Vec::new();
        let stays = self
            .sleepers
            .iter()
            .find(|sleeper| sleeper.ticket > durable);
        calls.extend(stays.map(|sleeper| sleeper.waker.clone()));
        let leading = calls.len();
        let goes = |sleeper: &mut Sleeper| sleeper.ticket <= durable;
        calls.extend(
            self.sleepers
                .extract_if(.., goes)
                .map(|sleeper| sleeper.waker),
        );
        self.gather.finished(calls.len() - leading + 1);
        calls
    }

    /// Removes all sleepers and returns their wakers.
    fn fail(&mut self, failure: Failure<E>) -> Vec<Waker> {
        self.failed.get_or_insert(failure);
        if injected_bug!(
            "poison-untold",
            "a failure is recorded without waking the waiters",
            killed_by = "fail-each, fail-alone"
        ) {
            return Vec::new();
        }
        self.sleepers
            .drain(..)
            .map(|sleeper| sleeper.waker)
            .collect()
    }
}

/// A waiter's state.
#[derive(Default)]
struct WaitState {
    /// The number of this waiter's entry, if it has one.
    id: Option<u64>,
    /// Whether this waiter is the one that sleeps with a deadline.
    is_candidate: bool,
    /// Whether its deadline has passed.
    has_waited: bool,
}

#[track_caller]
fn wake(calls: Vec<Waker>) {
    // A checker leaves out a wake only if there is a sleeper; otherwise it would change nothing.
    if calls.is_empty() || is_wake_left_out() {
        return;
    }
    for waker in calls {
        waker.wake();
    }
}
