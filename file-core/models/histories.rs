//! Linearizability of generated histories of file operations: some order of the operations, one
//! after the other, must explain every answer.
//!
//! A new operation needs a variant, a name in `OPS`, an arm in [`Sequential::perform`], and one in
//! [`Sequential::apply`].

mod file;
mod names;

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use spanlock_pmem::simulated::Simulated;
use spanlock_verify::oracles::linearizability::{Model, Recorder, Scenarios, THREADS};
use spanlock_verify::{Program, Suite, apart, finished};

use self::file::{FileOp, Pages, Sparse};
use self::names::{Moves, NameOp, Names};
use crate::store::{PAGE, Volume, open};

/// Half of a page.
const HALF_PAGE: u64 = PAGE / 2;

pub(crate) fn suite() -> Suite {
    let all = |operations, in_full_run, of_each: Option<u64>| Scenarios::All {
        operations,
        in_full_run,
        schedules: of_each,
    };
    let sampled = |threads, operations| Scenarios::Sampled {
        threads,
        operations,
    };
    let of_file = "one file, whose operations take effect one at a time, explains every answer";
    let of_names = "a list of names explains every answer";
    let random = Some(50);
    Suite::new("file-core-histories")
        .step_bound(4_000)
        .without_pairs()
        .program(program::<Pages<PAGE>>(
            "file",
            of_file,
            FileOp::SEARCHED,
            all(1, 2, random),
        ))
        .program(program::<Pages<HALF_PAGE>>(
            "file-2",
            of_file,
            FileOp::ALL,
            sampled(2, 3),
        ))
        .program(program::<Pages<HALF_PAGE>>(
            "file-3",
            of_file,
            FileOp::ALL,
            sampled(3, 2),
        ))
        .program(program::<Sparse>(
            "cleaned-2",
            of_file,
            FileOp::CLEANED,
            sampled(2, 3),
        ))
        .program(program::<Sparse>(
            "cleaned-3",
            of_file,
            FileOp::CLEANED,
            sampled(3, 2),
        ))
        .program(program::<Names>(
            "names",
            of_names,
            NameOp::SEARCHED,
            all(1, 2, random),
        ))
        .program(program::<Names>(
            "names-2",
            of_names,
            NameOp::ALL,
            sampled(2, 3),
        ))
        .program(program::<Names>(
            "names-3",
            of_names,
            NameOp::ALL,
            sampled(3, 2),
        ))
        .program(program::<Names>(
            "directories",
            of_names,
            NameOp::DIRECTORIES,
            all(1, 2, random),
        ))
        .program(program::<Names>(
            "directories-3",
            of_names,
            NameOp::DIRECTORIES,
            sampled(3, 2),
        ))
        .program(program::<Moves>(
            "moves-2",
            of_names,
            NameOp::MOVES,
            sampled(2, 3),
        ))
        .program(program::<Moves>(
            "moves-3",
            of_names,
            NameOp::MOVES,
            sampled(3, 2),
        ))
}

fn program<S: Sequential>(
    name: &str,
    claim: &str,
    ops: &'static [S::Op],
    scenarios: Scenarios,
) -> Program {
    Program::new(name, claim).linearizable(Histories::<S> { ops }, scenarios)
}

/// Returns the medium that `make` makes, outside the search.
fn made_apart(make: fn() -> Vec<u8>) -> Vec<u8> {
    let made = Arc::new(Mutex::new(None));
    let into = made.clone();
    apart(Box::new(move || {
        let bytes = make();
        *into.lock().expect("no panic") = Some(bytes);
    }));
    let made = made.lock().expect("no panic").take();
    made.expect("the function has run")
}

/// Opens the volume on this medium.
fn reopened(medium: &[u8]) -> Volume {
    open(Simulated::new(medium)).expect("the medium is sound")
}

/// The bounds of an operation, and of an answer.
trait Word: Copy + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static {}

impl<T: Copy + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static> Word for T {}

/// An object, and a specification in which operations take effect one at a time.
trait Sequential: Sized + Send + Sync + 'static {
    type Op: Word;
    type Answer: Word;
    /// What the object contains.
    type State: Clone + Ord + Hash + Debug;

    /// Operations that change nothing, and show together what the object contains.
    const AT_END: &[Self::Op];

    /// Creates the object of an execution.
    fn new() -> Self;

    /// Performs an operation. `stamp` is another one for each operation of a scenario, and not 0.
    fn perform(&self, op: Self::Op, stamp: u8) -> Self::Answer;

    /// Returns what a new object contains.
    fn initial() -> Self::State;

    /// Performs an operation on the specification.
    fn apply(state: &mut Self::State, op: Self::Op, stamp: u8) -> Self::Answer;
}

/// Returns the stamp of an operation, given how many its thread performed before.
fn stamp(thread: usize, before: u8) -> u8 {
    1 + 16 * thread as u8 + before
}

/// The scenarios whose threads perform `ops`.
struct Histories<S: Sequential> {
    ops: &'static [S::Op],
}

/// What the object contains, and what its threads do.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct State<T, Op, Answer> {
    content: T,
    threads: [Thread<Op, Answer>; THREADS],
}

/// The operations that a thread has begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Thread<Op, Answer> {
    /// How many there are.
    begun: u8,
    /// The one that has not returned, with its answer.
    open: Option<(Op, Answer)>,
    /// Whether that has taken effect.
    took_effect: bool,
}

impl<S: Sequential> Model for Histories<S> {
    type Op = S::Op;
    type Answer = S::Answer;
    type State = State<S::State, S::Op, S::Answer>;
    type Object = S;

    fn object(&self) -> S {
        S::new()
    }

    fn work(
        &self,
        object: &S,
        thread: usize,
        ops: &[S::Op],
        recorder: &Recorder<S::Op, S::Answer>,
    ) {
        for (&op, before) in ops.iter().zip(0..) {
            recorder.record(thread, op, || object.perform(op, stamp(thread, before)));
            finished();
        }
    }

    /// Shows what the object contains.
    fn at_end(&self, object: &S, recorder: &Recorder<S::Op, S::Answer>) {
        for &op in S::AT_END {
            recorder.record(0, op, || object.perform(op, 0));
            finished();
        }
    }

    fn initial(&self) -> Self::State {
        let idle = Thread {
            begun: 0,
            open: None,
            took_effect: false,
        };
        State {
            content: S::initial(),
            threads: [idle; THREADS],
        }
    }

    fn call(
        &self,
        state: &Self::State,
        thread: usize,
        op: S::Op,
        answer: S::Answer,
    ) -> Self::State {
        let mut state = state.clone();
        let of = &mut state.threads[thread];
        *of = Thread {
            begun: of.begun + 1,
            open: Some((op, answer)),
            took_effect: false,
        };
        state
    }

    fn effects(&self, state: &Self::State) -> Vec<Self::State> {
        let take_effect = |(thread, of): (usize, &Thread<S::Op, S::Answer>)| {
            let (op, answer) = of.open.filter(|_| !of.took_effect)?;
            let mut next = state.clone();
            next.threads[thread].took_effect = true;
            let gave = S::apply(&mut next.content, op, stamp(thread, of.begun - 1));
            (gave == answer).then_some(next)
        };
        state
            .threads
            .iter()
            .enumerate()
            .filter_map(take_effect)
            .collect()
    }

    fn answer(&self, state: &Self::State, thread: usize) -> Option<Self::State> {
        let mut state = state.clone();
        let of = &mut state.threads[thread];
        of.open = None;
        of.took_effect.then_some(state)
    }

    fn state_text(&self, state: &Self::State) -> String {
        format!("{:?}", state.content)
    }

    fn open_text(&self, state: &Self::State) -> String {
        let open = state.threads.iter().filter(|it| !it.took_effect);
        let ops = open.filter_map(|it| Some(it.open?.0.to_string()));
        ops.collect::<Vec<_>>().join(", ")
    }

    fn unexplained_text(&self, _: S::Op, _: S::Answer) -> String {
        "it would give another answer".to_owned()
    }

    fn threads(&self, most: usize) -> Vec<Vec<S::Op>> {
        let mut of_length = vec![Vec::new()];
        let mut all = of_length.clone();
        for _ in 0..most {
            let longer = |thread: &Vec<S::Op>| {
                let with = |op: &S::Op| [&**thread, &[*op]].concat();
                self.ops.iter().map(with).collect::<Vec<_>>()
            };
            of_length = of_length.iter().flat_map(longer).collect();
            all.extend(of_length.iter().cloned());
        }
        all
    }

    fn is_well_formed(&self, _: &[S::Op]) -> bool {
        true
    }

    fn parse(&self, word: &str) -> Result<S::Op, String> {
        let op = self.ops.iter().find(|op| op.to_string() == word);
        op.copied()
            .ok_or_else(|| format!("`{word}` is not an operation"))
    }
}
