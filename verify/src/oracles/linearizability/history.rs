//! Histories: the calls and answers of an execution, as its threads see them.
//!
//! The search runs one execution of each *class*: the executions that differ only in the order of
//! independent steps. All executions of a class have the same answers, but different operations
//! overlap in them. So a history covers the whole class. Of two events (calls or answers) of
//! different threads, it keeps only whether one *must* come before the other. A call has no fixed
//! position: it may come at any time between its thread's last step before the call and the
//! operation's first step.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::search::order::{AT, Step};

/// The most threads of a scenario.
pub const THREADS: usize = 3;

/// The call or the answer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End<Op, Answer> {
    /// The call, with the answer that the operation will give.
    Call(Op, Answer),
    /// The answer.
    Return(Op, Answer),
}

/// An event, and how many events of each thread must come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event<Op, Answer> {
    /// The call or answer.
    pub end: End<Op, Answer>,
    /// For each other thread, how many of its events must come before this one.
    pub after: [u8; THREADS],
}

/// The events of each thread, in program order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History<Op, Answer>(pub Vec<Vec<Event<Op, Answer>>>);

/// A call or an answer, as recorded while the execution runs.
#[derive(Debug)]
struct Note<Op, Answer> {
    thread: usize,
    op: Op,
    /// `None` for a call.
    answer: Option<Answer>,
    /// The number of the thread's current step.
    at: u32,
}

/// Records the calls and answers of an execution. Clones share the record.
#[derive(Clone, Debug)]
pub struct Recorder<Op, Answer>(Arc<Mutex<Vec<Note<Op, Answer>>>>);

impl<Op, Answer> Default for Recorder<Op, Answer> {
    fn default() -> Self {
        Recorder(Arc::default())
    }
}

impl<Op: Copy + Display, Answer: Copy + Display> Recorder<Op, Answer> {
    // Plain std state, which no checker sees, as in `trace`.
    fn notes(&self) -> MutexGuard<'_, Vec<Note<Op, Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the previous execution.
    pub fn begin(&self) {
        self.notes().clear();
    }

    /// Runs an operation of `thread`, and records its call and its answer.
    pub fn record(&self, thread: usize, op: Op, run: impl FnOnce() -> Answer) {
        let note = |answer| {
            let at = AT.get();
            self.notes().push(Note {
                thread,
                op,
                answer,
                at,
            });
        };
        note(None);
        let answer = run();
        note(Some(answer));
    }

    /// Returns the calls and answers so far, each with its thread, to show an execution that did
    /// not end.
    pub fn so_far(&self) -> Vec<(usize, String)> {
        let notes = self.notes();
        let texts = notes.iter().map(|it| (it.thread, text(it.op, it.answer)));
        texts.collect()
    }

    /// Returns the history of the execution that has just ended with these steps.
    pub fn history(&self, steps: &[Step]) -> History<Op, Answer> {
        let notes = self.notes();
        let threads = notes.iter().map(|note| note.thread + 1).max();
        let of = |thread| notes.iter().filter(move |note| note.thread == thread);
        let event = |note: &Note<Op, Answer>, later: Option<&Note<Op, Answer>>| {
            let clock = &steps[note.at as usize - 1].clock;
            let before = |thread: usize| match thread == note.thread {
                // A thread's own events are ordered by their position.
                true => 0,
                false => of(thread).filter(|other| other.at < clock[thread]).count() as u8,
            };
            let end = match note.answer {
                Some(answer) => End::Return(note.op, answer),
                None => {
                    let answer = later.and_then(|note| note.answer);
                    End::Call(note.op, answer.expect("the execution has ended"))
                }
            };
            Event {
                end,
                after: std::array::from_fn(before),
            }
        };
        let events = |thread| -> Vec<_> {
            of(thread)
                .enumerate()
                .map(|(i, note)| event(note, of(thread).nth(i + 1)))
                .collect()
        };
        History((0..threads.unwrap_or(0)).map(events).collect())
    }
}

/// Formats a call or an answer.
pub(super) fn text(op: impl Display, answer: Option<impl Display>) -> String {
    match answer {
        None => format!("{op} …"),
        Some(answer) => format!("{op}: {answer}"),
    }
}
