//! Wait queues, as shipped: order, lanes, passes, wakes, and the table that holds the queues.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Wake, Waker};

use Class::{Exclusive, Shared, Upgradable};
use spanlock_sync::wait::{Class, Listener, Place, Spot, WaitQueue};
use spanlock_sync::{DefaultPark, Park};

/// A waker that counts its wakes.
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

/// A word at an address that no other test uses while this one runs.
struct Word(u32);

impl Word {
    fn spot(&self) -> Spot {
        self.lane(0)
    }

    fn lane(&self, lane: u32) -> Spot {
        Spot {
            word: std::ptr::from_ref(&self.0).addr(),
            lane,
        }
    }
}

/// A place in a queue, its listener, and the count of its wakes.
struct Waiter(Arc<Wakes>, Listener, Place);

impl Waiter {
    fn at(spot: Spot, queue: &WaitQueue) -> Self {
        Self::of(Exclusive, spot, queue)
    }

    fn of(class: Class, spot: Spot, queue: &WaitQueue) -> Self {
        let (wakes, waker) = Wakes::new();
        let listener = Listener::new(&waker);
        let place = queue.join(spot, class, &listener);
        Waiter(wakes, listener, place)
    }

    fn is_at_head(&mut self, queue: &WaitQueue) -> bool {
        queue.is_at_head(&mut self.2, &self.1) == Some(true)
    }

    fn leave(self, queue: &WaitQueue, wake_next: bool) {
        queue.leave(self.2, wake_next).wake();
    }

    fn wakes(&self) -> u32 {
        self.0.count()
    }
}

#[test]
fn first_come_first_served() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    queue.wake(word.spot()); // The queue is empty.
    assert!(!queue.has_waiters(word.spot()));
    let [mut first, mut second, mut third] = [0; 3].map(|_| Waiter::at(word.spot(), &queue));
    assert!(queue.is_occupied(word.spot().word) && queue.has_waiters(word.spot()));
    assert!(first.is_at_head(&queue) && !second.is_at_head(&queue) && !third.is_at_head(&queue));

    // A wake goes to the head, which stays the head.
    queue.wake(word.spot());
    queue.wake(word.spot());
    assert_eq!([&first, &second, &third].map(Waiter::wakes), [2, 0, 0]);
    assert!(first.is_at_head(&queue) && !second.is_at_head(&queue));

    // A head that leaves wakes the next waiter, if asked to.
    first.leave(&queue, true);
    assert_eq!([&second, &third].map(Waiter::wakes), [1, 0]);
    assert!(second.is_at_head(&queue) && !third.is_at_head(&queue));
    second.leave(&queue, false);
    assert_eq!(third.wakes(), 0);
    assert!(third.is_at_head(&queue));
    third.leave(&queue, true);
    assert!(!queue.has_waiters(word.spot()));
}

#[test]
fn a_waiter_that_leaves_from_the_middle_wakes_no_other() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let [first, second, mut third] = [0; 3].map(|_| Waiter::at(word.spot(), &queue));
    second.leave(&queue, true);
    assert_eq!([&first, &third].map(Waiter::wakes), [0, 0]);
    assert!(!third.is_at_head(&queue));
    first.leave(&queue, true);
    assert_eq!(third.wakes(), 1);
    assert!(third.is_at_head(&queue));
    third.leave(&queue, true);
}

#[test]
fn lanes_and_addresses_have_queues_of_their_own() {
    // Four times as many words as the table has buckets, so that some share one.
    let queue = WaitQueue::new();
    let words: Vec<_> = (0..1024).map(Word).collect();
    let spots = words.iter().flat_map(|word| [word.lane(0), word.lane(15)]);
    let mut waiters: Vec<_> = spots
        .map(|spot| (spot, [0; 2].map(|_| Waiter::at(spot, &queue))))
        .collect();
    for (spot, [first, second]) in &mut waiters {
        assert!(first.is_at_head(&queue) && !second.is_at_head(&queue));
        queue.wake(*spot);
        assert_eq!((first.wakes(), second.wakes()), (1, 0));
    }
    for (spot, [first, mut second]) in waiters {
        first.leave(&queue, true);
        assert_eq!(second.wakes(), 1);
        assert!(second.is_at_head(&queue) && queue.has_waiters(spot));
        second.leave(&queue, true);
        assert!(!queue.has_waiters(spot));
    }
}

/// A wake calls the waker that was passed last, for a waiter at the head and for one behind it.
#[test]
fn a_waiter_can_change_its_waker() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let [mut first, mut second] = [0; 2].map(|_| Waiter::at(word.spot(), &queue));
    for waiting in [&mut first, &mut second] {
        let (wakes, waker) = Wakes::new();
        queue.is_at_head(&mut waiting.2, &Listener::new(&waker));
        waiting.0 = wakes;
    }
    queue.wake(word.spot());
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    first.leave(&queue, true);
    assert_eq!(second.wakes(), 1);
    second.leave(&queue, true);
}

/// In each lane, at most `PATIENCE` arrivals pass the head.
#[test]
fn passes_are_counted_for_each_head() {
    const PATIENCE: u32 = 3;
    let (queue, word) = (WaitQueue::new(), Word(0));
    let pass = |lanes| queue.pass(word.spot().word, lanes, Exclusive, PATIENCE, |open| open);
    assert_eq!(pass(0..16), 16, "the queues are empty");
    let [first, second] = [0; 2].map(|_| Waiter::at(word.lane(4), &queue));
    for _ in 0..PATIENCE {
        assert_eq!(pass(0..16), 16);
    }
    assert_eq!(
        pass(0..16),
        4,
        "the head of lane 4 has been passed often enough"
    );
    assert_eq!(pass(5..16), 16, "the other lanes have no waiters");
    // An arrival that acquires fewer lanes passes fewer waiters.
    first.leave(&queue, false);
    for _ in 0..2 * PATIENCE {
        assert_eq!(
            queue.pass(word.spot().word, 0..16, Exclusive, PATIENCE, |_| 4),
            4
        );
    }
    for _ in 0..PATIENCE {
        assert_eq!(pass(4..5), 5, "the next head begins anew");
    }
    assert_eq!(pass(4..5), 4);
    second.leave(&queue, false);
    assert_eq!(pass(4..5), 5);
}

/// The entry shares the listener's clone of the waker, and the place keeps no clone.
#[test]
fn an_entry_keeps_one_waker() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let waiting = Waiter::at(word.spot(), &queue);
    let wakes = waiting.0.clone();
    assert_eq!(
        Arc::strong_count(&wakes),
        3,
        "two in the test, one in the listener"
    );
    waiting.leave(&queue, true);
    assert_eq!(Arc::strong_count(&wakes), 1);
}

/// An eviction ends all waiting at a range of words: at many words, at one, and at two adjacent
/// words.
#[test]
fn eviction_ends_all_waiting() {
    let queue = WaitQueue::new();
    let words: Vec<_> = (0..1000).map(Word).collect();
    let [first, last] = [&words[100], &words[899]].map(|word| word.spot().word);
    for evicted in [first..last + 1, first..first + 4, first..first + 8] {
        let mut waiters: Vec<_> = words
            .iter()
            .map(|word| Waiter::at(word.spot(), &queue))
            .collect();
        queue.evict(evicted.clone());
        for waiting in &mut waiters {
            let gone = evicted.contains(&waiting.2.spot().word);
            assert_eq!(waiting.wakes(), u32::from(gone));
            let place = queue.is_at_head(&mut waiting.2, &waiting.1);
            assert_eq!(place, (!gone).then_some(true));
        }
        waiters
            .into_iter()
            .for_each(|waiting| waiting.leave(&queue, true));
        assert!(words.iter().all(|word| !queue.has_waiters(word.spot())));
    }
}

/// An eviction wakes the other waiters even if one waker panics.
#[test]
fn eviction_wakes_every_waiter_even_if_a_waker_panics() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let (queue, word) = (WaitQueue::new(), Word(0));
    let spot = word.spot();
    let listener = Listener::new(&Waker::from(Arc::new(Panics)));
    let place = queue.join(spot, Exclusive, &listener);
    let waiting = Waiter::at(spot, &queue);
    let evict = || queue.evict(spot.word..spot.word + 4);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(evict)).is_err());
    assert_eq!(waiting.wakes(), 1);
    assert!(!queue.has_waiters(spot));
    // Both places are gone: leaving them does nothing.
    queue.leave(place, true).wake();
    waiting.leave(&queue, true);
}

/// A waker may run an executor that takes the same locks, so no waker may be called under the
/// table's lock.
#[test]
fn a_waker_can_use_the_queue() {
    struct Reenters(Spot, AtomicU32);
    impl Wake for Reenters {
        fn wake(self: Arc<Self>) {
            let queue = WaitQueue::new(); // A handle to the same table.
            let waiting = Waiter::at(self.0, &queue);
            waiting.leave(&queue, false);
            self.1.fetch_add(1, SeqCst);
        }
    }
    let (queue, word) = (WaitQueue::new(), Word(0));
    let wakes = Arc::new(Reenters(word.spot(), AtomicU32::new(0)));
    let waker = Waker::from(wakes.clone());
    let listener = Listener::new(&waker);
    let [first, second] = [0; 2].map(|_| queue.join(word.spot(), Exclusive, &listener));
    queue.wake(word.spot());
    queue.leave(first, true).wake();
    queue.leave(second, true).wake();
    assert_eq!(wakes.1.load(SeqCst), 2);
}

/// The thread that changes the word needs no read-modify-write: it only stores.
#[test]
fn a_store_and_a_wake_end_the_wait() {
    let queue = WaitQueue::new();
    let word = AtomicU32::new(0);
    let spot = Spot {
        word: std::ptr::from_ref(&word).addr(),
        lane: 0,
    };
    for round in 1..=2000 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                DefaultPark::with(|parker| {
                    let listener = Listener::new(parker.waker());
                    let mut place = queue.join(spot, Exclusive, &listener);
                    while !(queue.is_at_head(&mut place, &listener) == Some(true)
                        && word.load(SeqCst) == round)
                    {
                        parker.park();
                    }
                    queue.leave(place, false).wake();
                });
            });
            word.store(round, std::sync::atomic::Ordering::Relaxed);
            if queue.is_occupied(spot.word) {
                queue.wake(spot);
            }
        });
    }
}

/// All readers before the first writer are at the head, and so is the first upgradable waiter.
#[test]
fn waiters_that_do_not_conflict_are_at_the_head_together() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let at = |class| Waiter::of(class, word.spot(), &queue);
    let classes = [Upgradable, Shared, Upgradable, Shared, Exclusive, Shared];
    let mut waiters: Vec<_> = classes.into_iter().map(at).collect();
    let front: Vec<_> = waiters.iter_mut().map(|it| it.is_at_head(&queue)).collect();
    assert_eq!(front, [true, true, false, true, false, false]);
    let wakes = |waiters: &[Waiter]| waiters.iter().map(Waiter::wakes).collect::<Vec<_>>();
    queue.wake(word.spot());
    assert_eq!(
        wakes(&waiters),
        [1, 1, 0, 0, 0, 0],
        "the first of each class"
    );
    waiters.remove(1).leave(&queue, true);
    assert_eq!(
        wakes(&waiters),
        [1, 0, 1, 0, 0],
        "the waiter that leaves wakes the next of its class"
    );
    waiters.remove(0).leave(&queue, true);
    assert_eq!(wakes(&waiters), [1, 2, 0, 0]);
    // The writer gives up, so the reader behind it no longer has a conflicting waiter before it.
    waiters.remove(2).leave(&queue, true);
    assert_eq!(wakes(&waiters), [1, 2, 1]);
    assert!(waiters.iter_mut().all(|it| it.is_at_head(&queue)));
    waiters.into_iter().for_each(|it| it.leave(&queue, false));
    assert!(!queue.has_waiters(word.spot()));
}

/// A pass counts for the first waiter that conflicts with the arrival, and for no other.
#[test]
fn an_arrival_without_conflict_passes_freely() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let pass = |class| queue.pass(word.spot().word, 0..1, class, 1, |open| open) == 1;
    let upgradable = Waiter::of(Upgradable, word.spot(), &queue);
    assert!((0..100).all(|_| pass(Shared)));
    assert!(pass(Upgradable) && !pass(Upgradable) && !pass(Exclusive));
    let writer = Waiter::of(Exclusive, word.spot(), &queue);
    assert!(pass(Shared) && !pass(Shared));
    upgradable.leave(&queue, false);
    writer.leave(&queue, false);
    assert!(pass(Exclusive));
}

/// A lock at the former address of another lock has a queue of its own.
#[test]
fn locks_at_one_address_have_queues_of_their_own() {
    let word = Word(0);
    let old = WaitQueue::new();
    std::mem::forget(Waiter::at(word.spot(), &old));
    let new = WaitQueue::new();
    assert!(!new.is_occupied(word.spot().word) && !new.has_waiters(word.spot()));
    let mut waiting = Waiter::at(word.spot(), &new);
    assert!(waiting.is_at_head(&new));
    waiting.leave(&new, false);
    assert!(old.has_waiters(word.spot()));
}

/// A lock that is dropped removes the entries of places that were dropped without leaving.
#[test]
fn a_dropped_lock_leaves_no_entry_in_the_table() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let (wakes, waker) = Wakes::new();
    let listener = Listener::new(&waker);
    let _forgotten = queue.join(word.spot(), Exclusive, &listener);
    drop((waker, listener));
    assert_eq!(
        Arc::strong_count(&wakes),
        2,
        "one in the test, one in the entry"
    );
    drop(queue);
    assert_eq!(Arc::strong_count(&wakes), 1);
}
