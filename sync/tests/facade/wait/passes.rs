//! How often later arrivals pass the head of a queue.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use spanlock_sync::wait::Patience;

use super::*;

/// A credit counts as a pass for every queue of its bucket. A test that counts passes one by one
/// reads this, and one that gives out credits writes it, so that they do not run at the same time.
static CREDITS: RwLock<()> = RwLock::new(());

const fn patience(passes: u32, batch: u32) -> Patience {
    Patience {
        passes,
        time: Duration::ZERO,
        batch,
    }
}

/// In each lane, at most `PASSES` arrivals pass the head.
#[test]
fn passes_are_counted_for_each_head() {
    let _no_credits = CREDITS.read().unwrap_or_else(PoisonError::into_inner);
    const PASSES: u32 = 3;
    const ONE_BY_ONE: Patience = patience(PASSES, 1);
    let (queue, word) = (WaitQueue::new(), Word(0));
    let pass = |lanes| queue.pass(word.spot().word, lanes, Exclusive, ONE_BY_ONE, |open| open);
    assert_eq!(pass(0..16), 16, "the queues are empty");
    let [first, second] = [0; 2].map(|_| Waiter::at(word.lane(4), &queue));
    for _ in 0..PASSES {
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
    for _ in 0..2 * PASSES {
        assert_eq!(
            queue.pass(word.spot().word, 0..16, Exclusive, ONE_BY_ONE, |_| 4),
            4
        );
    }
    for _ in 0..PASSES {
        assert_eq!(pass(4..5), 5, "the next head begins anew");
    }
    assert_eq!(pass(4..5), 4);
    second.leave(&queue, false);
    assert_eq!(pass(4..5), 5);
}

/// Passes are counted in advance, but their number is the same for every size of batch.
#[test]
fn credits_do_not_change_the_number_of_passes() {
    let _credits = CREDITS.write().unwrap_or_else(PoisonError::into_inner);
    const PASSES: u32 = 10;
    for batch in [1, 2, 3, 7, 100] {
        let (queue, word) = (WaitQueue::new(), Word(0));
        let address = word.spot().word;
        let pass = || {
            queue.take_credit(address)
                || queue.pass(address, 0..1, Exclusive, patience(PASSES, batch), |open| {
                    open
                }) == 1
        };
        let mut first = Waiter::at(word.spot(), &queue);
        let second = Waiter::at(word.spot(), &queue);
        assert!((0..PASSES).filter(|_| pass()).count() as u32 <= PASSES);
        assert!(!(0..2 * PASSES).all(|_| pass()) && !pass());
        queue.wake(word.spot());
        first.rearm(&queue);
        assert!(!pass(), "it is still the same head");
        first.leave(&queue, false);
        // No credit is left for the next head.
        assert!((0..2 * PASSES).filter(|_| pass()).count() as u32 <= PASSES);
        assert!(!pass());
        second.leave(&queue, false);
        assert!(pass());
    }
}

/// Arrivals may pass for a while, however many they are.
#[test]
fn passes_are_possible_for_some_time() {
    let _no_credits = CREDITS.read().unwrap_or_else(PoisonError::into_inner);
    let (queue, word) = (WaitQueue::new(), Word(0));
    let pass = |time| {
        let patience = Patience {
            passes: 1,
            time,
            batch: 1,
        };
        queue.pass(word.spot().word, 0..1, Exclusive, patience, |open| open) == 1
    };
    let waiter = Waiter::at(word.spot(), &queue);
    // Without std there is no clock, so only the number counts.
    let passes = (0..1000).take_while(|_| pass(Duration::from_secs(1000)));
    assert_eq!(passes.count(), if cfg!(feature = "std") { 1000 } else { 1 });
    assert!(!pass(Duration::ZERO));
    assert!(!pass(Duration::from_secs(1000)), "it stays shut");
    waiter.leave(&queue, false);
}

/// A pass counts only if a waiter conflicts with the arrival.
#[test]
fn an_arrival_without_conflict_passes_freely() {
    let _no_credits = CREDITS.read().unwrap_or_else(PoisonError::into_inner);
    let (queue, word) = (WaitQueue::new(), Word(0));
    let once = patience(1, 1);
    let pass = |class| queue.pass(word.spot().word, 0..1, class, once, |open| open) == 1;
    let upgradable = Waiter::of(Upgradable, word.spot(), &queue);
    assert!((0..100).all(|_| pass(Shared)));
    assert!(pass(Upgradable) && !pass(Upgradable) && !pass(Exclusive));
    let writer = Waiter::of(Exclusive, word.spot(), &queue);
    assert!(!pass(Shared), "this generation has been passed");
    upgradable.leave(&queue, false);
    assert!(pass(Shared) && !pass(Shared));
    writer.leave(&queue, false);
    assert!(pass(Exclusive));
}

/// The passes of a generation do not begin anew when one of its waiters leaves.
#[test]
fn the_passes_of_a_waiter_outlive_its_companions() {
    let _no_credits = CREDITS.read().unwrap_or_else(PoisonError::into_inner);
    let (queue, word) = (WaitQueue::new(), Word(0));
    let once = patience(1, 1);
    let pass = || queue.pass(word.spot().word, 0..1, Exclusive, once, |open| open) == 1;
    let slow = Waiter::of(Shared, word.spot(), &queue);
    assert!(pass() && !pass());
    for _ in 0..3 {
        let quick = Waiter::of(Shared, word.spot(), &queue);
        quick.leave(&queue, false);
        assert!(!pass());
    }
    slow.leave(&queue, false);
    assert!(pass());
}
