//! A model for each two operations that no other model has in different threads: one thread performs the one, another the other, on ranges that overlap, or side by side if they would exclude each other there. Each
//! does the least that performs its operation. What main cuts or changes it has taken before the other begins; what the other takes on the way to its operation counts too.
//!
//! So a lock that gets a power, and a property that is left out, changes these, and no cell of a table ([`crate::pairs`]) becomes empty.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use spanlock_range_lock::Access::{self, Read, Upgradable, Write};
use spanlock_testkit::driven;

use super::bare::Bare;
use super::steps::{Step, Step::*, performs, workers};
use crate::pairs::{Operation, Pair, pairs, pairs_of};
use crate::primitives::{PRIMITIVES, Power, Primitive};
use crate::program::{Program, Run};

/// Words without a lock around them, as locks of a few positions: their own operations, and nothing else.
pub const PARTS: &[Primitive] = &[Primitive {
    name: "packed-word",
    granular: true,
    pieces: false,
    readers: spanlock_srl::packed::MAX_READERS as usize,
    overtakes: u32::MAX,
    powers: &[Power::wait, Power::downgrade, Power::upgrade],
    make: || driven!(Bare::new(); wait, downgrade, upgrade),
}];

/// Operations in the order in which pairs of them get their models: first those that have others on the way.
const ORDER: [Operation; 17] = [
    Operation::Split,
    Operation::Upgrade,
    Operation::TryUpgrade,
    Operation::Downgrade,
    Operation::Shrink,
    Operation::Append,
    Operation::Batch,
    Operation::TryBatch,
    Operation::Deadline,
    Operation::Poll,
    Operation::Cancel,
    Operation::Try,
    Operation::Reclaim,
    Operation::AcquireUpgradable,
    Operation::AcquireExclusive,
    Operation::AcquireShared,
    Operation::Release,
];

/// The least that performs an operation of a lock; none if it is not one. Where appends are made, from position 2 on: see [`super::steps`].
fn smallest(operation: Operation) -> Option<&'static [Step]> {
    Some(match operation {
        Operation::AcquireShared => &[Take(2..3, Read), Give],
        Operation::AcquireUpgradable => &[Take(2..3, Upgradable), Give],
        Operation::AcquireExclusive | Operation::Release => &[Take(2..3, Write), Give],
        Operation::Try => &[Try(2..3, Write)],
        Operation::Deadline => &[TakeUntil(2..3, Write)],
        Operation::Poll => &[Ask(2..3, Write), Await, Give],
        Operation::Cancel => &[Ask(2..3, Write), Cancel],
        Operation::Downgrade => &[Take(2..3, Write), Downgrade, Give],
        Operation::TryUpgrade => &[Take(2..3, Upgradable), TryUpgrade, Give],
        Operation::Upgrade => &[Take(2..3, Upgradable), Upgrade, Give],
        Operation::Shrink => &[Take(2..4, Write), Shrink(3..4), Give],
        Operation::Split => &[Take(2..4, Read), Split(3), Give, Give],
        // One range: that several are taken at once or not at all, models of their own show.
        Operation::Batch => &[TakeAll(&[(2..3, Write)]), Give],
        Operation::TryBatch => &[TryAll(&[(2..3, Write)])],
        Operation::Append => &[Append],
        Operation::Reclaim => &[Reclaim],
        // Of the door's sections, and of journals, whose models have all of theirs.
        _ => return None,
    })
}

/// The hold that an operation on a hold needs; none if it is not one.
fn needs(operation: Operation) -> Option<Access> {
    match operation {
        Operation::Split => Some(Read),
        Operation::TryUpgrade | Operation::Upgrade => Some(Upgradable),
        Operation::Downgrade | Operation::Shrink => Some(Write),
        _ => None,
    }
}

/// Such an operation on other positions.
fn elsewhere(operation: Operation) -> Option<&'static [Step]> {
    Some(match operation {
        Operation::Split => &[Take(0..2, Read), Split(1), Give, Give],
        Operation::TryUpgrade => &[Take(1..2, Upgradable), TryUpgrade, Give],
        Operation::Upgrade => &[Take(1..2, Upgradable), Upgrade, Give],
        Operation::Downgrade => &[Take(1..2, Write), Downgrade, Give],
        Operation::Shrink => &[Take(0..2, Write), Shrink(0..1), Give],
        _ => return None,
    })
}

/// What the model of a pair claims, and what the other thread does.
///
/// Two operations on holds that exclude each other never run at the same time on positions that both have. So the other's are beside the first's, where a lock tells them apart: there they
/// meet in what the holds share, a word or a tree.
fn other(primitive: &Primitive, (a, b): Pair) -> Option<(&'static str, &'static [Step])> {
    let excluding = (needs(a).zip(needs(b))).is_some_and(|(a, b)| a.conflicts_with(b));
    Some(match (excluding, primitive.granular) {
        (false, _) => (
            "the two at the same time exclude each other as they should, and leave nothing behind",
            smallest(b)?,
        ),
        (true, true) => (
            "the two at the same time on ranges side by side leave each other alone, and nothing behind",
            elsewhere(b)?,
        ),
        (true, false) => (
            "the two need holds that exclude each other: one comes after the other, sees what it did, and both leave nothing behind",
            smallest(b)?,
        ),
    })
}

/// Makes what is to be reclaimed, and what takes memory.
const LEAF: &[Step] = &[Take(2..3, Write), Give];

/// A model for each pair that none of `others` has.
pub fn programs(others: &[Program]) -> Vec<Program> {
    // Made once: their names are never freed.
    static ALL: OnceLock<Vec<Program>> = OnceLock::new();
    let make = || {
        let primitives = PRIMITIVES.iter().chain(PARTS);
        primitives
            .flat_map(|primitive| of(primitive, others))
            .collect()
    };
    ALL.get_or_init(make).clone()
}

fn of(primitive: &'static Primitive, others: &[Program]) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    let its = |other: &&Program| other.primitive == primitive.name && other.is_searched();
    let mut covered: BTreeSet<Pair> = others.iter().filter(its).flat_map(pairs_of).collect();
    let operations = primitive.operations();
    let in_order: Vec<_> = (ORDER.into_iter())
        .filter(|operation| operations.contains(operation))
        .collect();
    for pair in pairs(&in_order) {
        let program = (!covered.contains(&pair)).then(|| of_pair(primitive, pair));
        if let Some(program) = program.flatten() {
            covered.extend(pairs_of(&program));
            programs.push(program);
        }
    }
    programs
}

fn of_pair(primitive: &'static Primitive, (a, b): Pair) -> Option<Program> {
    let (mine, (claim, other)) = (smallest(a)?, other(primitive, (a, b))?);
    let taken = mine.iter().position(|step| !matches!(step, Take(..)));
    // If there is nothing but taking and giving back, that is what it is about.
    let changes = !matches!(mine, [Take(..), Give]);
    let (first, mine) = mine.split_at(taken.filter(|_| changes).unwrap_or(0));
    // Who grows a lock whose memory does has a model of his own: here it would make the longest searches longer.
    let grown = [a, b].contains(&Operation::Batch);
    let leaf = (grown || b == Operation::Reclaim).then_some(LEAF);
    let first: Vec<_> = leaf.into_iter().flatten().chain(first).collect();
    let threads = [mine, other];
    Some(Program {
        primitive: primitive.name,
        property: format!("pair-{a}-{b}").leak(),
        claim,
        threads: 2,
        operations: threads.iter().map(|steps| steps.len() as u32).sum(),
        performs: performs(&threads),
        faults: &[],
        expected: None,
        run: Run::Once(Arc::new(move || workers(primitive, &first, &threads))),
    })
}
