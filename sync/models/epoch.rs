//! Epochs: memory is freed only once no pinned thread can reference it. The facade reports a use
//! after the free.

use std::ptr;

use spanlock_sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use spanlock_sync::epoch::{self, Collector};
use spanlock_verify::{Program, Suite, finished, note};

const GRACE: &str = "a pinned thread uses what it has found linked, and nothing is used after its \
                     free";

/// Returns the programs about [`Collector`].
pub(crate) fn suite() -> Suite {
    Suite::new("epoch")
        .operations(["walk", "free"])
        .no_pair("free", "free", "a thread frees only what it has unlinked")
        .program(
            Program::new("grace", GRACE)
                .scene(Shared::new)
                .thread(["free"], Shared::free)
                .thread(["walk"], Shared::walk),
        )
        .program(
            Program::new(
                "grace-again",
                "a thread that is pinned again does not use what is freed",
            )
            .scene(Shared::new)
            .thread(["free"], Shared::free)
            .thread(["walk", "walk"], |shared| {
                shared.walk();
                shared.walk();
            }),
        )
        .program(
            Program::new(
                "grace-nested",
                "a thread stays pinned until it has dropped all guards, in any order",
            )
            .scene(Shared::new)
            .thread(["free"], Shared::free)
            .thread(["walk"], Shared::walk_nested),
        )
        .program(
            Program::new("grace-3", GRACE)
                .scene(Shared::new)
                .thread(["free"], Shared::free)
                .thread(["walk"], Shared::walk)
                .thread(["walk"], Shared::walk),
        )
}

/// A link to memory, and the collector that frees it.
struct Shared {
    epochs: Collector,
    link: AtomicPtr<AtomicU32>,
}

impl Shared {
    fn new() -> Self {
        let memory = epoch::owned(Box::new(AtomicU32::new(1)));
        Shared {
            epochs: Collector::new(),
            link: AtomicPtr::new(Box::into_raw(memory)),
        }
    }

    fn walk(&self) {
        let guard = self.epochs.pin();
        self.use_if_linked();
        drop(guard);
        finished();
    }

    /// Walks under the second of two guards, after the first has been dropped.
    fn walk_nested(&self) {
        let outer = self.epochs.pin();
        let inner = self.epochs.pin();
        drop(outer);
        self.use_if_linked();
        drop(inner);
        finished();
    }

    /// Uses the memory if it is linked. The caller is pinned.
    fn use_if_linked(&self) {
        // Relaxed: the memory was there before the threads began.
        let memory = self.link.load(Relaxed);
        // SAFETY: null, or found linked while pinned.
        let found = unsafe { memory.as_ref() };
        // Relaxed: as above.
        note(found.map_or(0, |memory| memory.load(Relaxed)).to_string());
    }

    fn free(&self) {
        let guard = self.epochs.pin();
        // Relaxed: the fences of the epochs order it.
        let memory = self.link.swap(ptr::null_mut(), Relaxed);
        // SAFETY: unlinked above, by the only thread that frees.
        unsafe { guard.defer_free(memory) };
        drop(guard);
        finished();
    }
}
