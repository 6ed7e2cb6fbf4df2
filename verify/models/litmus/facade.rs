//! Models of the primitives that locks need besides atomics: the mutex and the wait queue of the
//! facade (`spanlock-sync`), and fault plans, which list the faults to inject.
//!
//! Other models show why the facade avoids some of the checkers' primitives, or uses them in one
//! way only.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(spanlock_loom)]
use loom as world;
#[cfg(spanlock_shuttle)]
use shuttle as world;
use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::wait::{Class, Spot, Status, WaitQueue, Waiter};
use spanlock_sync::{Mutex, Park, Parker, Wakeup, thread};
// The models that use it do not run under the explorer.
#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
use std as world;
use world::sync::{Condvar, Mutex as WorldMutex};

use super::blind::*;
use super::{Litmus, Model, misses};
use spanlock_verify::Mode::*;
use spanlock_verify::note_as;
use spanlock_verify::{Fault, FaultKind};

const ENDS_BY_ITSELF: &[Fault] = &[Fault::new(FaultKind::SpuriousWake, 0, 0)];
const PASSES: &[Fault] = &[Fault::new(FaultKind::TimeOut, 0, 0)];
const SECOND_FAILS: &[Fault] = &[Fault::new(FaultKind::WeakCas, 0, 1)];

/// Every model.
pub(super) fn models() -> Vec<Model> {
    let mut models = vec![increments_seen_halfway()];
    models.extend(mutexes());
    models.extend(references());
    models.extend(sleeping());
    models.extend(waiting());
    models.extend(faults());
    models
}

/// Returns a model of two threads, without faults.
fn model(litmus: Litmus, pattern: &str, text: &str, operations: u32, run: fn()) -> Model {
    Model {
        pattern: pattern.to_owned(),
        text: text.to_owned(),
        threads: 2,
        operations,
        faults: &[],
        is_bare: false,
        litmus,
        run: Arc::new(run),
    }
}

/// Marks a model that uses the checker's own mutexes, condition variables or `park`. The facade
/// does not see their operations, so the harness cannot tell which steps are independent. Under the
/// explorer, there is no such model: it has only what the facade needs.
fn past_the_facade(model: Model) -> Model {
    Model {
        is_bare: true,
        ..model
    }
}

/// Returns a second model of the blind spot that `load-then-store` shows. Its loops are like those
/// of a lock.
fn increments_seen_halfway() -> Model {
    let litmus = Litmus {
        name: "increments-seen-halfway",
        claim: "a reader can see the value between two increments by compare-exchange loops",
        reason: "nothing forbids it, even if all accesses are SeqCst",
        allowed: "0 1 2",
        deviations: const { &[misses(Weak, "1 2", LOAD_THEN_STORE)] },
    };
    let text = "T0: x.load(Acquire)\nT1, T2: x += 1, by a loop of load(Relaxed) and \
                compare_exchange(AcqRel, Relaxed)";
    let run = || {
        let x = Arc::new(AtomicU32::new(0));
        let adders = [(); 2].map(|()| {
            let x = x.clone();
            thread::spawn(move || {
                let mut value = x.load(Relaxed);
                while let Err(now) = x.compare_exchange(value, value + 1, AcqRel, Relaxed) {
                    value = now;
                }
            })
        });
        note_as(0, format!("x={}", x.load(Acquire)));
        for adder in adders {
            adder.join().expect("adds one");
        }
        assert_eq!(x.load(Relaxed), 2, "an increment was lost");
    };
    Model {
        threads: 3,
        ..model(litmus, "T0:x=_", text, 3, run)
    }
}

fn mutexes() -> Vec<Model> {
    vec![
        model(
            Litmus {
                name: "mutex",
                claim: "a thread that locks a mutex sees what was done under it, and is alone \
                        inside",
                reason: "unlocks synchronize with later locks (thread.mutex.requirements.mutex)",
                allowed: "01 10",
                deviations: &[],
            },
            "T0:count=_ T1:count=_",
            "both: lock, read, increment, unlock",
            2,
            || {
                let count = Arc::new(Mutex::new(0));
                let others = count.clone();
                let add = |who: usize, count: &Mutex<u32>| {
                    let mut count = count.lock();
                    note_as(who, format!("count={}", *count));
                    *count += 1;
                };
                let other = thread::spawn(move || add(1, &others));
                add(0, &count);
                other.join().expect("adds one");
            },
        ),
        model(
            Litmus {
                name: "mutex-store-buffering",
                claim: "locking different mutexes is no fence, so both threads may miss the \
                        other's store",
                reason: "only operations on the same mutex are ordered \
                         (thread.mutex.requirements.mutex)",
                allowed: "00 01 10 11",
                deviations: const { &[] },
            },
            "T0:y=_ T1:x=_",
            "T0: x.store(1, Relaxed); lock a; unlock a; y.load(Relaxed)\n\
             T1: y.store(1, Relaxed); lock b; unlock b; x.load(Relaxed)",
            2,
            || {
                let shared = [(); 2].map(|()| Arc::new((AtomicU32::new(0), Mutex::new(()))));
                let one = |me: usize, [mine, its]: [&Arc<(AtomicU32, Mutex<()>)>; 2]| {
                    mine.0.store(1, Relaxed);
                    drop(mine.1.lock());
                    note_as(me, format!("{}={}", ["y", "x"][me], its.0.load(Relaxed)));
                };
                let [a, b] = shared.clone();
                let other = thread::spawn(move || one(1, [&b, &a]));
                let [a, b] = &shared;
                one(0, [a, b]);
                other.join().expect("reads");
            },
        ),
        past_the_facade(model(
            Litmus {
                name: "mutex-try-lock",
                claim: "a try fails while another thread holds the mutex",
                reason: "`Mutex::try_lock` fails exactly then",
                allowed: "0 1",
                deviations: const { &[misses(Weak, "0", TRY_LOCK)] },
            },
            "T0:ok=_",
            "T0: try_lock of the checker's mutex\nT1: lock; unlock",
            2,
            || {
                let mutex = Arc::new(WorldMutex::new(()));
                let others = mutex.clone();
                let other = thread::spawn(move || drop(others.lock()));
                note_as(0, format!("ok={}", u32::from(mutex.try_lock().is_ok())));
                other.join().expect("locks");
            },
        )),
    ]
}

/// Models of the facade's `Arc`. Each thread has an atomic of its own, so only the count of
/// references makes the order of the threads matter.
fn references() -> Vec<Model> {
    use spanlock_sync::{Arc, take_last};

    vec![
        model(
            Litmus {
                name: "only-reference",
                claim: "a thread that asks whether it has the only reference may come before or \
                        after the drop of another",
                reason: "`Arc::get_mut` returns the value if there is no other reference",
                allowed: "0 1",
                deviations: &[],
            },
            "T0:only=_",
            "T0: x.load(Relaxed); get_mut of its reference\n\
             T1: y.load(Relaxed); drop its reference",
            2,
            || {
                let mut mine = Arc::new(());
                let its = mine.clone();
                let other = thread::spawn(move || {
                    AtomicU32::new(0).load(Relaxed);
                    drop(its);
                });
                AtomicU32::new(0).load(Relaxed);
                let only = Arc::get_mut(&mut mine).is_some();
                note_as(0, format!("only={}", u32::from(only)));
                other.join().expect("drops");
            },
        ),
        model(
            Litmus {
                name: "last-reference",
                claim: "either of two threads may have the last reference",
                reason: "of several calls of `Arc::into_inner`, exactly one returns the value",
                allowed: "01 10",
                deviations: &[],
            },
            "T0:last=_ T1:last=_",
            "both: load(Relaxed) of an atomic of its own; take_last",
            2,
            || {
                let reference = Arc::new(());
                let its = reference.clone();
                let take = |who: usize, reference| {
                    AtomicU32::new(0).load(Relaxed);
                    let last = u32::from(take_last(reference).is_some());
                    note_as(who, format!("last={last}"));
                };
                let other = thread::spawn(move || take(1, its));
                take(0, reference);
                other.join().expect("takes");
            },
        ),
        model(
            Litmus {
                name: "last-reference-then",
                claim: "the thread that takes the last reference may act before or after the \
                        other thread's next operation",
                reason: "of several calls of `Arc::into_inner`, exactly one returns the value",
                allowed: "00 10 11",
                deviations: &[],
            },
            "T0:last=_ T1:z=_",
            "T0: load(Relaxed) of an atomic of its own; take_last; if last, z.store(1, Relaxed)\n\
             T1: load(Relaxed) of an atomic of its own; take_last; z.load(Relaxed)",
            2,
            || {
                let reference = Arc::new(());
                let its = reference.clone();
                let z = std::sync::Arc::new(AtomicU32::new(0));
                let other_z = std::sync::Arc::clone(&z);
                let other = thread::spawn(move || {
                    AtomicU32::new(0).load(Relaxed);
                    let _ = take_last(its);
                    note_as(1, format!("z={}", other_z.load(Relaxed)));
                });
                AtomicU32::new(0).load(Relaxed);
                let last = take_last(reference).is_some();
                if last {
                    z.store(1, Relaxed);
                }
                note_as(0, format!("last={}", u32::from(last)));
                other.join().expect("takes");
            },
        ),
    ]
}

/// Waits for a flag under a mutex, and sleeps at most once. Notes whether the thread slept (1, or 2
/// if its time limit passed), and the flag. `sleep` returns whether the limit passed, and the flag.
fn sleep_once(sleep: fn(world::sync::MutexGuard<'_, bool>, &Condvar) -> (bool, bool)) {
    let shared = Arc::new((WorldMutex::new(false), Condvar::new()));
    let others = shared.clone();
    let other = thread::spawn(move || {
        *others.0.lock().expect("no panics") = true;
        others.1.notify_one();
    });
    let flag = shared.0.lock().expect("no panics");
    if *flag {
        drop(flag);
        note_as(0, "slept=0 flag=1");
    } else {
        let (event, flag) = sleep(flag, &shared.1);
        note_as(
            0,
            format!("slept={} flag={}", 1 + u32::from(event), u32::from(flag)),
        );
    }
    other.join().expect("sets the flag");
}

/// Models of sleeping by the checkers' own primitives.
fn sleeping() -> Vec<Model> {
    vec![
        past_the_facade(model(
            Litmus {
                name: "condvar",
                claim: "a wait on a condition variable ends by a notification, or by itself",
                reason: "`Condvar::wait` is susceptible to spurious wakeups",
                allowed: "01 10 11",
                deviations: const { &[misses(Weak, "10", SPURIOUS_WAKE)] },
            },
            "T0:slept=_ flag=_",
            "T0: lock; unless the flag is set, wait once\n\
             T1: lock; set the flag; unlock; notify_one",
            4,
            || {
                sleep_once(|flag, changed| {
                    let flag = changed.wait(flag).expect("no panics");
                    (false, *flag)
                });
            },
        )),
        past_the_facade(model(
            Litmus {
                name: "condvar-time-out",
                claim: "a wait with a time limit ends by a notification or by itself (slept=1), or by \
                        the limit (slept=2)",
                reason: "`Condvar::wait_timeout` says whether the limit has passed, and the limit \
                         may pass at any moment",
                allowed: "01 10 11 20 21",
                deviations: const { &[misses(Weak, "10 20 21", TIME_OUT)] },
            },
            "T0:slept=_ flag=_",
            "T0: lock; unless the flag is set, wait_timeout once\n\
             T1: lock; set the flag; unlock; notify_one",
            4,
            || {
                sleep_once(|flag, changed| {
                    let wait = changed.wait_timeout(flag, Duration::from_millis(1));
                    let (flag, result) = wait.expect("no panics");
                    (result.timed_out(), *flag)
                });
            },
        )),
        past_the_facade(model(
            Litmus {
                name: "park",
                claim: "a parked thread continues when it is unparked, or by itself",
                reason: "`thread::park` may return spuriously; an unpark synchronizes with the \
                         park that it ends",
                allowed: "0 1",
                deviations: const { &[misses(Weak, "0", SPURIOUS_WAKE)] },
            },
            "T0:x=_",
            "T0: park; x.load(Relaxed)\nT1: x.store(1, Relaxed); unpark T0",
            3,
            || {
                let x = Arc::new(AtomicU32::new(0));
                let others = x.clone();
                let main = world::thread::current();
                let other = thread::spawn(move || {
                    others.store(1, Relaxed);
                    main.unpark();
                });
                world::thread::park();
                note_as(0, format!("x={}", x.load(Relaxed)));
                other.join().expect("unparks");
            },
        )),
    ]
}

/// Models of waiting through the facade.
fn waiting() -> Vec<Model> {
    vec![
        model(
            Litmus {
                name: "wake-before-sleep",
                claim: "a wake that comes before the sleep is kept",
                reason: "`Park` keeps one wake that comes before the sleep",
                allowed: "1",
                deviations: &[],
            },
            "T0:woken=_",
            "T0: park by the facade\nT1: wake it",
            2,
            || {
                Parker::with(|parker| {
                    let waker = parker.waker().clone();
                    let other = thread::spawn(move || waker.wake());
                    assert_eq!(parker.park_until(None), Wakeup::Woken);
                    note_as(0, "woken=1");
                    other.join().expect("wakes");
                });
            },
        ),
        model(
            Litmus {
                name: "wait-and-wake",
                claim: "a waiter that joins the queue, rechecks and sleeps is never missed by a \
                        thread that stores and then checks the queue",
                reason: "`WaitQueue`, Q-I2: a store, a barrier and a check on both sides",
                allowed: "1",
                deviations: &[],
            },
            "T0:saw=_",
            "T0: join; until at the head and x = 1, sleep; leave\n\
             T1: x.store(1, Release); if the head is asleep, wake it",
            4,
            || {
                wait_for_change();
                note_as(0, "saw=1");
            },
        ),
    ]
}

/// Models of faults that a fault plan injects.
fn faults() -> Vec<Model> {
    let spurious_wake = model(
        Litmus {
            name: "spurious-wake",
            claim: "a waiter whose sleep ends by itself checks the word again",
            reason: "the fault plan ends the first sleep",
            allowed: "0 1",
            deviations: &[],
        },
        "T0:again=_",
        "as wait-and-wake",
        4,
        || {
            let sleeps = wait_for_change();
            note_as(0, format!("again={}", u32::from(sleeps > 1)));
        },
    );
    let time_out = model(
        Litmus {
            name: "time-out",
            claim: "a deadline passes when the fault plan says so, although no clock runs",
            reason: "the fault plan lets the first deadline pass",
            allowed: "1",
            deviations: &[],
        },
        "T0:passed=_",
        "T0: park by the facade, with a deadline",
        1,
        || {
            Parker::with(|parker| {
                let wakeup = parker.park_until(Some(Instant::now()));
                note_as(
                    0,
                    format!("passed={}", u32::from(wakeup == Wakeup::TimedOut)),
                );
            });
        },
    );
    let weak = model(
        Litmus {
            name: "weak-compare-exchange",
            claim: "a weak compare-exchange fails when the fault plan says so, and returns the \
                    value it found",
            reason: "the fault plan fails the second compare-exchange",
            allowed: "100111",
            deviations: &[],
        },
        "T0:ok=_ x=_ ok=_ x=_ ok=_ x=_",
        "T0: x.compare_exchange_weak(0, 1); the same (1, 2); the same (1, 2)",
        3,
        || {
            let x = AtomicU32::new(0);
            let results = [(0, 1), (1, 2), (1, 2)].map(|(from, to)| {
                match x.compare_exchange_weak(from, to, AcqRel, Acquire) {
                    Ok(value) => format!("ok=1 x={value}"),
                    Err(value) => format!("ok=0 x={value}"),
                }
            });
            note_as(0, results.join(" "));
        },
    );
    vec![
        Model {
            faults: ENDS_BY_ITSELF,
            ..spurious_wake
        },
        Model {
            faults: PASSES,
            threads: 1,
            ..time_out
        },
        Model {
            faults: SECOND_FAILS,
            threads: 1,
            ..weak
        },
    ]
}

/// Waits until a word has changed, as a lock does. Another thread changes the word by a plain
/// store, and wakes the queue's head if it is asleep. Returns how often the main thread
/// slept.
fn wait_for_change() -> u32 {
    const SPOT: Spot = Spot { word: 1, lane: 0 };
    let shared = Arc::new((AtomicU32::new(0), WaitQueue::new()));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (word, queue) = &*shared;
            word.store(1, Release);
            if queue.is_asleep(SPOT.word) {
                queue.wake(SPOT);
            }
        })
    };
    let (word, queue) = &*shared;
    let sleeps = Parker::with(|parker| {
        let mut waiter = pin!(Waiter::new());
        let waker = || parker.waker().clone();
        // SAFETY: the waiter leaves below.
        let joined = unsafe { queue.join(waiter.as_mut(), SPOT, Class::Exclusive, waker()) };
        assert!(joined, "nobody else waits");
        let mut sleeps = 0;
        while word.load(Acquire) != 1 {
            if waiter.status() == Status::Asleep {
                sleeps += 1;
                parker.park();
            } else {
                let rearmed = queue.rearm(waiter.as_mut(), waker());
                assert!(rearmed.is_ok(), "nobody evicts it");
            }
        }
        queue.leave(waiter);
        sleeps
    });
    other.join().expect("changes the word");
    sleeps
}
