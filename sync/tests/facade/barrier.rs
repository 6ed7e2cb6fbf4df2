//! The asymmetric barrier, on the processor that runs the test.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;

use spanlock_sync::barrier::{Flag, heavy, light};

/// Store buffering with one light side: at least one thread sees the other's store.
#[test]
fn one_side_sees_the_store_of_the_other() {
    const ROUNDS: u32 = 20_000;
    let [x, y, turn] = [0; 3].map(AtomicU32::new);
    let meet = |me: u32, round: u32| {
        turn.fetch_add(me, SeqCst);
        while turn.load(SeqCst) < 2 * round {
            spin_loop();
            thread::yield_now();
        }
    };
    let (lights, heavies) = thread::scope(|scope| {
        let often = scope.spawn(|| {
            let see = |round| {
                meet(1, round);
                x.store(round, Relaxed);
                light();
                y.load(Relaxed)
            };
            (1..=ROUNDS).map(see).collect::<Vec<_>>()
        });
        let rarely = scope.spawn(|| {
            let see = |round| {
                meet(1, round);
                y.store(round, Relaxed);
                assert!(heavy());
                x.load(Relaxed)
            };
            (1..=ROUNDS).map(see).collect::<Vec<_>>()
        });
        (often.join().unwrap(), rarely.join().unwrap())
    });
    for (round, (saw_y, saw_x)) in (1..=ROUNDS).zip(lights.into_iter().zip(heavies)) {
        assert!(
            saw_y >= round || saw_x >= round,
            "round {round}: neither side saw the store of the other"
        );
    }
}

/// With std on Linux, the flag relies on `membarrier`. Elsewhere, the flag makes the light side
/// fence.
#[test]
fn a_flag_is_raised_until_all_have_lowered_it() {
    let flag = Flag::default();
    assert!(!flag.is_raised(Acquire) && !flag.may_be_raised());
    flag.raise();
    flag.raise();
    assert!(heavy());
    flag.lower();
    assert!(flag.is_raised(Acquire) && flag.may_be_raised());
    flag.lower();
    assert!(!flag.is_raised(Relaxed) && !flag.may_be_raised());
}
