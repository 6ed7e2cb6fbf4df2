//! Generated scenarios detect incorrect locks. Each failing scenario is reduced to a small one that
//! still fails.

#![cfg(any(spanlock_explorer, spanlock_shuttle))]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spanlock_range_lock::{
    Access, RangeError, RawRangeLock, RawRangeLockDowngrade, Span, Token, TryLockError,
};
use spanlock_srl::SrlArray;
use spanlock_sync::atomic::{AtomicU32, Ordering::SeqCst};
use spanlock_testkit::models::Primitive;
use spanlock_testkit::models::linear::RangeLock;
use spanlock_testkit::models::linear::scenario::{Alphabet, Op};
use spanlock_testkit::primitive;
use spanlock_verify::oracles::linearizability::Scenario;
use spanlock_verify::oracles::linearizability::run::{self, Subject};

/// Waits until no other test runs, because a checker keeps its state in statics.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bug of the lock under test.
#[derive(Clone, Copy, PartialEq)]
enum Bug {
    /// A writer acquires only the first position of its range.
    AcquiresTooLittle,
    /// Two concurrent tries both fail.
    FailsBoth,
    /// A downgrade releases the range and acquires it again.
    ReleasesToDowngrade,
    /// A reader's release leaves a trace that makes later tries fail.
    LeavesATrace,
    /// A writer's release does nothing.
    LosesReleases,
}

struct Wrong {
    lock: SrlArray,
    bug: Bug,
    tries: AtomicU32,
    has_read: AtomicU32,
}

impl Wrong {
    fn new(bug: Bug) -> Self {
        Wrong {
            lock: SrlArray::with_segment_size(4, 1).expect("1 is a power of two"),
            bug,
            tries: AtomicU32::new(0),
            has_read: AtomicU32::new(0),
        }
    }

    /// Returns the part of a span that the lock acquires.
    fn taken(&self, span: Span, access: Access) -> Span {
        let end = match self.bug {
            Bug::AcquiresTooLittle if access == Access::Write => span.start() + 1,
            _ => span.end(),
        };
        let taken = Span::new(span.start()..end).ok().flatten();
        taken.expect("not empty")
    }
}

// SAFETY: deliberately violated. The tests access no data under this lock.
unsafe impl RawRangeLock for Wrong {
    fn capacity(&self) -> u64 {
        self.lock.capacity()
    }

    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        self.lock.lock(self.taken(span, access), access)
    }

    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let span = self.taken(span, access);
        match self.bug {
            Bug::FailsBoth => {
                let others = self.tries.fetch_add(1, SeqCst);
                let tried = match others {
                    0 => self.lock.try_lock(span, access),
                    _ => Err(TryLockError::WouldBlock),
                };
                let alone = self.tries.fetch_sub(1, SeqCst) == 1;
                match tried {
                    Ok(token) if !alone => {
                        // SAFETY: acquired just now.
                        unsafe { self.lock.unlock(span, access, token) };
                        Err(TryLockError::WouldBlock)
                    }
                    tried => tried,
                }
            }
            Bug::LeavesATrace if self.has_read.load(SeqCst) > 0 => Err(TryLockError::WouldBlock),
            _ => self.lock.try_lock(span, access),
        }
    }

    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        if self.bug == Bug::LeavesATrace && access == Access::Read {
            self.has_read.store(1, SeqCst);
        }
        if self.bug != Bug::LosesReleases || access != Access::Write {
            // SAFETY: the caller guarantees the same requirements.
            unsafe { self.lock.unlock(self.taken(span, access), access, token) };
        }
    }
}

// SAFETY: as above.
unsafe impl RawRangeLockDowngrade for Wrong {
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, token: &mut Token) {
        // SAFETY: the caller guarantees the same requirements.
        unsafe { self.lock.unlock(span, from, *token) };
        *token = self.lock.lock(span, to).expect("in range");
    }
}

/// Returns the test subject for a lock that should behave like `SrlArray`.
fn subject(lock: Primitive) -> Subject<RangeLock> {
    of(lock.granular().pieces().readers(3))
}

fn of(lock: Primitive) -> Subject<RangeLock> {
    Subject {
        model: Arc::new(RangeLock::new(Arc::new(lock), Alphabet::Core)),
        schedules: 1_000,
        steps: 10_000,
    }
}

/// Runs all scenarios of two threads with at most two operations each. Returns the first failing
/// scenario, reduced, and how it fails.
fn found(lock: Primitive) -> (String, String) {
    let subject = subject(lock);
    told(run::all(&subject, Scenario::of_two(&*subject.model, 2)))
}

/// Runs a scenario that must fail. Returns the reduced scenario, and how it fails.
fn found_in(subject: &Subject<RangeLock>, scenario: &str) -> (String, String) {
    told(all(subject, scenario))
}

fn all(subject: &Subject<RangeLock>, scenario: &str) -> Result<(u64, u64), (Scenario<Op>, String)> {
    let scenario = Scenario::parse(&*subject.model, scenario).expect("a scenario");
    run::all(subject, std::iter::once(scenario))
}

fn told(result: Result<(u64, u64), (Scenario<Op>, String)>) -> (String, String) {
    let (scenario, why) = result.expect_err("the lock is wrong");
    println!("{scenario}\n{why}");
    (scenario.to_string(), why)
}

#[test]
fn finds_a_writer_that_acquires_too_little() {
    let _alone = alone();
    let lock = primitive!("lock", Wrong::new(Bug::AcquiresTooLittle); downgrade);
    let (scenario, why) = found(lock);
    assert!(scenario.contains("write(0..2)"), "{scenario}");
    assert!(why.contains("a conflicting hold blocks it"), "{why}");
}

#[test]
fn finds_tries_that_fail_only_because_of_each_other() {
    let _alone = alone();
    let lock = primitive!("lock", Wrong::new(Bug::FailsBoth); downgrade);
    // Only a lock that acquires ranges piece by piece may let both tries fail.
    let subject = of(lock.granular().readers(3));
    let large = "write(0..1) release try-write(0..1) | try-write(0..1)";
    let (scenario, why) = found_in(&subject, large);
    assert_eq!(scenario, "try-write(0..1) | try-write(0..1)");
    assert!(
        why.contains("be busy: nothing that could make it fail"),
        "{why}"
    );
}

#[test]
fn finds_a_try_that_fails_because_of_a_released_hold() {
    let _alone = alone();
    let (scenario, why) = found(primitive!("lock", Wrong::new(Bug::LeavesATrace); downgrade));
    // The try at the end of each execution fails.
    assert_eq!(scenario, "read(1..2)");
    let busy = "try-write(0..2) be busy: nothing that could make it fail";
    assert!(why.contains(busy), "{why}");
}

#[test]
fn finds_a_lost_release() {
    let _alone = alone();
    let lock = primitive!("lock", Wrong::new(Bug::LosesReleases); downgrade);
    let (scenario, _) = found(lock.clone());
    assert_eq!(scenario, "try-write(1..2)");
    let (_, why) = found_in(&subject(lock), "write(0..1) | read(0..1)");
    assert!(why.contains("busy"), "{why}");
}

#[test]
fn finds_and_reduces_a_downgrade_that_lets_a_writer_in() {
    let _alone = alone();
    let large =
        "try-read(1..2) release write(0..2) downgrade | try-write(0..1) release write(1..2)";
    let lock = primitive!("lock", Wrong::new(Bug::ReleasesToDowngrade); downgrade);
    let subject = subject(lock);
    let (scenario, why) = found_in(&subject, large);
    assert!(scenario.len() < large.len() / 2 + 4, "{scenario}");
    assert!(scenario.contains("downgrade"), "{scenario}");
    assert!(why.contains("no explanation"), "{why}");
    // The reduced scenario, run again, fails in the same way.
    assert_eq!(found_in(&subject, &scenario).1, why);
}

#[test]
fn explains_a_correct_lock() {
    let _alone = alone();
    let lock = primitive!(
        "lock", SrlArray::with_segment_size(4, 1).expect("1 is a power of two");
        downgrade
    );
    let scenario = "write(0..2) downgrade | try-write(0..1) try-read(1..2)";
    let explained = all(&subject(lock), scenario);
    let (scenarios, histories) = explained.expect("the lock is correct");
    assert!(scenarios == 1 && histories > 1, "{scenarios} {histories}");
}
