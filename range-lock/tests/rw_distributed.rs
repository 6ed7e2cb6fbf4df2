//! Slots of the distributed lock, and the tokens that find them again.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Wake, Waker};
use std::thread;

use spanlock_range_lock::{Access, RangeLockExt, RawRangeLock, RwDistributed, Span};

#[test]
fn the_number_of_slots_is_clamped() {
    for slots in [0, 1, 2, 3, 255, RwDistributed::MAX_SLOTS, 257, usize::MAX] {
        let lock = RwDistributed::with_slots(slots);
        let read = lock.read(0..10).unwrap();
        assert!(lock.try_read(0..10).is_ok());
        assert!(lock.try_write(0..10).is_err());
        drop(read);
        drop(lock.try_write(0..10).unwrap());
        assert_eq!(lock.capacity(), u64::MAX);
    }
    drop(RwDistributed::default().write(0..1).unwrap());
}

#[test]
fn a_token_names_the_readers_slot() {
    const SLOTS: usize = 4;
    let lock = RwDistributed::with_slots(SLOTS);
    let all_hold = Barrier::new(16);
    // Sixteen readers at once, in sixteen threads.
    let tokens: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let token = lock.lock(Span::FULL, Access::Read).unwrap();
                    all_hold.wait();
                    token
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let slots: BTreeSet<_> = tokens.iter().map(|token| token.into_word()).collect();
    assert!(slots.iter().all(|slot| *slot < SLOTS), "{slots:?}");
    assert!(slots.len() > 1, "all sixteen threads on one slot");
    // This thread releases them all, although at most one of the slots is its own. No writer gets
    // in before the last release.
    for token in tokens {
        assert!(lock.try_write(0..1).is_err());
        // SAFETY: acquired above with this access and token, and released once.
        unsafe { lock.unlock(Span::FULL, Access::Read, token) };
    }
    drop(lock.try_write(0..1).unwrap());
}

#[test]
fn another_thread_releases_the_right_hold() {
    let lock = RwDistributed::with_slots(8);
    for _ in 0..100 {
        let first = lock.read(0..1).unwrap();
        let second = lock.read(0..1).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| drop(first));
        });
        assert!(
            lock.try_write(0..1).is_err(),
            "the second read was released instead"
        );
        drop(second);
        drop(lock.try_write(0..1).unwrap());
    }
}

/// If a foreign waker panics during a downgrade, no slot stays locked against readers. (The hold
/// itself is forgotten: its reader stays counted.)
#[test]
fn a_panicking_waker_does_not_stop_a_downgrade() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }
    const SLOTS: usize = 4;
    let lock = RwDistributed::with_slots(SLOTS);
    let writer = lock.write(0..1).unwrap();
    {
        // It waits at the first slot.
        let mut waiting = pin!(lock.upgradable_read_async(0..1));
        let waker = Waker::from(Arc::new(Panics));
        let mut context = Context::from_waker(&waker);
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let downgrade = || drop(writer.downgrade());
        assert!(catch_unwind(AssertUnwindSafe(downgrade)).is_err());
    }
    // Together these threads visit every slot.
    for _ in 0..2 * SLOTS {
        thread::scope(|scope| {
            scope.spawn(|| assert!(lock.try_read(0..1).is_ok()));
        });
    }
}
