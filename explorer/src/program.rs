//! What a program calls: locations, fences, choices and threads.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::event::{EventId, Location, acquires, releases};
use crate::failure::Reason;
use crate::place::{Place, here};
use crate::request::{Ask, Condition, Reply, Request, Update};
use crate::run::{self, Runtime, current};
use crate::state::{State, Status};

/// A location of 64 bits that threads access by atomic operations.
///
/// It belongs to the execution that creates it. Outside an execution, it is a plain value. It is
/// also one as long as the main thread is alone: before it has started the first thread, and after
/// it has joined all of them.
///
/// Dropping a location, and [`exclusive`](Self::exclusive), are accesses that exclude all others:
/// a search fails if another access is possible at the same time, or after the drop.
#[derive(Debug)]
pub struct Atomic {
    /// The value, until the first write that is an event.
    initial: AtomicU64,
    /// The execution that created it; 0 outside one.
    execution: AtomicU64,
    birth: AtomicU64,
}

/// Stands in [`Atomic::execution`] once the location was dropped.
const DROPPED: u64 = u64::MAX;

/// The creator of a location, and since when other threads may use it.
#[derive(Clone, Copy)]
struct Birth {
    /// The creator, and how many locations it had created before: a name that is the same in all
    /// executions.
    creator: usize,
    number: u32,
    /// The last thread that had the location alone, and its events until then.
    owner: usize,
    events: usize,
}

impl Birth {
    fn pack(self) -> u64 {
        let threads = (self.creator << 8 | self.owner) as u64;
        threads << 48 | (self.events as u64) << 32 | u64::from(self.number)
    }

    fn unpack(packed: u64) -> Birth {
        Birth {
            creator: (packed >> 56) as usize,
            owner: (packed >> 48 & 0xff) as usize,
            events: (packed >> 32 & 0xffff) as usize,
            number: packed as u32,
        }
    }

    /// Returns a new name, for the current thread.
    fn new(state: &mut State) -> Birth {
        let thread = state.current;
        let its = &mut state.threads[thread];
        let number = its.created;
        its.created += 1;
        Birth {
            creator: thread,
            number,
            owner: thread,
            events: its.at,
        }
    }
}

impl Atomic {
    /// Creates a location with this value.
    pub fn new(value: u64) -> Atomic {
        let birth = |runtime: &Runtime| Birth::new(&mut runtime.state.borrow_mut()).pack();
        let runtime = current();
        Atomic {
            initial: AtomicU64::new(value),
            execution: AtomicU64::new(runtime.map_or(0, Runtime::execution)),
            birth: AtomicU64::new(runtime.map_or(0, birth)),
        }
    }

    /// Returns the value that one of the writes has written which the memory model permits.
    ///
    /// # Panics
    /// If the ordering releases, as in std.
    #[track_caller]
    pub fn load(&self, ordering: Ordering) -> u64 {
        assert!(
            matches!(ordering, Ordering::SeqCst) || !releases(ordering),
            "there is no such thing as a release load"
        );
        self.ask(Request::Load(ordering)).value
    }

    /// Writes the value.
    ///
    /// # Panics
    /// If the ordering acquires, as in std.
    #[track_caller]
    pub fn store(&self, value: u64, ordering: Ordering) {
        assert!(
            matches!(ordering, Ordering::SeqCst) || !acquires(ordering),
            "there is no such thing as an acquire store"
        );
        self.ask(Request::Store(value, ordering));
    }

    /// Changes the value, and returns the old one. Always writes.
    #[track_caller]
    pub fn update(&self, update: Update, ordering: Ordering) -> u64 {
        self.ask(Request::Update(update, ordering)).value
    }

    /// Writes `new` if the value is `current`, and returns the old value. Never fails spuriously.
    ///
    /// # Errors
    /// The value that was read, if it is another one.
    ///
    /// # Panics
    /// If `failure` releases, as in std.
    #[track_caller]
    pub fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        assert!(
            matches!(failure, Ordering::SeqCst) || !releases(failure),
            "there is no such thing as a release failure ordering"
        );
        let reply = self.ask(Request::CompareExchange(current, new, success, failure));
        match reply.exchanged {
            true => Ok(reply.value),
            false => Err(reply.value),
        }
    }

    /// Blocks until the value meets the condition, and returns it. Values that do not meet it are
    /// not read.
    #[track_caller]
    pub fn wait_until(&self, condition: Condition, ordering: Ordering) -> u64 {
        self.ask(Request::WaitUntil(condition, ordering)).value
    }

    /// Blocks until the value meets the condition, changes it, and returns the old one. Values that
    /// do not meet the condition are not changed.
    #[track_caller]
    pub fn update_when(&self, condition: Condition, update: Update, ordering: Ordering) -> u64 {
        self.ask(Request::UpdateWhen(condition, update, ordering))
            .value
    }

    /// Blocks until the value is `current`, and then writes `new`.
    #[track_caller]
    pub fn exchange_when(&self, current: u64, new: u64, ordering: Ordering) {
        self.ask(Request::ExchangeWhen(current, new, ordering));
    }

    /// Returns the value, for a thread that has the location alone. This is no event.
    #[track_caller]
    pub fn exclusive(&self) -> u64 {
        let place = here();
        if let Some(runtime) = current() {
            self.belong(runtime, place);
            let race = self.take(&mut runtime.state.borrow_mut());
            if let Some(other) = race {
                let what = "an exclusive access to a location that another thread uses";
                runtime.fail(Reason::Race, || race_message(what, place, other));
            }
        }
        self.initial.load(Ordering::Relaxed)
    }

    /// Returns the value by a read that is not atomic: fails if a write is possible at the same
    /// time. Other threads may read meanwhile.
    #[track_caller]
    pub fn unsynchronized(&self) -> u64 {
        let place = here();
        let value = self.load(Ordering::Relaxed);
        let race = current().and_then(|runtime| {
            let state = runtime.state.borrow();
            let birth = Birth::unpack(self.birth.load(Ordering::Relaxed));
            let location = state.names.known(birth.creator, birth.number)?;
            foreign(&state, &state.graph.accesses(location).writes, false)
        });
        if let Some((runtime, other)) = current().zip(race) {
            let what = "a read without synchronization of a location that another thread writes";
            runtime.fail(Reason::Race, || race_message(what, place, other));
        }
        value
    }

    /// Returns the location in the graph, or `None` if it has not been accessed as one.
    pub fn location(&self) -> Option<Location> {
        let birth = Birth::unpack(self.birth.load(Ordering::Relaxed));
        current()?
            .state
            .borrow()
            .names
            .known(birth.creator, birth.number)
    }

    #[track_caller]
    fn ask(&self, request: Request) -> Reply {
        let place = here();
        let Some(runtime) = current() else {
            let execution = self.execution.load(Ordering::Relaxed);
            assert!(
                !run::is_running(execution),
                "A thread of the system uses a location of an execution, at {place}. Start threads with \
                 `spawn`."
            );
            return self
                .alone(request)
                .expect("outside an execution, a thread cannot wait");
        };
        self.belong(runtime, place);
        let mut state = runtime.state.borrow_mut();
        if !state.is_concurrent {
            let race = self.take(&mut state);
            drop(state);
            debug_assert!(race.is_none(), "the thread is alone");
            return self.alone(request).unwrap_or_else(|| {
                let message = || format!("Deadlock: the only thread waits at {place}.");
                runtime.fail(Reason::Deadlock, message)
            });
        }
        drop(state);
        let birth = self.known_birth(runtime, place);
        let mut state = runtime.state.borrow_mut();
        let location = state.names.location(birth.creator, birth.number);
        drop(state);
        let reply = runtime.ask(Ask {
            request,
            location,
            initial: self.initial.load(Ordering::Relaxed),
            place,
        });
        // While this thread waited for its turn, another may have dropped the location, or had it
        // alone.
        self.belong(runtime, place);
        self.known_birth(runtime, place);
        reply
    }

    /// Returns the birth of the location, or the end of the last exclusive access. Fails unless
    /// that happens before now.
    fn known_birth(&self, runtime: &Runtime, place: Place) -> Birth {
        let birth = Birth::unpack(self.birth.load(Ordering::Relaxed));
        let is_known = knows(&runtime.state.borrow(), (birth.owner, birth.events));
        if !is_known {
            let what = "an access that may come before the creation of the location, or before the end of an \
                        exclusive access";
            runtime.fail(Reason::Race, || race_message(what, place, birth.owner));
        }
        birth
    }

    /// Fails unless the location was created in this execution.
    fn belong(&self, runtime: &Runtime, place: Place) {
        let execution = self.execution.load(Ordering::Relaxed);
        if execution == runtime.execution() {
            return;
        }
        if execution == DROPPED {
            let message = || format!("A location is used at {place} after it was dropped.");
            runtime.fail(Reason::Race, message);
        }
        runtime.fail(Reason::Misuse, || {
            foreign_message("location", execution, place)
        });
    }

    /// Makes the newest value the initial one, for a thread that has the location alone. Returns
    /// a thread that uses it meanwhile, if there is one.
    fn take(&self, state: &mut State) -> Option<usize> {
        let mut birth = Birth::unpack(self.birth.load(Ordering::Relaxed));
        if !knows(state, (birth.owner, birth.events)) {
            return Some(birth.owner);
        }
        if let Some(location) = state.names.known(birth.creator, birth.number) {
            if let Some(other) = foreign_access(state, location, true) {
                return Some(other);
            }
            let is_done =
                |it: &&EventId| (it.index as usize) < state.threads[it.thread as usize].at;
            let accesses = state.graph.accesses(location);
            if let Some(&newest) = accesses.writes.iter().rev().find(is_done) {
                let value = state.graph.event(newest).value;
                self.initial.store(value, Ordering::Relaxed);
            }
            // Before the first thread starts, the accesses of the graph are still to come.
            let mut all = accesses.writes.iter().chain(&accesses.reads);
            if !state.is_concurrent && all.any(|it| is_done(&it)) {
                birth = Birth::new(state);
            }
        }
        birth.owner = state.current;
        birth.events = state.threads[state.current].at;
        self.birth.store(birth.pack(), Ordering::Relaxed);
        None
    }

    /// Performs an operation on a plain value. Returns `None` if it would block.
    fn alone(&self, request: Request) -> Option<Reply> {
        // Relaxed, all: no other thread is there, or the caller has ordered it.
        let value = self.initial.load(Ordering::Relaxed);
        if let Request::Store(new, _) = request {
            self.initial.store(new, Ordering::Relaxed);
            return Some(Reply::default());
        }
        let effect = request.effect(value);
        if let Some(written) = effect.written {
            self.initial.store(written, Ordering::Relaxed);
        }
        let exchanged = effect.written.is_some();
        (!effect.blocks).then_some(Reply { value, exchanged })
    }
}

impl Drop for Atomic {
    fn drop(&mut self) {
        let execution = *self.execution.get_mut();
        let runtime = current().filter(|it| it.execution() == execution);
        // A thread that panicked does not wait for others: the panic is what failed.
        let Some(runtime) = runtime.filter(|_| !std::thread::panicking()) else {
            return;
        };
        *self.execution.get_mut() = DROPPED;
        let birth = Birth::unpack(*self.birth.get_mut());
        let state = runtime.state.borrow();
        let location = state.names.known(birth.creator, birth.number);
        let other = location.and_then(|it| foreign_access(&state, it, false));
        let is_owned = knows(&state, (birth.owner, birth.events));
        let other = other.or_else(|| (!is_owned).then_some(birth.owner));
        drop(state);
        if let Some(other) = other {
            runtime.fail(Reason::Race, || {
                let user = format!("T{other} uses it, and may do so at the same time or later");
                format!("A location is dropped while {user}.")
            });
        }
    }
}

/// Returns whether what the thread did before its event of this index happens before now.
pub(crate) fn knows(state: &State, (thread, events): (usize, usize)) -> bool {
    let me = state.current;
    let known = || state.graph.happened(me, state.threads[me].at);
    thread == me || state.graph.contains(&known(), (thread, events))
}

/// Returns a thread with an access that does not happen before now; with `done`, one that it has
/// made already.
fn foreign_access(state: &State, location: Location, done: bool) -> Option<usize> {
    let accesses = state.graph.accesses(location);
    foreign(state, &accesses.writes, done).or_else(|| foreign(state, &accesses.reads, done))
}

/// Returns the thread of one of the events, if that does not happen before now.
fn foreign(state: &State, events: &[EventId], done: bool) -> Option<usize> {
    let me = state.current;
    let known = state.graph.happened(me, state.threads[me].at);
    let is_done = |it: &EventId| !done || state.threads[it.thread as usize].at > it.index as usize;
    let is_foreign = |it: &EventId| it.thread as usize != me && !known.contains(*it);
    let mut foreign = events.iter().filter(|it| is_foreign(it) && is_done(it));
    foreign.next().map(|it| it.thread as usize)
}

pub(crate) fn race_message(what: &str, place: Place, other: usize) -> String {
    format!("Race: {what}, at {place}, with T{other}.")
}

pub(crate) fn foreign_message(what: &str, execution: u64, place: Place) -> String {
    let made = match execution {
        0 => "outside the executions",
        _ => "in an earlier execution, or in that of another search,",
    };
    let remedy = "Create it in the program, so that each execution has its own.";
    format!("A {what} that was created {made} is used at {place}. {remedy}")
}

/// A fence. Without effect outside an execution, and while the main thread is alone.
///
/// # Panics
/// If the ordering is `Relaxed`, as in std.
#[track_caller]
pub fn fence(ordering: Ordering) {
    assert!(
        ordering != Ordering::Relaxed,
        "there is no such thing as a relaxed fence"
    );
    if current().is_some_and(|runtime| runtime.state.borrow().is_concurrent) {
        run::ask(Request::Fence(ordering), here());
    }
}

/// Returns each number below `alternatives`, in an execution of its own. Returns 0 outside an
/// execution.
#[track_caller]
pub fn choose(alternatives: usize) -> usize {
    choice(alternatives, false)
}

/// Returns 0, or a fault: a number from 1 to `kinds - 1`. An execution has at most as many faults
/// as the search [permits](crate::Search::faults). Returns 0 outside an execution.
#[track_caller]
pub fn fault(kinds: usize) -> usize {
    let is_possible = current().is_some_and(|it| it.state.borrow().settings.faults > 0);
    match is_possible {
        true => choice(kinds, true),
        false => 0,
    }
}

#[track_caller]
fn choice(alternatives: usize, is_fault: bool) -> usize {
    let request = Request::Choose(alternatives as u32, is_fault);
    run::ask(request, here()).map_or(0, |it| it.value as usize)
}

/// One round of a spin loop. After as many rounds as the search [permits](crate::Search::rounds),
/// the thread never goes on: in another execution, it reads what it waits for.
#[track_caller]
pub fn spin() {
    let Some(runtime) = current() else {
        return core::hint::spin_loop();
    };
    let place = here();
    let is_cut = runtime.state.borrow_mut().round(place);
    if is_cut {
        run::ask(Request::Cut, place);
    }
}

/// A thread of the program.
#[derive(Debug)]
pub struct Thread(usize);

/// Starts a thread.
///
/// # Panics
/// Outside an execution.
#[track_caller]
pub fn spawn(body: impl FnOnce() + 'static) -> Thread {
    let reply = run::ask(Request::Spawn, here());
    let thread = reply.expect("threads are spawned in an execution").value as usize;
    let runtime = current().expect("as above");
    let mut state = runtime.state.borrow_mut();
    state.is_concurrent = true;
    state.threads[thread].body = Some(Box::new(body));
    state.threads[thread].status = Status::Unstarted;
    Thread(thread)
}

impl Thread {
    /// Returns the number of the thread. The main thread has 0.
    pub fn index(&self) -> usize {
        self.0
    }

    /// Waits until the thread has returned, which happens before the return of this call.
    #[track_caller]
    pub fn join(self) {
        run::ask(Request::Join(self.0 as u32), here());
        if let Some(runtime) = current() {
            let mut state = runtime.state.borrow_mut();
            state.is_concurrent = !is_alone(&state);
        }
    }
}

/// Returns whether all other threads have ended, and the main thread knows.
fn is_alone(state: &State) -> bool {
    let known = state
        .graph
        .happened(state.current, state.threads[state.current].at);
    let is_over = |thread: usize| match state.threads[thread].status {
        Status::None => !state.graph.is_started(thread),
        Status::Finished => known.of(thread) == state.graph.events(thread).len(),
        _ => false,
    };
    state.current == 0 && (1..state.graph.threads()).all(is_over)
}

/// Returns the number of the calling thread. The main thread, and every thread outside an
/// execution, has 0.
pub fn current_thread() -> usize {
    current().map_or(0, |runtime| runtime.state.borrow().current)
}

/// Returns whether the caller runs in an execution of a search.
pub fn is_exploring() -> bool {
    current().is_some()
}

/// Fails the execution, and with it the search. Outside an execution, it panics.
#[track_caller]
pub fn fail(reason: &str) -> ! {
    let place = here();
    match current() {
        Some(runtime) => runtime.fail(Reason::Stated, || format!("{reason}\nat {place}")),
        None => panic!("{reason}"),
    }
}
