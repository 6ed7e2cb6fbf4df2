//! Waiting requests: their order, their wakers, and how they are cancelled.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Asked, Counter, Taken, span};
use spanlock_interval_lock::{IntervalLock, IntervalRequest};
use spanlock_range_lock::Access::{Read, Upgradable, Write};
use spanlock_range_lock::words::MAX_PASSES;
use spanlock_range_lock::{RangeLockExt, RawRangeLock, RawRangeLockWait};
use spanlock_sync::{Park, Parker, Wakeup};

#[test]
fn conflicting_requests_are_served_in_order_of_arrival() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..100, Write);
    // Each range overlaps all others. The starts are not in order of arrival.
    let mut asked: Vec<_> = (0..20_u64)
        .map(|i| Asked::waiting(&lock, i * 7 % 20..i * 7 % 20 + 30, Write))
        .collect();
    hold.release();
    for i in 0..asked.len() {
        for later in &mut asked[i + 1..] {
            assert!(later.poll().is_none());
            assert_eq!(later.wakes(), 0);
        }
        assert_eq!(asked[i].wakes(), 1);
        asked[i].poll().expect("its turn").release();
    }
    assert!(lock.is_empty());
}

#[test]
fn a_waiter_is_not_overtaken_by_a_conflicting_request() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..1, Read);
    let mut everything = Asked::waiting(&lock, 0..u64::MAX, Write);
    // No thread holds these positions, but the writer waits for them.
    for at in [1, 1000, u64::MAX - 1] {
        assert!(lock.try_read(at..at + 1).is_err());
        assert!(lock.try_write(at..at + 1).is_err());
    }
    let mut reader = Asked::waiting(&lock, 5..6, Read);
    hold.release();
    assert_eq!((everything.wakes(), reader.wakes()), (1, 0));
    everything.poll().expect("its turn").release();
    reader.poll().expect("its turn").release();
    assert!(lock.is_empty());
}

/// A waiter has been woken, but does not run. Requests that hold the range for long pass it only as
/// often as they always may: by then, the time for more is over.
#[test]
fn slow_requests_pass_a_waiter_32_times() {
    // If a lock of another test has its word in the same bucket, its arrivals use passes that are
    // counted for this waiter.
    let exact = (0..20).any(|_| {
        let passes = passes_of_slow_requests();
        assert!(passes <= MAX_PASSES, "{passes} passes");
        passes == MAX_PASSES
    });
    assert!(exact, "no waiter was passed {MAX_PASSES} times");
}

fn passes_of_slow_requests() -> u32 {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..1, Write);
    let mut waiter = Asked::waiting(&lock, 0..1, Write);
    hold.release();
    let passes = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                let hold = lock.write(0..1).unwrap();
                passes.fetch_add(1, SeqCst);
                thread::sleep(Duration::from_millis(1));
                drop(hold);
            }
        });
        // Until the other thread waits.
        let mut before = u32::MAX;
        while before != passes.load(SeqCst) {
            before = passes.load(SeqCst);
            thread::sleep(Duration::from_millis(300));
        }
        waiter.poll().expect("its turn").release();
        before
    })
}

#[test]
fn a_request_is_granted_before_it_is_polled_again() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..10, Write);
    let mut asked = Asked::waiting(&lock, 0..10, Write);
    hold.release();
    // The release has granted the request, so later requests wait for it. A cancel wakes them.
    assert!(lock.try_read(0..10).is_err());
    let mut behind = Asked::waiting(&lock, 3..4, Upgradable);
    asked.cancel();
    assert_eq!(behind.wakes(), 1);
    behind.poll().expect("its turn").release();
    assert!(lock.is_empty());
}

#[test]
fn a_request_can_be_reused_after_ready_and_after_cancel() {
    let lock = IntervalLock::new();
    let mut asked = Asked::new(&lock, 0..10, Write);
    asked.cancel();
    let first = asked.poll().expect("nothing blocks it");
    // After `Ready`, the request no longer owns the hold. So a cancel does not release the hold.
    asked.cancel();
    assert_eq!(lock.len(), 1);
    assert!(asked.poll().is_none());
    asked.cancel();
    asked.cancel();
    assert_eq!((lock.len(), lock.waiting()), (1, 0));
    first.release();
    asked.poll().expect("nothing blocks it").release();
    assert!(lock.is_empty());
}

#[test]
fn only_the_last_waker_is_woken() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..10, Write);
    let mut asked = Asked::waiting(&lock, 0..10, Write);
    let [second, third] = [(); 2].map(|()| Arc::new(Counter::default()));
    assert!(asked.poll_with(&Waker::from(second.clone())).is_none());
    assert!(asked.poll_with(&Waker::from(third.clone())).is_none());
    // The earlier wakers have been dropped.
    assert_eq!(Arc::strong_count(&asked.counter), 1);
    assert_eq!(Arc::strong_count(&second), 1);
    assert_eq!(Arc::strong_count(&third), 2);
    hold.release();
    assert_eq!((asked.wakes(), second.wakes(), third.wakes()), (0, 0, 1));
    assert_eq!(Arc::strong_count(&third), 1);
    asked.poll().expect("its turn").release();
    // A cancelled request does not keep its waker either.
    let hold = Taken::lock(&lock, 0..10, Write);
    let mut asked = Asked::waiting(&lock, 0..10, Write);
    asked.cancel();
    assert_eq!(Arc::strong_count(&asked.counter), 1);
    hold.release();
    assert!(lock.is_empty());
}

/// The waker takes and releases a range of the lock inside `wake`.
#[test]
fn a_waker_may_use_the_lock() {
    struct Greedy {
        lock: IntervalLock,
        request: Mutex<IntervalRequest>,
        took: OnceLock<()>,
    }
    impl Wake for Greedy {
        fn wake(self: Arc<Self>) {
            let waker = Waker::from(self.clone());
            let mut request = self.request.lock().unwrap();
            // SAFETY: the request is used for this lock, span and access only.
            let poll = unsafe {
                (self.lock).poll_lock(span(0..10), Write, Pin::new(&mut request), &waker)
            };
            let Poll::Ready(Ok(token)) = poll else {
                panic!("woken before its turn");
            };
            // SAFETY: `poll_lock` has just returned this hold.
            unsafe { self.lock.unlock(span(0..10), Write, token) };
            self.took.set(()).expect("woken once");
        }
    }
    let greedy = Arc::new(Greedy {
        lock: IntervalLock::new(),
        request: Mutex::default(),
        took: OnceLock::new(),
    });
    let hold = Taken::lock(&greedy.lock, 0..10, Write);
    let waker = Waker::from(greedy.clone());
    let mut request = greedy.request.lock().unwrap();
    // SAFETY: as above.
    let poll =
        unsafe { (greedy.lock).poll_lock(span(0..10), Write, Pin::new(&mut request), &waker) };
    assert!(poll.is_pending());
    drop(request);
    hold.release();
    assert!(greedy.took.get().is_some());
    assert!(greedy.lock.is_empty());
}

#[test]
fn threads_and_polled_requests_wait_in_one_order() {
    let lock = IntervalLock::new();
    let order = Mutex::new(Vec::new());
    for _ in 0..50 {
        order.lock().unwrap().clear();
        let hold = Taken::lock(&lock, 0..10, Write);
        thread::scope(|scope| {
            let mut polled = Vec::new();
            for i in 0..6 {
                if i % 2 == 0 {
                    polled.push((i, Asked::waiting(&lock, 0..10, Write)));
                } else {
                    scope.spawn(|| {
                        let hold = lock.write(0..10).unwrap();
                        order.lock().unwrap().push("thread");
                        drop(hold);
                    });
                }
                while lock.waiting() <= i {
                    thread::yield_now();
                }
            }
            hold.release();
            for (_, mut asked) in polled {
                let taken = loop {
                    match asked.poll() {
                        Some(taken) => break taken,
                        None => thread::yield_now(),
                    }
                };
                order.lock().unwrap().push("polled");
                taken.release();
            }
        });
        let expected = ["polled", "thread"].repeat(3);
        assert_eq!(*order.lock().unwrap(), expected);
        assert!(lock.is_empty());
    }
}

/// A thread's parker may keep a wake that was not meant for this request.
#[test]
fn a_spurious_wake_grants_nothing() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..10, Write);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            Parker::with(|parker| parker.waker().wake_by_ref());
            let hold = lock.write(0..10).unwrap();
            assert_eq!(lock.waiting(), 0, "returned before its turn");
            drop(hold);
        });
        while lock.waiting() == 0 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(2));
        assert!(!waiter.is_finished());
        hold.release();
    });
    assert!(lock.is_empty());
}

/// A thread with a deadline polls whenever it wakes, and cancels when the deadline has passed.
#[test]
fn deadlines_that_pass_leave_no_trace() {
    let lock = IntervalLock::new();
    thread::scope(|scope| {
        for me in 0..6_u64 {
            let lock = &lock;
            scope.spawn(move || {
                let (mut in_time, mut late) = (0, 0);
                for i in 0..300 {
                    let access = [Read, Upgradable, Write][((me + i) % 3) as usize];
                    let start = (me * 3 + i) % 8;
                    let mut asked = Asked::new(lock, start..start + 4, access);
                    let deadline = Instant::now() + Duration::from_micros((i % 7) * 30);
                    let taken = Parker::with(|parker| {
                        loop {
                            if let Some(taken) = asked.poll_with(parker.waker()) {
                                return Some(taken);
                            }
                            if parker.park_until(Some(deadline)) == Wakeup::TimedOut {
                                asked.cancel();
                                return None;
                            }
                        }
                    });
                    match taken {
                        Some(taken) => {
                            in_time += 1;
                            thread::yield_now();
                            taken.release();
                        }
                        None => late += 1,
                    }
                }
                assert_eq!(in_time + late, 300);
            });
        }
    });
    assert!(lock.is_empty(), "{lock:?}");
    drop(lock.try_write(0..u64::MAX).unwrap());
}

#[test]
fn the_lock_reports_its_holders_waiters_and_memory() {
    let lock = IntervalLock::default();
    let empty = lock.memory_usage();
    // Eight shards of 128 bytes each.
    assert_eq!(empty, size_of::<IntervalLock>() + 8 * 128);
    let small = IntervalLock::with_shards(1, 1).memory_usage();
    let size = size_of::<IntervalLock>();
    assert_eq!(small, size, "nothing is allocated yet");
    assert_eq!(
        format!("{lock:?}"),
        "IntervalLock { held: [], waiting: [] }"
    );
    let hold = lock.upgradable_read(5..7).unwrap();
    let asked = Asked::waiting(&lock, 6..9, Write);
    assert_eq!(
        format!("{lock:?}"),
        "IntervalLock { held: [(5..7, Upgradable)], waiting: [(6..9, Write)] }"
    );
    assert_eq!((lock.len(), lock.waiting(), lock.is_empty()), (2, 1, false));
    drop((hold, asked));

    let lock = IntervalLock::with_capacity(100);
    let memory = lock.memory_usage();
    // In each of eight shards, about 150 bytes for each request.
    let each = (memory - empty) / 8;
    assert!((9000..16_000).contains(&each), "{each}");
    let holds: Vec<_> = (0..100).map(|at| lock.write(at..at + 1).unwrap()).collect();
    assert_eq!(lock.memory_usage(), memory);
    drop(holds);
    assert_eq!(lock.memory_usage(), memory);
}

/// After `try_reserve`, requests up to that number allocate nothing. More than fits into memory is
/// an error, and the lock remains usable.
#[test]
fn reserved_memory_suffices() {
    let lock = IntervalLock::with_shards(4, 16);
    assert!(lock.try_reserve(usize::MAX / 2).is_err());
    lock.try_reserve(100).expect("memory for a hundred");
    let memory = lock.memory_usage();
    let holds: Vec<_> = (0..100)
        .map(|i| lock.write(10 * i..10 * i + 10).expect("in range"))
        .collect();
    assert_eq!(lock.memory_usage(), memory);
    drop(holds);
    let _all = lock.write(0..u64::MAX).expect("in range");
    assert_eq!(lock.memory_usage(), memory);
}
