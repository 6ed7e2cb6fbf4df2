//! Foreign code in the middle of a call: wakers that panic, or use the lock that runs them.
//!
//! A waker belongs to an executor, and the lock calls it, clones it and drops it. Whatever it does,
//! a guard keeps exactly the elements that its hold covers, and no range stays locked for ever.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;

use spanlock_range_lock::{
    Access, Exclusive, Hold, LockFuture, Mode, RangeLock, RangeLockExt, RawRangeLock,
    RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
    RawRangeLockWait, Shared, Upgradable,
};

use super::{unit, units};

/// A waker that panics when it is woken for the first time. (If a hold is released because of that
/// panic and wakes a waker that panics, too, the process aborts, as for any two panics.)
struct Panics(AtomicBool);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        assert!(self.0.swap(true, Relaxed), "a waker that panics");
    }
}

fn panicking() -> Waker {
    Waker::from(Arc::new(Panics(AtomicBool::new(false))))
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(f()))).is_err()
}

/// Returns a request that waits, with this waker.
fn waits<'a, L: RawRangeLockWait, A: Mode>(
    lock: &'a L,
    range: Range<u64>,
    waker: &Waker,
) -> Pin<Box<LockFuture<&'a L, A>>> {
    let mut future = Box::pin(Hold::<&L, A>::lock_async(lock, range));
    assert!(poll(&mut future, waker).is_pending());
    future
}

fn is_whole<L: RawRangeLock>(lock: &L) -> bool {
    lock.granularity() == u64::MAX
}

/// Asserts that nobody holds or waits for any of the ranges that these tests use.
fn assert_free<L: RawRangeLock>(lock: &L) {
    let all = lock.try_write(units(lock, 0..12));
    assert!(all.is_ok(), "a hold or a waiter is left: {all:?}");
}

/// A request waits for the upper part of a reader's hold. The reader shrinks its hold to the lower
/// part, which wakes the request, and the request's waker panics. The lower part stays held, with
/// its elements. So an upgrade fails beside another reader, and succeeds once that reader has left.
pub(crate) fn a_panic_in_shrink_keeps_the_hold<L>(lock: &L)
where
    L: RawRangeLockWait + RawRangeLockSplit + RawRangeLockUpgrade,
{
    let unit = unit(lock) as usize;
    let array = RangeLock::with_lock(vec![0_u64; 8 * unit], lock).unwrap();
    let mut guard = array.read(0..8 * unit).unwrap();
    let waiter = waits::<_, Exclusive>(lock, units(lock, 6..8), &panicking());
    assert_eq!(panics(|| guard.shrink(0..2 * unit)), !is_whole(lock));
    assert_eq!(guard.len(), 2 * unit, "the released elements are in reach");
    let reader = array.try_read(0..unit);
    let guard = match guard.try_upgrade() {
        Err(guard) => guard,
        Ok(_) if reader.is_ok() => panic!("`&mut [T]` beside a reader"),
        Ok(writer) => {
            // In a whole-range lock, the waiter may keep other readers out.
            assert!(is_whole(lock), "no conflicting hold or request");
            drop((writer, reader, waiter));
            return assert_free(lock);
        }
    };
    drop((reader, waiter));
    let mut writer = guard.try_upgrade().expect("the only hold");
    writer.fill(1);
    assert!(
        lock.try_read(units(lock, 0..1)).is_err(),
        "the hold is gone"
    );
    drop(writer);
    assert_free(lock);
}

/// Shrinking to nothing releases everything, even if a waker panics.
pub(crate) fn a_panic_in_shrinking_to_nothing_releases<L>(lock: &L)
where
    L: RawRangeLockWait + RawRangeLockSplit,
{
    let unit = unit(lock) as usize;
    let array = RangeLock::with_lock(vec![0_u64; 8 * unit], lock).unwrap();
    let mut guard = array.write(0..8 * unit).unwrap();
    let waiter = waits::<_, Exclusive>(lock, units(lock, 6..8), &panicking());
    assert!(panics(|| guard.shrink(0..0)));
    assert!(guard.is_empty() && guard.span().is_none());
    drop(waiter);
    assert_free(lock);
    drop(guard);
    assert_free(lock);
}

/// A hold is cut, and a waker panics if the lock runs one then. Both parts are held by their
/// guards, or the upper one has been released.
pub(crate) fn a_panic_in_split_keeps_the_hold<L>(lock: &L)
where
    L: RawRangeLockWait + RawRangeLockSplit + RawRangeLockUpgrade,
{
    if is_whole(lock) {
        return;
    }
    let unit = unit(lock) as usize;
    // The cut may leave parts that the lock holds in another way.
    for (at, waiting) in [(1, 0..1), (1, 7..8), (2, 0..1), (7, 0..1), (7, 7..8)] {
        let array = RangeLock::with_lock(vec![0_u64; 8 * unit], lock).unwrap();
        let mut guard = array.read(0..8 * unit).unwrap();
        let waiter = waits::<_, Exclusive>(lock, units(lock, waiting), &panicking());
        let mut high = None;
        let panicked = panics(|| high = Some(guard.split_off(at * unit).unwrap()));
        assert_eq!(guard.len(), at * unit);
        assert_eq!(panicked, high.is_none());
        let free = |range| lock.try_write(units(lock, range)).is_ok();
        assert!(!free(at as u64 - 1..at as u64), "the lower part is gone");
        if high.is_some() {
            assert!(!free(at as u64..at as u64 + 1), "the upper part is gone");
        }
        drop(waiter);
        drop(high);
        let mut writer = guard.try_upgrade().expect("the only hold");
        writer.fill(1);
        drop(writer);
        assert_free(lock);
    }
}

/// A writer becomes a reader, which wakes a waiting reader: its waker panics. The hold that was
/// to become a reader is released.
pub(crate) fn a_panic_in_downgrade_releases<L>(lock: &L)
where
    L: RawRangeLockWait + RawRangeLockDowngrade,
{
    let unit = unit(lock) as usize;
    let array = RangeLock::with_lock(vec![0_u64; 8 * unit], lock).unwrap();
    let waiting = || waits::<_, Shared>(lock, units(lock, 0..1), &panicking());
    let guard = array.write(0..8 * unit).unwrap();
    let waiter = waiting();
    assert!(panics(|| guard.downgrade()));
    drop(waiter);
    assert_free(lock);

    let hold = lock.write(units(lock, 0..8)).unwrap();
    let waiter = waiting();
    assert!(panics(|| hold.downgrade_to_upgradable()));
    drop(waiter);
    assert_free(lock);

    let hold = lock.upgradable_read(units(lock, 0..8)).unwrap();
    let waiter = waits::<_, Upgradable>(lock, units(lock, 0..1), &panicking());
    assert!(panics(|| hold.downgrade()));
    drop(waiter);
    assert_free(lock);
}

/// An upgrade fails, and a waker panics if the lock runs one then. The hold is returned, or has
/// been released.
pub(crate) fn a_panic_in_a_failed_upgrade_releases<L>(lock: &L)
where
    L: RawRangeLockWait + RawRangeLockUpgrade,
{
    let other = lock.read(units(lock, 3..4)).unwrap();
    let hold = lock.read(units(lock, 0..4)).unwrap();
    let waiter = waits::<_, Exclusive>(lock, units(lock, 0..1), &panicking());
    let mut kept = None;
    let panicked = panics(|| kept = Some(hold.try_upgrade().expect_err("another reader")));
    assert_eq!(panicked, kept.is_none());
    drop(waiter);
    drop(kept);
    drop(other);
    assert_free(lock);
}

/// One range of a batch wakes a request whose waker panics. The other ranges are released, too.
pub(crate) fn a_panic_in_releasing_a_batch_releases_all<L>(lock: &L)
where
    L: RawRangeLockWait + RawRangeLockBatch,
{
    let parts = [0..1, 3..4, 6..7].map(|part| (units(lock, part), Access::Write));
    for range in [0..1, 3..4, 6..7] {
        let batch = lock.lock_all(parts.clone()).unwrap();
        let waiter = waits::<_, Exclusive>(lock, units(lock, range), &panicking());
        assert!(panics(|| drop(batch)));
        drop(waiter);
        assert_free(lock);
    }
}

/// The acts of a [`Foreign`] waker.
type Act = Box<dyn Fn() + Send + Sync>;

/// A waker whose functions do what the test wants.
struct Foreign {
    on_clone: Act,
    on_wake: Act,
    on_drop: Act,
}

impl Foreign {
    fn new() -> Self {
        Foreign {
            on_clone: Box::new(|| {}),
            on_wake: Box::new(|| {}),
            on_drop: Box::new(|| {}),
        }
    }

    fn waker(self) -> Waker {
        let data = Arc::into_raw(Arc::new(self)).cast();
        // SAFETY: the data is an `Arc<Foreign>`, and the functions treat it as one.
        unsafe { Waker::from_raw(RawWaker::new(data, &Self::TABLE)) }
    }

    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the pointer came from `Arc::into_raw`, and each waker has a share.
            let foreign = unsafe { &*data.cast::<Foreign>() };
            (foreign.on_clone)();
            // SAFETY: above.
            unsafe { Arc::increment_strong_count(data.cast::<Foreign>()) };
            RawWaker::new(data, &Self::TABLE)
        },
        |data| {
            // SAFETY: above.
            let foreign = unsafe { Arc::from_raw(data.cast::<Foreign>()) };
            (foreign.on_wake)();
            (foreign.on_drop)();
        },
        |data| {
            // SAFETY: above.
            let foreign = unsafe { &*data.cast::<Foreign>() };
            (foreign.on_wake)();
        },
        |data| {
            // SAFETY: above.
            let foreign = unsafe { Arc::from_raw(data.cast::<Foreign>()) };
            (foreign.on_drop)();
        },
    );
}

/// Returns an act that uses the lock in every way that cannot wait for ever, and one that counts
/// how often it did.
fn uses<L>(lock: &Arc<L>) -> (impl Fn() + Send + Sync + Clone + 'static, Arc<AtomicUsize>)
where
    L: RawRangeLockWait + 'static,
{
    let (lock, uses) = (lock.clone(), Arc::new(AtomicUsize::new(0)));
    let count = uses.clone();
    let act = move || {
        drop(lock.try_write(units(&*lock, 0..1)));
        drop(lock.try_read(units(&*lock, 0..8)));
        if !is_whole(&*lock) {
            // The tests leave these units free.
            drop(lock.write(units(&*lock, 9..10)).unwrap());
            drop(lock.read(units(&*lock, 10..12)).unwrap());
        }
        let mut future = Box::pin(lock.write_async(units(&*lock, 0..2)));
        let _ = poll(&mut future, Waker::noop());
        drop(future);
        count.fetch_add(1, Relaxed);
    };
    (act, uses)
}

/// Wakers that use the same lock when they are cloned, woken or dropped. Nothing waits for ever,
/// and no trace is left.
pub(crate) fn wakers_may_use_the_lock<L>(make: fn() -> L)
where
    L: RawRangeLockWait + RawRangeLockSplit + RawRangeLockDowngrade + 'static,
{
    let lock = Arc::new(make());
    let (act, count) = uses(&lock);
    let waker = || {
        Foreign {
            on_clone: Box::new(act.clone()),
            on_wake: Box::new(act.clone()),
            on_drop: Box::new(act.clone()),
        }
        .waker()
    };
    let request = || {
        Box::pin(Hold::<_, Exclusive>::lock_async(
            lock.clone(),
            units(&*lock, 0..4),
        ))
    };
    // Woken by a release, then by a shrink, then by a downgrade, then by a request that gives up.
    for way in 0..4 {
        let mut hold = lock.write(units(&*lock, 0..8)).unwrap();
        let (mut first, mut second) = (request(), request());
        assert!(poll(&mut first, &waker()).is_pending());
        // Another waker replaces the first one, which is dropped.
        assert!(poll(&mut first, &waker()).is_pending());
        assert!(poll(&mut second, &waker()).is_pending());
        match way {
            0 => drop(hold),
            1 => {
                let end = units(&*lock, 7..8);
                hold.shrink(end).unwrap();
                drop(hold);
            }
            2 => drop(hold.downgrade()),
            _ => {
                drop(first);
                first = request();
                drop(hold);
            }
        }
        // Each of the two gets the range, whichever came first.
        let (one, two) = (poll(&mut first, &waker()), poll(&mut second, &waker()));
        assert!(one.is_ready() || two.is_ready(), "nobody was granted");
        drop((one, two));
        drop((first, second));
        assert_free(&*lock);
    }
    assert!(count.load(Relaxed) > 0);
}

/// A waker blocks the thread that runs it. That thread has released its range before, so other
/// threads go on.
pub(crate) fn a_waker_that_blocks_delays_only_its_caller<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..1);
    let ((running, runs), (go_on, gate)) = (mpsc::channel(), mpsc::channel());
    let (running, gate) = (Mutex::new(running), Mutex::new(gate));
    let foreign = Foreign {
        on_wake: Box::new(move || {
            running.lock().unwrap().send(()).unwrap();
            // A failed assertion below drops the other end.
            let _ = gate.lock().unwrap().recv();
        }),
        ..Foreign::new()
    };
    // A hold that every lock releases in one step.
    let hold = lock.read(all.clone()).unwrap();
    let mut future = Box::pin(lock.write_async(all.clone()));
    assert!(poll(&mut future, &foreign.waker()).is_pending());
    thread::scope(|scope| {
        let go_on = go_on;
        let releasing = scope.spawn(|| drop(hold));
        runs.recv().unwrap();
        let granted = poll(&mut future, Waker::noop());
        assert!(granted.is_ready(), "the range was released before");
        drop(granted);
        drop(future);
        drop(lock.write(all.clone()).unwrap());
        drop(lock.read(all.clone()).unwrap());
        go_on.send(()).unwrap();
        releasing.join().unwrap();
    });
    assert_free(lock);
}

/// Returns a waker that panics when it is dropped for the first time. It is leaked, so that only
/// its clones are dropped: the wakers that the lock keeps.
fn panics_when_dropped() -> ManuallyDrop<Waker> {
    let dropped = AtomicBool::new(false);
    let foreign = Foreign {
        on_drop: Box::new(move || assert!(dropped.swap(true, Relaxed), "dropped")),
        ..Foreign::new()
    };
    ManuallyDrop::new(foreign.waker())
}

/// Another waker replaces one that panics when it is dropped. The request keeps its place.
pub(crate) fn a_replaced_waker_that_panics_when_dropped<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let hold = lock.write(all.clone()).unwrap();
    let mut future = Box::pin(lock.write_async(all));
    assert!(poll(&mut future, &panics_when_dropped()).is_pending());
    assert!(panics(|| poll(&mut future, Waker::noop()).is_ready()));
    drop(hold);
    let granted = poll(&mut future, Waker::noop());
    assert!(granted.is_ready(), "the request has lost its place");
    drop(granted);
    drop(future);
    assert_free(lock);
}

/// A waker panics when it is dropped, once it has been woken or its request has been granted.
pub(crate) fn a_woken_waker_that_panics_when_dropped<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let hold = lock.write(all.clone()).unwrap();
    let mut future = Box::pin(lock.write_async(all));
    assert!(poll(&mut future, &panics_when_dropped()).is_pending());
    let _ = panics(|| drop(hold));
    let mut granted = Poll::Pending;
    let _ = panics(|| granted = poll(&mut future, Waker::noop()));
    if granted.is_pending() {
        granted = poll(&mut future, Waker::noop());
    }
    assert!(granted.is_ready(), "the request has lost its place");
    drop(granted);
    let _ = panics(|| drop(future));
    assert_free(lock);
}

/// A request gives up, and its waker panics when it is dropped.
pub(crate) fn a_cancelled_waker_that_panics_when_dropped<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let hold = lock.write(all.clone()).unwrap();
    let mut future = Box::pin(lock.write_async(all.clone()));
    let mut behind = Box::pin(lock.write_async(all));
    assert!(poll(&mut future, &panics_when_dropped()).is_pending());
    assert!(poll(&mut behind, Waker::noop()).is_pending());
    assert!(panics(|| drop(future)));
    drop(hold);
    assert!(poll(&mut behind, Waker::noop()).is_ready());
    drop(behind);
    assert_free(lock);
}
