//! Range locks in `async` code: many tasks, a timeout, a cancelled request, and an upgrade.
//!
//! The futures work in any runtime; this example uses tokio. A task that waits for a range blocks
//! no thread. Dropping a future cancels its request, so the timeouts of any runtime work.
//!
//! ```text
//! cargo run -p spanlock-interval-lock --example async_ranges
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use spanlock_interval_lock::range_lock::{
    OwnedRangeWriteGuard, OwnedReadHold, OwnedUpgradableHold, OwnedWriteHold,
};
use spanlock_interval_lock::{IntervalLock, RangeError, RangeLock, RangeLockExt, TryLockError};
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn, spawn_blocking, yield_now};
use tokio::time::timeout;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Runs a thousand tasks on two threads. Each task increments a hundred counters.
///
/// An owned guard can move into a task, and can be held across an `await`.
async fn many_tasks() -> Result<()> {
    const TASKS: usize = 1000;
    let bytes = Arc::new(RangeLock::with_lock(vec![0_u32; 300], IntervalLock::new())?);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let bytes = bytes.clone();
        tasks.spawn(async move {
            let start = task * 7 % 200;
            let range = start..start + 100;
            let mut mine = OwnedRangeWriteGuard::lock_async(bytes, range).await?;
            for (i, byte) in mine.iter_mut().enumerate() {
                *byte += 1;
                if i == 50 {
                    break;
                }
            }
            // Let other tasks run on this thread. Tasks that wait for this range do not block the
            // thread.
            yield_now().await;
            mine[51..].iter_mut().for_each(|byte| *byte += 1);
            Ok::<_, RangeError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let sum: u32 = bytes.read(0..300)?.iter().sum();
    assert_eq!(sum as usize, TASKS * 100);
    println!("{TASKS} tasks on two threads: {sum} increments, none lost");
    Ok(())
}

/// Lets a request time out. The runtime's timeout drops the future, which cancels the request.
///
/// Code that is not `async` calls `try_write_for` or `try_write_until` instead.
async fn a_timeout() -> Result<()> {
    let lock = IntervalLock::new();
    let reader = lock.read(0..100)?;
    let late = timeout(Duration::from_millis(20), lock.write_async(50..60)).await;
    assert!(late.is_err());
    assert_eq!(
        (lock.len(), lock.waiting()),
        (1, 0),
        "no trace of the writer"
    );
    drop(reader);
    let in_time = timeout(Duration::from_secs(60), lock.write_async(50..60)).await??;
    println!("timed out once, then got {:?}", in_time.span());
    Ok(())
}

/// Aborts a waiting writer's task. The reader behind it is granted while the first reader still
/// reads.
async fn a_dropped_future() -> Result<()> {
    let lock = Arc::new(IntervalLock::new());
    let first = lock.read(0..100)?;
    let writer = spawn(OwnedWriteHold::lock_async(lock.clone(), 0..100));
    waits_for(&lock, 1).await;
    let second = spawn(OwnedReadHold::lock_async(lock.clone(), 40..60));
    waits_for(&lock, 2).await;

    writer.abort();
    let second = second.await??;
    assert_eq!(lock.try_write(0..1).err(), Some(TryLockError::WouldBlock));
    println!("the writer was aborted, so {second:?} was granted beside {first:?}");
    Ok(())
}

/// Reads first, and writes only if it must.
///
/// `try_upgrade` never waits. To wait for an upgrade, the task moves the hold to a thread that may
/// block.
async fn an_upgrade() -> Result<()> {
    let lock = Arc::new(IntervalLock::new());
    let reader = lock.read(0..100)?;
    let looking = OwnedUpgradableHold::lock_async(lock.clone(), 20..30).await?;
    let Err(looking) = looking.try_upgrade() else {
        unreachable!("a reader overlaps the range");
    };
    let upgrade = spawn_blocking(move || looking.upgrade());
    // New reads fail as soon as the upgrade waits.
    while lock.try_read(20..30).is_ok() {
        yield_now().await;
    }
    drop(reader);
    let writing = upgrade.await?;
    println!("the reader has left: {writing:?}");
    let reading = writing.downgrade();
    assert!(lock.try_read(20..30).is_ok(), "{reading:?} shares");
    Ok(())
}

/// Returns once at least `waiting` requests wait.
async fn waits_for(lock: &IntervalLock, waiting: usize) {
    while lock.waiting() < waiting {
        yield_now().await;
    }
}

fn main() -> Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    runtime.block_on(async {
        many_tasks().await?;
        a_timeout().await?;
        a_dropped_future().await?;
        an_upgrade().await
    })
}
