//! Requests that wait: in threads and as futures, with deadlines, cancelled, and released.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_record_lock::{Error, Hold, Mode, Owner, RecordLock, Request};

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

/// Returns all holds and all waiting requests.
fn state(table: &RecordLock) -> [Vec<Hold>; 2] {
    [table.holds(..), table.waiting()].map(|all| all.expect("there is memory"))
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
    assert_eq!(state(&table), [vec![], vec![]]);
}

#[test]
fn a_deadline_passes_and_leaves_no_trace() {
    let table = RecordLock::new();
    let [one, two, three] = owners(&table);
    one.try_lock(0..2, READ).expect("is free");
    two.try_lock(4..6, READ).expect("is free");
    let before = state(&table);
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(two.lock(1..6, WRITE).wait_until(soon), Err(Error::TimedOut));
    assert_eq!(state(&table), before);
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
    assert_eq!(state(&table)[1].len(), 2);
    one.unlock(..).expect("no split");
    // One at a time is woken.
    assert_eq!(
        (second.wakes.load(SeqCst), third.wakes.load(SeqCst)),
        (1, 0)
    );
    drop(of_two);
    assert_eq!(third.wakes.load(SeqCst), 1);
    assert_eq!(state(&table)[0], []);
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
    // However many others have passed it.
    for _ in 0..100 {
        four.lock(0..2, WRITE).wait().expect("may pass");
        four.unlock(..).expect("no split");
    }
    three.unlock(..).expect("no split");
    assert!(poll(&mut sleeps, &woken).is_ready());
}

/// As in `fcntl`: nobody is counted, and nobody has to wait behind a request.
#[test]
fn a_waiting_writer_is_passed_by_readers_that_overlap() {
    let table = RecordLock::new();
    let [writer, first, second] = owners(&table);
    let mine = waker(|| ());
    first.try_lock(0..1, READ).expect("is free");
    let mut request = writer.lock(.., WRITE);
    assert!(poll(&mut request, &mine).is_pending());
    let (mut holder, mut next) = (&first, &second);
    for at in 1..100 {
        next.lock(at..at + 1, READ).wait().expect("passes");
        holder.unlock(..).expect("no split");
        (holder, next) = (next, holder);
    }
    assert_eq!(mine.wakes.load(SeqCst), 0);
    holder.unlock(..).expect("no split");
    assert_eq!(mine.wakes.load(SeqCst), 1);
    assert_eq!(poll(&mut request, &mine), Poll::Ready(Ok(())));
}

/// The waiter behind the woken one is not woken with it, so it must be when that one is passed.
#[test]
fn a_woken_request_that_was_passed_wakes_the_next() {
    let table = RecordLock::new();
    let [one, two, three] = owners(&table);
    let (first, second) = (waker(|| ()), waker(|| ()));
    one.try_lock(0..9, WRITE).expect("is free");
    let mut passed = two.lock(0..9, WRITE);
    let mut behind = three.lock(5..9, WRITE);
    assert!(poll(&mut passed, &first).is_pending());
    assert!(poll(&mut behind, &second).is_pending());
    one.unlock(..).expect("no split");
    one.try_lock(0..1, WRITE).expect("is free");
    assert_eq!(second.wakes.load(SeqCst), 0);
    assert!(poll(&mut passed, &first).is_pending());
    assert_eq!(second.wakes.load(SeqCst), 1);
    assert_eq!(poll(&mut behind, &second), Poll::Ready(Ok(())));
}

/// The first wait ends in a circle after it was woken, and another one waits behind it.
#[test]
fn a_wait_that_ends_after_it_was_woken_wakes_the_next() {
    let table = RecordLock::new();
    let [one, two, three, four] = owners(&table);
    let (ended, next) = (waker(|| ()), waker(|| ()));
    one.try_lock(0..9, WRITE).expect("is free");
    two.try_lock(20..21, WRITE).expect("is free");
    let mut waits = two.lock(0..9, WRITE);
    let mut behind = three.lock(5..9, WRITE);
    let mut closes = four.lock(20..21, WRITE);
    assert!(poll(&mut waits, &ended).is_pending());
    assert!(poll(&mut behind, &next).is_pending());
    assert!(poll(&mut closes, &ended).is_pending());
    one.unlock(..).expect("no split");
    assert_eq!((ended.wakes.load(SeqCst), next.wakes.load(SeqCst)), (1, 0));
    four.try_lock(0..1, WRITE).expect("passes");
    assert_eq!(next.wakes.load(SeqCst), 1);
    // A release ends the other wait of the owner, but not this one again.
    one.try_lock(30..31, WRITE).expect("is free");
    let mut released = two.lock(30..31, WRITE);
    assert!(poll(&mut released, &waker(|| ())).is_pending());
    two.release();
    assert_eq!(released.wait(), Err(Error::Released));
    let end = poll(&mut waits, &ended);
    assert!(
        matches!(end, Poll::Ready(Err(Error::Deadlock(hold))) if hold.owner == 3),
        "{end:?}"
    );
    assert_eq!(poll(&mut behind, &next), Poll::Ready(Ok(())));
}

#[test]
fn a_deadlock_names_the_first_hold_that_closes_the_circle() {
    let table = RecordLock::new();
    let [one, two, three] = owners(&table);
    three.try_lock(0..1, READ).expect("is free");
    two.try_lock(5..6, READ).expect("is free");
    two.try_lock(7..8, READ).expect("is free");
    one.try_lock(10..11, WRITE).expect("is free");
    let mut waits = two.lock(10..11, WRITE);
    assert!(poll(&mut waits, &waker(|| ())).is_pending());
    let error = one.lock(0..10, WRITE).wait().expect_err("closes a circle");
    assert!(
        matches!(error, Error::Deadlock(hold) if (hold.owner, hold.first) == (1, 5)),
        "{error}"
    );
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
    assert_eq!(state(&table)[1].len(), 2);
    drop(second);
    let mut third = three.lock(0..1, READ);
    assert!(poll(&mut third, &mine).is_pending());
    assert_eq!(poll(&mut two.lock(20..21, READ), &mine), {
        let hold = state(&table)[0]
            .iter()
            .copied()
            .find(|hold| hold.first == 20);
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
    // The new hold, and not that of owner 2, which conflicts too.
    let end = poll(&mut waits, &mine);
    assert!(
        matches!(end, Poll::Ready(Err(Error::Deadlock(hold))) if hold.owner == 1),
        "{end:?}"
    );
    drop(waits);
    assert_eq!(state(&table)[1].len(), 1);
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
    let mut unpolled = two.lock(0..1, READ);
    assert!(poll(&mut unpolled, &waker(|| ())).is_pending());
    two.release();
    assert_eq!((ended.wakes.load(SeqCst), freed.wakes.load(SeqCst)), (1, 1));
    assert_eq!(poll(&mut of_two, &ended), Poll::Ready(Err(Error::Released)));
    assert_eq!(poll(&mut of_three, &freed), Poll::Ready(Ok(())));
    // One that has ended, and is dropped before it is polled, leaves nothing either.
    drop(unpolled);
    let counts = "RecordLock { holds: 2, owners: 2, requests: 0 }";
    assert_eq!(format!("{table:?}"), counts);
    drop(table);
    drop((one, three));
}
