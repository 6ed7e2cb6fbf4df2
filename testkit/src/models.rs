//! The properties that the checkers verify for every range lock. Each is written once and runs for
//! every lock.
//!
//! A [`Primitive`] describes a lock, and [`range_lock`] creates a suite of programs for it. A
//! **program** is a small concurrent test that a checker runs under many or all schedules. The
//! [crate documentation](crate#models) has an example.
//!
//! - [`lock`]: properties that need no optional capability.
//! - [`capabilities`]: properties of optional capabilities, such as changing a hold, polling a
//!   request, or locking several ranges in one call.
//! - [`pairs`]: a program for each pair of operations that no other program performs in two
//!   different threads.
//! - [`history`]: random programs.
//! - [`linear`]: linearizability of generated scenarios.
//! - [`unwinding`]: what a lock guarantees when a waker panics, or the sleep of a waiting thread.
//! - [`words`]: properties of single state words, from which locks are built.
//! - [`promela`]: a check that a Promela model names only functions that still exist.

pub mod capabilities;
pub mod data;
pub mod history;
pub mod linear;
pub mod lock;
pub mod pairs;
pub mod promela;
mod steps;
pub mod unwinding;
pub mod words;

use std::sync::Arc;

use spanlock_range_lock::Access;
use spanlock_verify::{Program, Suite};

use crate::Driven;

/// The optional capabilities of a lock. The fields have the same names as in [`Driven`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Capabilities {
    pub wait: bool,
    pub downgrade: bool,
    pub upgrade: bool,
    pub upgrade_wait: bool,
    pub split: bool,
    pub batch: bool,
    /// Whether the lock frees unused memory on request.
    pub reclaim: bool,
}

/// A description of the lock to model, which [`primitive!`](crate::primitive!) creates.
#[derive(Clone)]
pub struct Primitive {
    name: &'static str,
    granular: bool,
    pieces: bool,
    readers: usize,
    overtakes: Option<u32>,
    capabilities: Capabilities,
    make: fn() -> Driven,
    unwinding: Option<fn() -> Driven>,
    unexplored: &'static [&'static str],
    schedules_of_scenarios: Option<u64>,
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
            unwinding: None,
            unexplored: &[],
            schedules_of_scenarios: None,
        }
    }

    /// Declares that disjoint ranges never block each other: each position is a unit of its own. By
    /// default, all positions together are one unit.
    pub fn granular(mut self) -> Self {
        self.granular = true;
        self
    }

    /// Declares that the lock acquires and releases a range piece by piece. Even a request that
    /// holds only some of its pieces blocks tries, and a release frees one unit at a time.
    pub fn pieces(mut self) -> Self {
        self.pieces = true;
        self
    }

    /// Sets the maximum number of readers that hold a position at once under a checker. By default,
    /// there is no maximum.
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets how many later arrivals may overtake a waiter. By default, no program checks
    /// overtaking.
    pub fn overtakes(mut self, overtakes: u32) -> Self {
        self.overtakes = Some(overtakes);
        self
    }

    /// Adds the programs in which a waiting thread unwinds. `make` creates a lock like that of
    /// [`new`](Self::new), but with [`Sleepless`](unwinding::Sleepless) as its way to wait.
    pub fn unwinding(mut self, make: fn() -> Driven) -> Self {
        self.unwinding = Some(make);
        self
    }

    /// Names the programs that the explorer does not search, because that would take minutes.
    pub fn unexplored(mut self, properties: &'static [&'static str]) -> Self {
        self.unexplored = properties;
        self
    }

    /// Declares that searching every linearizability scenario of the full run would take too long.
    /// Each of these scenarios runs under this many random schedules instead.
    pub fn schedules_of_scenarios(mut self, schedules: u64) -> Self {
        self.schedules_of_scenarios = Some(schedules);
        self
    }

    /// Returns the operations that every lock has and those that this lock's capabilities add.
    pub fn operations(&self) -> Vec<&'static str> {
        let it = self.capabilities;
        let operations = OPERATIONS.iter().copied();
        let is_there = |operation: &&str| match *operation {
            "deadline" | "poll" | "cancel" => it.wait,
            "downgrade" => it.downgrade,
            "try-upgrade" => it.upgrade,
            "upgrade" => it.upgrade_wait,
            "shrink" | "append" => it.split,
            // A lock with a single unit has no position at which to split a hold.
            "split" => it.split && self.granular,
            "batch" | "try-batch" => it.batch,
            "reclaim" => it.reclaim,
            _ => true,
        };
        operations.filter(is_there).collect()
    }
}

/// Creates a [`Primitive`] from a name, an expression that creates the lock, and a list of
/// capabilities as for [`driven!`](crate::driven!). If the lock frees memory on request, the
/// function that does so follows after `; reclaim:`.
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

/// The operations of range locks. A pair's name gives its two operations in this order.
const OPERATIONS: [&str; 17] = [
    "acquire-shared",
    "acquire-upgradable",
    "acquire-exclusive",
    // Acquires a range if it is free.
    "try",
    // Waits for a range until a deadline.
    "deadline",
    // Polls a request until it is granted.
    "poll",
    // Cancels a request.
    "cancel",
    "release",
    "downgrade",
    "try-upgrade",
    // Upgrades a hold after waiting for the readers to release.
    "upgrade",
    "shrink",
    "split",
    // Acquires several ranges in one call.
    "batch",
    "try-batch",
    // Acquires a range that starts at the current end of a file.
    "append",
    // Frees memory.
    "reclaim",
];

/// Returns the name of the operation that blocks until it has acquired a range with `access`.
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
    programs.extend(unwinding::programs(&primitive));
    programs.extend(own);
    programs.push(history::program(&primitive));
    programs.extend(linear::programs(&primitive));
    let programs = programs.into_iter().map(|program| {
        match primitive.unexplored.contains(&&*program.info().name) {
            true => program.unexplored("its search has not ended in a minute"),
            false => program,
        }
    });
    let suite = Suite::new(primitive.name).programs(programs);
    with_pairs(&primitive, suite)
}

/// Adds the operations of a primitive to a suite, and a program for each pair of them that the
/// suite's programs do not cover.
pub fn with_pairs(primitive: &Arc<Primitive>, suite: Suite) -> Suite {
    let missing = pairs::programs(primitive, suite.programs_so_far());
    suite.operations(primitive.operations()).programs(missing)
}
