//! Owned holds of a lock that is a field of something shared, many at a time on one thread.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::thread;

use spanlock::{
    Exclusive, Hold, IntervalLock, LockField, RangeError, RangeGuard, RangeLock, RangeLockExt,
    Shared,
};

struct Disk {
    blocks: IntervalLock,
    bytes: RangeLock<u8>,
    dropped: Arc<AtomicBool>,
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.dropped.store(true, Relaxed);
    }
}

type Blocks = Hold<LockField<Disk, IntervalLock>, Exclusive>;
type InFlight = Pin<Box<dyn Future<Output = Result<Blocks, RangeError>> + Send>>;

fn disk() -> (Arc<Disk>, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let disk = Disk {
        blocks: IntervalLock::new(),
        bytes: RangeLock::new(vec![0; 100]),
        dropped: dropped.clone(),
    };
    (Arc::new(disk), dropped)
}

fn blocks(disk: &Arc<Disk>) -> LockField<Disk, IntervalLock> {
    LockField::new(disk.clone(), |disk| &disk.blocks)
}

fn poll<T>(request: &mut Pin<Box<dyn Future<Output = T> + Send>>) -> Poll<T> {
    let context = &mut Context::from_waker(Waker::noop());
    request.as_mut().poll(context)
}

/// 64 requests of one thread, each in conflict with its neighbours. Another thread completes those
/// that are granted. Every third request is cancelled while it waits.
#[test]
fn one_thread_has_many_requests_in_flight() {
    let (disk, _) = disk();
    let mut waiting: VecDeque<InFlight> = (0..64_u64)
        .map(|i| -> InFlight { Box::pin(Blocks::lock_async(blocks(&disk), i * 10..i * 10 + 15)) })
        .collect();
    let (complete, completions) = std::sync::mpsc::channel::<Blocks>();
    let completer = thread::spawn(move || completions.into_iter().map(drop).count());
    let (mut rounds, mut cancelled) = (0, 0);
    while let Some(mut request) = waiting.pop_front() {
        rounds += 1;
        match poll(&mut request) {
            Poll::Ready(hold) => complete.send(hold.unwrap()).unwrap(),
            Poll::Pending if rounds % 3 == 0 => cancelled += 1,
            Poll::Pending => {
                waiting.push_back(request);
                thread::yield_now();
            }
        }
    }
    drop(complete);
    assert_eq!(completer.join().unwrap() + cancelled, 64);
    assert!(disk.blocks.is_empty());
}

/// The hold keeps the struct alive whose field the lock is.
#[test]
fn a_hold_of_a_field_owns_what_it_lies_in() {
    let (disk, dropped) = disk();
    let hold = Blocks::lock(blocks(&disk), ..10).unwrap();
    assert!(disk.blocks.try_read(9..=9).is_err());
    assert!(Arc::ptr_eq(blocks(&disk).owner(), &disk));
    drop(disk);
    thread::spawn(move || {
        assert!(!dropped.load(Relaxed));
        drop(hold);
        assert!(dropped.load(Relaxed));
    })
    .join()
    .unwrap();
}

#[test]
fn a_field_can_be_a_lock_of_elements() {
    let (disk, dropped) = disk();
    let bytes = LockField::new(disk.clone(), |disk| &disk.bytes);
    let mut guard = RangeGuard::<_, _, Exclusive>::lock(bytes.clone(), 10..20).unwrap();
    guard.fill(7);
    assert!(disk.bytes.try_read(19..).is_err());
    assert_eq!(bytes.len(), 100);
    drop((disk, bytes));
    let high = thread::spawn(move || guard.split_off(5).unwrap());
    let high = high.join().unwrap().downgrade();
    let reader: RangeGuard<_, _, Shared> = high;
    assert_eq!(reader[..], [7; 5]);
    assert!(!dropped.load(Relaxed));
    drop(reader);
    assert!(dropped.load(Relaxed));
}
