//! Linearizability of generated scenarios. A **scenario** gives each of two or three threads a list
//! of operations. The checker runs every small scenario of two threads whose operations are in
//! [`Alphabet::Core`]. It also runs random samples of scenarios with all operations.
//!
//! [`scenario`] defines and generates the operations. [`spec`] specifies the answers that the
//! contract allows.

pub mod scenario;
pub mod spec;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use spanlock_range_lock::Access::{Read, Write};
use spanlock_verify::oracles::linearizability::{Model, Recorder, Scenarios};
use spanlock_verify::{Program, finished};

use self::scenario::{Alphabet, Op, Place, Way};
use self::spec::{Rules, State};
use super::Primitive;
use crate::Driven;
use crate::owner::{Asked, Hold, span};

/// The answer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The operation succeeded.
    Done,
    /// The operation failed because of a conflicting hold or request.
    Busy,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Done => "done",
            Answer::Busy => "busy",
        })
    }
}

/// The [`Model`] of a range lock: its operations, and its specification.
pub struct RangeLock {
    primitive: Arc<Primitive>,
    alphabet: Alphabet,
}

impl RangeLock {
    /// Creates the model of a lock whose threads perform the operations of `alphabet`.
    pub fn new(primitive: Arc<Primitive>, alphabet: Alphabet) -> Self {
        RangeLock {
            primitive,
            alphabet,
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            granular: self.primitive.granular,
            pieces: self.primitive.pieces,
            readers: self.primitive.readers,
        }
    }
}

/// Returns the programs that run a lock's scenarios.
pub fn programs(primitive: &Arc<Primitive>) -> [Program; 3] {
    let program = |name, claim, alphabet, scenarios| {
        let model = RangeLock::new(primitive.clone(), alphabet);
        Program::new(name, claim).linearizable(model, scenarios)
    };
    let core = Scenarios::All {
        operations: 2,
        in_full_run: 3,
        schedules: primitive.schedules_of_scenarios,
    };
    let sampled = |threads, operations| Scenarios::Sampled {
        threads,
        operations,
    };
    let (of_core, of_all) = (
        "a list of holds explains every result of locks, tries, releases and downgrades",
        "a list of holds explains every result in random scenarios with all operations",
    );
    [
        program("linearizable", of_core, Alphabet::Core, core),
        program("linearizable-2", of_all, Alphabet::All, sampled(2, 3)),
        program("linearizable-3", of_all, Alphabet::All, sampled(3, 2)),
    ]
}

impl Model for RangeLock {
    type Op = Op;
    type Answer = Answer;
    type State = State;
    type Object = Driven;

    fn object(&self) -> Driven {
        (self.primitive.make)()
    }

    fn work(&self, lock: &Driven, thread: usize, ops: &[Op], recorder: &Recorder<Op, Answer>) {
        let mut holds = Vec::new();
        for &op in ops {
            perform(thread, op, lock, &mut holds, recorder);
            finished();
        }
        while !holds.is_empty() {
            perform(thread, Op::Release, lock, &mut holds, recorder);
            finished();
        }
    }

    /// Tries to acquire the whole lock, which the specification says must succeed.
    fn at_end(&self, lock: &Driven, recorder: &Recorder<Op, Answer>) {
        let everything = Op::Take(Way::Try, Write, Place::Both);
        let mut holds = Vec::new();
        perform(0, everything, lock, &mut holds, recorder);
        holds.into_iter().flatten().for_each(Hold::release);
    }

    fn initial(&self) -> State {
        State::default()
    }

    fn call(&self, state: &State, thread: usize, op: Op, answer: Answer) -> State {
        state.call(thread, op, answer)
    }

    fn effects(&self, state: &State) -> Vec<State> {
        state.effects(self.rules())
    }

    fn answer(&self, state: &State, thread: usize) -> Option<State> {
        state.answer(thread)
    }

    fn state_text(&self, state: &State) -> String {
        state.held()
    }

    fn open_text(&self, state: &State) -> String {
        state.open()
    }

    fn unexplained_text(&self, _: Op, answer: Answer) -> String {
        let why = match answer {
            Answer::Done => "a conflicting hold blocks it",
            Answer::Busy => "nothing that could make it fail is in its way",
        };
        why.to_owned()
    }

    fn threads(&self, most: usize) -> Vec<Vec<Op>> {
        scenario::threads(&self.alphabet.ops(&self.primitive), most)
    }

    fn is_well_formed(&self, ops: &[Op]) -> bool {
        scenario::is_well_formed(ops)
    }

    fn parse(&self, word: &str) -> Result<Op, String> {
        let op: Op = word.parse()?;
        match Alphabet::All.ops(&self.primitive).contains(&op) {
            true => Ok(op),
            false => Err(format!("{} cannot do `{op}`", self.primitive.name)),
        }
    }
}

/// Performs an operation and records it. Skips an operation on a place that the thread failed to
/// acquire.
fn perform<'a>(
    me: usize,
    op: Op,
    lock: &'a Driven,
    holds: &mut Vec<Option<Hold<'a>>>,
    recorder: &Recorder<Op, Answer>,
) {
    let answer = |done: bool| match done {
        true => Answer::Done,
        false => Answer::Busy,
    };
    if let Op::Take(way, access, place) = op {
        let span = span(place.range());
        recorder.record(me, op, || {
            let hold = match way {
                Way::Lock => Some(Hold::lock(lock, span, access).expect("in range")),
                Way::Try => Hold::try_lock(lock, span, access).ok(),
                Way::Brief => {
                    let mut request = Asked::new(lock, span, access);
                    let hold = request.poll().expect("in range");
                    if hold.is_none() {
                        request.cancel();
                    }
                    hold
                }
            };
            holds.push(hold);
            answer(holds.last().is_some_and(Option::is_some))
        });
        return;
    }
    if op == Op::Release {
        if let Some(Some(hold)) = holds.pop() {
            recorder.record(me, op, || {
                hold.release();
                Answer::Done
            });
        }
        return;
    }
    let Some(Some(hold)) = holds.last_mut() else {
        return;
    };
    match op {
        Op::Downgrade if hold.access() != Read => recorder.record(me, op, || {
            hold.downgrade();
            Answer::Done
        }),
        Op::TryUpgrade if hold.access() != Write => {
            recorder.record(me, op, || answer(hold.try_upgrade()));
        }
        // An earlier try may have upgraded the hold already.
        Op::Upgrade if hold.access() != Write => recorder.record(me, op, || {
            hold.upgrade();
            Answer::Done
        }),
        Op::Shrink(keep) => recorder.record(me, op, || {
            hold.shrink(span(keep.range()));
            Answer::Done
        }),
        _ => {}
    }
}
