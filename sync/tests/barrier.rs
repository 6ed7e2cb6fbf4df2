//! The asymmetric barrier, on the processor at hand: store buffering with one light side.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;

use spanlock_sync::barrier::{heavy, light};

/// Of two threads that each store and then load what the other stores, one at least sees the other.
#[test]
fn one_of_the_two_sees_the_other() {
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
                heavy();
                x.load(Relaxed)
            };
            (1..=ROUNDS).map(see).collect::<Vec<_>>()
        });
        (often.join().unwrap(), rarely.join().unwrap())
    });
    for (round, (saw_y, saw_x)) in (1..=ROUNDS).zip(lights.into_iter().zip(heavies)) {
        assert!(
            saw_y >= round || saw_x >= round,
            "round {round}: neither saw the other"
        );
    }
}
