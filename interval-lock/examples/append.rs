//! Eight threads append records to one file. Each record's place is chosen under the lock; the records are then written side by
//! side, and read while others are appended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use spanlock::{RangeError, RangeLockExt};
use spanlock_interval::IntervalLock;

fn main() -> Result<(), RangeError> {
    let lock = IntervalLock::new();
    // Relaxed: it is moved by who holds the position that it names, and looked at again under such a hold.
    let end = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads = Vec::from_iter((1..=8).map(|len| {
            let (lock, end) = (&lock, &end);
            scope.spawn(move || -> Result<(), RangeError> {
                for _ in 0..1000 {
                    let record = lock.append(len, || end.load(Relaxed))?;
                    let place = record.span().expect("records are not empty");
                    // From here on others may append behind it, while this record is written.
                    end.store(place.end(), Relaxed);
                    drop(record);
                    drop(lock.read(0..place.start())?);
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
