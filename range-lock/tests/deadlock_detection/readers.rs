//! Locks that admit a limited number of readers to a position: threads that hold all places, and
//! wait for one more, wait for ever.

use std::sync::mpsc;

use spanlock_range_lock::{RwDistributed, rw_word};

use super::*;

/// rust-lang/rust#121949: one thread reads a position once more than the lock admits, without any
/// writer.
#[test]
fn a_thread_that_holds_all_places_panics() {
    let lock = List::with_readers(3);
    let first = below(1);
    let mut holds = vec![lock.read(0..10).unwrap()];
    let others = below(1);
    holds.extend([0..5, 4..20].map(|range| lock.read(range).unwrap()));
    let last = below(1);
    let message = panics(|| lock.read(3..6), &[&first, &others, &last]);
    assert!(message.contains("as many readers as"), "{message}");
    assert!(message.contains("one of 3 readers"), "{message}");
    // An upgradable reader takes a place as well.
    panics(|| lock.upgradable_read(4..5), &[]);
    holds.pop();
    let upgradable = lock.upgradable_read(4..5).unwrap();
    panics(|| lock.read(4..5), &[]);
    drop((holds, upgradable));
    drop(lock.write(0..20).unwrap());
}

#[test]
fn requests_with_a_free_place_succeed() {
    let lock = List::with_readers(2);
    // Two readers of each position, but three of the range.
    let holds = [0..10, 0..5, 5..10].map(|range| lock.read(range).unwrap());
    drop(lock.read(10..11).unwrap());
    // Only a call that waits is checked, and a batch does not wait for a place.
    assert!(lock.try_read(0..1).is_err());
    drop(lock.lock_all([(0..1, Access::Read)]).unwrap());
    drop(holds);
    let hold = lock.upgradable_read(0..1).unwrap();
    let other = lock.read(0..1).unwrap();
    drop(other);
    // An upgrade takes no second place.
    drop(hold.upgrade());
}

/// A place held by a thread that does not wait may become free.
#[test]
fn a_reader_waits_for_a_thread_that_runs() {
    let lock = List::with_readers(2);
    let mine = lock.read(0..1).unwrap();
    let theirs = lock.read(0..1).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| drop(lock.read(0..1).unwrap()));
        while lock.waiting.load(Relaxed) == 0 {
            thread::yield_now();
        }
        drop(theirs);
        other.join().unwrap();
    });
    drop(mine);
}

/// Each of three threads holds one place and waits for a second one. The last to request panics.
#[test]
fn threads_that_hold_all_places_together_panic() {
    let (lock, meet) = (List::with_readers(3), Barrier::new(3));
    let (results, all) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..3 {
            let results = results.clone();
            scope.spawn(|| {
                let results = results;
                let first = lock.read(0..1).unwrap();
                meet.wait();
                let second = catch_unwind(AssertUnwindSafe(|| drop(lock.read(0..1).unwrap())));
                drop(first);
                let message = second.map_err(|panic| *panic.downcast::<String>().unwrap());
                results.send(message).unwrap();
            });
        }
    });
    drop(results);
    let messages = Vec::from_iter(all.into_iter().filter_map(Result::err));
    assert_eq!(messages.len(), 1, "{messages:?}");
    let waits = messages[0].matches("one of 3 readers").count();
    assert_eq!(waits, 3, "each thread's wait is named: {messages:?}");
}

/// A place is held by a thread that waits for a hold of the thread that wants it.
#[test]
fn a_place_behind_another_wait_panics() {
    let lock = List::with_readers(2);
    let (mine, place) = (lock.write(5..6).unwrap(), lock.read(0..1).unwrap());
    let held = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let theirs = lock.read(0..1).unwrap();
            held.wait();
            drop(lock.read(5..6).unwrap());
            drop(theirs);
        });
        held.wait();
        while lock.waiting.load(Relaxed) == 0 {
            thread::yield_now();
        }
        let message = panics(|| lock.read(0..1), &[]);
        assert!(message.contains("one of 2 readers"), "{message}");
        assert!(message.contains("5..6 (Read)"), "{message}");
        drop((mine, place));
        other.join().unwrap();
    });
}

/// The locks made of reader-writer words say how many readers a word admits. (A test cannot reach
/// 2³⁰ − 1 with guards: `rw_word.rs` tests a word whose count is full.)
#[test]
fn locks_of_words_report_their_limit() {
    let limit = |lock: &dyn RawRangeLock| lock.reader_limit(Span::FULL, None);
    assert_eq!(limit(&RwCounter::new()), rw_word::MAX_READERS);
    assert_eq!(limit(&RwDistributed::new()), rw_word::MAX_READERS);
    let (counter, distributed) = (RwCounter::new(), Arc::new(RwDistributed::new()));
    assert_eq!(
        counter.reader_limit(Span::FULL, Some(Token::NONE)),
        rw_word::MAX_READERS
    );
    assert_eq!(
        limit(&distributed),
        rw_word::MAX_READERS,
        "through a pointer"
    );
}
