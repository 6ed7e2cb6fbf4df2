//! Locks that are wrong in one way each, and what becomes of them: the smallest scenario in which callers see it, and how that is told.

#![cfg(spanlock_shuttle)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use spanlock_range_lock::{
    Access, RangeError, RawRangeLock, RawRangeLockDowngrade, Span, Token, TryLockError,
};
use spanlock_srl::SrlArray;
use spanlock_sync::atomic::{AtomicU32, Ordering::SeqCst};
use spanlock_testkit::{Driven, driven};
use spanlock_verify::linear::run::{self, Subject};
use spanlock_verify::linear::scenario::{Alphabet, Scenario};
use spanlock_verify::linear::spec::Rules;
use spanlock_verify::models::linear::Scenarios;
use spanlock_verify::primitives::PRIMITIVES;

/// A checker has one world in a process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a lock is wrong.
#[derive(Clone, Copy, PartialEq)]
enum Defect {
    /// A writer takes the first position, and no more.
    NoEnd,
    /// Two tries at once both fail.
    Timid,
    /// A downgrade gives back, and takes again.
    Gap,
    /// Who tries finds a reader's hold although it is given back.
    Trace,
    /// A writer's release is lost.
    Lost,
}

struct Wrong {
    lock: SrlArray,
    defect: Defect,
    tries: AtomicU32,
    has_read: AtomicU32,
}

impl Wrong {
    fn new(defect: Defect) -> Self {
        Wrong {
            lock: SrlArray::with_segment_size(4, 1).expect("1 is a power of two"),
            defect,
            tries: AtomicU32::new(0),
            has_read: AtomicU32::new(0),
        }
    }

    /// What it takes of a span.
    fn taken(&self, span: Span, access: Access) -> Span {
        let end = match self.defect {
            Defect::NoEnd if access == Access::Write => span.start() + 1,
            _ => span.end(),
        };
        let taken = Span::new(span.start()..end).ok().flatten();
        taken.expect("not empty")
    }
}

// SAFETY: it is not one; nothing is accessed under it.
unsafe impl RawRangeLock for Wrong {
    fn capacity(&self) -> u64 {
        self.lock.capacity()
    }

    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        self.lock.lock(self.taken(span, access), access)
    }

    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let span = self.taken(span, access);
        match self.defect {
            Defect::Timid => {
                let others = self.tries.fetch_add(1, SeqCst);
                let tried = match others {
                    0 => self.lock.try_lock(span, access),
                    _ => Err(TryLockError::WouldBlock),
                };
                let alone = self.tries.fetch_sub(1, SeqCst) == 1;
                match tried {
                    Ok(token) if !alone => {
                        // SAFETY: taken just now.
                        unsafe { self.lock.unlock(span, access, token) };
                        Err(TryLockError::WouldBlock)
                    }
                    tried => tried,
                }
            }
            Defect::Trace if self.has_read.load(SeqCst) > 0 => Err(TryLockError::WouldBlock),
            _ => self.lock.try_lock(span, access),
        }
    }

    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        if self.defect == Defect::Trace && access == Access::Read {
            self.has_read.store(1, SeqCst);
        }
        if self.defect != Defect::Lost || access != Access::Write {
            // SAFETY: the caller's promise.
            unsafe { self.lock.unlock(self.taken(span, access), access, token) };
        }
    }
}

// SAFETY: as above.
unsafe impl RawRangeLockDowngrade for Wrong {
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, token: Token) -> Token {
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock(span, from, token) };
        self.lock.lock(span, to).expect("in range")
    }
}

/// The rules of `SrlArray`, and the lock that breaks them.
fn subject(make: fn() -> Driven) -> Subject {
    let rules = Rules {
        granular: true,
        pieces: true,
        readers: 3,
    };
    Subject {
        make,
        rules,
        schedules: None,
        steps: 10_000,
    }
}

/// What is told of the first scenario of two threads and two operations each that fails, made small.
fn caught(make: fn() -> Driven) -> (String, String) {
    let primitive = PRIMITIVES.iter().find(|lock| lock.name == "srl-array");
    let scenarios = Scenarios {
        primitive: primitive.expect("a lock of this name"),
        alphabet: Alphabet::Core,
        threads: 2,
        operations: 2,
    };
    told(run::all(subject(make), scenarios.of_two(2)))
}

fn told<T: std::fmt::Debug>(result: Result<T, (Scenario, String)>) -> (String, String) {
    let (scenario, why) = result.expect_err("a lock that is wrong");
    println!("{scenario}\n{why}");
    (scenario.to_string(), why)
}

#[test]
fn a_writer_who_takes_too_little_is_caught() {
    let _alone = alone();
    let (scenario, why) = caught(|| driven!(Wrong::new(Defect::NoEnd);));
    assert!(scenario.contains("write(0..2)"), "{scenario}");
    assert!(
        why.contains("something that is held is in its way"),
        "{why}"
    );
}

#[test]
fn tries_that_fail_for_each_other_alone_are_caught() {
    let _alone = alone();
    let mut atomic = subject(|| driven!(Wrong::new(Defect::Timid);));
    atomic.rules.pieces = false;
    for schedules in [None, Some(1_000)] {
        atomic.schedules = schedules;
        let scenario = "write(0..1) release try-write(0..1) | try-write(0..1)".parse::<Scenario>();
        let (scenario, why) = told(run::all(atomic, scenario.into_iter()));
        assert_eq!(scenario, "try-write(0..1) | try-write(0..1)");
        assert!(why.contains("be busy: nothing that counts"), "{why}");
    }
}

#[test]
fn a_try_that_fails_for_one_who_has_gone_is_caught() {
    let _alone = alone();
    let (scenario, why) = caught(|| driven!(Wrong::new(Defect::Trace);));
    // What main tries at the end, by itself.
    assert_eq!(scenario, "read(1..2)");
    assert!(
        why.contains("try-write(0..2) be busy: nothing that counts"),
        "{why}"
    );
}

#[test]
fn a_release_that_is_lost_is_caught() {
    let _alone = alone();
    let (scenario, _) = caught(|| driven!(Wrong::new(Defect::Lost);));
    assert_eq!(scenario, "try-write(1..2)");
    let waits = "write(0..1) | read(0..1)".parse().expect("a scenario");
    let (_, why) = told(run::all(
        subject(|| driven!(Wrong::new(Defect::Lost);)),
        [waits].into_iter(),
    ));
    assert!(why.contains("busy"), "{why}");
}

#[test]
fn a_downgrade_that_lets_a_writer_in_is_caught_and_made_small() {
    let _alone = alone();
    let large =
        "try-read(1..2) release write(0..2) downgrade | try-write(0..1) release write(1..2)";
    let scenario = large.parse().expect("a scenario");
    let make = || driven!(Wrong::new(Defect::Gap); downgrade);
    let (scenario, why) = told(run::all(subject(make), std::iter::once(scenario)));
    assert!(scenario.len() < large.len() / 2 + 4, "{scenario}");
    assert!(
        scenario.contains("downgrade") && why.contains("no explanation"),
        "{why}"
    );
    // What is told to be run again fails in the same way.
    let again = scenario.parse().expect("as it was printed");
    assert_eq!(told(run::all(subject(make), std::iter::once(again))).1, why);
}

#[test]
fn the_lock_that_is_right_is_not() {
    let _alone = alone();
    let scenario = "write(0..2) downgrade | try-write(0..1) try-read(1..2)".parse::<Scenario>();
    let make =
        || driven!(SrlArray::with_segment_size(4, 1).expect("1 is a power of two"); downgrade);
    let explained = run::all(subject(make), scenario.into_iter());
    let explained = explained.expect("it is right");
    assert!(
        explained.scenarios == 1 && explained.histories > 1,
        "{explained:?}"
    );
}
