//! Requests that wait: in threads and as futures, with deadlines, cancelled, and released.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_record_lock::{Error, Mode, Owner, RecordLock, Request};

const WRITE: Mode = Mode::Write;
const READ: Mode = Mode::Read;

/// Counts how often it is woken, and then runs a function.
struct Foreign<F: Fn() + Send + Sync + 'static> {
    wakes: AtomicUsize,
    then: F,
}

impl<F: Fn() + Send + Sync + 'static> Wake for Foreign<F> {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, SeqCst);
        (self.then)();
    }
}

fn waker<F: Fn() + Send + Sync + 'static>(then: F) -> Arc<Foreign<F>> {
    let wakes = AtomicUsize::new(0);
    Arc::new(Foreign { wakes, then })
}

fn poll<F: Fn() + Send + Sync + 'static>(
    request: &mut Request,
    waker: &Arc<Foreign<F>>,
) -> Poll<Result<(), Error>> {
    let waker = Waker::from(waker.clone());
    Pin::new(request).poll(&mut Context::from_waker(&waker))
}

fn owners<const N: usize>(table: &RecordLock) -> [Owner; N] {
    core::array::from_fn(|id| table.owner(id as u64).expect("is new"))
}

#[test]
fn threads_count_under_the_lock() {
    let table = RecordLock::new();
    let count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for owner in owners::<4>(&table) {
            let count = &count;
            scope.spawn(move || {
                for round in 0..1000 {
                    // They all share byte 9.
                    let range = 9 - round % 9..10;
                    owner.lock(range, WRITE).wait().expect("no circle");
                    let before = count.load(SeqCst);
                    thread::yield_now();
                    count.store(before + 1, SeqCst);
                    owner.unlock(..).expect("no split");
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 4000);
    assert_eq!((table.holds(), table.waiting()), (vec![], vec![]));
}

#[test]
fn a_deadline_passes_and_leaves_no_trace() {
    let table = RecordLock::new();
    let [one, two, three] = owners(&table);
    one.try_lock(0..2, READ).expect("is free");
    two.try_lock(4..6, READ).expect("is free");
    let before = table.holds();
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(two.lock(1..6, WRITE).wait_until(soon), Err(Error::TimedOut));
    assert_eq!((table.holds(), table.waiting()), (before, vec![]));
    assert_eq!(three.lock(0..2, READ).wait_until(soon), Ok(()));
}

#[test]
fn a_dropped_request_keeps_nothing_and_wakes_the_next() {
    let table = RecordLock::new();
    let [one, two, three] = owners(&table);
    let (second, third) = (waker(|| ()), waker(|| ()));
    one.try_lock(0..1, WRITE).expect("is free");
    let mut of_two = two.lock(0..1, WRITE);
    let mut of_three = three.lock(0..1, WRITE);
    assert!(poll(&mut of_two, &second).is_pending());
    assert!(poll(&mut of_three, &third).is_pending());
    assert_eq!(table.waiting().len(), 2);
    one.unlock(..).expect("no split");
    // One at a time is woken.
    assert_eq!(
        (second.wakes.load(SeqCst), third.wakes.load(SeqCst)),
        (1, 0)
    );
    drop(of_two);
    assert_eq!(third.wakes.load(SeqCst), 1);
    assert_eq!(table.holds(), []);
    assert_eq!(poll(&mut of_three, &third), Poll::Ready(Ok(())));
}

#[test]
fn a_woken_request_that_nobody_polls_delays_only_conflicting_ones() {
    let table = RecordLock::new();
    let [one, two, three, four] = owners(&table);
    let (woken, other) = (waker(|| ()), waker(|| ()));
    one.try_lock(0..8, WRITE).expect("is free");
    let mut sleeps = two.lock(0..4, WRITE);
    let mut shares = three.lock(4..8, WRITE);
    assert!(poll(&mut sleeps, &woken).is_pending());
    assert!(poll(&mut shares, &other).is_pending());
    one.unlock(..).expect("no split");
    assert_eq!(other.wakes.load(SeqCst), 1);
    assert_eq!(poll(&mut shares, &other), Poll::Ready(Ok(())));
    four.try_lock(9..10, WRITE).expect("is free");
    four.lock(0..1, WRITE).wait().expect("may pass");
}

#[test]
fn a_full_range_writer_gets_in_under_a_load_of_readers() {
    let table = RecordLock::new();
    let [writer, first, second] = owners(&table);
    let mine = waker(|| ());
    first.try_lock(0..1, READ).expect("is free");
    let mut request = writer.lock(.., WRITE);
    assert!(poll(&mut request, &mine).is_pending());
    // Two readers take turns, so that one of them always holds something.
    let (mut holder, mut next) = (&first, &second);
    let mut passes = 0;
    loop {
        let mut reads = next.lock(passes..passes + 1, READ);
        if poll(&mut reads, &waker(|| ())).is_pending() {
            break;
        }
        passes += 1;
        holder.unlock(..).expect("no split");
        (holder, next) = (next, holder);
    }
    assert_eq!(passes, 32);
    // Neither is an owner that holds something stopped, nor a try.
    holder.lock(70..71, READ).wait().expect("holds something");
    next.try_lock(80..81, READ).expect("is free");
    next.unlock(..).expect("no split");
    holder.unlock(..).expect("no split");
    assert_eq!(mine.wakes.load(SeqCst), 1);
    assert_eq!(poll(&mut request, &mine), Poll::Ready(Ok(())));
}

#[test]
fn a_circle_through_three_owners_is_found_also_after_holds_were_joined() {
    let table = RecordLock::new();
    let [one, two, three] = owners(&table);
    let mine = waker(|| ());
    for (owner, at) in [(&one, 0), (&two, 10), (&three, 20)] {
        owner.try_lock(at..at + 4, WRITE).expect("is free");
        owner.try_lock(at + 4..at + 8, WRITE).expect("is free");
        owner.unlock(at + 2..at + 6).expect("memory");
    }
    let mut first = one.lock(16..17, WRITE);
    let mut second = two.lock(20..27, READ);
    assert!(poll(&mut first, &mine).is_pending());
    assert!(poll(&mut second, &mine).is_pending());
    // Free bytes, and bytes of a waiting owner that itself is no part of a circle.
    three.lock(2..6, WRITE).wait().expect("are free");
    let error = three.lock(0..9, READ).wait().expect_err("closes a circle");
    assert!(
        matches!(error, Error::Deadlock(hold) if hold.owner == 0),
        "{error}"
    );
    assert_eq!(table.waiting().len(), 2);
    drop(second);
    let mut third = three.lock(0..1, READ);
    assert!(poll(&mut third, &mine).is_pending());
    assert_eq!(poll(&mut two.lock(20..21, READ), &mine), {
        let hold = table.holds().into_iter().find(|hold| hold.first == 20);
        Poll::Ready(Err(Error::Deadlock(hold.expect("is held"))))
    });
}

#[test]
fn a_new_hold_ends_the_wait_that_it_lets_close_a_circle() {
    let table = RecordLock::new();
    let [one, two, three] = owners(&table);
    let mine = waker(|| ());
    one.try_lock(0..1, WRITE).expect("is free");
    three.try_lock(1..2, READ).expect("is free");
    let mut waits = one.lock(1..2, WRITE);
    let mut also = two.lock(0..1, WRITE);
    assert!(poll(&mut waits, &mine).is_pending());
    assert!(poll(&mut also, &waker(|| ())).is_pending());
    two.try_lock(1..2, READ).expect("shares");
    assert_eq!(mine.wakes.load(SeqCst), 1);
    assert!(matches!(
        poll(&mut waits, &mine),
        Poll::Ready(Err(Error::Deadlock(_)))
    ));
    drop(waits);
    assert_eq!(table.waiting().len(), 1);
}

#[test]
fn a_release_ends_waits_and_wakes_others() {
    let table = RecordLock::new();
    let [one, two, three] = owners(&table);
    let (ended, freed) = (waker(|| ()), waker(|| ()));
    one.try_lock(0..1, WRITE).expect("is free");
    two.try_lock(1..2, WRITE).expect("is free");
    let mut of_two = two.lock(0..1, WRITE);
    let mut of_three = three.lock(1..2, WRITE);
    assert!(poll(&mut of_two, &ended).is_pending());
    assert!(poll(&mut of_three, &freed).is_pending());
    two.release();
    assert_eq!((ended.wakes.load(SeqCst), freed.wakes.load(SeqCst)), (1, 1));
    assert_eq!(poll(&mut of_two, &ended), Poll::Ready(Err(Error::Released)));
    assert_eq!(poll(&mut of_three, &freed), Poll::Ready(Ok(())));
    drop(table);
    drop((one, three));
}

#[test]
fn a_waker_may_panic_or_call_the_table() {
    let table = Arc::new(RecordLock::new());
    let [one, two, three] = owners(&table);
    let bad = waker(|| panic!("foreign"));
    let seen = table.clone();
    let good = waker(move || assert_eq!(seen.waiting().len(), 2));
    one.try_lock(0..2, WRITE).expect("is free");
    let mut of_two = two.lock(0..1, WRITE);
    let mut of_three = three.lock(1..2, WRITE);
    assert!(poll(&mut of_two, &bad).is_pending());
    assert!(poll(&mut of_three, &good).is_pending());
    let unlock = catch_unwind(AssertUnwindSafe(|| one.unlock(..)));
    assert!(unlock.is_err());
    // The unlock has taken effect, and the other waker was called.
    assert_eq!(table.holds(), []);
    assert_eq!(good.wakes.load(SeqCst), 1);
    assert_eq!(poll(&mut of_two, &bad), Poll::Ready(Ok(())));
    assert_eq!(poll(&mut of_three, &good), Poll::Ready(Ok(())));
}
