//! The world of simulated cores.
#![cfg(spanlock_simulated)]

use std::sync::{Mutex as StdMutex, MutexGuard as StdGuard, PoisonError};
use std::time::Duration;

use spanlock_cores::{Arena, Program, core, set_up, work};
use spanlock_sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use spanlock_sync::rcu::Rcu;
use spanlock_sync::{Arc, Condvar, Mutex, Park, Parker, Wakeup, hint, thread, time};

#[global_allocator]
static ARENA: Arena = Arena;

const CORES: usize = 8;
const ROUNDS: usize = 50;

/// Makes what cores share. Lets one test at a time use the arena.
fn shared<T>(f: impl FnOnce() -> T) -> (StdGuard<'static, ()>, Arc<T>) {
    static ALONE: StdMutex<()> = StdMutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: each test drops all memory of the arena before the next one begins.
    let made = unsafe { set_up(0, || Arc::new(f())) };
    (alone, made)
}

#[test]
fn cores_hold_a_mutex_one_at_a_time() {
    let (_alone, counter) = shared(|| (Mutex::new(0), AtomicU32::new(0)));
    let ours = counter.clone();
    Program::new(CORES).unwrap().run(move |_| {
        for _ in 0..ROUNDS {
            let mut count = ours.0.lock();
            assert_eq!(ours.1.swap(1, Relaxed), 0, "another core holds the mutex");
            work(5_000); // Long enough for the others to sleep.
            *count += 1;
            ours.1.store(0, Relaxed);
            drop(count);
        }
    });
    assert_eq!(*counter.0.lock(), CORES * ROUNDS);
}

#[test]
fn a_condition_variable_wakes_those_who_wait() {
    let (_alone, turn) = shared(|| (Mutex::new(0), Condvar::new()));
    Program::new(CORES).unwrap().run(move |core| {
        let mut now = turn.0.lock();
        while *now != core {
            now = turn.1.wait(now);
        }
        *now += 1;
        turn.1.notify_all();
    });
}

#[test]
fn a_parked_core_is_woken_and_times_out() {
    let (_alone, woken) = shared(|| AtomicPtr::<Parker>::new(std::ptr::null_mut()));
    Program::new(2).unwrap().run(move |core| {
        if core == 0 {
            Parker::with(|parker| {
                let began = time::now().unwrap();
                let deadline = began + Duration::from_micros(30);
                assert_eq!(parker.park_until(Some(deadline)), Wakeup::TimedOut);
                assert!(time::elapsed(began) >= Duration::from_micros(30));
                woken.store(std::ptr::from_ref(parker).cast_mut(), Release);
                parker.park();
                assert!(time::elapsed(began) >= Duration::from_micros(100));
            });
        } else {
            work(300_000);
            // SAFETY: the other core waits in its parker until this core wakes it.
            let parker = unsafe { &*woken.load(Acquire) };
            parker.waker().wake_by_ref();
        }
    });
}

#[test]
fn memory_is_freed_when_no_core_reads_it() {
    let (_alone, place) = shared(|| {
        let first = Box::into_raw(Box::new(AtomicU32::new(1)));
        (Rcu::new(), AtomicPtr::new(first))
    });
    Program::new(4).unwrap().run(move |core| {
        for round in 2..ROUNDS as u32 {
            if core == 0 {
                let next = Box::into_raw(Box::new(AtomicU32::new(round)));
                let last = place.1.swap(next, AcqRel);
                assert!(place.0.synchronize());
                // SAFETY: no core reads it any more. A reader would see the zero.
                unsafe { (*last).store(0, Relaxed) };
            } else {
                let guard = place.0.enter();
                // SAFETY: the guard protects it.
                let value = unsafe { &*place.1.load(Acquire) };
                work(500);
                assert_ne!(value.load(Relaxed), 0, "freed too early");
                drop(guard);
            }
        }
    });
}

#[test]
fn a_core_is_a_thread() {
    let (_alone, seen) = shared(|| [const { AtomicU32::new(0) }; CORES]);
    let ours = seen.clone();
    Program::new(CORES).unwrap().run(move |number| {
        assert_eq!(
            (core(), thread::index(), thread::cores()),
            (number, number, CORES)
        );
        ours[number].fetch_add(1, Relaxed);
        let mut spin = hint::Backoff::new();
        let rounds = std::iter::from_fn(|| spin.round().then_some(())).count();
        assert_eq!(rounds, 17 + 16, "no yield lets another thread run");
    });
    assert!(seen.iter().all(|it| it.load(Relaxed) == 1));
}
