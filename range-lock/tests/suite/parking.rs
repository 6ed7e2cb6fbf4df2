//! The parking type is a parameter of every lock: a thread that waits without a deadline parks by
//! this type.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};

use spanlock_range_lock::{Access, RangeLockExt, RawRangeLock, RawRangeLockBatch};
use spanlock_sync::Park;

use super::Kind;

/// Parks a thread by yielding its core until a flag is set.
pub(crate) struct Yields {
    woken: Arc<Flag>,
    waker: Waker,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Release);
    }
}

thread_local! { static MINE: OnceCell<Yields> = const { OnceCell::new() }; }

/// The threads that have parked this way.
static WAITED: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

impl Park for Yields {
    fn with<R>(f: impl FnOnce(&Self) -> R) -> R {
        let make = || {
            let woken = Arc::new(Flag::default());
            let waker = woken.clone().into();
            Yields { woken, waker }
        };
        MINE.with(|mine| f(mine.get_or_init(make)))
    }

    fn waker(&self) -> &Waker {
        &self.waker
    }

    fn park(&self) {
        WAITED.lock().unwrap().push(thread::current().id());
        while !self.try_park() {
            thread::yield_now();
        }
    }

    fn try_park(&self) -> bool {
        self.woken.0.swap(false, Acquire)
    }
}

/// Holds everything until `waits` has parked in another thread.
fn until_it_has_waited<L: RawRangeLock>(kind: &Kind<L>, waits: impl FnOnce(&L) + Send) {
    let lock = &kind.lock();
    let hold = lock.write(kind.everything()).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || waits(lock)).thread().id();
        while !WAITED.lock().unwrap().contains(&waiter) {
            thread::yield_now();
        }
        drop(hold);
    });
    kind.assert_free(lock);
}

pub(crate) fn a_small_range<L: RawRangeLock>(kind: &Kind<L>) {
    until_it_has_waited(kind, |lock| drop(lock.read(kind.units(3..4)).unwrap()));
}

pub(crate) fn everything<L: RawRangeLock>(kind: &Kind<L>) {
    until_it_has_waited(kind, |lock| drop(lock.write(kind.everything()).unwrap()));
}

pub(crate) fn several_ranges<L: RawRangeLockBatch>(kind: &Kind<L>) {
    let batch = [
        (kind.units(0..2), Access::Write),
        (kind.units(4..6), Access::Read),
    ];
    until_it_has_waited(kind, |lock| drop(lock.lock_all(batch).unwrap()));
}
