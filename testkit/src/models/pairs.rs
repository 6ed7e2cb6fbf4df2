//! A program for each pair of operations that no other program performs in two different threads.
//!
//! Each of two threads performs one operation of the pair, with as few steps as that operation
//! needs. The ranges of the two threads overlap. If the operations need holds that exclude each
//! other, and the lock distinguishes positions, the ranges are adjacent instead.
//!
//! If the main thread's operation changes a hold, the thread acquires that hold before the other
//! thread begins. The other thread acquires and releases its hold while the main thread's operation
//! runs. So the program also covers the pairs of that operation with an acquisition and with a
//! release.
//!
//! These programs are generated from a lock's capabilities and its other programs, so every pair is
//! covered.

use std::collections::BTreeSet;
use std::sync::Arc;

use spanlock_range_lock::Access::{self, Read, Upgradable, Write};
use spanlock_verify::Program;
use spanlock_verify::rows::pairs::pairs_of;

use super::steps::{Step, Step::*, performs, workers};
use super::{OPERATIONS, Primitive};

/// The order in which pairs of operations get their programs. Operations that need others come
/// first, because their programs cover more pairs: a split, for example, also acquires and
/// releases.
const ORDER: [&str; 17] = [
    "split",
    "upgrade",
    "try-upgrade",
    "downgrade",
    "shrink",
    "append",
    "batch",
    "try-batch",
    "deadline",
    "poll",
    "cancel",
    "try",
    "reclaim",
    "acquire-upgradable",
    "acquire-exclusive",
    "acquire-shared",
    "release",
];

/// Two operations, in the order of [`OPERATIONS`].
type Pair = (&'static str, &'static str);

fn place(operation: &str) -> Option<usize> {
    OPERATIONS.iter().position(|it| *it == operation)
}

/// Returns the pair of two operations, or `None` if one of them is not in [`OPERATIONS`].
fn pair(a: &str, b: &str) -> Option<Pair> {
    let (a, b) = (place(a)?, place(b)?);
    Some((OPERATIONS[a.min(b)], OPERATIONS[a.max(b)]))
}

/// Returns the shortest list of steps that performs an operation. Ranges begin at position 2, where
/// appends begin too (see [`super::steps`]).
fn smallest(operation: &str) -> &'static [Step] {
    match operation {
        "acquire-shared" => &[Lock(2..3, Read), Unlock],
        "acquire-upgradable" => &[Lock(2..3, Upgradable), Unlock],
        "acquire-exclusive" | "release" => &[Lock(2..3, Write), Unlock],
        "try" => &[Try(2..3, Write)],
        "deadline" => &[LockUntil(2..3, Write)],
        "poll" => &[Request(2..3, Write), Await, Unlock],
        "cancel" => &[Request(2..3, Write), Cancel],
        "downgrade" => &[Lock(2..3, Write), Downgrade, Unlock],
        "try-upgrade" => &[Lock(2..3, Upgradable), TryUpgrade, Unlock],
        "upgrade" => &[Lock(2..3, Upgradable), Upgrade, Unlock],
        "shrink" => &[Lock(2..4, Write), Shrink(3..4), Unlock],
        "split" => &[Lock(2..4, Read), Split(3), Unlock, Unlock],
        // One range suffices: other programs show that a batch acquires all of its ranges or none.
        "batch" => &[LockAll(&[(2..3, Write)]), Unlock],
        "try-batch" => &[TryAll(&[(2..3, Write)])],
        "append" => &[Append],
        "reclaim" => &[Reclaim],
        _ => unreachable!("`{operation}` is not in OPERATIONS"),
    }
}

/// Returns the access of the hold that an operation changes, or `None` if it changes no hold.
fn needs(operation: &str) -> Option<Access> {
    match operation {
        "split" => Some(Read),
        "try-upgrade" | "upgrade" => Some(Upgradable),
        "downgrade" | "shrink" => Some(Write),
        _ => None,
    }
}

/// Returns the shortest list of steps that changes a hold by `operation`, on positions before those
/// of [`smallest`].
fn elsewhere(operation: &str) -> &'static [Step] {
    match operation {
        "split" => &[Lock(0..2, Read), Split(1), Unlock, Unlock],
        "try-upgrade" => &[Lock(1..2, Upgradable), TryUpgrade, Unlock],
        "upgrade" => &[Lock(1..2, Upgradable), Upgrade, Unlock],
        "downgrade" => &[Lock(1..2, Write), Downgrade, Unlock],
        "shrink" => &[Lock(0..2, Write), Shrink(0..1), Unlock],
        _ => unreachable!("`{operation}` needs no hold"),
    }
}

/// Returns the claim of a pair's program, and the other thread's steps.
///
/// Two operations whose holds exclude each other never run concurrently on the same positions. So
/// the second operation gets adjacent positions if the lock distinguishes positions. The two
/// operations then still contend for shared internal state, such as a word or a tree.
fn other(primitive: &Primitive, (a, b): Pair) -> (&'static str, &'static [Step]) {
    let excluding = (needs(a).zip(needs(b))).is_some_and(|(a, b)| a.conflicts_with(b));
    match (excluding, primitive.granular) {
        (false, _) => (
            "when they run concurrently, the two operations exclude each other where they \
             conflict, and leave no trace",
            smallest(b),
        ),
        (true, true) => (
            "when they run concurrently on adjacent ranges, the two operations do not affect each \
             other, and leave no trace",
            elsewhere(b),
        ),
        (true, false) => (
            "the two operations need holds that exclude each other: the later one sees the writes \
             of the earlier one, and neither leaves a trace",
            smallest(b),
        ),
    }
}

/// Makes the lock allocate memory that `reclaim` can free or a batch can use.
const LEAF: &[Step] = &[Lock(2..3, Write), Unlock];

/// Returns a program for each pair of the primitive's operations that no searched program of
/// `others` covers.
pub fn programs(primitive: &Arc<Primitive>, others: &[Program]) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    let searched = others.iter().filter(|it| it.info().is_searched());
    let mut covered: BTreeSet<Pair> = searched.flat_map(covered_by).collect();
    let operations = primitive.operations();
    let in_order: Vec<_> = (ORDER.into_iter())
        .filter(|operation| operations.contains(operation))
        .collect();
    for (i, first) in in_order.iter().enumerate() {
        for second in &in_order[i..] {
            let pair = pair(first, second).expect("two operations of range locks");
            if !covered.contains(&pair) {
                let program = program(primitive, pair);
                covered.extend(covered_by(&program));
                programs.push(program);
            }
        }
    }
    programs
}

fn covered_by(program: &Program) -> impl Iterator<Item = Pair> + use<> {
    let pairs = pairs_of(program.info()).into_iter();
    let pairs: Vec<_> = pairs.filter_map(|(a, b)| pair(a, b)).collect();
    pairs.into_iter()
}

fn program(primitive: &Arc<Primitive>, (a, b): Pair) -> Program {
    let (mine, (claim, other)) = (smallest(a), other(primitive, (a, b)));
    let taken = mine.iter().position(|step| !matches!(step, Lock(..)));
    // If the steps only acquire and release, the acquisition belongs to the pair and must not run
    // in advance.
    let changes = !matches!(mine, [Lock(..), Unlock]);
    let (first, mine) = mine.split_at(taken.filter(|_| changes).unwrap_or(0));
    // Let the lock allocate first: otherwise the longest searches would take even longer. Other
    // programs cover allocation.
    let has_grown = [a, b].contains(&"batch") || b == "reclaim";
    let leaf = has_grown.then_some(LEAF);
    let first: Vec<_> = leaf.into_iter().flatten().chain(first).collect();
    let threads = [mine, other];
    let primitive = primitive.clone();
    Program::new(format!("pair-{a}-{b}"), claim)
        .performs(performs(&threads))
        .operations(threads.iter().map(|steps| steps.len()).sum())
        .run(move || workers(&primitive, &first, &threads))
}
