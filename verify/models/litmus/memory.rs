//! Programs of atomic operations, as data: the checkers run them, and `axioms.rs` analyses them.

use std::fmt::{self, Display, Write as _};
use std::sync::Arc;

use spanlock_sync::atomic::{AtomicU32, Ordering, fence};
use spanlock_sync::thread;

use super::{Litmus, Model};
use spanlock_verify::{note_as, note_at_end, remark};

/// One of three words, which start as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Word {
    /// The first.
    X,
    /// The second.
    Y,
    /// The third.
    Z,
}

/// One step of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Loads. Notes the value.
    Load(Word, Ordering),
    /// Stores.
    Store(Word, u32, Ordering),
    /// Swaps. Notes the old value.
    Swap(Word, u32, Ordering),
    /// Adds. Notes the old value.
    Add(Word, u32, Ordering),
    /// A strong compare-exchange from one value to another. Notes 1 for success or 0 for failure,
    /// and the value that it read.
    Cas(Word, (u32, u32), Ordering, Ordering),
    /// A weak compare-exchange. Notes the same.
    CasWeak(Word, (u32, u32), Ordering, Ordering),
    /// A fence.
    Fence(Ordering),
}

/// A litmus model of atomic operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// The statement.
    pub litmus: Litmus,
    /// The operations of each thread. The first is the main thread, which starts the others and
    /// joins them.
    pub threads: &'static [&'static [Op]],
    /// The words that the main thread reads and notes after it has joined the other threads.
    pub finals: &'static [Word],
}

impl Word {
    const fn name(self) -> char {
        match self {
            Word::X => 'x',
            Word::Y => 'y',
            Word::Z => 'z',
        }
    }
}

impl Op {
    /// Returns the word that the operation accesses, or `None` for a fence.
    pub(super) fn word(self) -> Option<Word> {
        match self {
            Op::Load(word, _) | Op::Store(word, ..) | Op::Swap(word, ..) | Op::Add(word, ..) => {
                Some(word)
            }
            Op::Cas(word, ..) | Op::CasWeak(word, ..) => Some(word),
            Op::Fence(_) => None,
        }
    }

    /// Returns the operation's part of the pattern, with a `_` for each value.
    fn pattern(self) -> Option<String> {
        let name = self.word()?.name();
        match self {
            Op::Store(..) | Op::Fence(_) => None,
            Op::Load(..) | Op::Swap(..) | Op::Add(..) => Some(format!("{name}=_")),
            Op::Cas(..) | Op::CasWeak(..) => Some(format!("ok=_ {name}=_")),
        }
    }

    /// Performs the operation, and returns the values that it notes.
    fn run(self, words: &[AtomicU32; 3]) -> Vec<u32> {
        let at = |word: Word| &words[word as usize];
        let both = |result: Result<u32, u32>| match result {
            Ok(value) => vec![1, value],
            Err(value) => vec![0, value],
        };
        match self {
            Op::Load(word, order) => vec![at(word).load(order)],
            Op::Store(word, value, order) => {
                at(word).store(value, order);
                vec![]
            }
            Op::Swap(word, value, order) => vec![at(word).swap(value, order)],
            Op::Add(word, value, order) => vec![at(word).fetch_add(value, order)],
            Op::Cas(word, (from, to), success, failure) => {
                both(at(word).compare_exchange(from, to, success, failure))
            }
            Op::CasWeak(word, (from, to), success, failure) => {
                both(at(word).compare_exchange_weak(from, to, success, failure))
            }
            Op::Fence(order) => {
                fence(order);
                vec![]
            }
        }
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(word) = self.word() {
            write!(f, "{}.", word.name())?;
        }
        match self {
            Op::Load(_, order) => write!(f, "load({order:?})"),
            Op::Store(_, value, order) => write!(f, "store({value}, {order:?})"),
            Op::Swap(_, value, order) => write!(f, "swap({value}, {order:?})"),
            Op::Add(_, value, order) => write!(f, "fetch_add({value}, {order:?})"),
            Op::Cas(_, (from, to), success, failure) => {
                write!(
                    f,
                    "compare_exchange({from}, {to}, {success:?}, {failure:?})"
                )
            }
            Op::CasWeak(_, (from, to), success, failure) => {
                write!(
                    f,
                    "compare_exchange_weak({from}, {to}, {success:?}, {failure:?})"
                )
            }
            Op::Fence(order) => write!(f, "fence({order:?})"),
        }
    }
}

/// Returns the patterns of operations, in order.
fn pattern(ops: &[Op]) -> String {
    let patterns: Vec<_> = ops.iter().filter_map(|op| op.pattern()).collect();
    patterns.join(" ")
}

/// Fills the values into a pattern.
fn fill(pattern: &str, values: &[u32]) -> String {
    let mut values = values.iter();
    let mut text = String::new();
    for part in pattern.split_inclusive('_') {
        text.push_str(part.trim_end_matches('_'));
        if part.ends_with('_') {
            let _ = write!(text, "{}", values.next().expect("a value for each `_`"));
        }
    }
    text
}

/// Performs the operations of one thread, and notes their values at its end.
fn live(who: usize, ops: &[Op], words: &[AtomicU32; 3]) {
    let mut values = Vec::new();
    for op in ops {
        remark(who, &op.to_string());
        values.extend(op.run(words));
    }
    if !values.is_empty() {
        note_as(who, fill(&pattern(ops), &values));
    }
}

fn run(threads: &'static [&'static [Op]], finals: &[Word]) {
    let words = Arc::new([const { 0 }; 3].map(AtomicU32::new));
    let others: Vec<_> = (1..threads.len())
        .map(|who| {
            let words = words.clone();
            thread::spawn(move || live(who, threads[who], &words))
        })
        .collect();
    live(0, threads[0], &words);
    for other in others {
        other.join().expect("litmus threads do not fail");
    }
    if !finals.is_empty() {
        // Relaxed: all other threads have been joined.
        let look = |word: &Word| words[*word as usize].load(Ordering::Relaxed);
        let values: Vec<_> = finals.iter().map(look).collect();
        note_at_end(fill(&ends(finals), &values));
    }
}

fn ends(finals: &[Word]) -> String {
    let ends: Vec<_> = finals
        .iter()
        .map(|word| format!("{}=_", word.name()))
        .collect();
    ends.join(" ")
}

impl Memory {
    /// Returns the model that runs this program.
    pub(super) fn model(&self) -> Model {
        let Memory {
            litmus,
            threads,
            finals,
        } = *self;
        let mut patterns = Vec::new();
        let mut text = Vec::new();
        for (who, ops) in threads.iter().enumerate() {
            let pattern = pattern(ops);
            if !pattern.is_empty() {
                patterns.push(format!("T{who}:{pattern}"));
            }
            let ops: Vec<_> = ops.iter().map(ToString::to_string).collect();
            text.push(format!("T{who}: {}", ops.join("; ")));
        }
        if !finals.is_empty() {
            patterns.push(format!("end:{}", ends(finals)));
        }
        Model {
            litmus,
            pattern: patterns.join(" "),
            text: text.join("\n"),
            threads: threads.len() as u32,
            operations: threads.iter().map(|ops| ops.len() as u32).sum(),
            faults: &[],
            is_bare: false,
            run: Arc::new(move || run(threads, finals)),
        }
    }
}
