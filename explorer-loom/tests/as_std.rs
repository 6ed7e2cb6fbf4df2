//! Rare cases in which this crate must do as std does.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::TryLockError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicUsize;
use loom::sync::{Arc, Mutex, RwLock};
use loom::thread;

mod common;
use common::{failure, outcomes};

#[test]
fn a_clone_is_counted_when_another_thread_sees_it() {
    let seen = outcomes(|| {
        let arc = Arc::new(());
        let its = arc.clone();
        let other = thread::spawn(move || {
            let more = its.clone();
            drop(more);
            its
        });
        let counts = (Arc::strong_count(&arc), Arc::strong_count(&arc));
        let its = other.join().unwrap();
        assert_eq!(Arc::strong_count(&its), 2);
        counts
    });
    assert_eq!(seen, [(2, 2), (2, 3), (3, 2), (3, 3)]);
}

#[test]
fn a_count_orders_nothing() {
    // Std counts by a relaxed load.
    let seen = outcomes(|| {
        let arc = Arc::new(AtomicUsize::new(0));
        let its = arc.clone();
        let other = thread::spawn(move || {
            its.store(1, Relaxed);
            drop(its);
        });
        let seen = (Arc::strong_count(&arc), arc.load(Relaxed));
        other.join().unwrap();
        seen
    });
    assert_eq!(seen, [(1, 0), (1, 1), (2, 0), (2, 1)]);
}

/// A local whose destructor uses the keys.
struct Uses(&'static str);

loom::thread_local! {
    static OWN: Uses = Uses("own");
    static NEXT: Uses = Uses("next");
    static LOG: Cell<Option<Arc<Mutex<Vec<(&'static str, bool)>>>>> = Cell::new(None);
}

impl Drop for Uses {
    fn drop(&mut self) {
        let key = if self.0 == "own" { &OWN } else { &NEXT };
        let is_there = key.try_with(|_| ()).is_ok();
        let log = LOG.try_with(|log| {
            let arc = log.take();
            log.set(arc.clone());
            arc
        });
        if let Ok(Some(log)) = log {
            log.lock().unwrap().push((self.0, is_there));
        }
        // The destructor of a local may begin another one.
        assert_eq!(NEXT.try_with(|_| ()).is_ok(), self.0 == "own");
    }
}

#[test]
fn a_local_is_gone_while_its_destructor_runs() {
    loom::model(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let its = log.clone();
        let other = thread::spawn(move || {
            LOG.with(|it| it.set(Some(its)));
            OWN.with(|_| ());
        });
        other.join().unwrap();
        let log = log.lock().unwrap();
        assert_eq!(*log, [("own", false), ("next", false)]);
    });
}

#[test]
fn a_panic_with_a_guard_poisons() {
    let seen = outcomes(|| {
        let locks = Arc::new((Mutex::new(0), RwLock::new(0)));
        let its = locks.clone();
        let other = thread::spawn(move || {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _guards = (its.0.lock(), its.1.write());
                resume_unwind(Box::new(()));
            }));
            assert!(caught.is_err() && !thread::panicking());
        });
        // Both guards live until the end of the statement.
        let seen = (locks.0.lock().is_err(), locks.1.read().is_err());
        other.join().unwrap();
        assert!(matches!(locks.0.try_lock(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(locks.1.try_read(), Err(TryLockError::Poisoned(_))));
        assert!(locks.1.write().is_err());
        seen
    });
    assert_eq!(seen, [(false, false), (true, true)]);
}

#[test]
fn a_panic_that_other_threads_see_is_refused() {
    let message = failure(|| {
        let locks = Arc::new((Mutex::new(0), Mutex::new(0)));
        let its = locks.clone();
        let other = thread::spawn(move || {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _guards = (its.0.lock(), its.1.lock());
                resume_unwind(Box::new(()));
            }));
            assert!(caught.is_err());
        });
        let _ = locks.0.lock().is_err();
        let _ = locks.1.lock().is_err();
        other.join().unwrap();
    });
    assert!(message.contains("while it unwinds"), "{message}");
}

#[test]
fn a_panic_poisons_no_other_lock() {
    loom::model(|| {
        let mutex = Arc::new((Mutex::new(0), Mutex::new(0)));
        let its = mutex.clone();
        let other = thread::spawn(move || {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _guard = its.0.lock();
                resume_unwind(Box::new(()));
            }));
            assert!(caught.is_err());
            // Not while it panics.
            drop(its.1.lock().unwrap());
        });
        // Whatever the other thread does meanwhile.
        drop(mutex.1.lock().unwrap());
        drop(mutex.1.lock().unwrap());
        other.join().unwrap();
        drop(mutex.1.lock().unwrap());
        // A reader poisons nothing, and a guard that is taken during a panic does not, either.
        let lock = RwLock::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            struct Locks<'a>(&'a Mutex<i32>);
            impl Drop for Locks<'_> {
                fn drop(&mut self) {
                    drop(self.0.lock().unwrap());
                }
            }
            let _locks = (Locks(&mutex.1), lock.read());
            resume_unwind(Box::new(()));
        }));
        assert!(caught.is_err() && lock.write().is_ok());
        drop(mutex.1.lock().unwrap());
    });
}

struct SendCell(UnsafeCell<i32>);

// SAFETY: a model searches for what this breaks.
unsafe impl Sync for SendCell {}

#[test]
fn the_end_of_an_access_is_named_by_its_line() {
    let message = failure(|| {
        let shared = Arc::new((SendCell(UnsafeCell::new(0)), AtomicUsize::new(0)));
        let its = shared.clone();
        let other = thread::spawn(move || {
            if its.1.load(Acquire) == 1 {
                let _reads = its.0.0.get();
            }
        });
        let lasts_longer = shared.0.0.get();
        shared.1.store(1, Release);
        drop(lasts_longer);
        shared.0.0.with_mut(|_| ());
        other.join().unwrap();
    });
    assert!(message.contains("Race: a plain"), "{message}");
    assert!(!message.contains("library/core"), "{message}");
}

#[test]
fn destructors_are_drawn_with_the_lines_of_their_values() {
    let message = failure(|| {
        let shared = Arc::new((Mutex::new(0), RwLock::new(0)));
        let its = shared.clone();
        let other = thread::spawn(move || {
            *its.0.lock().unwrap() += 1;
            *its.1.write().unwrap() += 1;
            drop(its.1.read());
            let (_sender, _receiver) = loom::sync::mpsc::channel::<()>();
        });
        other.join().unwrap();
        panic!("to see the drawing");
    });
    assert!(!message.contains("library/core"), "{message}");
}
