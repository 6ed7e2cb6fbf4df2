//! Eight threads append records to one file. The end of the file is a position like any other: who holds it exclusively
//! may move it. The records are then written side by side, and read while others are appended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use spanlock::{RangeError, RangeLockExt};
use spanlock_interval::IntervalLock;

/// Stands for the end of the file: no byte of a file lies there.
const END: std::ops::Range<u64> = u64::MAX - 1..u64::MAX;

fn main() -> Result<(), RangeError> {
    let lock = IntervalLock::new();
    // Relaxed: it is read and moved under a hold of `END` only.
    let end = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads = Vec::from_iter((1..=8).map(|len| {
            let (lock, end) = (&lock, &end);
            scope.spawn(move || -> Result<(), RangeError> {
                for _ in 0..1000 {
                    let moving = lock.write(END)?;
                    let start = end.load(Relaxed);
                    let record = lock.write(start..start + len)?;
                    end.store(start + len, Relaxed);
                    // The next may append, while this record is written.
                    drop(moving);
                    drop(record);
                    drop(lock.read(0..start)?);
                }
                Ok(())
            })
        }));
        let mut results = threads.into_iter().map(|t| t.join().expect("no panic"));
        results.try_for_each(|result| result)
    })?;
    println!("{} bytes; {lock:?}", end.into_inner());
    Ok(())
}
