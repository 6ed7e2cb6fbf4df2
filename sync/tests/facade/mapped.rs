//! Atomic access to mapped memory, which is the same in every world.

use std::cell::UnsafeCell;

use spanlock_sync::mapped::{load_acquire, store_release};

#[test]
fn a_store_publishes_earlier_writes() {
    /// Stands for a mapped file.
    #[repr(align(64))]
    struct Region(UnsafeCell<[u64; 8]>);
    // SAFETY: only the functions of `mapped` access word 0. Word 0 says which thread may access
    // word 1.
    unsafe impl Sync for Region {}

    let region = &Region(UnsafeCell::new([0; 8]));
    let word = |i: usize| region.0.get().cast::<u64>().wrapping_add(i);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (flag, data) = (
                region.0.get().cast::<u64>(),
                region.0.get().cast::<u64>().wrapping_add(1),
            );
            for turn in (1..2000).step_by(2) {
                // SAFETY: aligned, within the region; this thread owns `data` while `flag` is
                // even.
                unsafe {
                    while load_acquire(flag) != turn - 1 {
                        std::thread::yield_now();
                    }
                    data.write(turn * 3);
                    store_release(flag, turn);
                }
            }
        });
        for turn in (1..2000).step_by(2) {
            // SAFETY: as above; this thread owns `data` while `flag` is odd.
            unsafe {
                while load_acquire(word(0)) != turn {
                    std::thread::yield_now();
                }
                assert_eq!(word(1).read(), turn * 3);
                word(1).write(0);
                store_release(word(0), turn + 1);
            }
        }
    });
}
