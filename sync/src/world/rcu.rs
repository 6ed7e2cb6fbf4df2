//! One counter per thread of the process, for all `Rcu`s together.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::Mutex;
use crate::rcu::Memory;

/// The number of entries that a thread remembers.
const MEMORIES: usize = 16;

/// A thread's counter, alone on two cache lines. Never freed: when its thread ends, another thread
/// takes the counter over.
#[repr(align(128))]
struct Counter(AtomicUsize);

struct Registry {
    all: Vec<&'static Counter>,
    unused: Vec<&'static Counter>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    all: Vec::new(),
    unused: Vec::new(),
});

thread_local! {
    /// This thread local has no destructor, so a read need not check whether it still exists.
    static MINE: Cell<Option<&'static Counter>> = const { Cell::new(None) };
    static MEMORY: [Memory; MEMORIES] = const { [const { Cell::new((0, 0, None)) }; MEMORIES] };
    static RETURNED_AT_THE_END: Cell<Option<Returned>> = const { Cell::new(None) };
}

/// Returns the counter to the registry when its thread ends.
struct Returned(&'static Counter);

impl Drop for Returned {
    fn drop(&mut self) {
        MINE.set(None);
        REGISTRY.lock().unused.push(self.0);
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
    pub(crate) fn mine(&self) -> &'static AtomicUsize {
        match MINE.get() {
            Some(counter) => &counter.0,
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

    pub(crate) fn for_each(&self, f: impl FnMut(&AtomicUsize)) {
        // A thread that registers later begins its walk after the barrier G (see `rcu.rs`), so its
        // critical section does not matter.
        let all = REGISTRY.lock().all.clone();
        all.into_iter().map(|counter| &counter.0).for_each(f);
    }
}

#[cold]
fn register() -> &'static AtomicUsize {
    let mut registry = REGISTRY.lock();
    let counter = registry.unused.pop().unwrap_or_else(|| {
        let counter = Box::leak(Box::new(Counter(AtomicUsize::new(0))));
        registry.all.push(counter);
        counter
    });
    drop(registry);
    MINE.set(Some(counter));
    // A thread that is ending may have lost this thread local already. Then it never returns the
    // counter.
    let _ = RETURNED_AT_THE_END.try_with(|kept| kept.set(Some(Returned(counter))));
    &counter.0
}
