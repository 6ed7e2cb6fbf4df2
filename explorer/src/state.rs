//! The state of a search, and how an execution proceeds in it: by repeating the events of the
//! graph, and then by adding events.
//!
//! # Invariants
//! - **X1** A prefix of the order in which events were added is a graph, as long as it has the last
//!   revisiting write: the order extends program order, and `rf` but for revisited reads. So a
//!   [`Branch`] is the length of such a prefix and what is added to it.
//! - **X2** A new event is added in the maximal way: it reads the newest write, or is the newest
//!   write, or is the first alternative of a choice. Every other way becomes a branch.
//! - **X3** The thread that adds the next event depends on the graph alone. So a repeated prefix
//!   goes on as it did.
//! - **X4** Nothing that a request returns depends on the order of independent events. So the
//!   program, repeated along `po ∪ rf`, makes the same requests.

mod extend;
mod probe;

use core::panic;

use crate::MAX_THREADS;
use crate::clock::Clock;
use crate::event::{Event, EventId, Kind, Location};
use crate::failure::{Failure, Reason};
use crate::graph::Graph;
use crate::observer::{End, Observer};
use crate::plain::Access;
use crate::request::{Ask, Reply, Request};
use crate::search::{Counts, Settings};
use crate::state::probe::Probe;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Status {
    #[default]
    None,
    /// The thread was spawned, and has not run yet.
    Unstarted,
    Running,
    Finished,
}

/// A thread in the current execution.
#[derive(Default)]
pub(crate) struct Thread {
    pub status: Status,
    /// How many of its events have been repeated or added.
    pub at: usize,
    pub pending: Option<Ask>,
    pub reply: Reply,
    pub body: Option<Box<dyn FnOnce()>>,
    /// How many locations it has created.
    pub created: u32,
    /// The rounds of spin loops, by their places if these are told apart, and where the last two
    /// began.
    rounds: Vec<(Option<&'static panic::Location<'static>>, u32)>,
    round_began: usize,
    round_before_began: usize,
}

/// The numbers of locations, by their names: the creator, and how many it had created before.
#[derive(Default)]
pub(crate) struct Names {
    numbers: [Vec<Option<Location>>; MAX_THREADS],
    next: u32,
}

impl Names {
    pub(crate) fn known(&self, creator: usize, nth: u32) -> Option<Location> {
        self.numbers[creator].get(nth as usize).copied().flatten()
    }

    pub(crate) fn location(&mut self, creator: usize, nth: u32) -> Location {
        let at = nth as usize;
        if self.numbers[creator].len() <= at {
            crate::arena::outside(|| self.numbers[creator].resize(at + 1, None));
        }
        let number = &mut self.numbers[creator][at];
        *number.get_or_insert_with(|| {
            self.next += 1;
            Location(self.next - 1)
        })
    }
}

/// Another way to go on after a prefix of the graph.
pub(crate) struct Branch {
    /// The number of events that are kept.
    pub length: usize,
    pub then: Then,
}

/// What is done to a prefix.
pub(crate) enum Then {
    /// Adds the event to the thread; a write at this position.
    Add(usize, Event, usize),
    /// Makes the read read from the event, the next write of the thread. Keeps the events of the
    /// clock.
    Revisit(usize, Event, EventId, Clock),
    /// Goes on with another graph: a revisited one.
    Visit(Box<Graph>),
}

/// What the execution does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Start(usize),
    Extend(usize),
    End,
}

pub(crate) struct State {
    pub settings: Settings,
    pub graph: Graph,
    pub branches: Vec<Branch>,
    pub counts: Counts,
    pub threads: [Thread; MAX_THREADS],
    pub current: usize,
    /// Whether another thread than the main thread may run. Otherwise, nothing is an event.
    pub is_concurrent: bool,
    /// Whether all events of the graph have been repeated.
    pub is_live: bool,
    /// Whether the execution ends here, because it leads to nothing new.
    pub is_over: bool,
    pub failure: Option<Failure>,
    pub observer: *mut dyn Observer,
    pub names: Names,
    /// The thread that runs on after the execution, if one does.
    pub probe: Option<Probe>,
    /// The threads that have done so, each with its loop.
    pub probed: Vec<(usize, &'static panic::Location<'static>)>,
}

impl State {
    /// Records a failure. The execution ends here, and with it the search.
    pub(crate) fn fail(&mut self, reason: Reason, message: String) {
        self.stop(reason, None, message);
    }

    /// Same as [`fail`](Self::fail), with the accesses to plain memory that race.
    pub(crate) fn stop(&mut self, reason: Reason, raced: Option<[Access; 2]>, message: String) {
        if let Some(probe) = &mut self.probe {
            probe.leaves = true;
            return;
        }
        let mut graph = self.graph.clone();
        graph.raced = raced;
        self.failure.get_or_insert(Failure {
            reason,
            message,
            graph,
        });
    }

    pub(crate) fn observe(&mut self, f: impl FnOnce(&mut dyn Observer, &Graph)) {
        // SAFETY: the observer outlives the search, which alone uses it meanwhile, and an observer
        // that calls into the search finds the state borrowed.
        f(unsafe { &mut *self.observer }, &self.graph);
    }

    pub(crate) fn begin(&mut self, body: Box<dyn FnOnce()>) {
        self.counts.runs += 1;
        self.threads = Default::default();
        self.threads[0].status = Status::Unstarted;
        self.threads[0].body = Some(body);
        self.current = 0;
        self.is_concurrent = false;
        self.is_live = false;
        self.is_over = false;
    }

    /// Answers a request of the current thread, if it can go on at once.
    pub(crate) fn answer(&mut self, ask: Ask) -> Option<Reply> {
        let thread = self.current;
        if self.probe.is_some() {
            return self.answer_probe(&ask);
        }
        if self.failure.is_some() {
            return None;
        }
        if let Some(reply) = self.repeat(thread, &ask) {
            return Some(reply);
        }
        self.threads[thread].pending = Some(ask);
        // While a thread unwinds, no other thread may run: `std::thread::panicking` would be true
        // for it, too, because all threads of the program share a thread of the system.
        let unwinds = std::thread::panicking();
        let may_go_on = unwinds || self.next() == Next::Extend(thread);
        if self.is_live && !self.is_over && may_go_on {
            self.extend(thread);
            if !self.is_over && self.grant(thread, &ask) {
                return Some(self.threads[thread].reply);
            }
        }
        if unwinds {
            let what = format!(
                "T{thread} panicked, and would have to wait at {}",
                ask.place
            );
            self.fail(Reason::Panic, format!("{what} while it unwinds."));
        }
        None
    }

    /// Returns a thread that can go on with the events of the graph, if there is one.
    pub(crate) fn repeatable(&mut self) -> Option<usize> {
        let threads = 0..self.graph.threads();
        threads.into_iter().find(|&thread| self.can_repeat(thread))
    }

    fn can_repeat(&mut self, thread: usize) -> bool {
        match (self.threads[thread].status, self.threads[thread].pending) {
            (Status::Unstarted, _) => true,
            (Status::Running, Some(ask)) => self.grant(thread, &ask),
            _ => false,
        }
    }

    /// Prepares the answer to a pending request, if the next event of the thread answers it.
    fn grant(&mut self, thread: usize, ask: &Ask) -> bool {
        let Some(reply) = self.repeat(thread, ask) else {
            return false;
        };
        self.threads[thread].pending = None;
        self.threads[thread].reply = reply;
        true
    }

    /// Begins to add events. The graph must have been repeated as a whole.
    pub(crate) fn go_live(&mut self) {
        self.is_live = true;
        for thread in 0..self.graph.threads() {
            let (at, all) = (self.threads[thread].at, self.graph.events(thread).len());
            let is_open = self.graph.is_half_done(thread) || self.is_blocked(thread);
            if at != all && !(at + 1 == all && is_open) {
                let why = match self.threads[thread].pending {
                    Some(ask) => format!("waits at {}", ask.place),
                    None => "has ended".to_owned(),
                };
                self.fail_to_repeat(format!("T{thread} {why} after {at} of {all} operations"));
            }
        }
    }

    /// Goes on with the execution. Returns the thread that runs next, or `None` at the end.
    pub(crate) fn proceed(&mut self) -> Option<usize> {
        loop {
            if self.failure.is_some() || self.is_over {
                return None;
            }
            match self.next() {
                Next::Start(thread) => return Some(thread),
                Next::End => {
                    self.end();
                    return None;
                }
                Next::Extend(thread) => {
                    let ask = self.threads[thread]
                        .pending
                        .expect("a thread that can go on");
                    self.extend(thread);
                    if !self.is_over && self.grant(thread, &ask) {
                        return Some(thread);
                    }
                }
            }
        }
    }

    /// Repeats the next event of the thread, if it has one. A read waits until its source has been
    /// repeated.
    fn repeat(&mut self, thread: usize, ask: &Ask) -> Option<Reply> {
        let at = self.threads[thread].at;
        let event = *self.graph.events(thread).get(at)?;
        if !event.request.is_like(ask.request) || event.location != ask.location {
            let at_location = |it: Location| match it {
                Location::NONE => String::new(),
                Location(number) => format!(" of x{number}"),
            };
            let (was, now) = (event.request, ask.request);
            let [of, of_now] = [event.location, ask.location].map(at_location);
            self.fail_to_repeat(format!(
                "operation {at} of T{thread} was {was:?}{of} at {}, and now is {now:?}{of_now} at {}",
                event.place, ask.place
            ));
            return None;
        }
        let id = EventId::new(thread, at);
        let mut reply = Reply {
            value: event.value,
            exchanged: false,
        };
        let mut events = 1;
        match event.kind {
            Kind::Read => {
                let source = event.reads_from;
                let is_past = |id: EventId| {
                    id.is_initial() || self.threads[id.thread as usize].at > id.index as usize
                };
                if !is_past(source) {
                    return None;
                }
                // Without the arena, an address differs from that of the last execution.
                reply.value = self.value_of(source, ask.initial);
                self.graph.set_value(id, reply.value, ask.request);
                let effect = ask.request.effect(reply.value);
                if effect.blocks != event.blocked || effect.written.is_some() != event.exclusive {
                    let what = format!("T{thread} reads another value at {}", ask.place);
                    self.fail_to_repeat(what);
                    return None;
                }
                let is_half = event.exclusive && self.graph.events(thread).len() == at + 1;
                if event.blocked || is_half {
                    return None;
                }
                if event.exclusive {
                    let half = EventId::new(thread, at + 1);
                    let written = effect.written.unwrap_or_default();
                    self.graph.set_value(half, written, ask.request);
                    reply.exchanged = true;
                    events = 2;
                }
            }
            Kind::Write => {
                if let Request::Store(value, _) = ask.request {
                    self.graph.set_value(id, value, ask.request);
                }
            }
            Kind::Join if self.threads[event.value as usize].status != Status::Finished => {
                return None;
            }
            _ => {}
        }
        self.threads[thread].at += events;
        Some(reply)
    }

    fn fail_to_repeat(&mut self, what: String) {
        let why = "When the search repeated the program with the same values, the program did \
                   something else";
        let remedy = "A program must depend on nothing but what its operations return: not on \
                      atomics and locks of std, addresses (unless `Arena` is the global \
                      allocator), time, random numbers, \
                      the order of hashes, thread-locals or earlier executions.";
        self.fail(Reason::NotRepeatable, format!("{why}: {what}.\n{remedy}"));
    }

    fn value_of(&self, write: EventId, initial: u64) -> u64 {
        match write.is_initial() {
            true => initial,
            false => self.graph.event(write).value,
        }
    }

    fn is_blocked(&self, thread: usize) -> bool {
        self.graph.last(thread).is_some_and(|last| last.blocked)
    }

    /// Returns what the execution does next (X3): the lowest thread that can go on. A thread that
    /// would block on the newest value comes last, because another thread may change it first;
    /// and a lock that still waits (L2), even later.
    fn next(&self) -> Next {
        let threads = 0..self.graph.threads();
        if let Some(thread) = threads.clone().find(|it| self.graph.is_half_done(*it)) {
            return Next::Extend(thread);
        }
        let (mut waiting, mut unreleased) = (None, None);
        for thread in threads {
            match self.threads[thread].status {
                Status::None | Status::Finished => continue,
                Status::Unstarted => return Next::Start(thread),
                Status::Running if self.is_blocked(thread) => continue,
                Status::Running => {}
            }
            let Some(ask) = &self.threads[thread].pending else {
                continue;
            };
            match ask.request {
                Request::Cut => continue,
                Request::Join(it) if self.threads[it as usize].status != Status::Finished => {
                    continue;
                }
                request if request.reads() => {
                    let newest = self.graph.accesses(ask.location);
                    let newest = newest.write(newest.newest());
                    let read = EventId::new(thread, self.graph.events(thread).len());
                    let is_lock = matches!(request, Request::ExchangeWhen(..));
                    if is_lock && !self.graph.is_released_by(read, ask.location, newest) {
                        unreleased = unreleased.or(Some(thread));
                        continue;
                    }
                    if request.effect(self.value_of(newest, ask.initial)).blocks {
                        waiting = waiting.or(Some(thread));
                        continue;
                    }
                }
                _ => {}
            }
            return Next::Extend(thread);
        }
        waiting.or(unreleased).map_or(Next::End, Next::Extend)
    }

    /// Counts a round of a spin loop. Returns whether the thread is cut.
    pub(crate) fn round(&mut self, place: &'static panic::Location<'static>) -> bool {
        let thread = &mut self.threads[self.current];
        let place = self.settings.by_place.then_some(place);
        let at = thread.rounds.iter().position(|it| it.0 == place);
        let at = at.unwrap_or_else(|| {
            crate::arena::outside(|| thread.rounds.push((place, 0)));
            thread.rounds.len() - 1
        });
        thread.rounds[at].1 += 1;
        thread.round_before_began = thread.round_began;
        thread.round_began = thread.at;
        thread.rounds[at].1 > self.settings.rounds
    }

    /// Returns the threads that have not returned.
    fn running(&self) -> Vec<usize> {
        let is_running = |thread: &usize| self.threads[*thread].status == Status::Running;
        (0..self.graph.threads()).filter(is_running).collect()
    }

    /// Ends an execution in which no thread can go on.
    fn end(&mut self) {
        let running = self.running();
        let end = match running.is_empty() {
            true => End::Complete,
            false if running.iter().all(|it| self.is_stuck(*it)) => End::Deadlock,
            false => End::Blocked,
        };
        let events = self.graph.order().len();
        self.counts.events += events as u64;
        self.counts.most_events = self.counts.most_events.max(events);
        match end {
            End::Complete => self.counts.executions += 1,
            End::Blocked => self.counts.blocked += 1,
            End::Deadlock => self.counts.deadlocks += 1,
        }
        let is_cut = |thread: &usize| {
            let pending = self.threads[*thread].pending;
            pending.is_some_and(|it| it.request == Request::Cut) && self.writes_in_round(*thread)
        };
        if running.iter().any(is_cut) {
            self.counts.bounded += 1;
        }
        self.observe(|observer, graph| observer.ended(graph, end));
        if end == End::Deadlock && !self.settings.allows_deadlocks {
            let places = running.into_iter().filter_map(|thread| {
                let ask = self.threads[thread].pending?;
                Some(format!("T{thread} waits at {}", ask.place))
            });
            let places = places.collect::<Vec<_>>().join(", ");
            let message = format!("Deadlock, or spin loops without end: {places}.");
            self.fail(Reason::Deadlock, message);
        }
    }

    /// Returns whether the last round of a spin loop has read what the one before had read, and no
    /// fault has led to that. Otherwise, the next round may end the loop.
    fn has_repeated(&self, thread: usize) -> bool {
        let began = self.threads[thread].round_before_began;
        let (before, round) = self.graph.events(thread).split_at(began);
        let looks = |it: &&Event| it.kind == Kind::Read && !it.exclusive;
        let source = |it: &Event| (it.location, it.reads_from);
        let mut earlier = before.iter().rev().filter(looks).map(source);
        let mut looked = round.iter().rev().filter(looks).map(source);
        !round.iter().any(Event::is_fault) && looked.all(|it| earlier.next() == Some(it))
    }

    /// Returns whether a thread that does not go on never will, because all that it waits for is
    /// as new as can be.
    fn is_stuck(&self, thread: usize) -> bool {
        let reads_newest = |event: &Event| {
            let accesses = self.graph.accesses(event.location);
            accesses.position(event.reads_from) == accesses.newest()
        };
        let its = &self.threads[thread];
        match its.pending.map(|ask| ask.request) {
            Some(Request::Join(_)) => true,
            Some(Request::WaitUntil(condition, _)) if condition.is_timed() => false,
            Some(Request::Cut) => {
                let mut round = self.graph.events(thread)[its.round_before_began..].iter();
                let is_newest =
                    |it: &Event| it.kind != Kind::Read || it.exclusive || reads_newest(it);
                round.all(is_newest) && self.has_repeated(thread)
            }
            _ => self
                .graph
                .last(thread)
                .is_some_and(|last| !last.blocked || reads_newest(last)),
        }
    }
}
