//! Everything that a single thread can do with a lock, with futures that wait in turn.
//!
//! `.ci/wasm` runs these tests on `wasm32-unknown-unknown` as well. That target has no clock and no
//! second thread, and std panics where a program asks for either. So no test here makes a thread
//! wait.

#![cfg(all(feature = "std", feature = "srl"))]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use spanlock::range_lock::{
    Access, RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
    RawRangeLockWait, RwDistributed, TimedLockError,
};
use spanlock::{
    IntervalLock, RangeLockExt, RwCounter, SrlArray, SrlPacked, SrlTree, SrlTreePacked,
};

trait Lock:
    RawRangeLockBatch
    + RawRangeLockDowngrade
    + RawRangeLockSplit
    + RawRangeLockUpgrade
    + RawRangeLockWait
{
}

impl<L> Lock for L where
    L: RawRangeLockBatch
        + RawRangeLockDowngrade
        + RawRangeLockSplit
        + RawRangeLockUpgrade
        + RawRangeLockWait
{
}

/// Calls a generic function with each lock.
macro_rules! each_lock {
    ($check:ident) => {
        $check(&RwCounter::new());
        $check(&RwDistributed::new());
        $check(&SrlArray::new(1 << 20).unwrap());
        $check(&SrlPacked::new(1 << 20).unwrap());
        $check(&SrlTree::new(1 << 20).unwrap());
        $check(&SrlTreePacked::new(1 << 20).unwrap());
        $check(&SrlTree::new(1 << 20).unwrap().wide_above(1));
        $check(&IntervalLock::new());
    };
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// parking_lot#269: a future waits, its holder leaves, and others take the range before the future
/// is polled again. Each such pass is counted, and limited by the clock where there is one.
fn requests_pass_a_waiter(lock: &impl Lock) {
    let held = lock.write(0..10_000).unwrap();
    let mut waiting = pin!(lock.write_async(0..10_000));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(held);
    for _ in 0..1000 {
        drop(lock.try_write(0..10_000));
    }
    let Poll::Ready(Ok(mine)) = poll(waiting) else {
        panic!("the range is free");
    };
    drop(mine);
    drop(lock.write(0..10_000).unwrap());
}

#[test]
fn a_waiter_is_passed() {
    each_lock!(requests_pass_a_waiter);
}

/// A call that could wait passes a waiter as well, while it may.
fn calls_pass_a_waiter(lock: &impl Lock) {
    let held = lock.write(0..10).unwrap();
    let mut waiting = pin!(lock.write_async(0..10));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(held);
    for _ in 0..10 {
        drop(lock.write(0..10).unwrap());
    }
    assert!(poll(waiting).is_ready());
}

#[test]
fn a_waiter_is_passed_by_calls_that_could_wait() {
    calls_pass_a_waiter(&RwCounter::new());
    calls_pass_a_waiter(&SrlPacked::new(1 << 20).unwrap());
    calls_pass_a_waiter(&SrlTree::new(1 << 20).unwrap());
    calls_pass_a_waiter(&IntervalLock::new());
}

/// Without a clock, a request with a time limit is a try.
fn a_limit_passes(lock: &impl Lock) {
    let held = lock.write(0..10).unwrap();
    let late = lock.try_read_for(5..15, Duration::from_millis(2));
    assert_eq!(late.err(), Some(TimedLockError::TimedOut));
    drop(held);
    drop(lock.try_read_for(5..15, Duration::from_secs(3600)).unwrap());
    // It has left no trace.
    drop(lock.write(0..15).unwrap());
}

#[test]
fn limits_in_time_pass() {
    each_lock!(a_limit_passes);
}

fn all_operations(lock: &impl Lock) {
    let hold = lock.upgradable_read(0..8192).unwrap();
    let reader = lock.try_read(0..1).unwrap();
    let hold = hold.try_upgrade().unwrap_err();
    drop(reader);
    let mut hold = hold.try_upgrade().unwrap().downgrade();
    assert!(lock.try_write(100..200).is_err());
    hold.shrink(4096..8192).unwrap();
    drop(hold);
    let batch = [(0..10, Access::Read), (90_000..100_000, Access::Write)];
    drop(lock.lock_all(batch).unwrap());
    drop(lock.append(10, || 70_000).unwrap());
    // A dropped future leaves no trace.
    let held = lock.read(0..10).unwrap();
    {
        let waiting = pin!(lock.write_async(0..10));
        assert!(poll(waiting).is_pending());
    }
    drop(lock.try_read(0..10).unwrap());
    drop(held);
    drop(lock.write(0..100_000).unwrap());
}

#[test]
fn every_operation_works() {
    each_lock!(all_operations);
}

#[test]
fn a_tree_shrinks() {
    let lock = SrlTree::new(1 << 40).unwrap();
    let idle = lock.memory_usage();
    drop(lock.write(0..1 << 20).unwrap());
    assert!(lock.memory_usage() > idle);
    lock.shrink();
    assert_eq!(lock.memory_usage(), idle);
}
