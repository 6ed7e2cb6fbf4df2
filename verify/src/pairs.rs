//! Which models have which two operations of a primitive in different threads: its table of pairs.
//!
//! A cell names the models in which one thread performs the one operation and another thread the other. Only those count that are searched,
//! to their end or to a number of preemptions: not random schedules alone. What each thread performs is derived from its steps, or stated where a model
//! is a plain function; in either case the search has to have seen it performed. What no model that was written for something else covers, [`crate::models::pairs`]
//! adds. A cell without models needs a reason in [`REASONS`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use spanlock_range_lock::Access;

use crate::models::pairs::PARTS;
use crate::primitives::{PRIMITIVES, Power, Primitive};
use crate::program::{Program, programs};

/// What a thread does with a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Operation {
    AcquireShared,
    AcquireUpgradable,
    AcquireExclusive,
    /// Takes what it can take at once.
    Try,
    /// Waits until a deadline.
    Deadline,
    /// Asks, and is granted it later.
    Poll,
    /// Gives up what it has asked for.
    Cancel,
    Release,
    Downgrade,
    TryUpgrade,
    /// Upgrades, and waits for the readers to leave.
    Upgrade,
    Shrink,
    Split,
    /// Takes several ranges in one call.
    Batch,
    TryBatch,
    /// Takes a range whose place is chosen under the lock.
    Append,
    /// Gives memory back.
    Reclaim,
    /// Begins a section.
    Enter,
    /// Ends a section; leaves a transaction.
    Leave,
    /// Recalls in a section what an earlier one found.
    Recall,
    /// Waits until all sections have ended.
    WaitForAll,
    /// A buffer of a transaction is prepared: whoever is free may write it.
    Publish,
    /// Asks whether one is needed, to write buffers.
    Admit,
    /// Takes a buffer to write.
    Claim,
    /// Has written a buffer.
    Complete,
    /// Lets the commit block be written: all other blocks are.
    Open,
    /// Takes the right to write it.
    Own,
    /// Gives that right up, with the commit block unwritten.
    LetGo,
    /// Has written it.
    Finish,
    /// Waits until it is written, or may be.
    Await,
    /// Joins a transaction, or a group of records.
    Join,
    /// Locks a transaction, and waits until all have left.
    Drain,
    /// Sleeps until something is so.
    Sleep,
    /// Wakes all who sleep for it.
    Wake,
    /// Wakes as many as are asked for.
    WakeSome,
    /// Begins an operation on a medium.
    Begin,
    /// Ends it, well or not.
    End,
    /// Waits until all that have begun have ended.
    Settle,
    /// Fails the medium, or the group, for ever.
    Fail,
    /// Waits for those who are about to come.
    Gather,
    /// Comes.
    Arrive,
    /// Whoever comes from now on is for the next time.
    Shut,
    /// Prepares a transaction for others to write.
    Prepare,
    /// Writes what is prepared, and seals it if it is the last.
    Help,
    /// Has a transaction written and sealed, by whomever.
    Commit,
    /// Waits until something is durable, and sees to it if nobody else does.
    Wait,
    /// Looks what is durable.
    Look,
    /// Gives up the first records, durably.
    Truncate,
}

impl Operation {
    /// Blocking, with this access.
    pub const fn acquire(access: Access) -> Self {
        match access {
            Access::Read => Operation::AcquireShared,
            Access::Upgradable => Operation::AcquireUpgradable,
            Access::Write => Operation::AcquireExclusive,
        }
    }

    /// Its name in tables, and in those of models.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::AcquireShared => "acquire-shared",
            Operation::AcquireUpgradable => "acquire-upgradable",
            Operation::AcquireExclusive => "acquire-exclusive",
            Operation::Try => "try",
            Operation::Deadline => "deadline",
            Operation::Poll => "poll",
            Operation::Cancel => "cancel",
            Operation::Release => "release",
            Operation::Downgrade => "downgrade",
            Operation::TryUpgrade => "try-upgrade",
            Operation::Upgrade => "upgrade",
            Operation::Shrink => "shrink",
            Operation::Split => "split",
            Operation::Batch => "batch",
            Operation::TryBatch => "try-batch",
            Operation::Append => "append",
            Operation::Reclaim => "reclaim",
            Operation::Enter => "enter",
            Operation::Leave => "leave",
            Operation::Recall => "recall",
            Operation::WaitForAll => "wait-for-all",
            Operation::Publish => "publish",
            Operation::Admit => "admit",
            Operation::Claim => "claim",
            Operation::Complete => "complete",
            Operation::Open => "open",
            Operation::Own => "own",
            Operation::LetGo => "let-go",
            Operation::Finish => "finish",
            Operation::Await => "await",
            Operation::Join => "join",
            Operation::Drain => "drain",
            Operation::Sleep => "sleep",
            Operation::Wake => "wake",
            Operation::WakeSome => "wake-some",
            Operation::Begin => "begin",
            Operation::End => "end",
            Operation::Settle => "settle",
            Operation::Fail => "fail",
            Operation::Gather => "gather",
            Operation::Arrive => "arrive",
            Operation::Shut => "shut",
            Operation::Prepare => "prepare",
            Operation::Help => "help",
            Operation::Commit => "commit",
            Operation::Wait => "wait",
            Operation::Look => "look",
            Operation::Truncate => "truncate",
        }
    }

    /// What a power adds; `granular`: of a lock whose holds can be cut.
    const fn of(power: Power, granular: bool) -> &'static [Operation] {
        match power {
            Power::wait => &[Operation::Deadline, Operation::Poll, Operation::Cancel],
            Power::downgrade => &[Operation::Downgrade],
            Power::upgrade => &[Operation::TryUpgrade],
            Power::upgrade_wait => &[Operation::Upgrade],
            Power::split if granular => &[Operation::Shrink, Operation::Split, Operation::Append],
            // Everything is one unit: there is no place to cut it.
            Power::split => &[Operation::Shrink, Operation::Append],
            Power::batch => &[Operation::Batch, Operation::TryBatch],
            Power::reclaim => &[Operation::Reclaim],
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What every lock does.
const ALWAYS: &[Operation] = &[
    Operation::AcquireShared,
    Operation::AcquireUpgradable,
    Operation::AcquireExclusive,
    Operation::Try,
    Operation::Release,
];

/// The door's sections.
const SECTIONS: &[Operation] = &[
    Operation::Enter,
    Operation::Leave,
    Operation::Recall,
    Operation::WaitForAll,
];

/// The machines of a journal's commit.
const JOURNAL: &[(&str, &[Operation])] = &[
    (
        "journal-signal",
        &[
            Operation::Deadline,
            Operation::Sleep,
            Operation::Wake,
            Operation::WakeSome,
        ],
    ),
    (
        "journal-tickets",
        &[
            Operation::Publish,
            Operation::Admit,
            Operation::Claim,
            Operation::Complete,
        ],
    ),
    (
        "journal-owner",
        &[
            Operation::Open,
            Operation::Own,
            Operation::LetGo,
            Operation::Finish,
            Operation::Await,
        ],
    ),
    (
        "journal-updates",
        &[Operation::Leave, Operation::Join, Operation::Drain],
    ),
    (
        "journal-medium",
        &[
            Operation::Begin,
            Operation::End,
            Operation::Settle,
            Operation::Fail,
        ],
    ),
    (
        "journal-submission",
        &[
            Operation::Fail,
            Operation::Prepare,
            Operation::Help,
            Operation::Commit,
            Operation::Wait,
        ],
    ),
    (
        "journal-rendezvous",
        &[Operation::Gather, Operation::Arrive, Operation::Shut],
    ),
    (
        "compact-group",
        &[
            Operation::Join,
            Operation::Fail,
            Operation::Wait,
            Operation::Look,
        ],
    ),
    (
        "compact-rendezvous",
        &[
            Operation::Join,
            Operation::Fail,
            Operation::Wait,
            Operation::Look,
        ],
    ),
    ("compact-log", &[Operation::Commit, Operation::Truncate]),
    // Main's other thread is the journal's own, which does nothing that somebody asks for: no two operations.
    ("journal", &[]),
];

/// Primitives that are a part of another and all that it has: a model of the whole is one of the part.
const WHOLES: &[(&str, &str)] = &[("rw-word", "rw-counter")];

/// Why a cell may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// Whose cell.
    pub primitive: &'static str,
    /// Which one; the order does not matter.
    pub pair: (Operation, Operation),
    /// Why no model can show anything.
    pub why: &'static str,
}

/// Cells that are empty for a reason.
#[rustfmt::skip]
pub const REASONS: &[Reason] = &[
    reason("journal-tickets", Operation::Publish, Operation::Publish, ONE_COMMITS),
    reason("journal-owner", Operation::Open, Operation::Open, "it is opened by the one thread that completes the last buffer, once: journal-tickets"),
    reason("journal-updates", Operation::Drain, Operation::Drain, ONE_COMMITS),
    reason("journal-rendezvous", Operation::Gather, Operation::Gather, ONE_COMMITS),
    reason("journal-rendezvous", Operation::Gather, Operation::Shut, ONE_COMMITS),
    reason("journal-rendezvous", Operation::Shut, Operation::Shut, ONE_COMMITS),
    reason("journal-submission", Operation::Prepare, Operation::Prepare, ONE_COMMITS),
    reason("journal-submission", Operation::Prepare, Operation::Commit, ONE_COMMITS),
    reason("journal-submission", Operation::Commit, Operation::Commit, ONE_COMMITS),
];

const ONE_COMMITS: &str = "one thread commits, the journal's, one transaction after the other";

const fn reason(primitive: &'static str, a: Operation, b: Operation, why: &'static str) -> Reason {
    Reason {
        primitive,
        pair: (a, b),
        why,
    }
}

/// Two operations, the lesser first.
pub type Pair = (Operation, Operation);

/// A primitive's pairs.
#[derive(Clone, Debug)]
pub struct Table {
    /// The primitive.
    pub primitive: &'static str,
    /// What it does, in the order of rows and columns.
    pub operations: Vec<Operation>,
    /// A cell for each two of them.
    pub cells: Vec<Cell>,
}

/// Two operations of a primitive.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Whose.
    pub primitive: &'static str,
    /// The one.
    pub first: Operation,
    /// The other, or the same.
    pub second: Operation,
    /// The models, by property; with the primitive, if it is another.
    pub models: Vec<String>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// What each primitive does.
pub fn operations() -> Vec<(&'static str, Vec<Operation>)> {
    let mut all: Vec<_> = PRIMITIVES
        .iter()
        .chain(PARTS)
        .map(|primitive| (primitive.name, primitive.operations()))
        .collect();
    for (part, whole) in WHOLES {
        let word = |operation: &Operation| {
            // A word has one lane, and no batches.
            let cuts = Operation::of(Power::split, true).contains(operation);
            !cuts && !Operation::of(Power::batch, true).contains(operation)
        };
        let of_whole = all.iter().find(|(name, _)| name == whole);
        let (_, operations) = of_whole.expect("a primitive");
        let operations = operations.iter().copied().filter(word).collect();
        all.push((part, operations));
    }
    all.push(("sections", SECTIONS.to_vec()));
    all.extend(JOURNAL.iter().map(|(name, does)| (*name, does.to_vec())));
    all
}

impl Primitive {
    /// What it does: what every lock does, and what its powers add.
    pub fn operations(&self) -> Vec<Operation> {
        let powers = self.powers.iter();
        let more = powers.flat_map(|&power| Operation::of(power, self.granular));
        let mut operations: Vec<_> = ALWAYS.iter().chain(more).copied().collect();
        operations.sort_unstable();
        operations
    }
}

/// Each two of these, each with itself too.
pub fn pairs(operations: &[Operation]) -> impl Iterator<Item = Pair> {
    let from = |(i, &first): (usize, &Operation)| {
        let rest = operations[i..].iter();
        rest.map(move |&second| (first.min(second), first.max(second)))
    };
    operations.iter().enumerate().flat_map(from)
}

/// The pairs that different threads of a program perform.
pub fn pairs_of(program: &Program) -> BTreeSet<Pair> {
    let mut pairs = BTreeSet::new();
    for (i, mine) in program.performs.iter().enumerate() {
        for others in &program.performs[i + 1..] {
            for &a in mine {
                pairs.extend(others.iter().map(|&b| (a.min(b), a.max(b))));
            }
        }
    }
    pairs
}

/// The table of each primitive.
pub fn tables() -> Vec<Table> {
    tables_of(&operations(), &programs(), REASONS)
}

/// The table of each primitive, of these programs.
pub fn tables_of(
    primitives: &[(&'static str, Vec<Operation>)],
    programs: &[Program],
    reasons: &[Reason],
) -> Vec<Table> {
    let mut models: BTreeMap<(&str, Pair), Vec<String>> = BTreeMap::new();
    for program in programs.iter().filter(|program| program.is_searched()) {
        let (primitive, property) = (program.primitive, program.property);
        let parts = WHOLES.iter().filter(|(_, whole)| *whole == primitive);
        for pair in pairs_of(program) {
            let models_of = models.entry((primitive, pair)).or_default();
            models_of.push(property.to_owned());
            for (part, _) in parts.clone() {
                let models = models.entry((part, pair)).or_default();
                models.push(format!("{primitive}/{property}"));
            }
        }
    }
    let table = |(primitive, operations): &(&'static str, Vec<Operation>)| {
        let cell = |pair: Pair| Cell {
            primitive,
            first: pair.0,
            second: pair.1,
            models: models.get(&(*primitive, pair)).cloned().unwrap_or_default(),
            reason: reasons
                .iter()
                .find(|reason| reason.is_of(primitive, pair))
                .map(|reason| reason.why),
        };
        Table {
            primitive,
            operations: operations.clone(),
            cells: pairs(operations).map(cell).collect(),
        }
    };
    primitives.iter().map(table).collect()
}

impl Reason {
    fn is_of(&self, primitive: &str, pair: Pair) -> bool {
        let (a, b) = self.pair;
        self.primitive == primitive && (a.min(b), a.max(b)) == pair
    }
}

impl Table {
    /// The cell of two of its operations, in any order.
    pub fn cell(&self, a: Operation, b: Operation) -> Option<&Cell> {
        let pair = (a.min(b), a.max(b));
        (self.cells.iter()).find(|cell| (cell.first, cell.second) == pair)
    }
}

impl Cell {
    /// What is wrong with it, and what to do; none if it names models, or has a reason not to.
    pub fn problem(&self) -> Option<String> {
        let Cell {
            primitive,
            first,
            second,
            ..
        } = self;
        match (&self.models[..], self.reason) {
            ([], None) => Some(format!(
                "EMPTY CELL: {primitive}: {first} × {second}: no model that is searched performs them in different threads.\n  \
                 Write one, or say in `smallest` of verify/src/models/pairs.rs what is the least that performs each, or in `REASONS` \
                 of verify/src/pairs.rs why none is needed."
            )),
            ([model, ..], Some(_)) => Some(format!(
                "REASON WITHOUT NEED: {primitive}: {first} × {second}: {model} performs them. Take it out of `REASONS` in verify/src/pairs.rs."
            )),
            _ => None,
        }
    }
}

/// What is wrong with all cells.
pub fn problems(tables: &[Table]) -> Vec<String> {
    let cells = tables.iter().flat_map(|table| &table.cells);
    cells.filter_map(Cell::problem).collect()
}
