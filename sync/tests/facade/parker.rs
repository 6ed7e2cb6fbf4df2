//! Sleeping threads, as shipped.

#![cfg(all(
    feature = "std",
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use spanlock_sync::{Park, Parker, Wakeup};

/// A deadline that no test waits for.
fn far_away() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(100_000))
}

/// Consumes a wake that an earlier test of this thread may have left.
fn forget_wakes(parker: &Parker) {
    while parker.park_until(Some(Instant::now())) == Wakeup::Woken {}
}

#[test]
fn a_wake_before_the_sleep_is_kept_once() {
    Parker::with(|parker| {
        forget_wakes(parker);
        for _ in 0..3 {
            parker.waker().wake_by_ref();
        }
        assert_eq!(parker.park_until(None), Wakeup::Woken);
        assert_eq!(parker.park_until(Some(Instant::now())), Wakeup::TimedOut);
    });
}

#[test]
fn a_deadline_passes() {
    Parker::with(|parker| {
        forget_wakes(parker);
        let deadline = Instant::now() + Duration::from_millis(5);
        assert_eq!(parker.park_until(Some(deadline)), Wakeup::TimedOut);
        assert!(Instant::now() >= deadline, "ended too early");
    });
}

#[test]
fn another_thread_ends_the_sleep() {
    let woken = AtomicBool::new(false);
    for deadline in [None, far_away()] {
        woken.store(false, SeqCst);
        thread::scope(|scope| {
            Parker::with(|parker| {
                let waker = parker.waker().clone();
                let woken = &woken;
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(2));
                    woken.store(true, SeqCst);
                    waker.wake_by_ref();
                });
                while !woken.load(SeqCst) {
                    assert_eq!(parker.park_until(deadline), Wakeup::Woken);
                }
            });
        });
    }
}

#[test]
fn each_thread_has_a_parker_of_its_own() {
    Parker::with(|mine| {
        forget_wakes(mine);
        thread::scope(|scope| {
            scope.spawn(|| Parker::with(|other| other.waker().wake_by_ref()));
        });
        assert_eq!(mine.park_until(Some(Instant::now())), Wakeup::TimedOut);
    });
    // A thread has the same parker for each use.
    Parker::with(|mine| mine.waker().wake_by_ref());
    Parker::with(|again| assert_eq!(again.park_until(None), Wakeup::Woken));
}

/// A thread that waits may run foreign code that waits as well. That code does not consume the wake
/// of the outer wait, not even after a panic in an earlier nested use.
#[test]
fn a_nested_use_consumes_no_wake() {
    Parker::with(|outer| {
        forget_wakes(outer);
        outer.waker().wake_by_ref();
        let nested = || {
            Parker::with(|inner| {
                assert_eq!(inner.park_until(Some(Instant::now())), Wakeup::TimedOut);
                panic!("on purpose");
            })
        };
        for _ in 0..2 {
            assert!(std::panic::catch_unwind(nested).is_err());
        }
        assert_eq!(outer.park_until(None), Wakeup::Woken);
    });
}

#[test]
fn a_waker_outlives_its_thread() {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || Parker::with(|parker| send.send(parker.waker().clone()).unwrap()))
        .join()
        .unwrap();
    let waker = receive.recv().unwrap();
    waker.wake_by_ref();
    waker.wake();
}

/// Destructors of thread locals may take locks, and may run after the parker's own.
#[test]
fn a_thread_that_is_torn_down_can_still_sleep() {
    struct Sleeps(mpsc::Sender<Wakeup>);
    impl Drop for Sleeps {
        fn drop(&mut self) {
            Parker::with(|parker| {
                parker.waker().wake_by_ref();
                self.0.send(parker.park_until(None)).unwrap();
            });
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Vec<Sleeps>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        // This thread local is made before the parker's. The system chooses which destructor runs
        // first.
        LAST.with(|last| last.borrow_mut().push(Sleeps(send)));
        Parker::with(|_| {});
    })
    .join()
    .unwrap();
    assert_eq!(receive.recv(), Ok(Wakeup::Woken));
}
