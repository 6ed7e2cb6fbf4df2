//! A call that would hang panics instead and names the source locations; other calls succeed.
//!
//! ```text
//! cargo test -p spanlock-range-lock --features deadlock-detection --test deadlock_detection
//! ```

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::task::{Poll, Waker};
use std::thread;

use spanlock_range_lock::{
    Access, LockId, NoMemory, OwnedWriteHold, RangeError, RangeLock, RangeLockExt, RawRangeLock,
    RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
    RawRangeLockUpgradeWait, RwCounter, Span, Token, TryLockError,
};

#[path = "deadlock_detection/copies.rs"]
mod copies;
#[path = "deadlock_detection/readers.rs"]
mod readers;

/// A list of holds, with every capability, and an identity.
struct List {
    id: LockId,
    /// How many readers may hold a position at the same time.
    readers: u32,
    holds: Mutex<Vec<(Span, Access)>>,
    released: Condvar,
    /// How many threads wait.
    waiting: AtomicUsize,
}

impl Default for List {
    fn default() -> Self {
        List::with_readers(u32::MAX)
    }
}

impl List {
    fn with_readers(readers: u32) -> Self {
        List {
            id: LockId::new(),
            readers,
            holds: Mutex::default(),
            released: Condvar::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    fn take(&self, batch: &[(Span, Access)], wait: bool) -> bool {
        self.take_as(batch, wait, false)
    }

    /// A batch does not wait for a place among the readers, as in `spanlock-srl`.
    fn take_as(&self, batch: &[(Span, Access)], wait: bool, is_batch: bool) -> bool {
        let mut holds = self.holds.lock().unwrap();
        let blocked = |holds: &Vec<(Span, Access)>| {
            let conflict = |(s, a): &(Span, Access), (t, b): &(Span, Access)| {
                s.overlaps(*t) && a.conflicts_with(*b)
            };
            let is_full = |(span, access): &(Span, Access)| {
                let readers = |at| holds.iter().filter(move |it| it.0.range().contains(&at));
                let full = |at| readers(at).count() >= self.readers as usize;
                *access != Access::Write && span.range().any(full)
            };
            let is_limited = self.readers < u32::MAX && !is_batch;
            (batch.iter()).any(|one| holds.iter().any(|other| conflict(one, other)))
                || is_limited && batch.iter().any(is_full)
        };
        while blocked(&holds) {
            if !wait {
                return false;
            }
            self.waiting.fetch_add(1, Relaxed);
            holds = self.released.wait(holds).unwrap();
            self.waiting.fetch_sub(1, Relaxed);
        }
        holds.extend(batch);
        true
    }

    fn replace(&self, old: (Span, Access), new: &[(Span, Access)]) {
        let mut holds = self.holds.lock().unwrap();
        let at = holds.iter().position(|hold| *hold == old).unwrap();
        holds.swap_remove(at);
        holds.extend(new);
        self.released.notify_all();
    }
}

// SAFETY: no two entries of the list conflict, and a mutex orders them.
unsafe impl RawRangeLock for List {
    fn capacity(&self) -> u64 {
        u64::MAX
    }
    fn id(&self) -> Option<&LockId> {
        Some(&self.id)
    }
    fn reader_limit(&self, _: Span, _: Option<Token>) -> u32 {
        self.readers
    }
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        self.take(&[(span, access)], true);
        Ok(Token::NONE)
    }
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let taken = self.take(&[(span, access)], false);
        taken.then_some(Token::NONE).ok_or(TryLockError::WouldBlock)
    }
    unsafe fn unlock(&self, span: Span, access: Access, _: Token) {
        self.replace((span, access), &[]);
    }
}

// SAFETY: an entry is replaced while the mutex is held.
unsafe impl RawRangeLockDowngrade for List {
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, _: &mut Token) {
        self.replace((span, from), &[(span, to)]);
    }
}

// SAFETY: as above. Only used without other holders.
unsafe impl RawRangeLockUpgrade for List {
    unsafe fn try_upgrade(&self, span: Span, from: Access, token: Token) -> Result<Token, Token> {
        self.replace((span, from), &[(span, Access::Write)]);
        Ok(token)
    }
}

// SAFETY: as above.
unsafe impl RawRangeLockUpgradeWait for List {
    unsafe fn upgrade(&self, span: Span, token: Token) -> Token {
        self.replace((span, Access::Upgradable), &[(span, Access::Write)]);
        token
    }
    unsafe fn poll_upgrade(
        &self,
        span: Span,
        token: Token,
        _: &mut bool,
        _: &Waker,
    ) -> Poll<Token> {
        // SAFETY: the caller's promise.
        Poll::Ready(unsafe { self.upgrade(span, token) })
    }
    unsafe fn cancel_upgrade(&self, _: Span, _: Token) {
        unreachable!("no upgrade waits");
    }
}

// SAFETY: as above.
unsafe impl RawRangeLockSplit for List {
    unsafe fn shrink(&self, span: Span, access: Access, _: &mut Token, keep: Span) {
        self.replace((span, access), &[(keep, access)]);
    }
    unsafe fn split(
        &self,
        span: Span,
        access: Access,
        _: &mut Token,
        at: u64,
        _: &mut Token,
    ) -> Result<(), NoMemory> {
        let part = |range| (Span::new(range).unwrap().unwrap(), access);
        self.replace(
            (span, access),
            &[part(span.start()..at), part(at..span.end())],
        );
        Ok(())
    }
}

// SAFETY: all entries are added while the mutex is held.
unsafe impl RawRangeLockBatch for List {
    unsafe fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), RangeError> {
        self.take_as(batch, true, true);
        tokens.fill(Token::NONE);
        Ok(())
    }
    unsafe fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), TryLockError> {
        tokens.fill(Token::NONE);
        let taken = self.take_as(batch, false, true);
        taken.then_some(()).ok_or(TryLockError::WouldBlock)
    }
}

/// Returns the message of the panic that `f` ends with. Asserts that it names `sites`.
#[track_caller]
fn panics<R>(f: impl FnOnce() -> R, sites: &[&str]) -> String {
    let panic = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("the call did not panic"),
        Err(panic) => panic,
    };
    let message = panic.downcast::<String>().expect("a message");
    for site in sites {
        assert!(message.contains(site), "{message} does not name {site}");
    }
    *message
}

/// Returns the source location `lines` below the call.
#[track_caller]
fn below(lines: u32) -> String {
    let here = Location::caller();
    format!("{}:{}:", here.file(), here.line() + lines)
}

/// CASES 3, OpenZFS: a thread that reads a file requests a write, and waits for itself.
#[test]
fn a_reader_that_requests_a_write_panics() {
    let lock = List::default();
    let first = below(1);
    let reader = lock.read(0..100).unwrap();
    let second = below(1);
    let message = panics(|| lock.write(50..51), &[&first, &second]);
    assert!(message.starts_with("deadlock: 50..51 (Write)"), "{message}");
    assert!(message.contains("0..100 (Read)"), "{message}");
    // A writer of a part that grows, and then requests the whole file.
    drop(reader);
    let writer = lock.write(0..10).unwrap();
    panics(|| lock.write(0..u64::MAX), &[]);
    panics(|| lock.read(9..10), &[]);
    panics(|| lock.upgradable_read(9..10), &[]);
    panics(
        || lock.lock_all([(50..60, Access::Write), (9..10, Access::Read)]),
        &[],
    );
    panics(|| lock.append(5, || 3), &[]);
    // None of the failed calls took anything.
    drop(lock.write(10..u64::MAX).unwrap());
    drop(writer);
    drop(lock.write(0..u64::MAX).unwrap());
}

#[test]
fn requests_that_cannot_deadlock_succeed() {
    let lock = List::default();
    let reader = lock.read(0..10).unwrap();
    let again = lock.read(5..15).unwrap();
    let upgradable = lock.upgradable_read(0..5).unwrap();
    let writer = lock.write(15..20).unwrap();
    let empty = lock.write(3..3).unwrap();
    // Tries cannot hang: they fail, as without detection.
    assert!(lock.try_write(0..1).is_err());
    assert!(lock.try_lock_all([(16..17, Access::Read)]).is_err());
    drop((reader, again, upgradable, writer, empty));
    // A conflicting hold of another thread is waited for.
    let hold = lock.write(0..10).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| drop(lock.write(5..15).unwrap()));
        thread::yield_now();
        drop(hold);
        other.join().unwrap();
    });
}

/// A lock that rounds conflicts with itself even where ranges do not overlap.
#[test]
fn ranges_are_rounded_to_the_granularity() {
    let lock = RwCounter::new();
    let first = below(1);
    let reader = lock.read(0..1).unwrap();
    panics(|| lock.write(1000..1001), &[&first]);
    drop(reader);
    drop(lock.write(1000..1001).unwrap());
}

#[test]
fn opposite_orders_of_two_locks_panic() {
    let (one, two) = (List::default(), List::default());
    let held = below(1);
    let a = one.read(0..10).unwrap();
    let taken = below(1);
    let b = two.write(0..10).unwrap();
    drop((a, b));
    // Other ranges, other accesses, and no other thread: the order alone counts.
    let b = two.read(50..60).unwrap();
    let opposite = below(1);
    let message = panics(|| one.write(70..80), &[&held, &taken, &opposite]);
    assert!(message.contains("opposite orders"), "{message}");
    // It panics every time: an order that panicked is not recorded.
    panics(|| one.read(70..80), &[&held]);
    // A try may take the locks in the opposite order, and its hold is recorded.
    let a = one.try_write(70..80).unwrap();
    drop((a, b));
    // The original order stays valid.
    let a = one.write(0..10).unwrap();
    drop(two.write(0..10).unwrap());
    drop(a);
}

#[test]
fn a_cycle_of_four_locks_in_four_threads_panics() {
    let locks: [List; 4] = std::array::from_fn(|_| List::default());
    let pair = |i: usize| {
        let first = locks[i].read(0..1).unwrap();
        let second = locks[(i + 1) % 4].read(0..1).unwrap();
        drop((first, second));
    };
    for i in 0..3 {
        thread::scope(|scope| scope.spawn(|| pair(i)).join().unwrap());
    }
    let message = panics(|| pair(3), &[]);
    assert_eq!(message.matches("held since").count(), 4, "{message}");
    // Every order except the one that closes the cycle is still allowed.
    pair(0);
    drop((locks[0].read(0..1).unwrap(), locks[3].read(0..1).unwrap()));
}

/// A new lock does not inherit the orders of a dropped one, even at the same address.
#[test]
fn a_dropped_lock_leaves_no_order_behind() {
    let one = List::default();
    let mut two = List::default();
    for _ in 0..10 {
        let a = one.write(0..1).unwrap();
        drop(two.write(0..1).unwrap());
        drop(a);
        two = List::default();
        let b = two.write(0..1).unwrap();
        drop(one.write(0..1).unwrap());
        // Nor does a forgotten hold leave anything behind.
        std::mem::forget(b);
        two = List::default();
        drop(two.write(0..1).unwrap());
    }
    // Nor does an order lead through a dropped lock.
    let (first, last) = (List::default(), List::default());
    let middle = List::default();
    let a = first.read(0..1).unwrap();
    let b = middle.read(0..1).unwrap();
    drop(a);
    let c = last.read(0..1).unwrap();
    drop((b, c));
    drop(middle);
    let c = last.read(0..1).unwrap();
    drop(first.read(0..1).unwrap());
    drop(c);
}

#[test]
fn guards_may_be_dropped_by_another_thread() {
    let lock = Arc::new(List::default());
    for _ in 0..50 {
        let hold = OwnedWriteHold::lock(lock.clone(), 0..10).unwrap();
        thread::spawn(move || drop(hold)).join().unwrap();
        // This thread holds nothing any more.
        drop(lock.write(0..10).unwrap());
    }
    let other = List::default();
    let hold = OwnedWriteHold::lock(lock.clone(), 0..10).unwrap();
    thread::spawn(move || drop(hold)).join().unwrap();
    drop(other.write(0..1).unwrap());
    // So no order was recorded.
    let hold = other.write(0..1).unwrap();
    drop(lock.write(0..10).unwrap());
    drop(hold);
}

/// After a change, a hold is checked with its new range and access.
#[test]
fn a_changed_hold_is_checked_as_changed() {
    let lock = List::default();
    let hold = lock.write(0..10).unwrap().downgrade();
    drop(lock.read(0..10).unwrap());
    panics(|| lock.write(0..1), &[]);
    drop(hold);
    let taken = below(1);
    let mut hold = lock.write(0..30).unwrap();
    hold.shrink(10..30).unwrap();
    drop(lock.write(0..10).unwrap());
    let above = hold.split_off(20).unwrap();
    drop(hold);
    drop(lock.write(0..20).unwrap());
    panics(|| lock.write(20..21), &[&taken]);
    drop(above);
    drop(lock.write(0..30).unwrap());
    let mut hold = lock.write(0..30).unwrap();
    hold.shrink(3..3).unwrap();
    drop(lock.write(0..30).unwrap());
    drop(hold);
    // An upgrade does not conflict with its own hold, but with another read of the same thread.
    let hold = lock.upgradable_read(0..10).unwrap().upgrade();
    panics(|| lock.read(0..1), &[]);
    drop(hold);
    let read = below(1);
    let reader = lock.read(5..6).unwrap();
    let hold = lock.upgradable_read(0..10).unwrap();
    let upgrade = below(1);
    panics(|| hold.upgrade(), &[&read, &upgrade]);
    drop(reader);
    drop(lock.write(0..10).unwrap());
}

#[test]
fn batches_and_elements_are_checked() {
    let lock = List::default();
    let parts = [(0..5, Access::Write), (8..9, Access::Read)];
    let first = below(1);
    let batch = lock.lock_all(parts).unwrap();
    panics(|| lock.read(4..8), &[&first]);
    drop(lock.write(5..8).unwrap());
    panics(|| lock.write(8..9), &[&first]);
    drop(batch);
    drop(lock.write(0..9).unwrap());
    let array = RangeLock::with_lock(vec![1, 2, 3], lock).unwrap();
    let first = below(1);
    let guard = array.read(0..2).unwrap();
    let second = below(1);
    panics(|| array.write(1..3).is_ok(), &[&first, &second]);
    drop(guard);
    // A second `Arc` is not another lock.
    let shared = Arc::new(List::default());
    let other = shared.clone();
    let hold = shared.read(0..1).unwrap();
    panics(|| other.write(0..1).is_ok(), &[]);
    let erased: Arc<dyn RawRangeLock> = other;
    panics(|| erased.write(0..1).is_ok(), &[]);
    drop(hold);
}

/// Waits until a batch of these ranges is recorded: then a request for the second range, by a
/// thread that holds the first, closes a cycle.
fn behind_a_waiting_batch<L: RawRangeLock>(
    lock: &L,
    wait: impl Fn(&L) + Sync,
    then: impl Fn(&L) -> bool,
) {
    let first = lock.write(5..6).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(lock));
        while !waiter.is_finished() {
            let again = AssertUnwindSafe(|| then(lock));
            match catch_unwind(again) {
                // The other thread does not wait yet.
                Ok(true) => thread::yield_now(),
                Ok(false) => unreachable!("the request is granted or panics"),
                Err(panic) => {
                    let message = panic.downcast::<String>().expect("a message");
                    assert!(message.contains("wait for each other"), "{message}");
                    assert_eq!(message.matches("requested at").count(), 3, "{message}");
                    break;
                }
            }
        }
        drop(first);
        waiter.join().unwrap();
    });
    drop(lock.write(0..u64::MAX).unwrap());
}

/// A thread that holds one range and requests another waits behind a request for both, although
/// nobody holds the other range. Which of the two is lower does not matter, nor whether both are
/// requested as a batch or as one range.
#[test]
fn a_second_range_behind_a_request_for_both_panics() {
    let grants = |lock: &List, range| lock.write(range).is_ok();
    let both = [(5..6, Access::Write), (100..101, Access::Read)];
    behind_a_waiting_batch(
        &List::default(),
        |lock| drop(lock.lock_all(both.clone()).unwrap()),
        |lock| grants(lock, 100..101),
    );
    behind_a_waiting_batch(
        &List::default(),
        |lock| drop(lock.write(0..200).unwrap()),
        |lock| grants(lock, 100..101),
    );
    behind_a_waiting_batch(
        &List::default(),
        |lock| drop(lock.write(0..200).unwrap()),
        |lock| grants(lock, 1..2),
    );
}

/// Two threads take two ranges of one lock in opposite orders, and meet. The second one to request
/// panics, and the first one is granted.
#[test]
fn opposite_orders_of_two_ranges_panic_when_threads_meet() {
    let (lock, meet) = (List::default(), Barrier::new(2));
    let pair = |first: Range<u64>, second: Range<u64>| {
        let first = lock.write(first).unwrap();
        meet.wait();
        let result = catch_unwind(AssertUnwindSafe(|| drop(lock.write(second).unwrap())));
        drop(first);
        result.map_err(|panic| *panic.downcast::<String>().expect("a message"))
    };
    let results = thread::scope(|scope| {
        let other = scope.spawn(|| pair(10..11, 0..1));
        [pair(0..1, 10..11), other.join().unwrap()]
    });
    let messages = Vec::from_iter(results.into_iter().filter_map(Result::err));
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("wait for each other"), "{messages:?}");
    assert_eq!(messages[0].matches("held at").count(), 2, "{messages:?}");
    drop(lock.write(0..u64::MAX).unwrap());
}
