//! A waker panics when it is woken. The operation that wakes it panics too, but leaves no lock
//! stuck.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use spanlock_range_lock::{
    Access, LockFuture, OwnedReadHold, OwnedWriteHold, RangeLockExt, RawRangeLockWait, Shared,
};
use spanlock_srl::{Shape, SrlArray, SrlTree};
use spanlock_sync::Park;

/// A waker that panics, as an executor's waker may once the executor's queue is gone.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(f()))).is_err()
}

/// Returns a waiting read request with a waker that panics.
fn waiting<L: RawRangeLockWait>(lock: &L, range: Range<u64>) -> Pin<Box<LockFuture<&L, Shared>>> {
    let mut future = Box::pin(lock.read_async(range));
    assert!(poll(&mut future, &Waker::from(Arc::new(Panics))).is_pending());
    future
}

/// Returns a lock in which a request for two segments is already wide, so it goes through the gate.
fn gate() -> SrlArray {
    let lock = SrlArray::with_segment_size(64, 1).unwrap();
    lock.wide_above(1)
}

/// A request with an entry in the gate takes its words and releases the entry. That wakes the next
/// request, whose waker panics. Dropping the first request does not release its entry again.
#[test]
fn an_entry_is_released_once_despite_the_panic() {
    let lock = gate();
    // A disjoint hold, for the whole test.
    let elsewhere = lock.write(8..16).unwrap();
    let wide = lock.write(0..4).unwrap();
    let mut first = Box::pin(lock.write_async(0..1));
    assert!(poll(&mut first, Waker::noop()).is_pending());
    let second = waiting(&lock, 0..1);
    drop(wide);
    assert!(panics(|| poll(&mut first, Waker::noop()).is_ready()));
    drop((first, second));
    // This request's entry reuses the place of the first request's entry.
    let again = lock.write(0..2).unwrap();
    assert!(lock.try_write(8..16).is_err(), "two exclusive holds");
    drop((again, elsewhere));
    assert!(lock.try_write(0..16).is_ok(), "a hold was left behind");
}

/// Does the same, but polls the request again after the panic.
#[test]
fn a_request_is_granted_after_the_panic() {
    let lock = gate();
    let wide = lock.write(0..4).unwrap();
    let mut first = Box::pin(lock.write_async(0..1));
    assert!(poll(&mut first, Waker::noop()).is_pending());
    let second = waiting(&lock, 0..1);
    drop(wide);
    assert!(panics(|| poll(&mut first, Waker::noop()).is_ready()));
    let Poll::Ready(Ok(hold)) = poll(&mut first, Waker::noop()) else {
        panic!("it has its words");
    };
    assert!(lock.try_read(0..1).is_err());
    drop((hold, first, second));
    assert!(lock.try_write(0..16).is_ok());
}

/// A request with an entry is cancelled while it waits for a word. It releases its first word, and
/// the waker of a waiter for that word panics. Even so, it releases its entry, and the waiter for
/// the entry is granted.
#[test]
fn cancelling_a_request_with_an_entry_releases_both() {
    let lock = SrlArray::with_segment_size(64, 1).unwrap().wide_above(2);
    let wide = lock.write(0..4).unwrap();
    let mut first = Box::pin(lock.write_async(0..2));
    assert!(poll(&mut first, Waker::noop()).is_pending());
    drop(wide);
    let held = lock.write(1..2).unwrap();
    // The request has its entry and segment 0, and waits for segment 1.
    assert!(poll(&mut first, Waker::noop()).is_pending());
    let of_word = waiting(&lock, 0..1);
    let mut of_entry = Box::pin(lock.write_async(0..4));
    assert!(poll(&mut of_entry, Waker::noop()).is_pending());
    assert!(panics(|| drop(first)));
    drop((of_word, held));
    assert!(poll(&mut of_entry, Waker::noop()).is_ready());
}

/// A failed batch releases everything that it took. That includes a range for which another request
/// still waits, because its waker panicked when it was woken.
#[test]
fn a_failed_batch_releases_everything() {
    let lock = gate();
    let busy = lock.write(20..21).unwrap();
    let held = lock.write(0..1).unwrap();
    let waiter = waiting(&lock, 0..1);
    assert!(panics(|| drop(held)));
    // The batch overtakes the waiter, which was woken and is not woken again.
    let batch = [0..1, 2..3, 4..5, 20..21].map(|range| (range, Access::Read));
    assert!(lock.try_lock_all(batch).is_err());
    drop((waiter, busy));
    assert!(lock.try_write(0..64).is_ok(), "a hold was left behind");
}

thread_local! {
    /// The steps to run while this thread sleeps: one step each time it sleeps.
    static SCRIPT: RefCell<VecDeque<Box<dyn FnOnce()>>> = const { RefCell::new(VecDeque::new()) };
}

/// Sleeps by running the next step of the script.
struct Scripted;

impl Park for Scripted {
    fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
        f(&Scripted)
    }

    fn waker(&self) -> &Waker {
        Waker::noop()
    }

    fn park(&self) {
        let step = SCRIPT.with(|script| script.borrow_mut().pop_front());
        step.expect("the thread sleeps more often than the script expects")();
    }

    fn try_park(&self) -> bool {
        false
    }
}

/// A request, once a step of the script has made it.
type Waiter<L> = Arc<Mutex<Option<Pin<Box<LockFuture<Arc<L>, Shared>>>>>>;

/// Adds a step to the script: a request for `range`, with a panicking waker, starts to wait, then
/// `held` is released.
fn when_asleep<L: RawRangeLockWait + 'static>(
    lock: &Arc<L>,
    held: OwnedWriteHold<L>,
    range: Range<u64>,
) -> Waiter<L> {
    let (lock, waiter) = (lock.clone(), Arc::new(Mutex::new(None)));
    let kept = waiter.clone();
    let step = move || {
        let mut future = Box::pin(OwnedReadHold::lock_async(lock, range));
        assert!(poll(&mut future, &Waker::from(Arc::new(Panics))).is_pending());
        *kept.lock().unwrap() = Some(future);
        drop(held);
    };
    SCRIPT.with(|script| script.borrow_mut().push_back(Box::new(step)));
    waiter
}

/// A batch that had to wait is held as a whole or not at all.
#[test]
fn a_batch_that_waited_is_all_or_nothing() {
    let lock = Arc::new(gate().with_parking::<Scripted>());
    let busy = OwnedWriteHold::lock(lock.clone(), 20..21).unwrap();
    // This request is wide, so it waits for the batch's entry. The batch releases the entry once it
    // has its words.
    let waiter = when_asleep(&lock, busy, 18..22);
    let batch = [0..1, 20..21, 30..40].map(|range| (range, Access::Write));
    assert!(panics(|| lock.lock_all(batch).is_ok()));
    assert!(waiter.lock().unwrap().take().is_some());
    assert!(lock.try_write(0..64).is_ok(), "a hold was left behind");
}

/// A batch waits for its entries, and its sleep panics.
#[test]
fn a_batch_that_unwinds_leaves_no_entry() {
    let lock = gate().with_parking::<Scripted>();
    let wide = lock.write(0..8).unwrap();
    let panics_asleep = || panic!("a sleep that panics");
    SCRIPT.with(|script| script.borrow_mut().push_back(Box::new(panics_asleep)));
    let batch = [0..1, 2..3, 4..5].map(|range| (range, Access::Write));
    assert!(panics(|| lock.lock_all(batch).is_ok()));
    drop(wide);
    assert!(lock.try_write(0..64).is_ok(), "an entry was left behind");
}

/// Does what `an_entry_is_released_once_despite_the_panic` does, in a blocking call.
#[test]
fn a_blocking_call_releases_its_entry_once() {
    let lock = Arc::new(gate().with_parking::<Scripted>());
    let wide = OwnedWriteHold::lock(lock.clone(), 0..4).unwrap();
    let waiter = when_asleep(&lock, wide, 0..1);
    assert!(panics(|| lock.write(0..1).is_ok()));
    assert!(waiter.lock().unwrap().take().is_some());
    assert!(lock.try_write(0..64).is_ok(), "a hold was left behind");
}

/// Two waiting requests are leaked. The first was woken. Freeing their leaf wakes the second, and
/// the waker panics. Even so, the leaf is freed.
#[test]
fn a_leaf_is_freed_despite_the_panic() {
    let shape = Shape::new(1, &[2, 2, 2]).unwrap();
    let lock = SrlTree::with_shape(64, &shape).unwrap();
    let idle = lock.memory_usage();
    let others = lock.write(8..9).unwrap();
    let held = lock.write(0..1).unwrap();
    drop(lock.write(5..6).unwrap());
    let mut first = Box::pin(lock.write_async(0..1));
    assert!(poll(&mut first, Waker::noop()).is_pending());
    std::mem::forget((first, waiting(&lock, 0..1)));
    drop(held);
    assert!(panics(|| lock.shrink()));
    drop(others);
    lock.shrink();
    assert_eq!(lock.memory_usage(), idle);
    assert!(lock.try_write(0..64).is_ok(), "a hold was left behind");
}
