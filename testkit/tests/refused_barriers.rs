//! A seccomp filter refuses `membarrier` to a thread after the process was registered for it. The
//! thread can still use every lock, and so can all others.

#![cfg(all(
    target_os = "linux",
    not(any(miri, spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{
    Access, RangeLockExt, RawRangeLock, RawRangeLockBatch, RawRangeLockWait, RwCounter,
    RwDistributed, TimedLockError,
};
use spanlock_srl::{Shape, SrlArray, SrlPacked, SrlTree, SrlTreePacked};
use spanlock_sync::barrier::heavy;
use spanlock_sync::rcu::Rcu;
use spanlock_testkit::system::{lack_memory_for_membarrier, refuse_membarrier};

const LONG: Duration = Duration::from_secs(10);

/// Runs `f` in a thread to which the system refuses `membarrier`.
fn refused<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            refuse_membarrier();
            f()
        });
        thread.join().expect("the refused thread panicked")
    })
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Returns the CPU time that the calling thread has used.
fn cpu_time() -> Duration {
    // SAFETY: all zeros are a valid value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A call with a deadline sleeps between its checks, as one without a deadline does.
#[test]
fn a_refused_call_with_a_deadline_burns_no_core() {
    const WAIT: Duration = Duration::from_millis(400);
    let (counter, array) = (RwCounter::new(), SrlArray::new(4096).unwrap());
    let _holds = (counter.write(0..1).unwrap(), array.write(0..1).unwrap());
    refused(|| {
        let before = cpu_time();
        assert!(counter.try_write_for(0..1, WAIT).is_err());
        assert!(array.try_write_for(0..1, WAIT).is_err());
        let used = cpu_time() - before;
        assert!(used < WAIT / 2, "used {used:?} of {:?}", 2 * WAIT);
    });
}

/// Every thread still gets every range.
fn nobody_is_left_in_a_queue(lock: &impl RawRangeLock) {
    let all = lock.try_write(0..lock.capacity()).expect("nothing is held");
    drop(all);
    drop(lock.try_read(0..1).expect("nothing is held"));
}

/// What each lock keeps although the barrier of a waiter is refused.
fn keeps_the_contract<L: RawRangeLockWait + RawRangeLockBatch>(lock: &L) {
    // A thread that blocks gets the range.
    let (held, asks) = (AtomicBool::new(true), AtomicBool::new(false));
    let hold = lock.write(0..1).unwrap();
    thread::scope(|scope| {
        let (held, asks) = (&held, &asks);
        scope.spawn(move || {
            refused(|| {
                asks.store(true, SeqCst);
                let waited = lock.write(0..1).unwrap();
                assert!(!held.load(SeqCst), "two writers at once");
                drop(waited);
            });
        });
        while !asks.load(SeqCst) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(5));
        held.store(false, SeqCst);
        drop(hold);
    });
    nobody_is_left_in_a_queue(lock);

    // A thread that waits until a deadline times out, and leaves no trace.
    let hold = lock.write(0..1).unwrap();
    refused(|| {
        let begun = Instant::now();
        let timed = lock.try_write_for(0..1, Duration::from_millis(5));
        assert!(matches!(timed, Err(TimedLockError::TimedOut)));
        assert!(begun.elapsed() < LONG);
    });
    drop(hold);
    nobody_is_left_in_a_queue(lock);

    // A future is woken, and is granted the range once it is free.
    let hold = lock.write(0..1).unwrap();
    refused(|| {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut future = Box::pin(lock.write_async(0..1));
        assert!(poll(&mut future, &waker).is_pending());
        drop(hold);
        assert!(count.0.load(SeqCst) > 0, "nothing wakes the future");
        assert!(poll(&mut future, &waker).is_ready());
    });
    nobody_is_left_in_a_queue(lock);

    // A future that is dropped leaves no trace.
    let hold = lock.write(0..1).unwrap();
    refused(|| {
        let mut future = Box::pin(lock.write_async(0..1));
        assert!(poll(&mut future, Waker::noop()).is_pending());
    });
    drop(hold);
    nobody_is_left_in_a_queue(lock);

    // The whole range, in each way to ask for it.
    let all = 0..lock.capacity();
    let hold = lock.write(0..1).unwrap();
    refused(|| {
        assert!(lock.try_write(all.clone()).is_err());
        assert!(
            lock.try_write_for(all.clone(), Duration::from_millis(5))
                .is_err()
        );
    });
    thread::scope(|scope| {
        scope.spawn(|| refused(|| drop(lock.write(all.clone()).unwrap())));
        thread::sleep(Duration::from_millis(5));
        drop(hold);
    });
    refused(|| drop(lock.try_write(all.clone()).expect("nothing is held")));

    // A batch.
    let hold = lock.write(0..1).unwrap();
    thread::scope(|scope| {
        let batch = [(0..1, Access::Write)];
        scope.spawn(|| refused(|| drop(lock.lock_all(batch).unwrap())));
        thread::sleep(Duration::from_millis(5));
        drop(hold);
    });
    nobody_is_left_in_a_queue(lock);
}

/// Threads that are refused and threads that are not add to one number, each range conflicting.
fn excludes<L: RawRangeLockWait>(lock: &L) {
    const ROUNDS: u64 = 200;
    let sum = AtomicU64::new(0);
    let add = || {
        for _ in 0..ROUNDS {
            let hold = lock.write(0..1).unwrap();
            let seen = sum.load(Relaxed);
            thread::yield_now();
            sum.store(seen + 1, Relaxed);
            drop(hold);
        }
    };
    thread::scope(|scope| {
        scope.spawn(add);
        scope.spawn(add);
        scope.spawn(|| refused(add));
        scope.spawn(|| refused(add));
    });
    assert_eq!(sum.into_inner(), 4 * ROUNDS);
}

/// Returns a tree with two slots in every node and two segments in every leaf.
fn tree() -> SrlTree {
    SrlTree::with_shape(1 << 10, &Shape::new(1, &[1; 10]).unwrap()).unwrap()
}

fn packed_tree() -> SrlTreePacked {
    SrlTreePacked::with_shape(1 << 10, &Shape::new(1, &[6, 4]).unwrap()).unwrap()
}

macro_rules! locks {
    ($($name:ident: $make:expr;)*) => {
        $(#[test]
        fn $name() {
            keeps_the_contract(&$make);
            excludes(&$make);
        })*
    };
}

locks! {
    counter: RwCounter::new();
    distributed: RwDistributed::with_slots(3);
    array: SrlArray::with_segment_size(1 << 10, 1).unwrap();
    packed: SrlPacked::with_segment_size(1 << 10, 1).unwrap();
    gate: SrlArray::with_segment_size(1 << 10, 1).unwrap().wide_above(1);
    trees: tree();
    wide_trees: tree().wide_above(1);
    packed_trees: packed_tree();
    interval: IntervalLock::new();
}

/// The tree keeps its memory until a thread shrinks it that is not refused. It stays usable.
#[test]
fn a_refused_shrink_frees_nothing() {
    let lock = tree();
    drop(lock.write(0..8).unwrap());
    let used = lock.memory_usage();
    refused(|| {
        assert_eq!(lock.shrink(), 0);
        assert_eq!(lock.shrink_range(0..8), Ok(0));
    });
    assert_eq!(lock.memory_usage(), used);
    nobody_is_left_in_a_queue(&lock);
    assert!(lock.shrink() > 0);
    assert!(lock.memory_usage() < used);
}

/// The system may lack memory for the fast form of the barrier. Then the slow form serves.
#[test]
fn a_lack_of_memory_is_overcome() {
    let rcu = Rcu::new();
    assert!(heavy(), "the process is registered");
    let [before, after] = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            lack_memory_for_membarrier();
            let before = heavy() && rcu.synchronize();
            refuse_membarrier();
            [before, heavy() || rcu.synchronize()]
        });
        thread.join().unwrap()
    });
    assert!(before && !after);
}
