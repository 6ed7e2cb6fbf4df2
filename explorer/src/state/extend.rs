//! Adding the next event of a thread, in the maximal way (X2), and keeping the other ways.

use super::{Branch, State, Status, Then};
use crate::MAX_THREADS;
use crate::event::{Event, EventId, Kind};
use crate::failure::Reason;
use crate::graph::Graph;
use crate::request::{Ask, Request};

impl State {
    /// Adds the next event of the thread, and keeps the other ways as branches.
    pub(super) fn extend(&mut self, thread: usize) {
        let ask = self.threads[thread].pending.expect("a request");
        if self.graph.events(thread).len() >= self.settings.events {
            let what = format!(
                "T{thread} makes more than {} operations",
                self.settings.events
            );
            let remedy = "A loop that waits for another thread calls `spin` in each round. A \
                          longer program needs a higher limit: `Search::events`.";
            self.fail(
                Reason::TooLarge,
                format!("{what}, at {}.\n{remedy}", ask.place),
            );
        } else if self.graph.is_half_done(thread) {
            self.write_half(thread, &ask);
        } else {
            match ask.request {
                Request::Store(..) => self.store(thread, &ask),
                Request::Choose(..) => self.choose(thread, &ask),
                Request::Fence(ordering) => {
                    self.add(
                        thread,
                        Event::new(Kind::Fence, &ask).with_ordering(ordering),
                    );
                }
                Request::Spawn => self.spawn(thread, &ask),
                Request::Join(other) => {
                    self.add(
                        thread,
                        Event::new(Kind::Join, &ask).with_value(other.into()),
                    );
                }
                Request::Cut => unreachable!("a thread that was cut does not go on"),
                _ => self.read(thread, &ask),
            }
        }
    }

    fn add(&mut self, thread: usize, mut event: Event) -> EventId {
        let index = self.graph.events(thread).len();
        self.graph.derive(thread, index, &mut event);
        let id = self.graph.push(thread, event);
        self.observe(|observer, graph| observer.added(graph, id));
        id
    }

    fn branch(&mut self, then: Then) {
        let length = self.graph.order().len();
        self.branches.push(Branch { length, then });
    }

    /// TruSt, Algorithm 1, case `R` of `Visit`: a read takes every source that coherence permits.
    fn read(&mut self, thread: usize, ask: &Ask) {
        let index = self.graph.events(thread).len();
        let before = self.graph.happened(thread, index);
        let newest = self.graph.accesses(ask.location).newest();
        for position in self.graph.floor(ask.location, &before)..=newest {
            let write = self.graph.accesses(ask.location).write(position);
            let read = EventId::new(thread, index);
            if !self.graph.is_released_by(read, ask.location, write) {
                continue;
            }
            let mut event = Event::new(Kind::Read, ask);
            Graph::read_from(&mut event, write, self.value_of(write, ask.initial));
            if position == newest {
                self.add(thread, event);
                break;
            }
            // A wait that blocks on an old value blocks on the newest one, or does not block.
            if event.blocked || mutant!("reads-are-never-stale") {
                continue;
            }
            self.graph.derive(thread, index, &mut event);
            // The modifier of this value would have to read from the new write instead.
            let modifier = self.graph.modifier(ask.location, write, EventId::INITIAL);
            if event.exclusive && modifier.is_some_and(|it| event.causes.contains(it)) {
                continue;
            }
            self.branch(Then::Add(thread, event, 0));
        }
        if self.graph.events(thread).len() == index {
            // The newest write does not end the wait of this lock.
            self.give_up();
        } else if self.graph.is_half_done(thread) {
            self.write_half(thread, ask);
        }
    }

    /// Adds the write of a read-modify-write, right after what its read has read.
    fn write_half(&mut self, thread: usize, ask: &Ask) {
        let index = self.graph.events(thread).len();
        let read = EventId::new(thread, index - 1);
        let event = self.second_half(read, ask);
        self.revisit_by(thread, &event);
        let source = self.graph.event(read).reads_from;
        if self.graph.modifier(ask.location, source, read).is_some() {
            // Two cannot modify the same value. The revisits make the other one read from this.
            self.give_up();
            return;
        }
        let position = self.graph.accesses(ask.location).position(source) + 1;
        self.write(thread, event, position);
    }

    /// Returns the write of the read-modify-write whose read is the last event of its thread.
    pub(crate) fn second_half(&self, read: EventId, ask: &Ask) -> Event {
        let half = self.graph.event(read);
        let value = self.value_of(half.reads_from, ask.initial);
        let written = ask.request.effect(value).written.unwrap_or_default();
        let event = Event::new(Kind::Write, ask).with_value(written);
        let mut event = event.with_ordering(half.ordering);
        event.exclusive = true;
        let (thread, index) = (read.thread as usize, read.index as usize + 1);
        self.graph.derive(thread, index, &mut event);
        event
    }

    /// TruSt, Algorithm 1, case `W` of `Visit`, with `VisitCOs`: a write takes every position that
    /// coherence permits, and may revisit earlier reads.
    fn store(&mut self, thread: usize, ask: &Ask) {
        let Request::Store(value, ordering) = ask.request else {
            unreachable!("a store");
        };
        let event = Event::new(Kind::Write, ask).with_value(value);
        let mut event = event.with_ordering(ordering);
        let index = self.graph.events(thread).len();
        self.graph.derive(thread, index, &mut event);
        let newest = self.graph.accesses(ask.location).newest();
        for after in self.graph.floor(ask.location, &event.before)..newest {
            let previous = self.graph.accesses(ask.location).write(after);
            let modifier = self
                .graph
                .modifier(ask.location, previous, EventId::INITIAL);
            if modifier.is_some() || mutant!("writes-are-newest") {
                continue;
            }
            self.branch(Then::Add(thread, event, after + 1));
        }
        self.revisit_by(thread, &event);
        self.write(thread, event, newest + 1);
    }

    fn write(&mut self, thread: usize, event: Event, position: usize) {
        let id = self.graph.push(thread, event);
        self.graph.place(id, position);
        self.observe(|observer, graph| observer.added(graph, id));
        if self.is_futile() {
            self.give_up();
        }
    }

    /// Keeps a branch for each read that the write may revisit.
    pub(crate) fn revisit_by(&mut self, thread: usize, write: &Event) {
        if mutant!("no-revisits") {
            return;
        }
        for (read, keep) in self.graph.revisits(thread, write) {
            self.branch(Then::Revisit(thread, *write, read, keep));
        }
    }

    fn choose(&mut self, thread: usize, ask: &Ask) {
        let Request::Choose(alternatives, is_fault) = ask.request else {
            unreachable!("a choice");
        };
        let is_allowed = !is_fault || self.graph.faults() < self.settings.faults;
        let index = self.graph.events(thread).len();
        for value in (1..u64::from(alternatives)).filter(|_| is_allowed).rev() {
            let mut event = Event::new(Kind::Choice, ask).with_value(value);
            self.graph.derive(thread, index, &mut event);
            self.branch(Then::Add(thread, event, 0));
        }
        self.add(thread, Event::new(Kind::Choice, ask));
    }

    fn spawn(&mut self, thread: usize, ask: &Ask) {
        let Some(number) = self.graph.next_thread() else {
            let limit = format!("More than {MAX_THREADS} threads, at {}.", ask.place);
            return self.fail(Reason::TooLarge, format!("{limit} Use fewer threads."));
        };
        self.add(
            thread,
            Event::new(Kind::Spawn, ask).with_value(number as u64),
        );
    }

    /// Ends the execution, which leads to no complete one.
    fn give_up(&mut self) {
        self.is_over = true;
        self.counts.given_up += 1;
    }

    /// Returns whether a thread is blocked by a value that is not the newest, and whatever comes
    /// next knows that. Such an execution is not complete, and no revisit can end the wait.
    fn is_futile(&self) -> bool {
        let threads = 0..self.graph.threads();
        threads.clone().any(|thread| {
            let Some(read) = self.graph.last(thread).filter(|last| last.blocked) else {
                return false;
            };
            let accesses = self.graph.accesses(read.location);
            let newer = &accesses.writes[accesses.position(read.reads_from)..];
            let knows = |other: usize| {
                let all = self.graph.events(other).len();
                let causes = self.graph.causes(other, all);
                newer.iter().any(|write| causes.contains(*write))
            };
            let goes_on = |other: usize| {
                let its = &self.threads[other];
                let is_ended = matches!(its.status, Status::Finished | Status::None);
                let joins = its.pending.is_some_and(|it| match it.request {
                    Request::Join(it) => self.threads[it as usize].status != Status::Finished,
                    _ => false,
                });
                other != thread && !is_ended && !joins && !self.is_blocked(other)
            };
            !newer.is_empty() && threads.clone().filter(|it| goes_on(*it)).all(knows)
        })
    }
}
