//! Epochs, as shipped: memory is freed once no pinned thread can reference it, and not before.

#![cfg(all(
    feature = "epoch",
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_sync::epoch::{self, Collector};

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn free_one(epochs: &Collector, dropped: &Arc<AtomicUsize>) {
    let memory = Box::into_raw(epoch::owned(Box::new(Counted(Arc::clone(dropped)))));
    // SAFETY: it was never linked.
    unsafe { epochs.pin().defer_free(memory) };
}

/// Flushes until `dropped` has counted so many, for a minute at most. (Other tests of this process
/// may be pinned meanwhile.)
fn flush_until(epochs: &Collector, dropped: &AtomicUsize, count: usize) {
    let begin = Instant::now();
    while dropped.load(SeqCst) < count {
        assert!(begin.elapsed() < Duration::from_secs(60), "not freed");
        epochs.pin().flush();
        thread::yield_now();
    }
    assert_eq!(dropped.load(SeqCst), count);
}

#[test]
fn memory_is_freed_after_some_flushes() {
    let (epochs, dropped) = (Collector::new(), Arc::default());
    for _ in 0..1000 {
        free_one(&epochs, &dropped);
    }
    flush_until(&epochs, &dropped, 1000);
    epoch::free(epoch::owned(Box::new(Counted(Arc::clone(&dropped)))));
    assert_eq!(dropped.load(SeqCst), 1001);
}

/// Nested guards are dropped in either order; the memory lives until the last one.
#[test]
fn memory_lives_while_a_thread_is_pinned() {
    for first in 0..2 {
        let (epochs, dropped) = (&Collector::new(), Arc::default());
        let (pinned, is_pinned) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut guards = vec![epochs.pin(), epochs.pin()];
                drop(guards.remove(first));
                pinned.send(()).unwrap();
                may_go_on.recv().unwrap();
                drop(guards);
            });
            is_pinned.recv().unwrap();
            free_one(epochs, &dropped);
            for _ in 0..1000 {
                epochs.pin().flush();
            }
            assert_eq!(dropped.load(SeqCst), 0);
            go_on.send(()).unwrap();
        });
        flush_until(epochs, &dropped, 1);
    }
}

/// Threads use what is linked, while others replace and free it.
#[test]
fn threads_use_memory_that_others_replace() {
    const ROUNDS: usize = 20_000;
    let (epochs, dropped) = (&Collector::new(), Arc::<AtomicUsize>::default());
    let new = |value: usize| {
        let memory = epoch::owned(Box::new((value, !value, Counted(Arc::clone(&dropped)))));
        Box::into_raw(memory)
    };
    let link = AtomicPtr::new(new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let _pinned = epochs.pin();
                    // SAFETY: linked, and this thread is pinned.
                    let (value, inverse, _) = unsafe { &*link.load(Acquire) };
                    assert_eq!(*value, !*inverse);
                }
            });
            scope.spawn(|| {
                for value in 0..ROUNDS {
                    let old = link.swap(new(value), AcqRel);
                    // SAFETY: the swap has unlinked it, for this thread alone.
                    unsafe { epochs.pin().defer_free(old) };
                }
                epochs.pin().flush();
            });
        }
    });
    // SAFETY: the other threads have ended.
    epoch::free(unsafe { Box::from_raw(link.swap(ptr::null_mut(), Relaxed)) });
    flush_until(epochs, &dropped, 2 * ROUNDS + 1);
}
