//! Loops that give up.
//!
//! The search cuts a thread that spins: it assumes that the loop goes on until it reads something
//! else. A loop that gives up after some rounds would break that, and what comes after it would
//! never be explored. So at the end of an execution, a thread that was cut runs on, and reads the
//! same values in every round. If it does anything but read and spin, the search fails.

use core::panic;

use crate::event::{Event, Kind};
use crate::failure::{Failure, Reason};
use crate::request::{Ask, Reply, Request};
use crate::state::{State, Status};

/// How many rounds a thread runs on. A loop of more rounds counts as one without end.
const ROUNDS: u32 = 1_000;

/// A thread that runs on.
pub(crate) struct Probe {
    thread: usize,
    rounds: u32,
    /// Whether it has left its loop.
    pub(super) leaves: bool,
}

impl State {
    /// Returns a thread whose loop is to be tried, if there is one: once for each loop and thread.
    pub(crate) fn begin_probe(&mut self) -> Option<usize> {
        // A loop that seems to have no end may be one that gives up.
        let is_other = |it: &Failure| it.reason != Reason::Deadlock;
        if self.failure.as_ref().is_some_and(is_other) || self.is_over {
            return None;
        }
        let place_of =
            |state: &State, thread: usize| -> Option<&'static panic::Location<'static>> {
                let pending = state.threads[thread].pending;
                Some(pending.filter(|it| it.request == Request::Cut)?.place)
            };
        let (thread, place) = (0..self.graph.threads()).find_map(|thread| {
            let place = place_of(self, thread)?;
            let is_new = !self.probed.contains(&(thread, place));
            (is_new && self.only_reads(thread)).then_some((thread, place))
        })?;
        self.probed.push((thread, place));
        self.probe = Some(Probe {
            thread,
            rounds: 0,
            leaves: false,
        });
        Some(thread)
    }

    /// Fails if the thread has left its loop.
    pub(crate) fn end_probe(&mut self) {
        let Some(probe) = self.probe.take() else {
            return;
        };
        let Some(ask) = self.threads[probe.thread].pending else {
            return;
        };
        let has_ended = self.threads[probe.thread].status == Status::Finished;
        if probe.leaves || has_ended {
            let (thread, place) = (probe.thread, ask.place);
            self.failure = None;
            self.fail(
                Reason::Misuse,
                format!(
                    "T{thread} gives up a spin loop, at {place}, though it reads the same values in \
                     each round. The search would not explore what comes then. Let the loop go on \
                     until it reads something else, leave it out under the explorer, or raise \
                     `Search::rounds`."
                ),
            );
        }
    }

    /// Whether the last two rounds of the thread's spin loop only read, and read the same.
    fn only_reads(&self, thread: usize) -> bool {
        !self.writes_in_round(thread) && self.has_repeated(thread)
    }

    /// Whether the last two rounds of the thread's spin loop do more than read.
    pub(super) fn writes_in_round(&self, thread: usize) -> bool {
        let round = &self.graph.events(thread)[self.threads[thread].round_before_began..];
        let reads = |it: &Event| match it.kind {
            Kind::Read => !it.exclusive,
            Kind::Fence | Kind::Choice => true,
            _ => false,
        };
        !round.iter().all(reads)
    }

    /// Answers a request of the thread that runs on. Returns `None` if it is not to go on.
    pub(super) fn answer_probe(&mut self, ask: &Ask) -> Option<Reply> {
        let probe = self.probe.as_mut()?;
        let reads_again = |state: &State, thread: usize| {
            let events = state.graph.events(thread).iter().rev();
            let mut reads = events.filter(|it| it.kind == Kind::Read);
            let last = reads.find(|it| it.location == ask.location)?;
            Some(state.value_of(last.reads_from, ask.initial))
        };
        match ask.request {
            Request::Cut => {
                probe.rounds += 1;
                return (probe.rounds < ROUNDS).then(Reply::default);
            }
            Request::Fence(_) | Request::Choose(..) => return Some(Reply::default()),
            Request::Load(_) | Request::CompareExchange(..) => {
                let thread = probe.thread;
                // A word that the loop has not read yet belongs to its first rounds.
                let value = reads_again(self, thread)?;
                if ask.request.effect(value).written.is_none() {
                    return Some(Reply {
                        value,
                        exchanged: false,
                    });
                }
            }
            _ => {}
        }
        if let Some(probe) = &mut self.probe {
            probe.leaves = true;
        }
        None
    }
}
