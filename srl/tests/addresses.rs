//! Addresses in tokens: a release starts from the address of the hold's first word.
//!
//! A pointer made from that address must be valid for all words of the hold. Miri checks this, and
//! this file is small enough for it:
//!
//! ```text
//! MIRIFLAGS=-Zmiri-permissive-provenance \
//!     cargo +nightly miri test -p spanlock-srl --test all addresses::
//! ```

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use spanlock_range_lock::words::Word;
use spanlock_range_lock::{
    Access, RangeLockExt, RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, RawRangeLockWait,
};
use spanlock_srl::{Shape, Srl, SrlArray, SrlPacked, SrlTree, SrlTreePacked, Tree};

/// Obtains and uses tokens in every way. Each way gets a new lock, none of whose addresses have
/// been exposed yet.
fn every_token<L>(lock: impl Fn() -> L)
where
    L: RawRangeLockWait
        + RawRangeLockSplit
        + RawRangeLockBatch
        + RawRangeLockUpgrade
        + RawRangeLockDowngrade,
{
    for pause in [0, 5] {
        by_a_call_that_waited(&lock(), Duration::from_millis(pause));
    }
    by_a_future(&lock());
    by_shrinking(&lock());
    by_splitting(&lock());
    by_narrowing_a_wide_hold(&lock());
    by_a_batch(&lock());
    beside_a_waiter(&lock());
}

fn by_a_call_that_waited<L: RawRangeLockWait>(lock: &L, pause: Duration) {
    let held = lock.write(1..2).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.write(0..8).unwrap()));
        thread::sleep(pause);
        drop(held);
    });
}

fn by_a_future<L: RawRangeLockWait>(lock: &L) {
    let held = lock.write(20..21).unwrap();
    let mut future = pin!(lock.write_async(0..40));
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    drop(held);
    let Poll::Ready(Ok(hold)) = future.as_mut().poll(&mut context) else {
        panic!("nothing blocks it");
    };
    drop(hold);
    assert!(lock.try_write(0..64).is_ok());
}

fn by_shrinking<L>(lock: &L)
where
    L: RawRangeLockSplit + RawRangeLockUpgrade + RawRangeLockDowngrade,
{
    let mut hold = lock.write(0..8).unwrap();
    hold.shrink(1..5).unwrap();
    let hold = hold.downgrade().try_upgrade().unwrap();
    let mut hold = hold.downgrade_to_upgradable();
    hold.shrink(4..5).unwrap();
    drop(hold);
    assert!(lock.try_write(0..64).is_ok());
}

fn by_splitting<L: RawRangeLockSplit>(lock: &L) {
    for at in [1, 4, 17] {
        let (low, mut high) = lock.write(0..40).unwrap().split(at).unwrap();
        high.shrink(at + 1..39).unwrap();
        drop((high, low));
    }
    assert!(lock.try_write(0..64).is_ok());
}

fn by_narrowing_a_wide_hold<L: RawRangeLockSplit>(lock: &L) {
    let mut wide = lock.write(0..40).unwrap();
    wide.shrink(1..6).unwrap();
    drop(wide);
    assert!(lock.try_write(0..64).is_ok());
}

fn by_a_batch<L: RawRangeLockBatch>(lock: &L) {
    let held = lock.write(30..31).unwrap();
    let spans = [
        (0..3, Access::Write),
        (5..9, Access::Read),
        (20..40, Access::Write),
    ];
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.lock_all(spans).unwrap()));
        thread::sleep(Duration::from_millis(5));
        drop(held);
    });
    assert!(lock.try_write(0..64).is_ok());
}

/// Takes and changes holds of one word while a request waits for another word.
fn beside_a_waiter<L>(lock: &L)
where
    L: RawRangeLockWait + RawRangeLockSplit + RawRangeLockUpgrade + RawRangeLockDowngrade,
{
    let held = lock.write(20..21).unwrap();
    let mut future = pin!(lock.write_async(20..21));
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    for range in [0..1, 4..8, 0..16, 36..40, 63..64] {
        let (start, end) = (range.start, range.end);
        let hold = lock.write(range.clone()).unwrap();
        assert!(lock.try_read(end - 1..end).is_err());
        let hold = hold.downgrade();
        drop(lock.try_read(range.clone()).unwrap());
        let mut hold = hold.try_upgrade().unwrap();
        if end - start >= 4 {
            hold.shrink(start + 1..end).unwrap();
            let (low, mut high) = hold.split(start + 2).unwrap();
            drop(lock.try_write(start..start + 1).unwrap());
            high.shrink(end - 1..end).unwrap();
            assert!(lock.try_read(start + 1..start + 2).is_err());
            drop(low);
            assert!(lock.try_read(end - 1..end).is_err());
            drop(high);
        } else {
            drop(hold);
        }
        drop(lock.try_write(range).unwrap());
    }
    drop(held);
    assert!(future.as_mut().poll(&mut context).is_ready());
    assert!(lock.try_write(0..64).is_ok());
}

/// Returns an array with three words in its head and the others in its tail.
fn array() -> SrlArray {
    SrlArray::with_head(64, 1, 3).unwrap()
}

/// Returns a packed array with one word in its head and the others in its tail.
fn packed() -> SrlPacked {
    SrlPacked::with_head(64, 1, 1).unwrap()
}

/// Returns a tree with leaves of four segments.
fn tree() -> SrlTree {
    SrlTree::with_shape(64, &Shape::new(1, &[2, 2, 2]).unwrap()).unwrap()
}

/// Returns a tree with leaves of two words.
fn packed_tree() -> SrlTreePacked {
    SrlTreePacked::with_shape(64, &Shape::new(1, &[1, 5]).unwrap()).unwrap()
}

#[test]
fn tokens_of_an_array() {
    every_token(array);
    every_token(|| array().wide_above(6));
}

#[test]
fn tokens_of_a_packed_array() {
    every_token(packed);
    every_token(|| packed().wide_above(6));
}

#[test]
fn tokens_of_a_tree() {
    every_token(tree);
    every_token(|| tree().wide_above(6));
}

#[test]
fn tokens_of_a_packed_tree() {
    every_token(packed_tree);
    every_token(|| packed_tree().wide_above(6));
}

/// Frees leaves while other threads take words and look them up.
fn free_leaves_under_load<W: Word>(lock: &Srl<Tree<W>>) {
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for round in 0..20 {
                    let start = (thread * 7 + round * 5) % 60;
                    let range = start..start + 1 + round % 4;
                    match round % 5 {
                        0 => drop(lock.read(range)),
                        1 => drop(lock.write(0..64)),
                        2 => drop(lock.try_write(range)),
                        3 => drop(lock.try_write_for(range, Duration::from_micros(50))),
                        _ => drop(lock.write(range)),
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..8 {
                lock.shrink();
                thread::yield_now();
            }
        });
    });
    assert!(lock.try_write(0..64).is_ok());
    lock.shrink();
}

#[test]
fn leaves_are_freed_while_requests_run() {
    free_leaves_under_load(&tree().wide_above(6));
    free_leaves_under_load(&packed_tree().wide_above(20));
}
