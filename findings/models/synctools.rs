//! `synctools` 0.3.3: the reader-writer lock, and the MCS lock.
//!
//! Sources: <https://docs.rs/crate/synctools/0.3.3/source/src/rwlock.rs>, `src/mcs.rs`.

use spanlock_sync::atomic::{AtomicUsize, Ordering::*, fence};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::hint;
use spanlock_verify::{Program, Suite};

pub(crate) fn suite() -> Suite {
    Suite::new("synctools")
        .without_pairs()
        .program(
            Program::new("rw-write-write", "writers exclude each other")
                .scene(RwLock::new)
                .thread(["write"], |lock| lock.write())
                .thread(["write"], |lock| lock.write()),
        )
        .program(
            Program::new(
                "rw-read-write",
                "a writer excludes readers, and gets the lock",
            )
            .scene(RwLock::new)
            .thread(["read"], |lock| lock.read())
            .thread(["write"], |lock| lock.write()),
        )
        .program(
            Program::new("mcs", "holders exclude each other")
                .scene(McsLock::new)
                .thread(["lock"], |lock| lock.increment(1))
                .thread(["lock"], |lock| lock.increment(2)),
        )
        .program(
            Program::new(
                "mcs-3",
                "holders exclude each other, and each gets the lock",
            )
            .scene(McsLock::new)
            .thread(["lock"], |lock| lock.increment(1))
            .thread(["lock"], |lock| lock.increment(2))
            .thread(["lock"], |lock| lock.increment(3)),
        )
}

const WRITTEN: usize = usize::MAX;

/// The state counts readers in steps of two; bit 0 says that a writer waits.
struct RwLock {
    state: AtomicUsize,
    wakes: AtomicUsize,
    data: UnsafeCell<u32>,
}

// SAFETY: if the lock is correct, threads access `data` only under the lock.
unsafe impl Sync for RwLock {}

impl RwLock {
    fn new() -> Self {
        RwLock {
            state: AtomicUsize::new(0),
            wakes: AtomicUsize::new(0),
            data: UnsafeCell::new(0),
        }
    }

    fn read(&self) {
        let mut state = self.state.load(Relaxed);
        loop {
            if state.is_multiple_of(2) {
                let new = state + 2;
                match self
                    .state
                    .compare_exchange_weak(state, new, Acquire, Relaxed)
                {
                    Ok(_) => break,
                    Err(now) => state = now,
                }
            }
            if state % 2 == 1 {
                while self.state.load(Relaxed) == state {
                    hint::pause();
                }
                state = self.state.load(Relaxed);
            }
        }
        // SAFETY: the lock is held.
        self.data.with(|data| unsafe { *data });
        if self.state.fetch_sub(2, Release) == 3 {
            self.wakes.fetch_add(1, Release);
        }
    }

    fn write(&self) {
        let mut state = self.state.load(Relaxed);
        loop {
            if state <= 1 {
                match self
                    .state
                    .compare_exchange(state, WRITTEN, Acquire, Relaxed)
                {
                    Ok(_) => break,
                    Err(now) => {
                        state = now;
                        continue;
                    }
                }
            }
            if state.is_multiple_of(2) {
                let new = state + 1;
                if let Err(now) = self.state.compare_exchange(state, new, Relaxed, Relaxed) {
                    state = now;
                    continue;
                }
            }
            let wakes = self.wakes.load(Acquire);
            state = self.state.load(Relaxed);
            if state >= 2 {
                while self.wakes.load(Acquire) == wakes {
                    hint::pause();
                }
                state = self.state.load(Relaxed);
            }
        }
        // SAFETY: the lock is held.
        self.data.with_mut(|data| unsafe { *data += 1 });
        self.state.store(0, Release);
        self.wakes.fetch_add(1, Release);
    }
}

struct Node {
    next: AtomicUsize,
    is_locked: AtomicUsize,
}

/// Nodes are numbered from 1; 0 is no node.
struct McsLock {
    last: AtomicUsize,
    nodes: [Node; 3],
    data: UnsafeCell<u32>,
}

// SAFETY: if the lock is correct, threads access `data` only under the lock.
unsafe impl Sync for McsLock {}

impl McsLock {
    fn new() -> Self {
        let node = || Node {
            next: AtomicUsize::new(0),
            is_locked: AtomicUsize::new(0),
        };
        McsLock {
            last: AtomicUsize::new(0),
            nodes: [node(), node(), node()],
            data: UnsafeCell::new(0),
        }
    }

    fn increment(&self, number: usize) {
        let node = &self.nodes[number - 1];
        let previous = self.last.swap(number, AcqRel);
        if previous != 0 {
            self.nodes[previous - 1].next.store(number, Release);
            while node.is_locked.load(Relaxed) == 0 {
                hint::pause();
            }
            fence(Acquire);
        }
        // SAFETY: the lock is held.
        self.data.with_mut(|data| unsafe { *data += 1 });
        if node.next.load(Relaxed) == 0 {
            let left = self.last.compare_exchange(number, 0, Release, Relaxed);
            if left.is_ok() {
                return;
            }
            while node.next.load(Relaxed) == 0 {
                hint::pause();
            }
        }
        let next = node.next.load(Acquire);
        self.nodes[next - 1].is_locked.store(1, Release);
    }
}
