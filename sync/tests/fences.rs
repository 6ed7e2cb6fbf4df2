//! A process that chooses fences when it starts. (A process can choose once, so this file has one
//! test.)

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::sync::atomic::{AtomicU32, Ordering::*};
use std::thread;

use spanlock_sync::barrier::{Flag, heavy, light, use_fences};
use spanlock_sync::rcu::Rcu;

#[test]
fn a_process_can_choose_fences_at_its_start() {
    const ROUNDS: u32 = 200;
    assert!(
        use_fences() && use_fences(),
        "nothing has used a barrier yet"
    );
    let flag = Flag::default();
    flag.raise();
    assert!(flag.is_raised(Acquire) && heavy());
    assert!(use_fences(), "the choice stays");
    assert!(Rcu::new().synchronize());

    // Store buffering: at least one thread sees the store of the other.
    let [x, y] = [0; 2].map(AtomicU32::new);
    for _ in 0..ROUNDS {
        x.store(0, SeqCst);
        y.store(0, SeqCst);
        let (saw_y, saw_x) = thread::scope(|scope| {
            let often = scope.spawn(|| {
                x.store(1, Relaxed);
                light();
                y.load(Relaxed)
            });
            y.store(1, Relaxed);
            assert!(heavy());
            let saw_x = x.load(Relaxed);
            (often.join().unwrap(), saw_x)
        });
        assert!(saw_y == 1 || saw_x == 1);
    }
}
