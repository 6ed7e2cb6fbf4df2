//! The mutex and the condition variable, as shipped.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[cfg(feature = "std")]
use spanlock_sync::Condvar;
use spanlock_sync::Mutex;

#[test]
fn threads_hold_the_mutex_one_at_a_time() {
    static COUNT: Mutex<u64> = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..1000).for_each(|_| *COUNT.lock() += 1));
        }
    });
    assert_eq!(*COUNT.lock(), 8000);
}

#[test]
fn a_panic_does_not_poison() {
    let mut mutex = Mutex::new(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut value = mutex.lock();
        *value = 2;
        resume_unwind(Box::new("while locked"));
    }));
    assert!(panicked.is_err());
    assert_eq!(*mutex.lock(), 2);
    *mutex.get_mut() += 1;
    assert_eq!(*mutex.lock(), 3);
}

#[cfg(feature = "std")]
#[test]
fn a_wait_ends_when_notified() {
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    std::thread::scope(|scope| {
        for me in 0..4 {
            let (turn, changed) = (&turn, &changed);
            scope.spawn(move || {
                let mut now = turn.lock();
                while *now != me {
                    now = changed.wait(now);
                }
                *now += 1;
                drop(now);
                changed.notify_all();
            });
        }
    });
    assert_eq!(*turn.lock(), 4);
    changed.notify_one(); // Without waiters it has no effect.
}
