//! Sections: short stretches of code that memory is kept for, and a way to wait until all of them have ended.
//!
//! # The problem
//! Who walks a tree of nodes without a lock must not have a node freed underfoot. The usual remedy is an epoch that each walk
//! announces by a fenced store, as in crossbeam-epoch: 4 ns, when the lock at the end of the walk costs 2.4. Where memory is
//! given back once in a long while, it should be the giver who pays. So a walk announces itself by a plain store, and the giver
//! by the asymmetric barrier sees all that were announced: the user-space read-copy-update of Desnoyers et al.
//! (DOI 10.1109/TPDS.2011.159, its flavour with `membarrier`), with one counter a thread and no phases.
//!
//! # Protocol
//!
//! | | a walk | | who takes memory away |
//! |---|---|---|---|
//! | 1 | [`enter`](Sections::enter): its thread's counter becomes odd | 1 | unlinks the memory |
//! | 2 | (in `enter`) [`light`](crate::barrier::light) barrier | 2 | (in [`wait_for_all`](Sections::wait_for_all)) [`heavy`](crate::barrier::heavy) barrier |
//! | 3 | walks | 3 | waits for each counter that is odd to change |
//! | 4 | dropping the [`Section`]: its counter becomes even | 4 | frees the memory |
//!
//! # Invariants
//! - **E-I1** A thread's counter is odd exactly while it is in a section. Only that thread changes it.
//! - **E-I2** When `wait_for_all` returns, every section that could have seen what was linked before has ended: by the two barriers either the
//!   counter was seen to be odd, and waited for, or the walk sees what was unlinked.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | F | in `enter`, between the counter and the walk | light barrier | G | `sections/grace` |
//! | G | in `wait_for_all`, between the unlinking and the counters | heavy barrier | F | `sections/grace` |
//! | H | the store that ends a section | Release | I | `sections/grace` |
//! | I | the load of a counter in `wait_for_all` | Acquire | H | `sections/grace` |
//!
//! # Not promised
//! That `wait_for_all` is quick: a thread may lose its core in the midst of a section. So no section may wait for anything that
//! waits for `wait_for_all`: within one, nobody blocks.

use core::marker::PhantomData;

use crate::atomic::{AtomicUsize, Ordering::*};
use crate::{barrier, thread};

/// All sections: a handle to the counters of the process's threads (no size), or, under a checker, counters of its own.
#[derive(Debug)]
pub struct Sections(world::Counters);

/// Being in a section. Sections may be nested: the outermost counts.
#[derive(Debug)]
#[must_use = "dropping the section at once ends it"]
pub struct Section<'a> {
    /// None in an inner section.
    counter: Option<&'a AtomicUsize>,
    /// It ends in the thread that began it.
    not_send: PhantomData<*const ()>,
}

impl Sections {
    /// No thread is in a section.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Sections(world::Counters::new())
    }

    /// Begins a section of the calling thread.
    #[inline]
    #[track_caller]
    pub fn enter(&self) -> Section<'_> {
        let counter = self.0.mine();
        // Relaxed, both: only this thread changes it, and the barrier F orders it.
        let count = counter.load(Relaxed);
        let outermost = count & 1 == 0;
        if outermost {
            counter.store(count + 1, Relaxed);
            // Light [F→G].
            barrier::light();
        }
        Section {
            counter: outermost.then_some(counter),
            not_send: PhantomData,
        }
    }

    /// Waits until every section has ended that could have seen what was unlinked before this call.
    ///
    /// Not from within a section: it would wait for itself.
    pub fn wait_for_all(&self) {
        // Heavy [G→F].
        barrier::heavy();
        self.0.for_each(|counter| {
            // Acquire [I→H], both: what was done in the section happens before what follows.
            let before = counter.load(Acquire);
            while before & 1 == 1 && counter.load(Acquire) == before {
                thread::yield_now();
            }
        });
    }
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(counter) = self.counter {
            // Relaxed: only this thread changes it.
            let count = counter.load(Relaxed);
            // Release [H→I]: what was done in the section happens before its end is seen.
            counter.store(count.wrapping_add(1), Release);
        }
    }
}

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
mod world {
    use core::cell::Cell;

    use super::AtomicUsize;
    use crate::Mutex;

    /// Of a thread, alone on two cache lines. Never freed: a thread that ends leaves it to another.
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
        /// Without a destructor, so that it can be read without a look whether it is alive.
        static MINE: Cell<Option<&'static Counter>> = const { Cell::new(None) };
        static RETURNED_AT_THE_END: Cell<Option<Returned>> = const { Cell::new(None) };
    }

    /// Gives the counter back when its thread ends.
    struct Returned(&'static Counter);

    impl Drop for Returned {
        fn drop(&mut self) {
            MINE.set(None);
            REGISTRY.lock().unused.push(self.0);
        }
    }

    #[derive(Debug)]
    pub(super) struct Counters;

    impl Counters {
        pub(super) fn new() -> Self {
            Counters
        }

        #[inline]
        pub(super) fn mine(&self) -> &'static AtomicUsize {
            match MINE.get() {
                Some(counter) => &counter.0,
                None => register(),
            }
        }

        pub(super) fn for_each(&self, f: impl FnMut(&AtomicUsize)) {
            // A thread that registers later is in no section that matters: its walk starts after the barrier G.
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
        // In a thread that is being torn down it cannot be kept, and is never given back.
        let _ = RETURNED_AT_THE_END.try_with(|kept| kept.set(Some(Returned(counter))));
        &counter.0
    }
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
mod world {
    use super::{AtomicUsize, thread};

    /// More threads than any model has.
    const THREADS: usize = 4;

    #[derive(Debug)]
    pub(super) struct Counters([AtomicUsize; THREADS]);

    impl Counters {
        pub(super) fn new() -> Self {
            Counters([(); THREADS].map(|()| AtomicUsize::new(0)))
        }

        pub(super) fn mine(&self) -> &AtomicUsize {
            &self.0[thread::index()]
        }

        pub(super) fn for_each(&self, f: impl FnMut(&AtomicUsize)) {
            self.0.iter().for_each(f);
        }
    }
}
