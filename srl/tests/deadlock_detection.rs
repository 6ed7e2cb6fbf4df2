//! Deadlock detection where a packed word admits six readers to a segment: threads that hold all
//! six places, and wait for one more, panic instead.
//!
//! ```text
//! cargo test -p spanlock-srl --features deadlock-detection --test deadlock_detection
//! ```

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;

use spanlock_range_lock::{
    Access, RangeLockExt, RawRangeLock, RawRangeLockBatch, RawRangeLockSplit, Span, rw_word,
};
use spanlock_srl::packed::MAX_READERS;
use spanlock_srl::{SrlArray, SrlPacked, SrlTree, SrlTreePacked};

/// The locks with six readers to a segment, with 128 segments of 16 positions. A request for more
/// than 32 segments is wide.
fn each_packed(check: impl Fn(&dyn Packed)) {
    check(
        &SrlPacked::with_segment_size(2048, 16)
            .unwrap()
            .wide_above(32),
    );
    check(
        &SrlTreePacked::with_segment_size(2048, 16)
            .unwrap()
            .wide_above(32),
    );
}

trait Packed: RawRangeLockBatch + RawRangeLockSplit {}
impl<L: RawRangeLockBatch + RawRangeLockSplit> Packed for L {}

/// Returns the message of the panic that the call ends with, if it does.
fn message<R>(call: impl FnOnce() -> R) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(call()))).err()?;
    Some(*panic.downcast::<String>().expect("a message"))
}

#[test]
fn a_seventh_read_of_one_thread_panics() {
    each_packed(|lock| {
        let line = line!() + 1;
        let mut holds = Vec::from_iter((0..6).map(|_| lock.read(0..16).unwrap()));
        let message = message(|| lock.read(15..40)).expect("the lock is full");
        for site in [line, line + 1] {
            assert!(
                message.contains(&format!("{}:{site}:", file!())),
                "{message}"
            );
        }
        assert!(message.contains("one of 6 readers"), "{message}");
        // Another segment has places of its own, and a try fails at once.
        drop(lock.read(16..40).unwrap());
        assert!(lock.try_read(0..1).is_err());
        holds.pop();
        drop(lock.read(0..1).unwrap());
    });
}

/// Half of the places each, and both threads want one more.
#[test]
fn two_threads_that_hold_all_places_panic() {
    each_packed(|lock| {
        let meet = Barrier::new(2);
        let four = || {
            let holds = Vec::from_iter((0..3).map(|_| lock.read(0..16).unwrap()));
            meet.wait();
            let seen = message(|| lock.read(0..16).unwrap());
            drop(holds);
            seen
        };
        let seen = thread::scope(|scope| {
            let other = scope.spawn(four);
            [four(), other.join().unwrap()]
        });
        let messages = Vec::from_iter(seen.into_iter().flatten());
        assert_eq!(
            messages.len(),
            1,
            "the other thread is granted: {messages:?}"
        );
        assert_eq!(
            messages[0].matches("one of 6 readers").count(),
            2,
            "{messages:?}"
        );
    });
}

/// Only words count readers. A wide hold has no word, and a batch that meets a full segment is
/// held without one.
#[test]
fn holds_outside_the_words_do_not_count() {
    each_packed(|lock| {
        let wide = Vec::from_iter((0..7).map(|_| lock.read(0..1024).unwrap()));
        let small = Vec::from_iter((0..6).map(|_| lock.read(0..16).unwrap()));
        drop(lock.read(0..1024).unwrap());
        let batch = lock.lock_all([(0..1, Access::Read)]).unwrap();
        assert!(message(|| lock.read(0..1)).is_some());
        drop(small);
        let small = Vec::from_iter((0..6).map(|_| lock.read(0..16).unwrap()));
        drop((wide, small, batch));
        // A wide hold that becomes small is in the words from then on.
        let mut holds = Vec::from_iter((0..6).map(|_| lock.read(0..1024).unwrap()));
        holds
            .iter_mut()
            .for_each(|hold| hold.shrink(0..16).unwrap());
        assert!(message(|| lock.read(0..1)).is_some());
        drop(holds);
        let holds = (0..6).map(|_| lock.read(0..1024).unwrap().split(512).ok().unwrap());
        let (low, high): (Vec<_>, Vec<_>) = holds.unzip();
        assert!(message(|| lock.read(0..1)).is_some());
        drop(low);
        drop(lock.read(0..1).unwrap());
        assert!(message(|| lock.read(1000..1001)).is_some());
        drop(high);
        drop(lock.write(0..2048).unwrap());
    });
}

/// A word for each segment admits more readers than guards can hold, so nothing is reported.
#[test]
fn every_form_reports_its_limit() {
    let span = Span::new(0..1).unwrap().unwrap();
    each_packed(|lock| assert_eq!(lock.reader_limit(span, None), MAX_READERS));
    let array = SrlArray::new(1 << 20).unwrap();
    let tree = SrlTree::new(1 << 20).unwrap();
    for lock in [&array as &dyn RawRangeLock, &tree] {
        assert_eq!(lock.reader_limit(span, None), rw_word::MAX_READERS);
        let holds = Vec::from_iter((0..100).map(|_| lock.read(0..1).unwrap()));
        drop(lock.read(0..1).unwrap());
        drop(holds);
    }
}
