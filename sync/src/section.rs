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
//! # Remembering
//! A walk takes a dependent load a step. So a thread remembers where its last walks led: [`remember`](Section::remember) in one section, and
//! [`recall`](Section::recall) in a later one, for as long as nobody has unlinked anything. `Sections` have a *stamp*, which no others have and which
//! `wait_for_all` renews; what is remembered counts if it has the section's stamp.
//!
//! - **E-I3** What is recalled in a section could have been found by a walk in it: it was found in a section of this stamp, and so with all that was unlinked
//!   before the stamp was made unlinked. If something has been unlinked since, then this section read its stamp before the new one was made, or before it
//!   was seen; and then by the two barriers its counter is seen to be odd, as that of a walk that saw what was unlinked.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | F | in `enter`, between the counter and the walk | light barrier | G | `sections/grace` |
//! | G | in `wait_for_all`, between the unlinking and the counters | heavy barrier | F | `sections/grace` |
//! | H | the store that ends a section | Release | I | `sections/grace` |
//! | I | the load of a counter in `wait_for_all` | Acquire | H, R | `sections/grace` |
//! | R | the store that begins the next | Release | I | `sections/recall` |
//! | P | the store of a new stamp in `wait_for_all` | Release | Q | `sections/recall` |
//! | Q | the load of the stamp in `enter` | Acquire | P | `sections/recall` |
//!
//! # Not promised
//! That `wait_for_all` is quick: a thread may lose its core in the midst of a section. So no section may wait for anything that
//! waits for `wait_for_all`: within one, nobody blocks.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::{barrier, injected_bug, thread};

/// Sections that protect the same memory: a handle to the counters of the process's threads, or, under a checker, counters of its own.
#[derive(Debug)]
pub struct Sections {
    counters: world::Counters,
    stamp: AtomicU64,
}

/// Being in a section. Sections may be nested: the outermost counts.
#[derive(Debug)]
#[must_use = "dropping the section at once ends it"]
pub struct Section<'a> {
    sections: &'a Sections,
    /// None in an inner section.
    counter: Option<&'a AtomicUsize>,
    stamp: u64,
    /// It ends in the thread that began it.
    not_send: PhantomData<*const ()>,
}

impl Sections {
    /// No thread is in a section.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Sections {
            counters: world::Counters::new(),
            stamp: AtomicU64::new(world::new_stamp()),
        }
    }

    /// Begins a section of the calling thread.
    #[inline]
    pub fn enter(&self) -> Section<'_> {
        let counter = self.counters.mine();
        // Relaxed: only this thread changes it.
        let count = counter.load(Relaxed);
        let outermost = count & 1 == 0;
        if outermost {
            // Release [R→I]: it may be this that tells of the end of the section before. (Before the walk: the barrier F.)
            counter.store(count.wrapping_add(1), Release);
            // Light [F→G].
            barrier::light();
        }
        Section {
            sections: self,
            counter: outermost.then_some(counter),
            // Acquire [Q→P]: what was unlinked before this stamp was made is not found in this section.
            stamp: self.stamp.load(Acquire),
            not_send: PhantomData,
        }
    }

    /// Waits until every section has ended that could have seen what was unlinked before this call.
    ///
    /// Not from within a section: it would wait for itself.
    pub fn wait_for_all(&self) {
        // Release [P→Q]: what was unlinked is seen to be so with the new stamp.
        self.stamp.store(world::new_stamp(), Release);
        // Heavy [G→F].
        barrier::heavy();
        if injected_bug!(
            "node-freed-too-early",
            "synchronize returns without waiting for the read-side critical sections",
            killed_by = "reclamation, grace, recall"
        ) {
            return;
        }
        self.counters.for_each(|counter| {
            // Acquire [I→H], both: what was done in the section happens before what follows.
            let before = counter.load(Acquire);
            while before & 1 == 1 && counter.load(Acquire) == before {
                thread::yield_now();
            }
        });
    }
}

impl Section<'_> {
    /// The memory that this thread has [remembered](Self::remember) for `key`, if it has not forgotten it, and if nothing has been unlinked since that can be known
    /// of here: then it can be used in this section as if it had been found in it.
    #[inline]
    pub fn recall(&self, key: u64) -> Option<NonNull<()>> {
        let known = self.sections.counters.memory(key);
        let (stamp, of, memory) = known.get();
        if (stamp, of) == (self.stamp, key) {
            memory
        } else {
            None
        }
    }

    /// Remembers for later sections of this thread what was found linked in this one, or made, or recalled. A thread remembers
    /// a few, of all `Sections` together.
    #[inline]
    pub fn remember(&self, key: u64, memory: NonNull<()>) {
        let known = self.sections.counters.memory(key);
        known.set((self.stamp, key, Some(memory)));
    }
}

/// What a thread remembers: the stamp, the key, the memory.
type Memory = core::cell::Cell<(u64, u64, Option<NonNull<()>>)>;

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
    use core::sync::atomic::AtomicU64;

    use super::{AtomicUsize, Memory, Relaxed};
    use crate::Mutex;

    /// How much a thread remembers.
    const MEMORIES: usize = 16;

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
        static MEMORY: [Memory; MEMORIES] = const { [const { Cell::new((0, 0, None)) }; MEMORIES] };
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

    /// A stamp that nobody else has, and not 0.
    pub(super) fn new_stamp() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only to be different. It does not wrap: that would take centuries.
        LAST.fetch_add(1, Relaxed) + 1
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

        /// Where this thread remembers what it found for `key`.
        #[inline]
        pub(super) fn memory(&self, key: u64) -> &Memory {
            MEMORY.with(|all| {
                let memory = &all[key as usize % MEMORIES];
                // SAFETY: a `Section` that leads here cannot leave its thread, and `MEMORY` has no destructor.
                unsafe { &*core::ptr::from_ref(memory) }
            })
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
    use core::sync::atomic::AtomicU64;

    use super::{AtomicUsize, Memory, Relaxed, thread};
    use crate::check;

    /// One of each for every thread of the model.
    #[derive(Debug)]
    pub(super) struct Counters {
        counters: Box<[AtomicUsize]>,
        /// A thread remembers one thing.
        memories: Box<[Memory]>,
    }

    // SAFETY: a thread touches only its own memory.
    unsafe impl Sync for Counters {}
    // SAFETY: a memory is no more than a number to whoever has it: it is the walker who uses it as an address.
    unsafe impl Send for Counters {}

    /// Not the checker's, who knows nothing of statics: so a step is missing that orders nothing.
    pub(super) fn new_stamp() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        LAST.fetch_add(1, Relaxed) + 1
    }

    impl Counters {
        pub(super) fn new() -> Self {
            let threads = check::threads();
            Counters {
                counters: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
                memories: (0..threads).map(|_| Memory::default()).collect(),
            }
        }

        pub(super) fn mine(&self) -> &AtomicUsize {
            &self.counters[thread::index()]
        }

        pub(super) fn memory(&self, _key: u64) -> &Memory {
            &self.memories[thread::index()]
        }

        pub(super) fn for_each(&self, f: impl FnMut(&AtomicUsize)) {
            self.counters.iter().for_each(f);
        }
    }
}
