//! RCU: memory is freed only after every reader that may reference it has left.

use std::ptr::NonNull;

use spanlock_sync::atomic::{AtomicBool, Ordering, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::rcu::Rcu;
use spanlock_verify::{Program, Scene, Suite, finished, note, refuse_barriers};

const WALK: [&str; 2] = ["enter", "leave"];
const WALK_AGAIN: [&str; 3] = ["enter", "recall", "leave"];
const FREE_AND_WALK: [&str; 4] = ["synchronize", "enter", "recall", "leave"];

/// Returns the programs about [`Rcu`].
pub(crate) fn suite() -> Suite {
    Suite::new("rcu")
        .operations(["enter", "leave", "recall", "synchronize"])
        .program(
            Program::new("grace", GRACE)
                .scene(Shared::new)
                .thread(["synchronize"], |shared| shared.free(Release))
                .thread(WALK, Shared::walk),
        )
        .program(
            Program::new(
                "recall",
                "no reader recalls memory that was freed after the reader remembered it",
            )
            .scene(Shared::new)
            .thread(["synchronize"], |shared| shared.free(Relaxed))
            .thread(WALK_AGAIN, Shared::walk_twice),
        )
        .program(
            Program::new(
                "grace-each",
                "two threads, each of which frees memory that the other walks over, wait for each \
                 other's critical sections without a deadlock",
            )
            .scene(|| (Rcu::new(), [Linked::new(), Linked::new()]))
            .thread(["enter", "leave", "synchronize"], |shared| work(0, shared))
            .thread(["enter", "leave", "synchronize"], |shared| work(1, shared)),
        )
        .program(
            Program::new(
                "recall-each",
                "a thread does not recall memory that it remembered and has freed since, and no \
                 other thread still uses that memory",
            )
            .scene(Shared::new)
            .thread(["enter", "recall", "leave", "synchronize"], |shared| {
                shared.walk_again();
                shared.free(Relaxed);
                shared.walk_again();
            })
            .thread(WALK_AGAIN, Shared::walk_twice),
        )
        .program(
            Program::new(
                "recall-beside",
                "no reader recalls memory that another thread frees, although the reader has called \
                 `synchronize` itself meanwhile",
            )
            .scene(|| (Rcu::new(), [Linked::new(), Linked::new()]))
            .thread(FREE_AND_WALK, |shared| free_and_walk(0, shared))
            .thread(FREE_AND_WALK, |shared| free_and_walk(1, shared)),
        )
        .program(
            Program::new(
                "nested",
                "a critical section lasts until its thread has dropped all guards, in any order",
            )
            .scene(Shared::new)
            .thread(["synchronize"], |shared| shared.free(Release))
            .thread(["enter", "leave", "enter", "leave"], Shared::walk_nested),
        )
        .program(
            Program::new(
                "refused-barrier",
                "memory is kept while the system refuses the heavy barrier, and freed later",
            )
            .scene(Shared::new)
            .thread(["synchronize", "synchronize"], |shared| {
                refuse_barriers(0..1);
                shared.free(Release);
            })
            .thread(WALK, Shared::walk),
        )
        .program(Program::from(readers("grace-3", 2)))
        .program(readers("crowd-4", 3))
        .program(readers("crowd-6", 5))
        .program(readers("crowd-8", 7))
}

const GRACE: &str = "after `synchronize`, no reader references memory that was unlinked before it";

/// Returns the program `grace` with `count` readers.
fn readers(name: &str, count: usize) -> Scene<Shared> {
    let scene = Program::new(name, GRACE).scene(Shared::new);
    let scene = scene.thread(["synchronize"], |shared| shared.free(Release));
    (0..count).fold(scene, |scene, _| scene.thread(WALK, Shared::walk))
}

/// The memory, its link, and the [`Rcu`] of its readers.
struct Shared {
    rcu: Rcu,
    linked: Linked,
}

impl Shared {
    fn new() -> Self {
        Shared {
            rcu: Rcu::new(),
            linked: Linked::new(),
        }
    }

    fn walk(&self) {
        self.linked.walk(&self.rcu);
    }

    fn walk_twice(&self) {
        self.walk_again();
        self.walk_again();
    }

    /// Walks, and walks again under the second of two guards, after the first has been dropped.
    fn walk_nested(&self) {
        self.walk();
        let outer = self.rcu.enter();
        let inner = self.rcu.enter();
        drop(outer);
        finished();
        self.linked.use_if_linked();
        drop(inner);
        finished();
    }

    fn walk_again(&self) {
        self.linked.walk_again(&self.rcu);
    }

    fn free(&self, unlinking: Ordering) {
        self.linked.free(&self.rcu, unlinking);
    }
}

/// Walks over the other thread's memory, and frees its own.
fn work(me: usize, (rcu, memories): &(Rcu, [Linked; 2])) {
    memories[1 - me].walk(rcu);
    memories[me].free(rcu, Release);
}

/// Frees its own memory, and then walks twice over the other thread's.
fn free_and_walk(me: usize, (rcu, memories): &(Rcu, [Linked; 2])) {
    memories[me].free(rcu, Relaxed);
    memories[1 - me].walk_again(rcu);
    memories[1 - me].walk_again(rcu);
}

/// Memory, and whether it is still linked.
struct Linked {
    is_linked: AtomicBool,
    memory: Memory,
}

impl Linked {
    fn new() -> Self {
        Linked {
            is_linked: AtomicBool::new(true),
            memory: Memory(UnsafeCell::new(1)),
        }
    }

    /// Uses the memory in a critical section if it is still linked.
    fn walk(&self, rcu: &Rcu) {
        let guard = rcu.enter();
        finished();
        self.use_if_linked();
        drop(guard);
        finished();
    }

    /// Uses the memory in a critical section, if it is recalled or still linked.
    fn walk_again(&self, rcu: &Rcu) {
        let guard = rcu.enter();
        finished();
        let recalled = guard.recall(0).is_some();
        finished();
        // Relaxed: this load must be ordered by the `Rcu`'s stamp (see `rcu.rs`) and by the
        // barriers alone.
        if recalled || self.is_linked.load(Relaxed) {
            guard.remember(0, NonNull::dangling());
            self.memory.use_it();
        }
        note(if recalled { "recalled" } else { "walked" });
        drop(guard);
        finished();
    }

    /// Uses the memory if it is still linked. The caller is in a critical section.
    fn use_if_linked(&self) {
        let found = self.is_linked.load(Acquire);
        if found {
            self.memory.use_it();
        }
        note(if found { "used" } else { "gone" });
    }

    /// Unlinks the memory, waits for its readers, and frees it. Tries again while it cannot wait.
    fn free(&self, rcu: &Rcu, unlinking: Ordering) {
        self.is_linked.store(false, unlinking);
        while !rcu.synchronize() {
            note("kept");
            finished();
        }
        finished();
        // SAFETY: every critical section that could have found the memory has ended. loom checks
        // that this suffices.
        (self.memory.0).with_mut(|memory| unsafe { *memory = 0 });
    }
}

/// A read stands for a use of the memory, and a write for its free.
struct Memory(UnsafeCell<u32>);

// SAFETY: loom checks that no two threads access it at once.
unsafe impl Sync for Memory {}
// SAFETY: a cell that contains a plain number.
unsafe impl Send for Memory {}

impl Memory {
    /// Uses the memory. The caller found it linked, or recalled it, in a critical section that has
    /// not ended yet. Loom checks that this suffices.
    fn use_it(&self) {
        // SAFETY: the caller is in such a critical section.
        let used = self.0.with(|memory| unsafe { *memory });
        assert_eq!(used, 1, "used after it was freed");
    }
}
