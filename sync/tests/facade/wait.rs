//! Wait queues, as shipped: order, lanes, wakes, and the table that holds the queues.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

mod passes;

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use Class::{Exclusive, Shared, Upgradable};
use spanlock_sync::wait::{Class, Spot, Status, WaitQueue};
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

/// A waiter in a queue, and the count of its wakes. One that is dropped without leaving is
/// forgotten: its memory is leaked.
struct Waiter(Arc<Wakes>, Pin<&'static mut spanlock_sync::wait::Waiter>);

impl Waiter {
    fn at(spot: Spot, queue: &WaitQueue) -> Self {
        Self::of(Exclusive, spot, queue)
    }

    fn of(class: Class, spot: Spot, queue: &WaitQueue) -> Self {
        Self::joined(class, spot, queue).0
    }

    /// Returns also whether the waiter joined at the head.
    fn joined(class: Class, spot: Spot, queue: &WaitQueue) -> (Self, bool) {
        let (wakes, waker) = Wakes::new();
        let (waiter, is_at_head) = join(class, spot, queue, waker);
        (Waiter(wakes, waiter), is_at_head)
    }

    fn status(&self) -> Status {
        self.1.status()
    }

    /// Sleeps again, after a wake.
    fn rearm(&mut self, queue: &WaitQueue) {
        let rearmed = queue.rearm(self.1.as_mut(), Waker::from(self.0.clone()));
        rearmed.expect("was woken");
    }

    /// Leaves, and wakes the others if asked to. Returns whether it unblocked any.
    fn leave(self, queue: &WaitQueue, wakes: bool) -> bool {
        let Waiter(_, mut waiter) = self;
        let spot = waiter.spot();
        let left = queue.leave(waiter.as_mut());
        // SAFETY: a reference to leaked memory, in no queue.
        drop(unsafe { Box::from_raw(Pin::get_unchecked_mut(waiter)) });
        if left.unblocks && wakes {
            queue.wake(spot.expect("was in a queue"));
        }
        left.unblocks
    }

    fn wakes(&self) -> u32 {
        self.0.count()
    }
}

fn join(
    class: Class,
    spot: Spot,
    queue: &WaitQueue,
    waker: Waker,
) -> (Pin<&'static mut spanlock_sync::wait::Waiter>, bool) {
    let waiter = Box::leak(Box::<spanlock_sync::wait::Waiter>::default());
    // SAFETY: its memory is leaked, until it has left.
    unsafe {
        let mut waiter = Pin::new_unchecked(waiter);
        let is_at_head = queue.join(waiter.as_mut(), spot, class, waker);
        (waiter, is_at_head)
    }
}

#[test]
fn first_come_first_served() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    queue.wake(word.spot()); // The queue is empty.
    assert!(!queue.has_waiters(word.spot()));
    let [(mut first, at_head), (second, not_yet), (third, nor_this)] =
        [0; 3].map(|_| Waiter::joined(Exclusive, word.spot(), &queue));
    assert!(at_head && !not_yet && !nor_this);
    assert!(queue.is_asleep(word.spot().word) && queue.has_waiters(word.spot()));

    // A wake goes to the head, which stays the head. While it is awake, nobody need be woken.
    queue.wake(word.spot());
    assert!(!queue.is_any_asleep() && queue.may_be_occupied());
    queue.wake(word.spot());
    assert_eq!([&first, &second, &third].map(Waiter::wakes), [1, 0, 0]);
    assert_eq!(first.status(), Status::Woken);
    first.rearm(&queue);
    assert!(queue.is_asleep(word.spot().word) && first.status() == Status::Asleep);
    queue.wake(word.spot());
    assert_eq!([&first, &second, &third].map(Waiter::wakes), [2, 0, 0]);

    // A head that leaves unblocks the next waiter, which is asleep.
    assert!(!queue.is_any_asleep());
    assert!(first.leave(&queue, true));
    assert_eq!([&second, &third].map(Waiter::wakes), [1, 0]);
    assert!(second.leave(&queue, false));
    assert!(third.wakes() == 0 && queue.is_any_asleep());
    assert!(!third.leave(&queue, true));
    assert!(!queue.has_waiters(word.spot()));
    assert!(!queue.is_any_asleep() && !queue.may_be_occupied());
}

#[test]
fn a_waiter_that_leaves_from_the_middle_unblocks_no_other() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let [first, second, third] = [0; 3].map(|_| Waiter::at(word.spot(), &queue));
    assert!(!second.leave(&queue, true));
    assert_eq!([&first, &third].map(Waiter::wakes), [0, 0]);
    assert!(first.leave(&queue, true));
    assert_eq!(third.wakes(), 1);
    third.leave(&queue, true);
}

#[test]
fn lanes_and_addresses_have_queues_of_their_own() {
    // Four times as many words as the table has buckets, so that some share one.
    let queue = WaitQueue::new();
    let words: Vec<_> = (0..1024).map(Word).collect();
    let spots = words.iter().flat_map(|word| [word.lane(0), word.lane(15)]);
    let waiters: Vec<_> = spots
        .map(|spot| {
            (
                spot,
                [0; 2].map(|_| Waiter::joined(Exclusive, spot, &queue)),
            )
        })
        .collect();
    let mut waiters: Vec<_> = waiters
        .into_iter()
        .map(|(spot, [(first, at_head), (second, also)])| {
            assert!(at_head && !also);
            queue.wake(spot);
            assert_eq!((first.wakes(), second.wakes()), (1, 0));
            (spot, first, second)
        })
        .collect();
    // In another order than they came, so that headers move.
    let odd = waiters.split_off(1000);
    for (spot, first, second) in odd.into_iter().chain(waiters) {
        first.leave(&queue, true);
        assert!(second.wakes() == 1 && queue.has_waiters(spot));
        second.leave(&queue, true);
        assert!(!queue.has_waiters(spot));
    }
}

/// A wake calls the waker that was passed last, for a waiter at the head and for one behind it.
#[test]
fn a_waiter_can_change_its_waker() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let [mut first, mut second] = [0; 2].map(|_| Waiter::at(word.spot(), &queue));
    for waiter in [&mut first, &mut second] {
        let (wakes, waker) = Wakes::new();
        assert!(!waiter.1.shows(&waker) && waiter.1.shows(&waiter.0.clone().into()));
        let before = queue.replace_waker(waiter.1.as_mut(), waker.clone());
        assert!(before.is_ok_and(|before| before.is_some()));
        assert!(waiter.1.shows(&waker));
        waiter.0 = wakes;
    }
    queue.wake(word.spot());
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    let late = queue.replace_waker(first.1.as_mut(), Waker::noop().clone());
    assert!(late.is_err(), "it is awake");
    first.leave(&queue, true);
    assert_eq!(second.wakes(), 1);
    second.leave(&queue, true);
}

/// The node keeps the waker that it was given, and no clone.
#[test]
fn a_waiter_keeps_one_waker() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let waiter = Waiter::at(word.spot(), &queue);
    let wakes = waiter.0.clone();
    assert_eq!(Arc::strong_count(&wakes), 3, "two in the test");
    queue.wake(word.spot());
    assert_eq!(Arc::strong_count(&wakes), 2);
    waiter.leave(&queue, true);
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
        let waiters: Vec<_> = words
            .iter()
            .map(|word| Waiter::at(word.spot(), &queue))
            .collect();
        queue.evict(evicted.clone());
        for waiter in &waiters {
            let gone = evicted.contains(&waiter.1.spot().unwrap().word);
            assert_eq!(waiter.wakes(), u32::from(gone));
            let status = if gone {
                Status::Evicted
            } else {
                Status::Asleep
            };
            assert_eq!(waiter.status(), status);
        }
        waiters.into_iter().for_each(|waiter| {
            waiter.leave(&queue, true);
        });
        assert!(words.iter().all(|word| !queue.has_waiters(word.spot())));
        assert!(!queue.is_any_asleep() && !queue.may_be_occupied());
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
    let (panics, _) = join(Exclusive, spot, &queue, Waker::from(Arc::new(Panics)));
    // More than one batch.
    let waiters = [0; 40].map(|_| Waiter::of(Shared, spot, &queue));
    let evict = || queue.evict(spot.word..spot.word + 4);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(evict)).is_err());
    assert!(waiters.iter().all(|waiter| waiter.wakes() == 1));
    assert!(!queue.has_waiters(spot));
    // All waiters are gone: leaving does nothing.
    assert!(!queue.leave(panics).unblocks);
    for waiter in waiters {
        assert!(!waiter.leave(&queue, true));
    }
}

/// A wake calls the other wakers even if one panics.
#[test]
fn a_wake_goes_to_every_waiter_even_if_a_waker_panics() {
    struct Panics(AtomicU32);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            if self.0.fetch_add(1, SeqCst) == 0 {
                panic!("on purpose");
            }
        }
    }
    let (queue, word) = (WaitQueue::new(), Word(0));
    let panics = Waker::from(Arc::new(Panics(AtomicU32::new(0))));
    let (panics, _) = join(Shared, word.spot(), &queue, panics);
    let waiters = [0; 100].map(|_| Waiter::of(Shared, word.spot(), &queue));
    let wake = || queue.wake(word.spot());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(wake)).is_err());
    assert!(waiters.iter().all(|waiter| waiter.wakes() == 1));
    assert!(!queue.is_any_asleep());
    queue.leave(panics);
    for waiter in waiters {
        waiter.leave(&queue, true);
    }
}

/// A wake goes to each waiter once, even if those that were woken sleep again meanwhile.
#[test]
fn a_wake_goes_to_every_waiter_once_although_some_sleep_again() {
    type Waiters = Mutex<Vec<Option<Pin<&'static mut spanlock_sync::wait::Waiter>>>>;
    /// Lets its waiter sleep again, with this waker.
    struct Again(usize, Arc<(WaitQueue, Waiters)>, AtomicU32);
    impl Wake for Again {
        fn wake(self: Arc<Self>) {
            self.2.fetch_add(1, SeqCst);
            let (queue, waiters) = &*self.1;
            let waker = Waker::from(self.clone());
            let mut waiters = waiters.lock().unwrap();
            let waiter = waiters[self.0].as_mut().unwrap();
            queue.rearm(waiter.as_mut(), waker).unwrap();
        }
    }
    let word = Word(0);
    // More than two batches.
    let shared = Arc::new((WaitQueue::new(), Mutex::new(Vec::new())));
    let classes = (0..40).map(|i| if i == 20 { Upgradable } else { Shared });
    let wakers: Vec<_> = classes
        .enumerate()
        .map(|(i, class)| {
            let again = Arc::new(Again(i, shared.clone(), AtomicU32::new(0)));
            let waker = Waker::from(again.clone());
            let (waiter, at_head) = join(class, word.spot(), &shared.0, waker);
            assert!(at_head);
            shared.1.lock().unwrap().push(Some(waiter));
            again
        })
        .collect();
    shared.0.wake(word.spot());
    assert!(wakers.iter().all(|waker| waker.2.load(SeqCst) == 1));
    let mut waiters = shared.1.lock().unwrap();
    for waiter in waiters.iter_mut() {
        assert_eq!(waiter.as_ref().unwrap().status(), Status::Asleep);
        let left = shared.0.leave(waiter.take().unwrap());
        // A waker refers to the queue, and the queue to the waker.
        drop(left.waker);
    }
}

/// A waker may run an executor that takes the same locks, so no waker may be called under the
/// table's lock.
#[test]
fn a_waker_can_use_the_queue() {
    struct Reenters(Spot, AtomicU32);
    impl Wake for Reenters {
        fn wake(self: Arc<Self>) {
            let queue = WaitQueue::new(); // A handle to the same table.
            let waiter = Waiter::at(self.0, &queue);
            waiter.leave(&queue, false);
            self.1.fetch_add(1, SeqCst);
        }
    }
    impl Drop for Reenters {
        fn drop(&mut self) {
            let queue = WaitQueue::new();
            Waiter::at(self.0, &queue).leave(&queue, false);
        }
    }
    let (queue, word) = (WaitQueue::new(), Word(0));
    let wakes = Arc::new(Reenters(word.spot(), AtomicU32::new(0)));
    let waker = Waker::from(wakes.clone());
    let [first, second] = [0; 2].map(|_| join(Exclusive, word.spot(), &queue, waker.clone()).0);
    queue.wake(word.spot());
    assert!(queue.leave(first).unblocks);
    queue.wake(word.spot());
    assert!(!queue.leave(second).unblocks);
    assert_eq!(wakes.1.load(SeqCst), 2);
    drop((waker, wakes));
    let last = Arc::new(Reenters(word.spot(), AtomicU32::new(0)));
    let (waiter, _) = join(Exclusive, word.spot(), &queue, last.into());
    queue.evict(word.spot().word..word.spot().word + 4);
    queue.leave(waiter);
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
                    let mut waiter = pin!(spanlock_sync::wait::Waiter::new());
                    let waker = || parker.waker().clone();
                    let is_changed = || word.load(SeqCst) == round;
                    // SAFETY: the waiter leaves below.
                    let joined = unsafe { queue.join(waiter.as_mut(), spot, Exclusive, waker()) };
                    assert!(joined, "nobody else waits");
                    while !is_changed() {
                        match waiter.status() {
                            Status::Asleep => parker.park(),
                            _ => queue.rearm(waiter.as_mut(), waker()).expect("was woken"),
                        }
                    }
                    queue.leave(waiter);
                });
            });
            word.store(round, std::sync::atomic::Ordering::Relaxed);
            if queue.is_asleep(spot.word) {
                queue.wake(spot);
            }
        });
    }
}

/// All readers before the first writer are at the head, and so is the first upgradable waiter.
#[test]
fn waiters_that_do_not_conflict_are_at_the_head_together() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let at = |class| Waiter::joined(class, word.spot(), &queue);
    let classes = [Upgradable, Shared, Upgradable, Shared, Exclusive, Shared];
    let (mut waiters, front): (Vec<_>, Vec<_>) = classes.into_iter().map(at).unzip();
    assert_eq!(front, [true, true, false, true, false, false]);
    let wakes = |waiters: &[Waiter]| waiters.iter().map(Waiter::wakes).collect::<Vec<_>>();
    queue.wake(word.spot());
    assert_eq!(wakes(&waiters), [1, 1, 0, 1, 0, 0], "all at the head");
    assert!(!waiters.remove(1).leave(&queue, true));
    waiters[2].rearm(&queue);
    assert!(!waiters.remove(2).leave(&queue, true));
    assert_eq!(wakes(&waiters), [1, 0, 0, 0]);
    assert!(waiters.remove(0).leave(&queue, true));
    assert_eq!(wakes(&waiters), [1, 0, 0], "the next upgradable waiter");
    // The writer gives up, so no waiter is left before the reader behind it.
    assert!(waiters.remove(1).leave(&queue, true));
    assert_eq!(wakes(&waiters), [1, 1]);
    for waiter in waiters {
        assert!(!waiter.leave(&queue, false));
    }
    assert!(!queue.has_waiters(word.spot()));
}

/// Many waiters cost each other nothing: each operation takes constant time. (With a scan of the
/// queue in each, this would take minutes in a debug build.)
#[test]
fn ten_thousand_waiters() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let writer = Waiter::at(word.spot(), &queue);
    let mut readers: Vec<_> = (0..10_000)
        .map(|i| {
            let class = if i % 100 == 99 { Exclusive } else { Shared };
            Waiter::of(class, word.spot(), &queue)
        })
        .collect();
    assert!(writer.leave(&queue, true));
    assert_eq!(
        readers.iter().filter(|waiter| waiter.wakes() == 1).count(),
        99
    );
    // From both ends, so that headers move and the queue of readers splits.
    while let Some(last) = readers.pop() {
        last.leave(&queue, true);
        if !readers.is_empty() {
            readers.swap_remove(0).leave(&queue, true);
        }
    }
    assert!(!queue.has_waiters(word.spot()));
}

/// A lock at the former address of another lock has a queue of its own.
#[test]
fn locks_at_one_address_have_queues_of_their_own() {
    let word = Word(0);
    let old = WaitQueue::new();
    drop(Waiter::at(word.spot(), &old)); // Forgotten.
    let new = WaitQueue::new();
    assert!(!new.may_be_occupied() && !new.is_any_asleep() && !new.has_waiters(word.spot()));
    let (waiter, is_at_head) = Waiter::joined(Exclusive, word.spot(), &new);
    assert!(is_at_head);
    waiter.leave(&new, false);
    assert!(old.has_waiters(word.spot()));
}

/// A lock that is dropped removes the waiters that were forgotten.
#[test]
fn a_dropped_lock_leaves_no_waiter_in_the_table() {
    let (queue, word) = (WaitQueue::new(), Word(0));
    let Waiter(wakes, forgotten) = Waiter::at(word.spot(), &queue);
    assert_eq!(Arc::strong_count(&wakes), 2, "one in the test");
    drop(queue);
    assert_eq!(Arc::strong_count(&wakes), 1);
    assert_eq!(forgotten.status(), Status::Evicted);
}
