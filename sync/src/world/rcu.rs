//! One counter per thread of the process, for all `Rcu`s together.
//!
//! # A thread that ends
//! A thread local returns the thread's counter for reuse. Other thread locals may be destroyed
//! later, and their destructors may enter again, or drop a guard. Then the counter is marked
//! `LEAVING`, and the end of the critical section returns it. So the process has at most as many
//! counters as it had threads at a time, plus one for each thread that ended with a forgotten
//! guard.
//!
//! # Memory
//! A thread allocates its counter, unless there is an unused one, when it first enters a critical
//! section. If there is no memory then, the process aborts. Nothing else allocates.
//!
//! # Fork
//! The child has only the thread that forked. On Linux, the functions in `fork` take back the
//! counters of all other threads in the child, and ensure that the registry is not locked there.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Mutex;
use crate::rcu::{DEPTH, LEAVING, Memory};

/// The number of entries that a thread remembers.
const MEMORIES: usize = 16;

/// A thread's counter, alone on two cache lines. Never freed: when its thread ends, another thread
/// takes the counter over.
#[repr(align(128))]
struct Counter {
    count: AtomicU64,
    /// The counter that was created before this one. So the counters form a list, which a thread
    /// walks without the registry's mutex, and without a copy.
    before: Option<&'static Counter>,
}

struct Registry {
    /// The counter that was created last.
    last: Option<&'static Counter>,
    len: usize,
    /// Has room for all, so that no `push` allocates.
    unused: Vec<&'static AtomicU64>,
}

impl Registry {
    /// Returns all counters, from the last to the first.
    fn all(&self) -> impl Iterator<Item = &'static AtomicU64> + use<> {
        let counters = core::iter::successors(self.last, |counter| counter.before);
        counters.map(|counter| &counter.count)
    }
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    last: None,
    len: 0,
    unused: Vec::new(),
});

thread_local! {
    /// This thread local has no destructor, so a read need not check whether it still exists.
    static MINE: Cell<Option<&'static AtomicU64>> = const { Cell::new(None) };
    static MEMORY: [Memory; MEMORIES] = const { [const { Cell::new((0, 0, None)) }; MEMORIES] };
    static RETURNED_AT_THE_END: Cell<Option<Returned>> = const { Cell::new(None) };
}

/// Returns the counter to the registry when its thread ends.
struct Returned(&'static AtomicU64);

impl Drop for Returned {
    fn drop(&mut self) {
        // Relaxed: only this thread changes it.
        let count = self.0.load(Relaxed);
        if count & DEPTH == 0 {
            retire();
        } else {
            // Relaxed: the section goes on.
            self.0.store(count | LEAVING, Relaxed);
        }
    }
}

/// Returns the counter of the calling thread to the registry, for reuse: the thread is ending.
pub(crate) fn retire() {
    if let Some(counter) = MINE.take() {
        REGISTRY.lock().unused.push(counter);
    }
}

/// Returns a new stamp: never 0, and never the same twice.
pub(crate) fn new_stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the number's uniqueness matters. It would take centuries to wrap.
    LAST.fetch_add(1, Relaxed) + 1
}

#[derive(Debug)]
pub(crate) struct Counters;

impl Counters {
    pub(crate) fn new() -> Self {
        Counters
    }

    #[inline]
    pub(crate) fn mine(&self) -> &'static AtomicU64 {
        match MINE.get() {
            Some(counter) => counter,
            None => register(),
        }
    }

    /// Returns the entry in which this thread remembers memory for `key`.
    #[inline]
    pub(crate) fn memory(&self, key: u64) -> &Memory {
        MEMORY.with(|all| {
            let memory = &all[key as usize % MEMORIES];
            // SAFETY: the `ReadGuard` that asks cannot leave its thread, and `MEMORY` has no
            // destructor.
            unsafe { &*core::ptr::from_ref(memory) }
        })
    }

    pub(crate) fn for_each(&self, f: impl FnMut(&AtomicU64)) {
        // A thread that registers later begins its walk after the barrier G (see `rcu.rs`), so its
        // critical section does not matter.
        let all = REGISTRY.lock().all();
        all.for_each(f);
    }
}

#[cold]
fn register() -> &'static AtomicU64 {
    let mut registry = REGISTRY.lock();
    let counter = registry.unused.pop().unwrap_or_else(|| {
        let counter: &'static Counter = Box::leak(Box::new(Counter {
            count: AtomicU64::new(0),
            before: registry.last,
        }));
        registry.last = Some(counter);
        registry.len += 1;
        let room = registry.len - registry.unused.len();
        registry.unused.reserve(room);
        &counter.count
    });
    drop(registry);
    MINE.set(Some(counter));
    let returned = RETURNED_AT_THE_END.try_with(|kept| kept.set(Some(Returned(counter))));
    if returned.is_err() {
        // The thread is ending and has lost this thread local, so the end of the critical section
        // that is about to begin returns the counter.
        // Relaxed: no critical section has begun.
        counter.store(counter.load(Relaxed) | LEAVING, Relaxed);
    }
    counter
}

/// What happens when the process forks.
#[cfg(all(target_os = "linux", not(miri)))]
pub(in crate::world) mod fork {
    use core::cell::UnsafeCell;
    use core::sync::atomic::Ordering::Relaxed;

    use super::{MINE, REGISTRY, Registry};
    use crate::MutexGuard;

    /// The guard of the registry while a thread forks.
    struct Held(UnsafeCell<Option<MutexGuard<'static, Registry>>>);

    // SAFETY: only the thread that has locked the registry accesses it: the thread that forks, in
    // the parent and in the child.
    unsafe impl Sync for Held {}

    static HELD: Held = Held(UnsafeCell::new(None));

    /// Locks the registry.
    pub(in crate::world) fn lock() {
        let guard = REGISTRY.lock();
        // SAFETY: this thread has locked the registry.
        unsafe { *HELD.0.get() = Some(guard) };
    }

    /// Unlocks the registry, which this thread has locked with `lock`.
    pub(in crate::world) fn unlock() {
        // SAFETY: this thread has locked the registry.
        drop(unsafe { (*HELD.0.get()).take() });
    }

    /// Takes the counters of the threads that do not exist in the child, and unlocks the registry,
    /// which this thread has locked with `lock`.
    pub(in crate::world) fn unlock_in_child() {
        // SAFETY: this thread has locked the registry.
        let Some(mut registry) = (unsafe { (*HELD.0.get()).take() }) else {
            return;
        };
        let mine = MINE.get();
        registry.unused.clear();
        for counter in registry.all() {
            if !mine.is_some_and(|mine| core::ptr::eq(mine, counter)) {
                // Relaxed: the child has no other thread.
                counter.store(0, Relaxed);
                registry.unused.push(counter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Barrier;
    use std::thread;

    use super::REGISTRY;
    use crate::rcu::{Rcu, ReadGuard};

    /// Enters when it is destroyed, and drops the guard that it may contain.
    struct Late(Cell<Option<ReadGuard<'static>>>, Cell<Option<&'static Rcu>>);

    impl Drop for Late {
        fn drop(&mut self) {
            drop(self.0.take());
            let rcu = self.1.get().expect("set by the test");
            // The two may be dropped in any order.
            let (outer, inner) = (rcu.enter(), rcu.enter());
            drop(outer);
            drop(inner);
            drop(rcu.enter());
        }
    }

    thread_local! {
        static LATE: Late = const { Late(Cell::new(None), Cell::new(None)) };
    }

    /// Threads that enter in the destructors of thread locals, or end in a critical section, leave
    /// no counter behind: neither one that is lost, nor one that delays `synchronize`.
    #[test]
    fn ending_threads_return_their_counters() {
        const AT_ONCE: usize = 4;
        let rcu: &'static Rcu = Box::leak(Box::new(Rcu::new()));
        let all_run = &Barrier::new(AT_ONCE);
        for keeps_a_guard in [false, true, false, true] {
            for _ in 0..25 {
                thread::scope(|scope| {
                    let thread = || {
                        // Used before RCU's thread local, so destroyed after it.
                        LATE.with(|late| late.1.set(Some(rcu)));
                        let guard = rcu.enter();
                        all_run.wait();
                        if keeps_a_guard {
                            LATE.with(|late| late.0.set(Some(guard)));
                        }
                    };
                    let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(thread)).collect();
                    // Unlike the end of the scope, this waits for the destructors.
                    threads
                        .into_iter()
                        .for_each(|thread| thread.join().unwrap());
                });
                assert!(rcu.synchronize());
            }
        }
        let registry = REGISTRY.lock();
        // The threads of other tests may run now.
        let (all, unused) = (registry.len, registry.unused.len());
        assert!(
            all <= 2 * AT_ONCE + 32,
            "{all} counters for {AT_ONCE} threads at once"
        );
        assert!(unused >= AT_ONCE.min(all), "{unused} of {all} are unused");
    }
}
