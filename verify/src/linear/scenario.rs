//! What threads may do in a scenario, and all scenarios up to a size.
//!
//! An operation takes a place, or is about the last place that its thread took: if that try failed, it does nothing. What a thread still holds at its end
//! it gives back, the last first.

use std::fmt;
use std::str::FromStr;

use spanlock_range_lock::Access::{self, Read, Upgradable, Write};

use super::history::THREADS;
use crate::primitives::{Power, Primitive};

/// How a place is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// Waits until it is held.
    Lock,
    /// Takes it at once or not at all.
    Try,
    /// Begins a request, polls it once, and gives it up if it was not granted.
    Brief,
}

/// Two positions, and both: of each two places one overlaps the other, but for the first two.
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

    /// Its range.
    pub const fn range(self) -> core::ops::Range<u64> {
        match self {
            Place::Low => 0..1,
            Place::High => 1..2,
            Place::Both => 0..2,
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Asks for a place.
    Take(Way, Access, Place),
    /// Gives the last place back.
    Release,
    /// Makes the last hold a shared one.
    Downgrade,
    /// Makes the last hold an exclusive one, if that is possible at once.
    TryUpgrade,
    /// Waits until the last hold is an exclusive one.
    Upgrade,
    /// Keeps of the last hold no more than that.
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

/// Every operation there is.
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

/// Which operations there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// So few that all scenarios can be searched: of two places that overlap locks and tries, to read and to write; releases and downgrades.
    Core,
    /// All that the lock has.
    All,
}

impl Alphabet {
    /// Its operations, of those that `primitive` has.
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
        let has = |power| primitive.powers.contains(&power);
        let is_there = |op: &Op| match *op {
            Op::Take(_, _, place) if !places.contains(&place) => false,
            Op::Take(Way::Brief, ..) => has(Power::wait),
            Op::Take(..) | Op::Release => true,
            Op::Downgrade => has(Power::downgrade),
            Op::TryUpgrade => has(Power::upgrade),
            Op::Upgrade => has(Power::upgrade_wait),
            Op::Shrink(keep) => has(Power::split) && primitive.granular && keep != Place::Both,
        };
        let mut ops = all_ops();
        ops.retain(|op| is_core(op) && is_there(op));
        ops
    }
}

/// What one thread does, one operation after the other.
pub type Thread = Vec<Op>;

/// Whether no thread of a scenario can wait for another in a circle, and no operation is in vain whatever happens.
///
/// A thread blocks for a place only while it can hold nothing, and for an upgrade only while it can hold nothing else. So nobody waits for one who waits, but for
/// an upgrade, and that waits for readers, who do not wait.
pub fn is_well_formed(thread: &[Op]) -> bool {
    // What may be held: the accesses that are possible, and where.
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

/// Every well-formed thread of at most so many operations, the shorter ones first. None ends in a release: that comes anyway.
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

/// What each thread does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scenario(pub Vec<Thread>);

impl Scenario {
    /// Whether a lock can run it.
    ///
    /// # Errors
    /// What it has too many of, or what the lock cannot do.
    pub fn check(&self, primitive: &Primitive) -> Result<(), String> {
        if self.0.len() > THREADS {
            return Err(format!("{} threads, of {THREADS} at most", self.0.len()));
        }
        let ops = Alphabet::All.ops(primitive);
        match self.0.iter().flatten().find(|op| !ops.contains(op)) {
            Some(op) => Err(format!("{} cannot do `{op}`", primitive.name)),
            None => Ok(()),
        }
    }

    /// Those that are a step smaller and still well-formed: without a thread, or without an operation or two.
    pub fn smaller(&self) -> Vec<Scenario> {
        let mut smaller = Vec::new();
        for (i, thread) in self.0.iter().enumerate() {
            let with = |instead: Option<Thread>| {
                let mut threads = self.0.clone();
                threads.splice(i..=i, instead);
                Scenario(threads)
            };
            if self.0.len() > 1 {
                smaller.push(with(None));
            }
            // One operation, or two: what takes a place can often go only with its release.
            let ends = (0..thread.len()).flat_map(|at| (0..=at).map(move |first| (first, at)));
            for (first, second) in ends {
                let kept = thread.iter().enumerate();
                let kept = kept.filter(|&(at, _)| at != first && at != second);
                let less: Thread = kept.map(|(_, &op)| op).collect();
                if is_well_formed(&less) {
                    smaller.push(with(Some(less)));
                }
            }
        }
        smaller
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, thread) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { " | " } else { "" })?;
            let ops: Vec<_> = thread.iter().map(Op::to_string).collect();
            f.write_str(&ops.join(" "))?;
        }
        Ok(())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ops = all_ops();
        let op = |word: &str| {
            let found = ops.iter().find(|op| op.to_string() == word).copied();
            found.ok_or_else(|| format!("`{word}` is no operation"))
        };
        let thread = |text: &str| -> Result<Thread, String> {
            let thread: Thread = text.split_whitespace().map(op).collect::<Result<_, _>>()?;
            match is_well_formed(&thread) {
                true => Ok(thread),
                false => Err(format!(
                    "`{text}`: a thread that can wait for what it holds, or does something in vain"
                )),
            }
        };
        text.split('|')
            .map(thread)
            .collect::<Result<_, _>>()
            .map(Scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::PRIMITIVES;

    #[test]
    fn what_is_printed_is_what_is_read() {
        let array = PRIMITIVES.iter().find(|lock| lock.name == "interval-tree");
        let array = array.expect("a lock of this name");
        for alphabet in [Alphabet::Core, Alphabet::All] {
            let threads = threads(&alphabet.ops(array), 2);
            for thread in &threads {
                let scenario = Scenario(vec![thread.clone(), threads[1].clone()]);
                assert_eq!(scenario.to_string().parse(), Ok(scenario));
            }
        }
        let wrong = "write(0..1) read(1..2)".parse::<Scenario>();
        assert!(wrong.is_err_and(|why| why.contains("wait for what it holds")));
        let wrong = "wrote(0..1)".parse::<Scenario>();
        assert_eq!(wrong, Err("`wrote(0..1)` is no operation".to_owned()));
    }

    #[test]
    fn who_may_hold_something_waits_for_nothing() {
        let well = |text: &str| text.parse::<Scenario>().is_ok();
        assert!(well("write(0..1) release read(1..2)"));
        assert!(well(
            "write(0..1) try-read(1..2) release release read(1..2)"
        ));
        assert!(well("upgradable(0..1) upgrade downgrade"));
        assert!(!well("write(0..1) try-read(1..2) release read(1..2)"));
        assert!(!well("try-write(0..1) read(1..2)"));
        assert!(!well("read(0..1) try-upgradable(0..1) upgrade"));
    }

    #[test]
    fn every_thread_there_is() {
        let ops = [
            Op::Take(Way::Lock, Write, Place::Low),
            Op::Take(Way::Try, Write, Place::Low),
            Op::Release,
        ];
        let all: Vec<String> = threads(&ops, 2)
            .into_iter()
            .map(|thread| Scenario(vec![thread]).to_string())
            .collect();
        let expected = [
            "",
            "write(0..1)",
            "try-write(0..1)",
            "write(0..1) try-write(0..1)",
            "try-write(0..1) try-write(0..1)",
        ];
        assert_eq!(all, expected);
    }
}
