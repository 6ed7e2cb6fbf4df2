//! Requests that wait without a thread.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::Duration;

use spanlock_range_lock::{
    Exclusive, Hold, LockFuture, Mode, OwnedWriteHold, RangeError, RangeLock, RangeLockExt,
    RawRangeLockWait, Shared, Upgradable,
};

use super::units;

/// Counts its wakeups.
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

/// The simplest executor: sleeps until woken.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Thread(thread::Thread);
    impl Wake for Thread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Thread(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

pub(crate) fn a_release_completes_the_future<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let counter = Arc::new(Counter::default());
    let writer = block_on(lock.write_async(all.clone())).unwrap();
    let mut future = Box::pin(lock.read_async(all.clone()));
    let mut upgradable = Box::pin(lock.upgradable_read_async(all.clone()));
    assert!(poll(&mut future, &counter).is_pending());
    assert!(poll(&mut upgradable, &counter).is_pending());
    assert_eq!(counter.wakes(), 0);
    drop(writer);
    assert!(counter.wakes() > 0);
    let reader = block_on(future).unwrap();
    let upgradable = block_on(upgradable).unwrap();
    assert!(lock.try_write(all.clone()).is_err());
    drop((reader, upgradable));
    assert!(lock.try_write(all).is_ok());
}

#[allow(clippy::reversed_empty_ranges)]
pub(crate) fn nothing_is_requested_before_the_first_poll<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let future = Box::pin(lock.write_async(all.clone()));
    let writer = lock.try_write(all.clone()).unwrap();
    drop(future);
    assert!(block_on(lock.write_async(3..3)).unwrap().span().is_none());
    let reversed = block_on(lock.read_async(5..1)).err();
    assert_eq!(reversed, Some(RangeError::Reversed { start: 5, end: 1 }));
    drop(writer);
    assert!(lock.try_write(all).is_ok());
}

pub(crate) fn a_dropped_future_lets_others_go_on<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let counter = Arc::new(Counter::default());
    let reader = lock.read(all.clone()).unwrap();
    let mut writer = Box::pin(lock.write_async(all.clone()));
    assert!(poll(&mut writer, &counter).is_pending());
    drop(writer);
    assert_eq!(Arc::strong_count(&counter), 1, "a waker was kept");
    drop(lock.read(all.clone()).unwrap());
    // Dropped after it was granted, without another poll.
    let mut writer = Box::pin(lock.write_async(all.clone()));
    assert!(poll(&mut writer, &counter).is_pending());
    drop(reader);
    assert_eq!(counter.wakes(), 1);
    drop(writer);
    assert!(lock.try_write(all).is_ok());
}

/// range-mutex: each poll added another waiter.
pub(crate) fn polled_a_million_times_it_is_one_waiter<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let counter = Arc::new(Counter::default());
    let hold = lock.write(all.clone()).unwrap();
    let mut future = Box::pin(lock.write_async(all.clone()));
    let waker = Waker::from(counter.clone());
    let mut context = Context::from_waker(&waker);
    for _ in 0..1_000_000 {
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    }
    drop(hold);
    assert_eq!(counter.wakes(), 1);
    drop(block_on(future).unwrap());
    assert!(lock.try_write(all).is_ok(), "a waiter is left");
}

pub(crate) fn only_the_last_waker_is_woken<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let wakers = [(); 3].map(|()| Arc::new(Counter::default()));
    let hold = lock.write(all.clone()).unwrap();
    let mut future = Box::pin(lock.write_async(all));
    for waker in &wakers {
        assert!(poll(&mut future, waker).is_pending());
    }
    drop(hold);
    assert_eq!(wakers.each_ref().map(|waker| waker.wakes()), [0, 0, 1]);
    assert!(poll(&mut future, &wakers[0]).is_ready());
}

pub(crate) fn polling_after_completion_panics<L: RawRangeLockWait>(lock: &L) {
    let counter = Arc::new(Counter::default());
    for range in [units(lock, 0..4), 0..0] {
        let mut future = Box::pin(lock.write_async(range));
        assert!(poll(&mut future, &counter).is_ready());
        let again = catch_unwind(AssertUnwindSafe(|| poll(&mut future, &counter).is_ready()));
        assert!(again.is_err());
    }
    assert!(lock.try_write(units(lock, 0..4)).is_ok());
}

/// A waker that panics when it is cloned, and one that panics when it is woken.
pub(crate) fn a_panicking_waker_leaves_no_trace<L: RawRangeLockWait>(lock: &L) {
    const CLONE: RawWakerVTable = RawWakerVTable::new(|_| panic!("cloned"), |_| {}, |_| {}, |_| {});
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }
    let all = units(lock, 0..4);
    let counter = Arc::new(Counter::default());
    let hold = lock.write(all.clone()).unwrap();
    // SAFETY: none of the functions uses its data.
    let cloned = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &CLONE)) };
    let mut first = Box::pin(lock.write_async(all.clone()));
    let mut second = Box::pin(lock.write_async(all.clone()));
    for future in [&mut first, &mut second] {
        let poll = || {
            Pin::new(future)
                .poll(&mut Context::from_waker(&cloned))
                .is_ready()
        };
        assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
    }
    // The first request continues, the second gives up.
    assert!(poll(&mut first, &counter).is_pending());
    // The request is queued now, and stays queued even if a later waker panics while it is cloned.
    let again = || {
        Pin::new(&mut first)
            .poll(&mut Context::from_waker(&cloned))
            .is_ready()
    };
    assert!(catch_unwind(AssertUnwindSafe(again)).is_err());
    drop(second);
    drop(hold);
    drop(block_on(first).unwrap());

    let hold = lock.write(all.clone()).unwrap();
    let mut future = Box::pin(lock.write_async(all.clone()));
    let waker = Waker::from(Arc::new(Panics));
    assert!((Pin::new(&mut future).poll(&mut Context::from_waker(&waker))).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(hold))).is_err());
    // The range was released despite the panic.
    drop(block_on(future).unwrap());
    assert!(lock.try_write(all).is_ok());
}

/// One of three requests for the same range has a waker that panics when woken, whichever thread
/// wakes it. The others still get the range, and an unrelated hold stays held.
pub(crate) fn a_panicking_waker_does_not_stop_other_requests<L: RawRangeLockWait>(lock: &L) {
    for panicking in 0..3 {
        among_three::<L, Shared>(lock, panicking);
        among_three::<L, Upgradable>(lock, panicking);
        among_three::<L, Exclusive>(lock, panicking);
    }
}

fn among_three<L: RawRangeLockWait, A: Mode>(lock: &L, panicking: usize) {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }
    let waker = |request| {
        if request == panicking {
            Waker::from(Arc::new(Panics))
        } else {
            Waker::from(Arc::new(Counter::default()))
        }
    };
    let elsewhere = (lock.granularity() < u64::MAX).then(|| lock.write(units(lock, 8..12)));
    let hold = lock.write(units(lock, 0..4)).unwrap();
    let mut requests =
        [(); 3].map(|()| Box::pin(Hold::<&L, A>::lock_async(lock, units(lock, 0..1))));
    for (i, request) in requests.iter_mut().enumerate() {
        let waker = waker(i);
        let polled = Pin::new(request).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    let _ = catch_unwind(AssertUnwindSafe(|| drop(hold)));
    for (i, mut request) in requests.into_iter().enumerate() {
        let waker = waker(i);
        let poll = || Pin::new(&mut request).poll(&mut Context::from_waker(&waker));
        // The panicking waker was woken by this poll, or the end of this hold will wake it, or the
        // request is given up after the panic.
        let polled = catch_unwind(AssertUnwindSafe(poll));
        if let Ok(polled) = &polled {
            assert!(polled.is_ready(), "{i} waits, {panicking} panics");
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(polled)));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(request)));
    }
    if elsewhere.is_some() {
        assert!(lock.try_write(units(lock, 8..9)).is_err(), "two hold it");
        drop(elsewhere);
    }
    assert!(lock.try_write(units(lock, 0..12)).is_ok(), "nobody does");
}

/// A reader that was woken, and that nobody polls, does not keep the readers behind it asleep.
pub(crate) fn a_woken_future_that_nobody_polls_delays_no_reader<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let counter = Arc::new(Counter::default());
    let hold = lock.write(all.clone()).unwrap();
    let mut never = Box::pin(lock.read_async(all.clone()));
    assert!(poll(&mut never, &counter).is_pending());
    thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(|| drop(lock.read(all.clone()).unwrap())));
        // Time to fall asleep behind the future.
        thread::sleep(Duration::from_millis(20));
        drop(hold);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(counter.wakes(), 1);
    drop(never);
    assert!(lock.try_write(all).is_ok());
}

/// Wakers that use the lock whenever they are cloned, woken or dropped.
pub(crate) fn wakers_may_use_the_lock<L: RawRangeLockWait>(lock: &L) {
    /// What the waker does, and how often it did.
    struct Hook<'a>(&'a dyn Fn(), Cell<u32>);
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            run(data);
            RawWaker::new(data, &VTABLE)
        },
        run,
        run,
        run,
    );
    fn run(data: *const ()) {
        // SAFETY: the hook outlives its wakers, and only this thread uses them.
        let hook = unsafe { &*data.cast::<Hook<'_>>() };
        hook.1.set(hook.1.get() + 1);
        (hook.0)();
    }
    let all = units(lock, 0..4);
    let use_it = || {
        drop(lock.try_read(all.clone()));
        drop(lock.try_write(all.clone()));
        if lock.granularity() < u64::MAX {
            drop(lock.write(units(lock, 8..12)).unwrap());
        }
    };
    let hooks = [(); 3].map(|()| Hook(&use_it, Cell::new(0)));
    // SAFETY: as in `run`.
    let wakers = (hooks.each_ref())
        .map(|hook| unsafe { Waker::new(std::ptr::from_ref(hook).cast(), &VTABLE) });
    let is_ready = |future: &mut Pin<Box<LockFuture<&L, Exclusive>>>, waker: &Waker| {
        let poll = future.as_mut().poll(&mut Context::from_waker(waker));
        poll.map(|hold| drop(hold.unwrap())).is_ready()
    };
    let hold = lock.write(all.clone()).unwrap();
    let [mut first, mut second] =
        [(); 2].map(|()| Box::pin(Hold::<&L, Exclusive>::lock_async(lock, all.clone())));
    for waker in &wakers[..2] {
        assert!(!is_ready(&mut first, waker));
    }
    assert!(!is_ready(&mut second, &wakers[2]));
    drop(first);
    drop(hold);
    // The waker's own tries may have been in the way of the first poll.
    while !is_ready(&mut second, &wakers[2]) {}
    drop(second);
    assert!(
        hooks.iter().all(|hook| hook.1.get() >= 2),
        "cloned, dropped"
    );
    drop(wakers);
    assert!(lock.try_write(all).is_ok());
}

pub(crate) fn futures_are_send<L: RawRangeLockWait>(lock: &L) {
    fn send<T: Send>(future: T) -> T {
        future
    }
    let all = units(lock, 0..4);
    let counter = Arc::new(Counter::default());
    let hold = lock.write(all.clone()).unwrap();
    let mut future = Box::pin(send(lock.write_async(all.clone())));
    assert!(poll(&mut future, &counter).is_pending());
    thread::scope(|scope| {
        // Polled by one thread, then by another, which also drops the hold.
        scope.spawn(|| drop(block_on(future).unwrap()));
        drop(hold);
    });
    let array = RangeLock::with_lock(vec![1; 4], lock).unwrap();
    let hold = lock.read(all).unwrap();
    let mut sum = pin!(send(async {
        let guard = array.read_async(0..4).await.unwrap();
        guard.iter().sum::<i32>()
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(sum.as_mut().poll(&mut context), Poll::Ready(4));
    {
        let mut writing = pin!(array.write_async(0..2));
        assert!(writing.as_mut().poll(&mut context).is_pending());
    }
    drop(hold);
    assert!(array.try_write(0..4).is_ok());
    assert!(block_on(array.upgradable_read_async(0..5)).is_err());
}

/// Tasks that share ownership of the lock, competing with threads.
pub(crate) fn tasks_and_threads<L: RawRangeLockWait + 'static>(lock: L) {
    let lock = Arc::new(lock);
    let number = Arc::new(AtomicU64::new(0));
    let task = |lock: Arc<L>, number: Arc<AtomicU64>| async move {
        for _ in 0..300 {
            let range = units(&*lock, 0..3);
            let hold = OwnedWriteHold::lock_async(lock.clone(), range)
                .await
                .unwrap();
            let before = number.load(Relaxed);
            thread::yield_now();
            number.store(before + 1, Relaxed);
            drop(hold);
            let hold = spanlock_range_lock::Hold::<_, Shared>::lock_async(lock.clone(), 0..1);
            drop(hold.await.unwrap());
        }
    };
    let threads = Vec::from_iter((0..6).map(|i| {
        let (lock, number) = (lock.clone(), number.clone());
        thread::spawn(move || {
            if i % 2 == 0 {
                return block_on(task(lock, number));
            }
            for _ in 0..300 {
                let hold = lock.write(units(&*lock, 1..4)).unwrap();
                let before = number.load(Relaxed);
                number.store(before + 1, Relaxed);
                drop(hold);
            }
        })
    }));
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(number.load(Relaxed), 6 * 300);
    assert!(lock.try_write(units(&*lock, 0..4)).is_ok());
}
