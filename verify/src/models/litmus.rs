//! The door itself: programs whose outcomes are known, so that a checker that finds other ones is noticed.
//!
//! Where a mode is known not to find an outcome, it is listed with the program: those are the reasons
//! for running every model in more than one mode.

use std::sync::Arc;
use std::time::Instant;

use spanlock_sync::atomic::{AtomicU32, Ordering::*, fence};
use spanlock_sync::wait::{Class, Listener, Spot, WaitQueue};
use spanlock_sync::{Park, Parker, Wakeup, thread};

use crate::plan::Mode;
use crate::program::{Expected, FAULTLESS, Fault, FaultKind, Program, Run};
use crate::trace::note;

const SPURIOUS_WAKE: &[&[Fault]] = &[&[Fault::new(FaultKind::SpuriousWake, 0)]];
const TIME_OUT: &[&[Fault]] = &[&[Fault::new(FaultKind::TimeOut, 0)]];
const WEAK_CAS: &[&[Fault]] = &[&[Fault::new(FaultKind::WeakCas, 1)]];

/// Two words that start as 0.
#[derive(Clone)]
struct Words(Arc<[AtomicU32; 2]>);

impl Words {
    fn new() -> Self {
        Words(Arc::new([AtomicU32::new(0), AtomicU32::new(0)]))
    }

    fn x(&self) -> &AtomicU32 {
        &self.0[0]
    }

    fn y(&self) -> &AtomicU32 {
        &self.0[1]
    }
}

/// Main runs `main`, another thread `other`.
fn two(main: fn(&Words), other: fn(&Words)) {
    let words = Words::new();
    let others = words.clone();
    let thread = thread::spawn(move || other(&others));
    main(&words);
    thread.join().expect("litmus threads do not fail");
}

/// Every litmus program.
pub fn programs() -> Vec<Program> {
    let mut programs = message_passing();
    programs.extend(store_buffering());
    programs.extend(blind_spots());
    programs.extend(waiting());
    programs.extend(faults());
    programs
}

fn litmus(
    property: &'static str,
    claim: &'static str,
    operations: u32,
    expected: Expected,
    run: fn(),
) -> Program {
    Program {
        primitive: "litmus",
        property,
        claim,
        threads: 2,
        operations,
        plans: FAULTLESS,
        expected: Some(expected),
        run: Run::Once(Arc::new(run)),
    }
}

/// Release and Acquire, and a release sequence.
fn message_passing() -> Vec<Program> {
    const STALE: &[&str] = &["T1:f=1 d=0"];
    vec![
        litmus(
            "message-passing",
            "Release and Acquire: whoever sees the flag sees the data",
            4,
            Expected {
                allowed: &["T1:f=0 d=0", "T1:f=0 d=1", "T1:f=1 d=1"],
                missed: &[],
            },
            || {
                let send = |w: &Words| {
                    w.x().store(1, Relaxed);
                    w.y().store(1, Release);
                };
                two(send, |w| {
                    let flag = w.y().load(Acquire);
                    note(1, format!("f={flag} d={}", w.x().load(Relaxed)));
                });
            },
        ),
        litmus(
            "message-passing-relaxed",
            "without them the flag can be seen before the data",
            4,
            Expected {
                allowed: &["T1:f=0 d=0", "T1:f=0 d=1", "T1:f=1 d=0", "T1:f=1 d=1"],
                missed: &[(Mode::RmwLoad, STALE), (Mode::Dfs, STALE)],
            },
            || {
                let send = |w: &Words| {
                    w.x().store(1, Relaxed);
                    w.y().store(1, Relaxed);
                };
                two(send, |w| {
                    let flag = w.y().load(Relaxed);
                    note(1, format!("f={flag} d={}", w.x().load(Relaxed)));
                });
            },
        ),
        litmus(
            "release-sequence",
            "a read-modify-write of the same thread keeps up what the Release before it published",
            5,
            Expected {
                allowed: &["T1:f=0 d=0", "T1:f=0 d=1", "T1:f=1 d=1", "T1:f=2 d=1"],
                missed: &[],
            },
            || {
                let send = |w: &Words| {
                    w.x().store(1, Relaxed);
                    w.y().store(1, Release);
                    w.y().fetch_add(1, Relaxed);
                };
                two(send, |w| {
                    let flag = w.y().load(Acquire);
                    note(1, format!("f={flag} d={}", w.x().load(Relaxed)));
                });
            },
        ),
    ]
}

/// Store buffering, without fences and with them.
fn store_buffering() -> Vec<Program> {
    const BOTH_ZERO: &[&str] = &["T0:y=0 T1:x=0"];
    vec![
        litmus(
            "store-buffering",
            "each may miss the other's store, if nothing forbids it",
            4,
            Expected {
                allowed: &[
                    "T0:y=0 T1:x=0",
                    "T0:y=0 T1:x=1",
                    "T0:y=1 T1:x=0",
                    "T0:y=1 T1:x=1",
                ],
                missed: &[(Mode::RmwLoad, BOTH_ZERO), (Mode::Dfs, BOTH_ZERO)],
            },
            || {
                let left = |w: &Words| {
                    w.x().store(1, Relaxed);
                    note(0, format!("y={}", w.y().load(Relaxed)));
                };
                two(left, |w| {
                    w.y().store(1, Relaxed);
                    note(1, format!("x={}", w.x().load(Relaxed)));
                });
            },
        ),
        litmus(
            "store-buffering-fenced",
            "a SeqCst fence on both sides forbids that both miss",
            6,
            Expected {
                allowed: &["T0:y=0 T1:x=1", "T0:y=1 T1:x=0", "T0:y=1 T1:x=1"],
                missed: &[],
            },
            || {
                let left = |w: &Words| {
                    w.x().store(1, Relaxed);
                    fence(SeqCst);
                    note(0, format!("y={}", w.y().load(Relaxed)));
                };
                two(left, |w| {
                    w.y().store(1, Relaxed);
                    fence(SeqCst);
                    note(1, format!("x={}", w.x().load(Relaxed)));
                });
            },
        ),
    ]
}

/// What stock loom does not find, and why each model runs in two modes of it.
fn blind_spots() -> Vec<Program> {
    vec![
        litmus(
            "load-then-store",
            "a load can see another thread's load-then-store (stock loom compares with the last access only)",
            3,
            Expected {
                allowed: &["T0:x=0 T1:x=0", "T0:x=1 T1:x=0"],
                missed: &[(Mode::Weak, &["T0:x=1 T1:x=0"])],
            },
            || {
                let look = |w: &Words| note(0, format!("x={}", w.x().load(Acquire)));
                two(look, |w| {
                    note(1, format!("x={}", w.x().load(Acquire)));
                    w.x().store(1, Release);
                });
            },
        ),
        Program {
            threads: 3,
            ..litmus(
                "increments-seen-halfway",
                "two compare-exchange loops that add one: a reader can see the value between (stock loom: never)",
                3,
                Expected {
                    allowed: &["T0:x=0", "T0:x=1", "T0:x=2"],
                    missed: &[(Mode::Weak, &["T0:x=1", "T0:x=2"])],
                },
                || {
                    let words = Words::new();
                    let adders = [(); 2].map(|()| {
                        let words = words.clone();
                        thread::spawn(move || {
                            let mut value = words.x().load(Relaxed);
                            while let Err(now) =
                                words
                                    .x()
                                    .compare_exchange(value, value + 1, AcqRel, Relaxed)
                            {
                                value = now;
                            }
                        })
                    });
                    note(0, format!("x={}", words.x().load(Acquire)));
                    for adder in adders {
                        adder.join().expect("adds one");
                    }
                    assert_eq!(words.x().load(Relaxed), 2, "an increment was lost");
                },
            )
        },
    ]
}

/// The one outcome that there is.
const ONE: fn(&'static [&'static str]) -> Expected = |allowed| Expected {
    allowed,
    missed: &[],
};

/// Waiting, as the door has it.
fn waiting() -> Vec<Program> {
    vec![
        litmus(
            "wake-before-sleep",
            "a wake that comes before the sleep is kept",
            2,
            ONE(&["T0:woken"]),
            || {
                Parker::with(|parker| {
                    let waker = parker.waker().clone();
                    let other = thread::spawn(move || waker.wake());
                    assert_eq!(parker.park_until(None), Wakeup::Woken);
                    note(0, "woken");
                    other.join().expect("wakes");
                });
            },
        ),
        litmus(
            "wait-and-wake",
            "a waiter that joins, looks and sleeps is never left asleep by one who stores, then looks at the queue",
            4,
            ONE(&["T0:saw 1"]),
            || wait_for_change(|_| {}),
        ),
    ]
}

/// Faults, when the plan says so.
fn faults() -> Vec<Program> {
    vec![
        Program {
            plans: SPURIOUS_WAKE,
            ..litmus(
                "spurious-wake",
                "a sleep that ends by itself is no wake: the waiter looks again",
                4,
                ONE(&["T0:saw 1", "T0:slept again T0:saw 1"]),
                || {
                    wait_for_change(|sleeps| {
                        if sleeps == 2 {
                            note(0, "slept again");
                        }
                    });
                },
            )
        },
        Program {
            plans: TIME_OUT,
            threads: 1,
            ..litmus(
                "time-out",
                "a deadline passes when the plan says so, though no clock runs",
                1,
                ONE(&["T0:TimedOut"]),
                || {
                    Parker::with(|parker| {
                        note(0, format!("{:?}", parker.park_until(Some(Instant::now()))));
                    });
                },
            )
        },
        Program {
            plans: WEAK_CAS,
            threads: 1,
            ..litmus(
                "weak-compare-exchange",
                "a weak compare-exchange fails when the plan says so, and tells the value it found",
                2,
                ONE(&["T0:Ok(0) T0:Err(1) T0:Ok(1)"]),
                || {
                    let words = Words::new();
                    for (from, to) in [(0, 1), (1, 2), (1, 2)] {
                        let result = words.x().compare_exchange_weak(from, to, AcqRel, Acquire);
                        note(0, format!("{result:?}"));
                    }
                },
            )
        },
    ]
}

/// Main waits until the word has changed, as a lock does; another thread changes it by a plain store, and wakes the
/// queue's head if the queue is occupied. `slept` is told how often main has been in bed.
fn wait_for_change(slept: fn(u32)) {
    const SPOT: Spot = Spot { word: 1, lane: 0 };
    let shared = Arc::new((AtomicU32::new(0), WaitQueue::new()));
    let other = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (word, queue) = &*shared;
            word.store(1, Release);
            if queue.is_occupied(SPOT.word) {
                queue.wake(SPOT);
            }
        })
    };
    let (word, queue) = &*shared;
    Parker::with(|parker| {
        let listener = Listener::new(parker.waker());
        let mut place = queue.join(SPOT, Class::Exclusive, &listener);
        let mut sleeps = 0;
        while !(queue.is_in_front(&mut place, &listener) == Some(true) && word.load(Acquire) == 1) {
            sleeps += 1;
            slept(sleeps);
            parker.park();
        }
        queue.leave(place, false).wake();
    });
    note(0, "saw 1");
    other.join().expect("changes the word");
}
