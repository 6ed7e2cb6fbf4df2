//! Histories: the calls and answers of an execution, as its threads see them.
//!
//! An execution of the explorer has no total order. Of two events (calls or answers) of different
//! threads, a history keeps only whether one *must* come before the other, because it happens
//! before it. Under shuttle, the events are in the order of the schedule.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::execution::step;
use crate::trace::outside;

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
    /// The number of the thread's current step under the explorer, or of the note.
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
            outside(|| {
                let mut notes = self.notes();
                let at = match cfg!(spanlock_explorer) {
                    true => step(),
                    false => notes.len() as u32,
                };
                notes.push(Note {
                    thread,
                    op,
                    answer,
                    at,
                });
            });
        };
        #[cfg(spanlock_explorer)]
        spanlock_explorer::Moment::begin();
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

    /// Returns the history of the execution that has just ended, and where each of its events is.
    /// `is_before` says whether what is at one place must come before what is at another.
    pub fn history(&self, is_before: &dyn Fn(u32, u32) -> bool) -> (History<Op, Answer>, Places) {
        let notes = self.notes();
        let threads = notes.iter().map(|note| note.thread + 1).max();
        let of = |thread| notes.iter().filter(move |note| note.thread == thread);
        let event = |note: &Note<Op, Answer>, later: Option<&Note<Op, Answer>>| {
            let before = |thread: usize| match thread == note.thread {
                // A thread's own events are ordered by their position.
                true => 0,
                false => {
                    let its = of(thread).take_while(|other| is_before(other.at, note.at));
                    its.count() as u8
                }
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
        let all = 0..threads.unwrap_or(0);
        let history = History(all.clone().map(events).collect());
        let places = all.map(|thread| of(thread).map(|note| note.at).collect());
        (history, places.collect())
    }
}

/// Where each event of each thread is.
pub type Places = Vec<Vec<u32>>;

/// Formats a call or an answer.
pub(super) fn text(op: impl Display, answer: Option<impl Display>) -> String {
    match answer {
        None => format!("{op} …"),
        Some(answer) => format!("{op}: {answer}"),
    }
}
