//! Random histories of one thread against the plainest lock there is: a list of holds.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use spanlock::{Access, RangeError, RawRangeLock, TryLockError};

use super::{Held, Kind};

const CASES: u32 = 512;
const STEPS: usize = 256;

/// Positions are in quarters of units, up to this one: past the capacity of a lock that is made for 15 units.
const POSITIONS: u64 = 64;

#[derive(Clone, Debug)]
enum Step {
    /// Tries for a range, which may be empty, reversed, or past the capacity.
    Try(u64, u64, Access),
    /// Gives one of the holds back.
    Release(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let access = prop_oneof![
        Just(Access::Read),
        Just(Access::Upgradable),
        Just(Access::Write)
    ];
    prop_oneof![
        // Short ones, so that many fit beside each other.
        4 => (0..POSITIONS, 0..6_u64, access.clone())
            .prop_map(|(start, len, access)| Step::Try(start, start + len, access)),
        1 => (0..=POSITIONS, 0..=POSITIONS, access)
            .prop_map(|(start, end, access)| Step::Try(start, end, access)),
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
    ]
}

/// What the contract says to a try.
fn expected<L: RawRangeLock>(
    kind: &Kind<L>,
    capacity: u64,
    holds: &[(Range<u64>, Access)],
    range: &Range<u64>,
    access: Access,
) -> Result<(), TryLockError> {
    let Range { start, end } = *range;
    if start > end {
        return Err(RangeError::Reversed { start, end }.into());
    }
    if start < end && end > capacity {
        return Err(RangeError::PastCapacity {
            start,
            end,
            capacity,
        }
        .into());
    }
    let in_the_way =
        |(held, how): &(Range<u64>, Access)| kind.conflict((held, *how), (range, access));
    if holds.iter().any(in_the_way) {
        return Err(TryLockError::WouldBlock);
    }
    Ok(())
}

fn replay<L: RawRangeLock>(kind: &Kind<L>, steps: &[Step]) -> Result<(), TestCaseError> {
    let lock = (kind.make)(kind.units(0..15).end);
    let quarter = (kind.unit() / 4).max(1);
    let mut holds: Vec<(Range<u64>, Access)> = Vec::new();
    let mut guards = Vec::new();
    for step in steps {
        match step {
            Step::Try(start, end, access) => {
                let range = start * quarter..end * quarter;
                let expected = expected(kind, lock.capacity(), &holds, &range, *access);
                let tried = Held::try_take(&lock, range.clone(), *access);
                prop_assert_eq!(tried.as_ref().map(drop), expected.as_ref().map(drop));
                if let Ok(guard) = tried {
                    let held = guard.range();
                    prop_assert!(held == range || range.is_empty() && held.is_empty());
                    holds.push((range, *access));
                    guards.push(guard);
                }
            }
            Step::Release(which) if !guards.is_empty() => {
                let which = which.index(guards.len());
                drop(guards.swap_remove(which));
                holds.swap_remove(which);
            }
            Step::Release(_) => {}
        }
    }
    drop(guards);
    let all = 0..kind.units(0..15).end;
    prop_assert!(Held::try_take(&lock, all, Access::Write).is_ok());
    Ok(())
}

pub(crate) fn random_tries_agree_with_a_list_of_holds<L: RawRangeLock>(kind: &Kind<L>) {
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&vec(step(), STEPS), |steps| replay(kind, &steps));
    if let Err(error) = result {
        panic!("{error}");
    }
}
