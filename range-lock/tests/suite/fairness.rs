//! Point 4 of the contract: a waiter is overtaken a stated number of times, not for ever.
//!
//! No test asserts a time. A lock that starves a waiter hangs its test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use spanlock_range_lock::words::{MAX_PASSES, PASS_TIME};
use spanlock_range_lock::{RangeLockExt, RawRangeLock};

use super::{Kind, UNITS};

/// A writer waits behind a read hold. Then this thread reads and releases until it is refused.
/// Returns how many reads overtook the writer.
fn passes<L: RawRangeLock>(kind: &Kind<L>, lock: &L, head_start: Duration) -> u32 {
    let in_the_way = lock.read(kind.units(0..1)).unwrap();
    let granted = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let hold = lock.write(kind.units(0..1)).unwrap();
            granted.store(true, SeqCst);
            drop(hold);
        });
        thread::sleep(head_start);
        // The time in which more reads may overtake the writer begins with the first that does.
        let mut passes = u32::from(lock.try_read(kind.units(0..1)).is_ok());
        thread::sleep(2 * PASS_TIME);
        while lock.try_read(kind.units(0..1)).is_ok() {
            passes += 1;
        }
        // From here on no request overtakes the writer until it has been granted.
        for _ in 0..100 {
            assert!(lock.try_read(kind.units(0..1)).is_err());
        }
        assert!(!granted.load(SeqCst), "granted while a reader holds");
        drop(in_the_way);
        drop(lock.read(kind.units(0..1)).unwrap());
        passes
    })
}

pub(crate) fn a_waiting_writer_is_passed_a_bounded_number_of_times<L: RawRangeLock>(
    kind: &Kind<L>,
) {
    // The test cannot observe when the writer begins to wait, and before that every read is
    // granted. So it gives the writer longer and longer head starts, until at most `MAX_PASSES`
    // reads pass the writer. If a lock of another test has a word in the same bucket, its arrivals
    // use passes that are counted for this writer. If they use all of them, the test tries again.
    let lock = kind.lock();
    let mut head_start = Duration::from_millis(1);
    let mut refused = 0;
    loop {
        let passes = passes(kind, &lock, head_start);
        kind.assert_free(&lock);
        if passes == 0 {
            refused += 1;
            assert!(refused < 100, "every read was refused, {refused} times");
            continue;
        }
        if passes <= MAX_PASSES {
            return;
        }
        refused = 0;
        head_start *= 2;
        assert!(
            head_start < Duration::from_secs(20),
            "{passes} reads passed a writer that had {head_start:?} to queue"
        );
    }
}

/// Readers hold ranges in turn so that the range is never free. Without bounded overtaking a writer
/// never gets in.
fn stream_of_reads<L: RawRangeLock>(kind: &Kind<L>, width: u64, write: std::ops::Range<u64>) {
    let lock = kind.lock();
    let stop = AtomicBool::new(false);
    let reads = AtomicU32::new(0);
    thread::scope(|scope| {
        for reader in 0..6_u64 {
            let (lock, stop, reads) = (&lock, &stop, &reads);
            scope.spawn(move || {
                let at = |i: u64| {
                    let start = (reader + i) % (UNITS / width) * width;
                    kind.units(start..start + width)
                };
                let mut i = 0;
                while !stop.load(SeqCst) {
                    let mut hold = lock.read(at(i)).unwrap();
                    reads.fetch_add(1, SeqCst);
                    // Take the next range before releasing this one. A try, because a second
                    // blocking read could wait behind a writer that waits for the first.
                    while let Ok(next) = lock.try_read(at(i)) {
                        hold = next;
                        reads.fetch_add(1, SeqCst);
                        i += 1;
                        if stop.load(SeqCst) || i % 64 == 0 {
                            thread::yield_now();
                        }
                        if stop.load(SeqCst) {
                            break;
                        }
                    }
                    drop(hold);
                    i += 1;
                }
            });
        }
        for _ in 0..30 {
            let before = reads.load(SeqCst);
            drop(lock.write(kind.units(write.clone())).unwrap());
            // Wait for new reads, so that each write meets readers.
            while reads.load(SeqCst) == before {
                thread::yield_now();
            }
        }
        stop.store(true, SeqCst);
    });
    kind.assert_free(&lock);
}

pub(crate) fn a_writer_gets_in_under_a_stream_of_readers<L: RawRangeLock>(kind: &Kind<L>) {
    stream_of_reads(kind, UNITS, 3..4);
}

pub(crate) fn a_writer_of_everything_gets_in_under_small_readers<L: RawRangeLock>(kind: &Kind<L>) {
    stream_of_reads(kind, 1, 0..UNITS);
}

pub(crate) fn writers_are_served_in_order_of_arrival<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let order = Mutex::new(Vec::new());
    for _ in 0..20 {
        order.lock().unwrap().clear();
        let in_the_way = lock.read(kind.units(0..1)).unwrap();
        thread::scope(|scope| {
            let writer = |name: &'static str| {
                let (lock, order) = (&lock, &order);
                move || {
                    let hold = lock.write(kind.units(0..1)).unwrap();
                    order.lock().unwrap().push(name);
                    drop(hold);
                }
            };
            scope.spawn(writer("first"));
            // A refused read shows that the first writer waits and that its passes are used up. So
            // later arrivals queue behind it.
            while lock.try_read(kind.units(0..1)).is_ok() {
                thread::yield_now();
            }
            scope.spawn(writer("then"));
            scope.spawn(writer("then"));
            thread::sleep(Duration::from_millis(1));
            drop(in_the_way);
        });
        assert_eq!(*order.lock().unwrap(), ["first", "then", "then"]);
        kind.assert_free(&lock);
    }
}
