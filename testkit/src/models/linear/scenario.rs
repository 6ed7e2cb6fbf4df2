//! The operations of a scenario's threads, and the generation of all threads up to a given length.
//!
//! A **place** is a range of one or two positions. An operation either acquires a place or acts on
//! the place that its thread acquired last. If that acquisition failed, the operation does nothing.
//! At its end, a thread releases its remaining holds, the last one first.

use std::fmt;
use std::str::FromStr;

use spanlock_range_lock::Access::{self, Read, Upgradable, Write};

use crate::models::Primitive;

/// How an operation acquires a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// Blocks until the place is acquired.
    Lock,
    /// Acquires the place at once or not at all.
    Try,
    /// Begins a request, polls it once, and cancels it if the poll did not grant it.
    Brief,
}

/// One of two positions, or both. Only the two single positions are disjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// `0..1`
    Low,
    /// `1..2`
    High,
    /// `0..2`
    Both,
}

impl Place {
    /// Every place.
    pub const ALL: [Place; 3] = [Place::Low, Place::High, Place::Both];

    /// Returns the range of the place.
    pub const fn range(self) -> core::ops::Range<u64> {
        match self {
            Place::Low => 0..1,
            Place::High => 1..2,
            Place::Both => 0..2,
        }
    }
}

/// An operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Acquires a place.
    Take(Way, Access, Place),
    /// Releases the last hold.
    Release,
    /// Downgrades the last hold to a shared one.
    Downgrade,
    /// Upgrades the last hold to an exclusive one, if that is possible at once.
    TryUpgrade,
    /// Blocks until the last hold is upgraded to an exclusive one.
    Upgrade,
    /// Shrinks the last hold to this place.
    Shrink(Place),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Take(way, access, place) => {
                let way = match way {
                    Way::Lock => "",
                    Way::Try => "try-",
                    Way::Brief => "brief-",
                };
                let access = match access {
                    Read => "read",
                    Upgradable => "upgradable",
                    Write => "write",
                };
                write!(f, "{way}{access}({:?})", place.range())
            }
            Op::Release => f.write_str("release"),
            Op::Downgrade => f.write_str("downgrade"),
            Op::TryUpgrade => f.write_str("try-upgrade"),
            Op::Upgrade => f.write_str("upgrade"),
            Op::Shrink(keep) => write!(f, "shrink({:?})", keep.range()),
        }
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = all_ops().into_iter().find(|op| op.to_string() == word);
        found.ok_or_else(|| format!("`{word}` is not an operation"))
    }
}

/// Returns every operation.
fn all_ops() -> Vec<Op> {
    let mut ops = vec![Op::Release, Op::Downgrade, Op::TryUpgrade, Op::Upgrade];
    for place in Place::ALL {
        ops.push(Op::Shrink(place));
        for access in [Read, Upgradable, Write] {
            let ways = [Way::Lock, Way::Try, Way::Brief];
            ops.extend(ways.map(|way| Op::Take(way, access, place)));
        }
    }
    ops
}

/// The operations that the threads of a scenario may perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// Few enough operations to search every scenario: shared and exclusive locks and tries of two
    /// overlapping places, releases, and downgrades.
    Core,
    /// Every operation that the lock has.
    All,
}

impl Alphabet {
    /// Returns the operations of this alphabet that `primitive` has.
    pub fn ops(self, primitive: &Primitive) -> Vec<Op> {
        let places: &[Place] = match primitive.granular {
            false => &[Place::Low],
            true => &Place::ALL,
        };
        let is_core = |op: &Op| match *op {
            _ if self == Alphabet::All => true,
            Op::Release | Op::Downgrade => true,
            Op::Take(Way::Lock, Write, place) | Op::Take(Way::Try, Read, place) => {
                place == Place::Both || !primitive.granular
            }
            Op::Take(Way::Lock, Read, place) | Op::Take(Way::Try, Write, place) => {
                place == Place::High || !primitive.granular
            }
            _ => false,
        };
        let has = primitive.capabilities;
        let is_there = |op: &Op| match *op {
            Op::Take(_, _, place) if !places.contains(&place) => false,
            Op::Take(Way::Brief, ..) => has.wait,
            Op::Take(..) | Op::Release => true,
            Op::Downgrade => has.downgrade,
            Op::TryUpgrade => has.upgrade,
            Op::Upgrade => has.upgrade_wait,
            Op::Shrink(keep) => has.split && primitive.granular && keep != Place::Both,
        };
        let mut ops = all_ops();
        ops.retain(|op| is_core(op) && is_there(op));
        ops
    }
}

/// The operations of one thread, in order.
pub type Thread = Vec<Op>;

/// Returns whether a thread is well-formed: scenarios of such threads never deadlock, and each of
/// the thread's operations has an effect in some execution.
///
/// A thread may block for a place only if it cannot hold anything, and for an upgrade only if it
/// cannot have another hold. So a waiting thread holds nothing, unless it upgrades. An upgrading
/// thread waits only for threads with shared holds, and those threads do not wait.
pub fn is_well_formed(thread: &[Op]) -> bool {
    // The possible accesses and the place of each hold that the thread may have.
    let mut holds: Vec<(Vec<Access>, Place)> = Vec::new();
    for op in thread {
        let alone = holds.len() == 1;
        match (*op, holds.last_mut()) {
            (Op::Take(Way::Lock, ..), Some(_)) => return false,
            (Op::Take(_, access, place), _) => holds.push((vec![access], place)),
            (_, None) => return false,
            (Op::Release, _) => _ = holds.pop(),
            (Op::Downgrade, Some((accesses, _))) => {
                if **accesses == [Read] {
                    return false;
                }
                *accesses = vec![Read];
            }
            (Op::TryUpgrade, Some((accesses, _))) => {
                if accesses.contains(&Write) {
                    return false;
                }
                accesses.push(Write);
            }
            (Op::Upgrade, Some((accesses, _))) => {
                if accesses[0] != Upgradable || !alone {
                    return false;
                }
                *accesses = vec![Write];
            }
            (Op::Shrink(keep), Some((_, place))) => {
                if *place != Place::Both || keep == Place::Both {
                    return false;
                }
                *place = keep;
            }
        }
    }
    true
}

/// Returns every well-formed thread of at most `most` operations, the shorter ones first. No thread
/// ends in a release, because every thread releases its holds at its end.
pub fn threads(ops: &[Op], most: usize) -> Vec<Thread> {
    let mut of_length = vec![Thread::new()];
    let mut all = of_length.clone();
    for _ in 0..most {
        let longer = of_length
            .iter()
            .flat_map(|thread| ops.iter().map(|&op| [&**thread, &[op]].concat()));
        of_length = longer.filter(|thread| is_well_formed(thread)).collect();
        all.extend(of_length.iter().cloned());
    }
    all.retain(|thread| thread.last() != Some(&Op::Release));
    all
}
