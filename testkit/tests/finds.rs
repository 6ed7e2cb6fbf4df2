//! Random histories detect incorrect locks, and the failures are shrunk.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Poll, Waker};

use spanlock_interval_lock::{IntervalLock, IntervalRequest};
use spanlock_range_lock::{
    Access, NoMemory, RangeError, RawRangeLock, RawRangeLockSplit, RawRangeLockWait, Span, Token,
    TryLockError,
};
use spanlock_testkit::{Driven, Order, driven, histories};

/// The bug of the lock under test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// Every fifth try fails in a free gap.
    FailsInAGap,
    /// Some tries to read succeed without acquiring anything.
    AdmitsReaders,
    /// Some requests register a waker that does nothing.
    LosesWakes,
    /// Some cancelled requests stay in the queue.
    KeepsCancelled,
    /// Some shrinks release everything.
    ReleasesTooMuch,
}

struct Broken {
    lock: IntervalLock,
    wrong: Wrong,
    calls: AtomicU64,
}

/// The token of a hold that the inner lock does not know.
const UNCOUNTED: usize = usize::MAX;

impl Broken {
    fn sometimes(&self, wrong: Wrong) -> bool {
        self.wrong == wrong && self.calls.fetch_add(1, Relaxed) % 5 == 4
    }
}

// SAFETY: deliberately violated. The histories must detect the violation.
unsafe impl RawRangeLock for Broken {
    fn capacity(&self) -> u64 {
        self.lock.capacity()
    }

    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        self.lock.lock(span, access)
    }

    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        if self.sometimes(Wrong::FailsInAGap) {
            return Err(TryLockError::WouldBlock);
        }
        if access == Access::Read && self.sometimes(Wrong::AdmitsReaders) {
            return Ok(Token::new(UNCOUNTED));
        }
        self.lock.try_lock(span, access)
    }

    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        if token.into_word() != UNCOUNTED {
            // SAFETY: the caller guarantees the same requirements.
            unsafe { self.lock.unlock(span, access, token) }
        }
    }
}

// SAFETY: as above.
unsafe impl RawRangeLockWait for Broken {
    type Request = IntervalRequest;

    unsafe fn poll_lock(
        &self,
        span: Span,
        access: Access,
        request: Pin<&mut IntervalRequest>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        let lost = self.sometimes(Wrong::LosesWakes);
        let waker = if lost { Waker::noop() } else { waker };
        // SAFETY: the caller guarantees the same requirements.
        unsafe { self.lock.poll_lock(span, access, request, waker) }
    }

    unsafe fn cancel(&self, span: Span, access: Access, request: Pin<&mut IntervalRequest>) {
        if !self.sometimes(Wrong::KeepsCancelled) {
            // SAFETY: the caller guarantees the same requirements.
            unsafe { self.lock.cancel(span, access, request) }
        }
    }
}

// SAFETY: as above.
unsafe impl RawRangeLockSplit for Broken {
    unsafe fn shrink(&self, span: Span, access: Access, token: &mut Token, keep: Span) {
        if token.into_word() == UNCOUNTED {
            return;
        }
        if self.sometimes(Wrong::ReleasesTooMuch) {
            // SAFETY: the caller guarantees the same requirements.
            unsafe { self.lock.unlock(span, access, *token) };
            *token = Token::new(UNCOUNTED);
            return;
        }
        // SAFETY: the caller guarantees the same requirements.
        unsafe { self.lock.shrink(span, access, token, keep) }
    }

    unsafe fn split(
        &self,
        span: Span,
        access: Access,
        token: &mut Token,
        at: u64,
        above: &mut Token,
    ) -> Result<(), NoMemory> {
        if token.into_word() == UNCOUNTED {
            *above = *token;
            return Ok(());
        }
        // SAFETY: the caller guarantees the same requirements.
        unsafe { self.lock.split(span, access, token, at, above) }
    }
}

fn broken(wrong: Wrong) -> Driven {
    let (lock, calls) = (IntervalLock::with_shards(1, 1), AtomicU64::new(0));
    driven!(Broken { lock, wrong, calls }; wait)
}

fn broken_with_split(wrong: Wrong) -> Driven {
    let (lock, calls) = (IntervalLock::with_shards(1, 1), AtomicU64::new(0));
    driven!(Broken { lock, wrong, calls }; split)
}

/// Runs a test that must fail, and returns its failure message.
fn told(test: impl FnOnce()) -> String {
    let failed = catch_unwind(AssertUnwindSafe(test)).expect_err("the test found no bug");
    *failed.downcast::<String>().expect("a failure message")
}

/// Returns the number of operations in the smallest history.
fn operations(told: &str) -> usize {
    let list = told.split("minimal failing input:").nth(1).expect(told);
    [
        "Try", "Lock", "Odd", "Unlock", "Ask", "Poll", "Cancel", "Within", "Shrink", "Split",
    ]
    .map(|op| list.matches(&format!("{op}(")).count())
    .iter()
    .sum()
}

#[test]
fn nothing_is_found_in_a_correct_lock() {
    histories::of_one_thread(|| broken(Wrong::Nothing), Order::Arrival);
}

#[test]
fn one_thread_finds_each_bug_and_shrinks_it_to_few_operations() {
    type Make = fn(Wrong) -> Driven;
    // Each bug, its lock, and the maximum length of the shrunk history.
    let cases: [(Wrong, Make, usize); 5] = [
        (Wrong::FailsInAGap, broken, 24),
        (Wrong::AdmitsReaders, broken, 24),
        (Wrong::LosesWakes, broken, 24),
        (Wrong::KeepsCancelled, broken, 24),
        // Proptest removes operations first and simplifies the rest afterwards. The simplified
        // history fails earlier, and the operations after the failure remain.
        (Wrong::ReleasesTooMuch, broken_with_split, 64),
    ];
    for (wrong, make, most) in cases {
        for order in [Order::Arrival, Order::Bounded] {
            let told = told(|| histories::of_one_thread(|| make(wrong), order));
            // The bug occurs on every fifth call, so even the smallest history has several
            // operations.
            let operations = operations(&told);
            assert!(
                (1..=most).contains(&operations),
                "{wrong:?} {order:?}: {told}"
            );
            assert!(told.contains(histories::SEED), "{told}");
        }
    }
}

#[test]
fn real_threads_find_bugs() {
    for wrong in [Wrong::AdmitsReaders, Wrong::ReleasesTooMuch] {
        let told = told(|| histories::of_real_threads(|| broken_with_split(wrong)));
        assert!(told.contains("real threads"), "{wrong:?}: {told}");
    }
}
