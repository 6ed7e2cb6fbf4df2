//! What happened in an execution, as far as callers can tell: which operation was called when, and what it answered.
//!
//! Of two events of different threads no more is kept than whether one *must* come before the other. An execution stands for its class: all that come from it by
//! exchanging neighbouring steps that do not depend on each other, whose answers are the same, but in which other operations overlap. A call is not after another only
//! because the search happened to run it later; and one thread's call may come at any time between its last step before and its first step within.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::scenario::Op;
use crate::order::{self, Step};

/// More threads than any scenario has.
pub const THREADS: usize = 3;

/// What an operation answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// It did what it says.
    Done,
    /// It did nothing, since something stood in the way.
    Busy,
}

/// One end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It is called; and what it will answer.
    Call(Op, Answer),
    /// It answers.
    Return(Op, Answer),
}

/// An event, and how many events of each thread must come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// What it is.
    pub end: End,
    /// How many of each thread's.
    pub after: [u8; THREADS],
}

/// The events of each thread, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History(pub Vec<Vec<Event>>);

/// What is noted while the execution runs.
#[derive(Clone, Copy, Debug)]
struct Note {
    thread: usize,
    op: Op,
    /// None: a call.
    answer: Option<Answer>,
    /// The step in which its thread was.
    at: u32,
}

// Plain std state that no checker sees, as in `trace`.
static NOTES: Mutex<Vec<Note>> = Mutex::new(Vec::new());

fn notes() -> MutexGuard<'static, Vec<Note>> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An execution begins.
pub fn begin() {
    notes().clear();
}

/// Runs an operation of `thread`, and notes when it is called, and when and what it answers.
pub fn noted(thread: usize, op: Op, run: impl FnOnce() -> Answer) {
    let note = |answer| {
        let at = order::at();
        notes().push(Note {
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

impl History {
    /// That of the execution that has just ended, which had these steps.
    pub fn of(steps: &[Step]) -> Self {
        let notes = notes();
        let threads = notes.iter().map(|note| note.thread + 1).max();
        let of = |thread| notes.iter().filter(move |note| note.thread == thread);
        let event = |note: &Note, later: &mut dyn Iterator<Item = &Note>| {
            let clock = &steps[note.at as usize - 1].clock;
            let before = |thread: usize| match thread == note.thread {
                // Its own: by their place.
                true => 0,
                false => of(thread).filter(|other| other.at < clock[thread]).count() as u8,
            };
            let end = match note.answer {
                Some(answer) => End::Return(note.op, answer),
                None => {
                    let answer = later.next().and_then(|note| note.answer);
                    End::Call(note.op, answer.expect("an execution that has ended"))
                }
            };
            Event {
                end,
                after: std::array::from_fn(before),
            }
        };
        let events = |thread| -> Vec<Event> {
            of(thread)
                .enumerate()
                .map(|(i, note)| event(note, &mut of(thread).skip(i + 1)))
                .collect()
        };
        History((0..threads.unwrap_or(0)).map(events).collect())
    }

    /// A history of which the order is known, event by event: for tests.
    #[cfg(test)]
    pub fn in_order(events: &[(usize, End)]) -> Self {
        let mut history = History(vec![Vec::new(); THREADS]);
        for &(thread, end) in events {
            let after = std::array::from_fn(|other| history.0[other].len() as u8);
            history.0[thread].push(Event { end, after });
        }
        history
    }
}

/// The calls and answers so far, for an execution that did not come to its end.
pub fn so_far() -> Vec<(usize, Op, Option<Answer>)> {
    let notes = notes();
    let told = notes.iter().map(|note| (note.thread, note.op, note.answer));
    told.collect()
}
