//! The properties that the checkers verify for every range lock, written once for all of them.
//!
//! A [`Primitive`] describes a lock, and [`range_lock`] makes a suite for it: the [crate
//! documentation](crate#models) has an example.
//!
//! - [`lock`]: properties of each lock, whatever its capabilities.
//! - [`capabilities`]: changes of a hold, requests that wait without a thread, several ranges at
//!   once.
//! - [`pairs`]: a program for each pair of operations that no other program performs in different
//!   threads.
//! - [`history`]: random programs.
//! - [`linear`]: linearizability of generated scenarios.
//! - [`words`]: the state words that locks are made of.
//! - [`promela`]: whether a Promela model still mirrors the code.

pub mod capabilities;
pub mod data;
pub mod history;
pub mod linear;
pub mod lock;
pub mod pairs;
pub mod promela;
mod steps;
pub mod words;

use std::sync::Arc;

use spanlock_range_lock::Access;
use spanlock_verify::{Mode, Program, Suite};

use crate::Driven;

/// The capabilities of a lock besides acquiring and releasing. The fields have the names of those
/// of [`Driven`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Capabilities {
    pub wait: bool,
    pub downgrade: bool,
    pub upgrade: bool,
    pub upgrade_wait: bool,
    pub split: bool,
    pub batch: bool,
    /// Whether it frees memory on request.
    pub reclaim: bool,
}

/// A lock to model. [`primitive!`](crate::primitive!) makes one.
#[derive(Clone)]
pub struct Primitive {
    name: &'static str,
    granular: bool,
    pieces: bool,
    readers: usize,
    overtakes: Option<u32>,
    capabilities: Capabilities,
    make: fn() -> Driven,
    bounds: Vec<StatedBound>,
    schedules_of_scenarios: Option<u64>,
}

/// A bound on preemptions of one program in one mode, and its reason.
#[derive(Clone, Copy)]
struct StatedBound {
    property: &'static str,
    mode: Mode,
    preemptions: u64,
    reason: &'static str,
}

impl Primitive {
    /// Creates the description of a lock. `make` creates a fresh lock that has these capabilities
    /// and covers at least positions `0..4`.
    pub const fn new(name: &'static str, capabilities: Capabilities, make: fn() -> Driven) -> Self {
        Primitive {
            name,
            granular: false,
            pieces: false,
            readers: usize::MAX,
            overtakes: None,
            capabilities,
            make,
            bounds: Vec::new(),
            schedules_of_scenarios: None,
        }
    }

    /// Declares that disjoint ranges never block each other: the lock's units are single positions.
    /// Otherwise all positions are one unit.
    pub fn granular(mut self) -> Self {
        self.granular = true;
        self
    }

    /// Declares that the lock acquires a range piece by piece. Then a request that holds only some
    /// of its pieces blocks tries, and a release takes effect one unit at a time.
    pub fn pieces(mut self) -> Self {
        self.pieces = true;
        self
    }

    /// Sets how many readers have room at a position under a checker. Unless set, any number has
    /// room.
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets how many later arrivals may overtake a waiter. Unless set, overtaking is not modelled.
    pub fn overtakes(mut self, overtakes: u32) -> Self {
        self.overtakes = Some(overtakes);
        self
    }

    /// Bounds the search of one program in one mode to a number of preemptions, because of
    /// `reason`.
    pub fn bounded_in(
        mut self,
        property: &'static str,
        mode: Mode,
        preemptions: u64,
        reason: &'static str,
    ) -> Self {
        self.bounds.push(StatedBound {
            property,
            mode,
            preemptions,
            reason,
        });
        self
    }

    /// Declares that the full run has too many scenarios to search. Each runs under this many
    /// random schedules instead.
    pub fn schedules_of_scenarios(mut self, schedules: u64) -> Self {
        self.schedules_of_scenarios = Some(schedules);
        self
    }

    /// Returns the operations of the lock: those of every lock, and those that its capabilities
    /// add.
    pub fn operations(&self) -> Vec<&'static str> {
        let it = self.capabilities;
        let operations = OPERATIONS.iter().copied();
        let is_there = |operation: &&str| match *operation {
            "deadline" | "poll" | "cancel" => it.wait,
            "downgrade" => it.downgrade,
            "try-upgrade" => it.upgrade,
            "upgrade" => it.upgrade_wait,
            "shrink" | "append" => it.split,
            // A lock of one unit cannot be cut anywhere.
            "split" => it.split && self.granular,
            "batch" | "try-batch" => it.batch,
            "reclaim" => it.reclaim,
            _ => true,
        };
        operations.filter(is_there).collect()
    }

    /// Returns `program` with the bounds that are stated for it.
    fn bounded(&self, program: Program) -> Program {
        let name = program.info().name.clone();
        let bounds = self.bounds.iter().filter(|it| it.property == name);
        bounds.fold(program, |program, it| {
            program.bounded_in(it.mode, it.preemptions, it.reason)
        })
    }
}

/// Creates a [`Primitive`]: its name, how to make the lock, and its capabilities, as for
/// [`driven!`](crate::driven!); then `reclaim:` and the function that frees memory, if there is
/// one.
#[macro_export]
macro_rules! primitive {
    ($name:literal, $lock:expr; $($capability:ident),* $(; $reclaim:ident: $free:path)?) => {
        $crate::models::Primitive::new(
            $name,
            // A lock with every capability needs no default.
            #[allow(clippy::needless_update)]
            $crate::models::Capabilities {
                $($capability: true,)*
                $($reclaim: true,)?
                ..::core::default::Default::default()
            },
            || {
                let lock = ::std::sync::Arc::new($lock);
                #[allow(unused_mut)]
                let mut driven = $crate::driven!(lock.clone(); $($capability),*);
                $(driven.$reclaim =
                    ::core::option::Option::Some(::std::sync::Arc::new(move || $free(&lock)));)?
                driven
            },
        )
    };
}

/// The operations of range locks. The name of a pair lists its two operations in this order.
const OPERATIONS: [&str; 17] = [
    "acquire-shared",
    "acquire-upgradable",
    "acquire-exclusive",
    // Acquires what is free at once.
    "try",
    // Waits until a deadline.
    "deadline",
    // Begins a request, and is granted it later.
    "poll",
    // Abandons a request.
    "cancel",
    "release",
    "downgrade",
    "try-upgrade",
    // Upgrades, and waits for the readers to leave.
    "upgrade",
    "shrink",
    "split",
    // Acquires several ranges in one call.
    "batch",
    "try-batch",
    // Acquires a range whose place is chosen under the lock.
    "append",
    // Frees memory.
    "reclaim",
];

/// Returns the name of a blocking acquisition.
pub fn acquire(access: Access) -> &'static str {
    match access {
        Access::Read => "acquire-shared",
        Access::Upgradable => "acquire-upgradable",
        Access::Write => "acquire-exclusive",
    }
}

/// Returns the suite of a range lock: the programs that every lock has, and `own`, the programs
/// that only this one has.
pub fn range_lock(primitive: Primitive, own: impl IntoIterator<Item = Program>) -> Suite {
    let primitive = Arc::new(primitive);
    let mut programs = lock::programs(&primitive);
    programs.extend(capabilities::programs(&primitive));
    programs.extend(own);
    programs.push(history::program(&primitive));
    programs.extend(linear::programs(&primitive));
    let programs = programs.into_iter().map(|it| primitive.bounded(it));
    let suite = Suite::new(primitive.name).programs(programs);
    with_pairs(&primitive, suite)
}

/// Adds the operations of a primitive to a suite, and a program for each pair of them that the
/// suite's programs do not cover.
pub fn with_pairs(primitive: &Arc<Primitive>, suite: Suite) -> Suite {
    let missing = pairs::programs(primitive, suite.programs_so_far());
    suite.operations(primitive.operations()).programs(missing)
}
