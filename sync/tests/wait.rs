//! Queues of waiters, as shipped: order, the bit in the word, wakes.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Wake, Waker};

use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{Park, Parker};

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Wakes {
    fn new() -> (Arc<Wakes>, Waker) {
        let wakes = Arc::<Wakes>::default();
        (wakes.clone(), wakes.into())
    }

    fn count(&self) -> u32 {
        self.0.load(SeqCst)
    }
}

/// A word's address: no other test has it while this one runs.
fn key(word: &Cell<bool>) -> usize {
    std::ptr::from_ref(word) as usize
}

#[test]
fn first_come_first_served() {
    let queue = WaitQueue::new();
    let bit = Cell::new(false);
    let set = || bit.set(true);
    let clear = || bit.set(false);
    let [(a_wakes, a), (b_wakes, b), (c_wakes, c)] = [0; 3].map(|_| Wakes::new());

    queue.wake_head(key(&bit)); // Nobody stands there.
    let mut first = queue.join(key(&bit), a, set);
    assert!(bit.get(), "whoever joins sets the bit");
    let mut second = queue.join(key(&bit), b, set);
    let mut third = queue.join(key(&bit), c, set);
    assert!(first.is_head() && !second.is_head() && !third.is_head());

    // A wake is the head's, who stays the head.
    queue.wake_head(key(&bit));
    queue.wake_head(key(&bit));
    assert_eq!(
        (a_wakes.count(), b_wakes.count(), c_wakes.count()),
        (2, 0, 0)
    );
    assert!(first.is_head() && !second.is_head());

    // A head that leaves wakes the next, if it says so.
    first.leave(true, clear);
    assert_eq!((b_wakes.count(), c_wakes.count()), (1, 0));
    assert!(second.is_head() && !third.is_head());
    second.leave(false, clear);
    assert_eq!(c_wakes.count(), 0);
    assert!(third.is_head());
    assert!(bit.get(), "somebody still waits");
    third.leave(true, clear);
    assert!(!bit.get(), "the last to leave clears the bit");
    queue.wake_head(key(&bit));
    assert_eq!(
        (a_wakes.count(), b_wakes.count(), c_wakes.count()),
        (2, 1, 0)
    );
}

#[test]
fn leaving_from_the_midst_wakes_nobody() {
    let queue = WaitQueue::new();
    let bit = Cell::new(false);
    let set = || bit.set(true);
    let clear = || bit.set(false);
    let [(a_wakes, a), (_, b), (c_wakes, c)] = [0; 3].map(|_| Wakes::new());
    let first = queue.join(key(&bit), a, set);
    let second = queue.join(key(&bit), b, set);
    let mut third = queue.join(key(&bit), c, set);
    second.leave(true, clear);
    assert_eq!((a_wakes.count(), c_wakes.count()), (0, 0));
    assert!(bit.get() && !third.is_head());
    first.leave(true, clear);
    assert_eq!(c_wakes.count(), 1);
    assert!(third.is_head());
    third.leave(true, clear);
    assert!(!bit.get());
}

#[test]
fn addresses_do_not_disturb_each_other() {
    // Four times as many as the table has buckets, so that some share one.
    let queue = WaitQueue::new();
    let bits: Vec<_> = (0..1024).map(|_| Cell::new(false)).collect();
    let mut waiters: Vec<_> = bits
        .iter()
        .map(|bit| {
            let [(first, a), (second, b)] = [0; 2].map(|_| Wakes::new());
            let first_waiter = queue.join(key(bit), a, || bit.set(true));
            let second_waiter = queue.join(key(bit), b, || bit.set(true));
            (bit, [first, second], [first_waiter, second_waiter])
        })
        .collect();
    for (bit, wakes, [first, second]) in &mut waiters {
        assert!(first.is_head() && !second.is_head());
        queue.wake_head(key(bit));
        assert_eq!((wakes[0].count(), wakes[1].count()), (1, 0));
    }
    for (bit, wakes, [first, mut second]) in waiters {
        first.leave(true, || bit.set(false));
        assert_eq!((wakes[0].count(), wakes[1].count()), (1, 1));
        assert!(second.is_head() && bit.get());
        second.leave(true, || bit.set(false));
        assert!(!bit.get());
    }
}

/// A waker may run anything, an executor that takes the same locks too: so not under the table's own.
#[test]
fn a_waker_may_use_the_queue() {
    struct Reenters(usize, AtomicU32);
    impl Wake for Reenters {
        fn wake(self: Arc<Self>) {
            let (_, waker) = Wakes::new();
            let queue = WaitQueue::new(); // A handle to the same table.
            let waiter = queue.join(self.0, waker, || ());
            waiter.leave(false, || ());
            self.1.fetch_add(1, SeqCst);
        }
    }
    let queue = WaitQueue::new();
    let bit = Cell::new(false);
    let wakes = Arc::new(Reenters(key(&bit), AtomicU32::new(0)));
    let first = queue.join(key(&bit), wakes.clone().into(), || ());
    let second = queue.join(key(&bit), wakes.clone().into(), || ());
    queue.wake_head(key(&bit));
    first.leave(true, || ());
    second.leave(true, || ());
    assert_eq!(wakes.1.load(SeqCst), 2);
}

#[test]
fn a_waiting_thread_is_woken() {
    let queue = WaitQueue::new();
    // Bit 0: free. Bit 1: somebody waits.
    let word = AtomicU32::new(0);
    let key = std::ptr::from_ref(&word) as usize;
    for _ in 0..1000 {
        word.store(0, SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Parker::with(|parker| {
                    let set = || {
                        word.fetch_or(2, SeqCst);
                    };
                    let mut waiter = queue.join(key, parker.waker(), set);
                    while !(waiter.is_head() && word.load(SeqCst) & 1 == 1) {
                        parker.park_until(None);
                    }
                    waiter.leave(false, || {
                        word.fetch_and(!2, SeqCst);
                    });
                });
            });
            if word.fetch_or(1, SeqCst) & 2 != 0 {
                queue.wake_head(key);
            }
        });
        assert_eq!(word.load(SeqCst), 1);
    }
}
