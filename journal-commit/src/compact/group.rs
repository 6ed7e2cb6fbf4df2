//! Group commit: who waits for the medium together, and which of them goes there.
//!
//! # The problem
//! A flush takes as long for one record as for a thousand. So records collect while a flush is under way, and one of the threads that wait for them, the *leader*,
//! takes all of them to the medium at once; the others sleep. What is left to decide is when a leader starts. At once, say most logs: then the threads that the last
//! flush woke come back a moment after the next one has begun, and wait for two. Half of them are always in the wrong half: *N* threads that
//! do nothing but commit get *N*/2 records a flush. So a leader may wait for those who are about to come, the *rendezvous*; whether and how long is the
//! business of a [`Gather`], which this file asks. [`super::rendezvous`] has the two of them that ship.
//!
//! There is no storage here: what a leader does is a closure. And no clock: a deadline is handed through, from the [`Gather`] to the sleep.
//!
//! # Properties
//! - **One leader at a time**, a thread that waits for its own ticket. No thread of our own: nothing runs when nobody waits.
//! - **Order**: tickets become durable in the order in which they were given, all up to one at once.
//! - **Failure** is for ever: once a closure has failed or panicked, no ticket becomes durable that was not, and every waiter and later caller learns why.
//! - **Fairness**: a waiter waits for the flush that is under way when it comes, for a rendezvous, and for its own flush; never for a third.
//! - **Cost**: to join, one section of the mutex. To wait, one more, or none if the ticket is durable already; who was asleep needs none after it.
//! - **Allocation**: a list for those who are to be woken, once a flush, if there are any.
//!
//! # State
//! Under the mutex:
//!
//! | phase | who may change it | to |
//! |---|---|---|
//! | `Idle` | a waiter whose ticket is not durable | `Leading`; `Gathering`, if the [`Gather`] says so |
//! | `Gathering` | a waiter that comes, if the [`Gather`] has seen enough; the candidate, when its deadline has passed | `Leading` |
//! | `Leading` | the leader, when its closure has returned or panicked | `Idle` |
//!
//! | word | who changes it | how |
//! |---|---|---|
//! | `next`, the ticket to be given next | who joins | rises |
//! | `durable`, the last ticket that is | the leader, if nothing has failed | rises to the last ticket that it took |
//! | `failed` | the leader, or [`fail`](Group::fail) | `None` to `Some`, once |
//! | `sleepers` | a waiter enters itself; the leader takes away whom it wakes for good | in order of entry |
//!
//! ```text
//!   tickets  1 2 3 4 5 6 7 8 9        three threads wait for 5, 7, 9; the leader is the one of 7
//!                    │     │ │
//!              durable     │ next - 1         1..=4   durable
//!                          taken              5..=7   on their way: taken, and being flushed
//!                                             8..=9   joined: for the next leader
//! ```
//!
//! # Invariants
//! - **C-I1** `durable` < every ticket on its way ≤ every ticket joined after it < `next`. A leader takes all that have joined, so its own is among them.
//! - **C-I2** `durable` rises only after a closure that was given all tickets up to the new value returned `Ok`, with nothing failed before.
//! - **C-I3** While a sleeper's ticket is not durable and nothing has failed, there is a leader, or a candidate with a deadline, or a thread that was woken
//!   after the last leader left and has not had the mutex since, and that waits too. So somebody will lead: nobody sleeps for ever.
//! - **C-I4** Whoever sleeps has an entry, made in the section of the mutex in which it last looked. An entry goes only in the section that makes its ticket
//!   durable or fails the group, whose thread wakes it afterwards; or when its own thread leads.
//! - **C-I5** No closure and no waker runs under the mutex.
//!
//! # Orderings
//! All is decided under the mutex. One word is looked at outside:
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | `durable` rises | Release | B | `compact-group/look` |
//! | B | the look at `durable` | Acquire | A | `compact-group/look` |
//!
//! # Not promised
//! - That a ticket for which nobody waits is ever durable.
//! - That a [`Batch`] or a [`Gather`] may panic: they run under the mutex. A closure may.
//!
//! # Models
//! `compact-group` and `compact-rendezvous` of `spanlock-verify`:
//!
//! | pair of operations | model |
//! |---|---|
//! | wait, wait | `commit-each`, `commit-3`; with a [`Gather`] that waits, `meet` |
//! | wait, join | `late` |
//! | wait, look | `look` |
//! | wait, failure | `fail-each`, `fail-one`, `fail-beside`, `fail-alone` |
//! | deadline, arrival | `meet`, `nobody-comes`, `third` |
//!
//! That a panic is a failure like others is shown by `tests/compact_failures.rs`: the checkers do not switch threads while one unwinds.

use core::mem;
use core::task::Waker;
use std::time::Instant;

use spanlock_sync::atomic::{AtomicU64, Ordering::*};
use spanlock_sync::wait::is_wake_left_out;
use spanlock_sync::{Mutex, MutexGuard, Park, Parker, Wakeup, injected_bug};

/// What collects what joins. Its methods run under the group's mutex, and must not panic.
pub trait Batch {
    /// What a leader takes away.
    type Load;
    /// Takes all that has joined, and is empty.
    fn take(&mut self) -> Self::Load;
    /// Has a load back whose commit is over, well or not: its memory may serve again.
    fn put_back(&mut self, load: Self::Load);
}

/// When a leader starts. Its methods run under the group's mutex, and must not panic.
pub trait Gather {
    /// A thread has come to wait for a ticket that is not durable.
    fn arrived(&mut self);
    /// Asked by a thread that could lead, one of `waiting` that wait: `None` if it should lead now, or until when it should wait for more to come.
    ///
    /// Asked again at each arrival meanwhile. The time must not move on with the questions: somebody has to lead at last.
    fn hold(&mut self, waiting: usize) -> Option<Instant>;
    /// A leader starts.
    fn started(&mut self);
    /// It is done, and `released` threads are about to go, itself included. Not called by a failure, after which there is nothing to gather for.
    fn finished(&mut self, released: usize);
}

/// Why a group commits no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// A leader's closure, or [`Group::fail`], said this.
    Failed(E),
    /// A leader's closure panicked.
    Panicked,
}

/// Threads that commit together. Tickets are counted from what [`new`](Group::new) was given.
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
    /// A sleeper has a deadline.
    Gathering,
    Leading,
}

#[derive(Debug)]
struct Sleeper {
    id: u64,
    ticket: u64,
    waker: Waker,
}

/// What a waiter does next.
enum Turn {
    Lead,
    Sleep { until: Option<Instant> },
}

impl<B: Batch, E: Clone, G: Gather> Group<B, E, G> {
    /// A group whose first ticket is `first`, at least 1; all before it are durable.
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

    /// Adds to what the next leader takes: `add` is given the batch and the ticket. Under the mutex: briefly, and without panicking half-way.
    ///
    /// What it refuses, `Ok(Err(…))`, has no ticket.
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

    /// Looks at, or changes, the open batch, without a ticket.
    pub fn open<R>(&self, look: impl FnOnce(&mut B) -> R) -> R {
        look(&mut self.state.lock().open)
    }

    /// Blocks until `ticket`, which was given by [`join`](Self::join), is durable; asleep, or leading: then `commit` is called, once, with all that has joined,
    /// outside of the mutex.
    ///
    /// # Errors
    /// The group has failed before the ticket was durable. Whether it is durable nonetheless, the medium knows.
    ///
    /// # Panics
    /// When `commit` does; the group has failed then, for everybody else.
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

    /// The last ticket that is durable. What its commit did happens-before the return.
    #[inline]
    pub fn durable(&self) -> u64 {
        // Acquire [B→A]: whoever sees the ticket sees what the commit did.
        self.durable.load(Acquire)
    }

    /// The last ticket that was given.
    pub fn last(&self) -> u64 {
        self.state.lock().next - 1
    }

    /// Why the group has failed, if it has.
    pub fn failure(&self) -> Option<Failure<E>> {
        self.state.lock().failed.clone()
    }

    /// Fails the group, unless it has failed: nothing becomes durable from now on, not even what is on its way.
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
        let mut place = Place::default();
        loop {
            // Before the failure: what was durable when the group failed stays so.
            if self.is_durable(ticket) {
                return Ok(());
            }
            if let Some(failure) = &state.failed {
                return Err(failure.clone());
            }
            let until = match state.turn(&mut place) {
                Turn::Lead => return self.lead(state, &place, commit),
                Turn::Sleep { until } => until,
            };
            state.enter(&mut place, ticket, parker);
            drop(state);
            let wakeup = parker.park_until(until);
            place.has_waited = until.is_some() && wakeup == Wakeup::TimedOut;
            if self.is_durable(ticket) {
                return Ok(());
            }
            state = self.state.lock();
        }
    }

    fn lead(
        &self,
        mut state: MutexGuard<'_, State<B, E, G>>,
        place: &Place,
        commit: impl FnOnce(&mut B::Load) -> Result<(), E>,
    ) -> Result<(), Failure<E>> {
        state.leave(place);
        state.gather.started();
        let mut load = state.open.take();
        let last = state.next - 1;
        state.phase = Phase::Leading;
        drop(state);
        let unless_it_panics = Leading(self);
        let mut result = commit(&mut load);
        if injected_bug!(
            "flush-error-swallowed",
            "a failed commit is reported as a success",
            killed_by = "fail-each, fail-one"
        ) {
            result = Ok(());
        }
        mem::forget(unless_it_panics);
        self.finish(last, Some(load), result.map_err(Failure::Failed))
    }

    /// Ends a leader's turn. Tickets up to `last` are durable if `result` says so and nothing else has failed meanwhile.
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
                // Release [A→B]: publishes what the commit did, to who looks without the mutex.
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
    fn turn(&mut self, place: &mut Place) -> Turn {
        if self.phase == Phase::Leading {
            place.is_candidate = false;
            return Turn::Sleep { until: None };
        }
        let is_candidate = self.phase == Phase::Idle || place.is_candidate;
        if is_candidate && place.has_waited {
            return Turn::Lead;
        }
        let waiting = self.sleepers.len() + usize::from(place.id.is_none());
        match self.gather.hold(waiting) {
            None => Turn::Lead,
            Some(_) if !is_candidate => Turn::Sleep { until: None },
            until => {
                place.is_candidate = true;
                self.phase = Phase::Gathering;
                Turn::Sleep { until }
            }
        }
    }

    fn enter(&mut self, place: &mut Place, ticket: u64, parker: &Parker) {
        if place.id.is_some() {
            return;
        }
        place.id = Some(self.entries);
        self.sleepers.push(Sleeper {
            id: self.entries,
            ticket,
            waker: parker.waker().clone(),
        });
        self.entries += 1;
    }

    fn leave(&mut self, place: &Place) {
        if let Some(id) = place.id {
            self.sleepers.retain(|sleeper| sleeper.id != id);
        }
    }

    /// Those whose tickets are durable now, and before them one that may lead next.
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

    /// All who sleep.
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

/// Where a waiter stands.
#[derive(Default)]
struct Place {
    /// Of its entry, once it has one.
    id: Option<u64>,
    /// It is the one with a deadline.
    is_candidate: bool,
    /// Its deadline has passed.
    has_waited: bool,
}

/// A leader whose closure runs. Dropped only if that panics.
struct Leading<'a, B: Batch, E: Clone, G: Gather>(&'a Group<B, E, G>);

impl<B: Batch, E: Clone, G: Gather> Drop for Leading<'_, B, E, G> {
    fn drop(&mut self) {
        // No ticket becomes durable by it.
        let _ = self.0.finish(0, None, Err(Failure::Panicked));
    }
}

#[track_caller]
fn wake(calls: Vec<Waker>) {
    // Asked only if there is somebody: else nobody misses it.
    if calls.is_empty() || is_wake_left_out() {
        return;
    }
    for waker in calls {
        waker.wake();
    }
}
