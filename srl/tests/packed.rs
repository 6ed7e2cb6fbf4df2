//! Packed words: a lane, the state of one segment, has room for only six readers.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use spanlock_range_lock::RangeLockExt;
use spanlock_srl::SrlPacked;
use spanlock_srl::packed::MAX_READERS;

/// A waker that counts its wakes.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Counter {
    fn wakes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

fn poll<F: Future + Unpin>(future: &mut F, counter: &Arc<Counter>) -> Poll<F::Output> {
    let waker = Waker::from(counter.clone());
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

fn lock() -> SrlPacked {
    SrlPacked::with_segment_size(64, 1).unwrap()
}

/// An upgradable reader is one of the six readers, also after a downgrade to a plain reader.
#[test]
fn an_upgradable_reader_is_one_of_six() {
    let lock = lock();
    let mut readers: Vec<_> = (1..MAX_READERS).map(|_| lock.read(0..1).unwrap()).collect();
    let upgradable = lock.try_upgradable_read(0..1).unwrap();
    assert!(lock.try_read(0..1).is_err());
    readers.push(upgradable.downgrade());
    assert!(lock.try_read(0..1).is_err() && lock.try_upgradable_read(0..1).is_err());
    drop(readers.pop());
    drop(lock.try_upgradable_read(0..1).unwrap());
    drop(readers);
    assert!(lock.try_write(0..16).is_ok());
}

/// Any reader that leaves a full lane wakes a reader that waits for room there.
#[test]
fn leaving_a_full_lane_wakes_a_waiting_reader() {
    let lock = lock();
    for upgradable_leaves in [false, true] {
        let upgradable = lock.upgradable_read(0..1).unwrap();
        let mut readers: Vec<_> = (1..MAX_READERS).map(|_| lock.read(0..1).unwrap()).collect();
        let counter = Arc::new(Counter::default());
        let mut waiting = Box::pin(lock.read_async(0..1));
        assert!(poll(&mut waiting, &counter).is_pending());
        if upgradable_leaves {
            drop(upgradable);
        } else {
            drop(readers.pop());
            readers.push(upgradable.downgrade());
        }
        assert!(counter.wakes() > 0, "no waiter was woken");
        assert!(poll(&mut waiting, &counter).is_ready());
        drop((readers, waiting));
        assert!(lock.try_write(0..16).is_ok());
    }
}

/// A second upgradable reader of a full lane waits for the first to leave or downgrade, and for
/// room.
#[test]
fn a_second_upgradable_reader_waits_for_the_first_and_for_room() {
    let lock = lock();
    let upgradable = lock.upgradable_read(0..1).unwrap();
    let mut readers: Vec<_> = (1..MAX_READERS).map(|_| lock.read(0..1).unwrap()).collect();
    let counter = Arc::new(Counter::default());
    let mut waiting = Box::pin(lock.upgradable_read_async(0..1));
    assert!(poll(&mut waiting, &counter).is_pending());
    readers.push(upgradable.downgrade());
    assert!(poll(&mut waiting, &counter).is_pending());
    let wakes = counter.wakes();
    drop(readers.pop());
    assert!(counter.wakes() > wakes, "no waiter was woken");
    assert!(poll(&mut waiting, &counter).is_ready());
}

/// A wide reader, of very many segments, is not counted in any lane, so it needs no room there.
#[test]
fn a_wide_reader_needs_no_room_in_a_full_lane() {
    let lock = lock().wide_above(16);
    let readers: Vec<_> = (0..MAX_READERS).map(|_| lock.read(3..4).unwrap()).collect();
    let wide = lock.try_read(0..64).expect("no writer holds it");
    assert!(lock.try_write(0..64).is_err());
    drop(wide);
    let waited = poll(&mut Box::pin(lock.read_async(0..64)), &Arc::default());
    assert!(waited.is_ready(), "no writer holds it");
    drop((waited, readers));
    assert!(lock.try_write(0..64).is_ok());
}
