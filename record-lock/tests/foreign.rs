//! Wakers that panic or use the table: when they are woken, and when they are dropped.
//!
//! A waker that is woken or dropped under the table's mutex hangs these tests.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use spanlock_record_lock::{Error, Mode, Owner, RecordLock, Request};

const WRITE: Mode = Mode::Write;
const READ: Mode = Mode::Read;

/// A waker's table, and what it counts.
struct Seen {
    table: RecordLock,
    drops: AtomicUsize,
    wakes: AtomicUsize,
}

impl Seen {
    fn new() -> Arc<Self> {
        Arc::new(Seen {
            table: RecordLock::new(),
            drops: AtomicUsize::new(0),
            wakes: AtomicUsize::new(0),
        })
    }

    fn owners<const N: usize>(&self) -> [Owner; N] {
        core::array::from_fn(|id| self.table.owner(id as u64).expect("is new"))
    }
}

/// Returns a waker of which every clone, the waker itself, and every wake use the table.
fn uses_table(seen: &Arc<Seen>) -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |seen| {
            // SAFETY: the pointer comes from `into_raw`, and the waker owns a count.
            let seen = unsafe { Arc::from_raw(seen.cast::<Seen>()) };
            let clone = seen.clone();
            let _ = Arc::into_raw(seen);
            RawWaker::new(Arc::into_raw(clone).cast(), &TABLE)
        },
        |seen| {
            // SAFETY: as above. The waker is consumed, and so is its count.
            let seen = unsafe { Arc::from_raw(seen.cast::<Seen>()) };
            seen.table.waiting().expect("there is memory");
            seen.wakes.fetch_add(1, SeqCst);
        },
        |_| unreachable!("the table consumes the wakers that it wakes"),
        |seen| {
            // SAFETY: as above. The waker is consumed, and so is its count.
            let seen = unsafe { Arc::from_raw(seen.cast::<Seen>()) };
            seen.table.waiting().expect("there is memory");
            seen.drops.fetch_add(1, SeqCst);
        },
    );
    // SAFETY: the functions are safe to call from all threads, and count the pointer's owners.
    unsafe { Waker::from_raw(RawWaker::new(Arc::into_raw(seen.clone()).cast(), &TABLE)) }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("foreign");
    }
}

fn poll(request: &mut Request, waker: &Waker) -> Poll<Result<(), Error>> {
    Pin::new(request).poll(&mut Context::from_waker(waker))
}

#[test]
fn wakers_may_use_the_table_when_they_are_woken_or_dropped() {
    let seen = Seen::new();
    let [one, two, three] = seen.owners();
    let waker = uses_table(&seen);
    one.try_lock(0..1, WRITE).expect("is free");
    let mut first = two.lock(0..1, WRITE);
    let mut second = three.lock(0..1, WRITE);
    // Each poll clones the waker. The second one drops the clone of the first.
    for drops in [0, 1] {
        assert!(poll(&mut first, &waker).is_pending());
        assert_eq!(seen.drops.load(SeqCst), drops);
    }
    assert!(poll(&mut second, &waker).is_pending());
    one.unlock(..).expect("no split");
    assert_eq!(seen.wakes.load(SeqCst), 1);
    // It is granted before it is woken, so both its wakers are dropped.
    assert_eq!(poll(&mut second, &waker), Poll::Ready(Ok(())));
    assert_eq!(seen.drops.load(SeqCst), 3);
    assert!(poll(&mut first, &waker).is_pending());
    drop(first);
    assert_eq!(seen.drops.load(SeqCst), 4);
    let failed = poll(&mut two.lock(0..1, WRITE), &waker);
    assert!(failed.is_pending(), "dropped, with its waker");
    assert_eq!(seen.drops.load(SeqCst), 5);
    drop(three);
    assert_eq!(
        poll(&mut two.lock(0..1, WRITE), &waker),
        Poll::Ready(Ok(()))
    );
    assert_eq!(seen.drops.load(SeqCst), 6);
    assert_eq!(seen.wakes.load(SeqCst), 1);
}

/// More wakers than a thread takes at a time, some of which panic.
#[test]
fn a_panic_of_a_waker_leaves_the_change_and_wakes_the_others() {
    let seen = Seen::new();
    let holder = seen.table.owner(100).expect("is new");
    let owners = seen.owners::<30>();
    holder.try_lock(0..1, WRITE).expect("is free");
    let [good, bad] = [uses_table(&seen), Waker::from(Arc::new(Panics))];
    let mut requests = owners.each_ref().map(|owner| owner.lock(0..1, READ));
    for (at, request) in requests.iter_mut().enumerate() {
        let waker = if at == 3 { &bad } else { &good };
        assert!(poll(request, waker).is_pending());
    }
    let unlock = catch_unwind(AssertUnwindSafe(|| holder.unlock(..)));
    assert!(unlock.is_err());
    assert_eq!(seen.table.holds(..), Ok(vec![]));
    assert_eq!(seen.wakes.load(SeqCst), 29);
    for request in &mut requests {
        assert_eq!(poll(request, &good), Poll::Ready(Ok(())));
    }
}

#[test]
fn a_request_that_a_foreign_waker_unwinds_is_granted() {
    let table = RecordLock::new();
    let [one, two] = [1, 2].map(|id| table.owner(id).expect("is new"));
    one.try_lock(0..2, WRITE).expect("is free");
    let mut waits = two.lock(0..1, READ);
    assert!(poll(&mut waits, &Waker::from(Arc::new(Panics))).is_pending());
    let downgrade = AssertUnwindSafe(|| one.lock(0..2, READ).wait());
    assert!(catch_unwind(downgrade).is_err());
    let holds = table.holds(..).expect("there is memory");
    assert_eq!((holds.len(), holds[0].mode), (1, READ));
    assert_eq!(poll(&mut waits, Waker::noop()), Poll::Ready(Ok(())));
}
