//! Epochs as a checker explores them: a word per thread says whether the thread is pinned.
//!
//! Memory is freed as early as the guarantees of [`crate::epoch`] allow, so that a search finds a
//! use that they do not cover. But only the thread that deferred the free frees the memory: when it
//! unpins or flushes. Dropping the collector frees what is left.
//!
//! # The word of a thread
//! It counts how often the thread was pinned and unpinned, so it is odd while the thread is pinned.
//! `defer_free` notes the odd words. A thread whose word has changed since has dropped its guards.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with |
//! |---|---|---|---|
//! | F | in `pin`, after the word is stored | SeqCst fence | G |
//! | G | in `defer_free`, before the words are loaded | SeqCst fence | F |
//! | H | the store of the word that unpins | Release | I |
//! | I | the loads of the words of other threads | Acquire | H, R |
//! | R | the store of the word that pins | Release | I |
//!
//! `tests/checked_epoch.rs` shows that each of them is needed.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::*;

use super::freed;
use crate::atomic::{AtomicU64, fence};
use crate::{check, thread};

pub(crate) struct Collector {
    /// The word of each thread of the model.
    words: Box<[AtomicU64]>,
    /// What only its thread uses.
    locals: Box<[Local]>,
}

// SAFETY: a thread touches only its own entry of `locals`, and `T: Send` for all garbage.
unsafe impl Sync for Collector {}
// SAFETY: as above.
unsafe impl Send for Collector {}

#[derive(Default)]
struct Local {
    guards: Cell<usize>,
    /// The same as the thread's word.
    word: Cell<u64>,
    garbage: RefCell<Vec<Garbage>>,
}

struct Garbage {
    /// The threads that were pinned when the free was deferred and may still be, with their words.
    pinned: Vec<(usize, u64)>,
    free: Box<dyn FnOnce()>,
}

pub(crate) struct Guard<'a> {
    collector: &'a Collector,
    /// The guard is dropped in the thread that was pinned.
    not_send: PhantomData<*const ()>,
}

impl Default for Collector {
    fn default() -> Self {
        Collector::new()
    }
}

impl Collector {
    pub(crate) fn new() -> Self {
        let threads = check::threads();
        Collector {
            words: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            locals: (0..threads).map(|_| Local::default()).collect(),
        }
    }

    pub(crate) fn pin(&self) -> Guard<'_> {
        let (index, local) = self.mine();
        local.guards.set(local.guards.get() + 1);
        if local.guards.get() == 1 {
            let word = local.word.get() + 1;
            local.word.set(word);
            // Release [R→I]: a load may read this store instead of the one that unpinned before.
            self.words[index].store(word, Release);
            // SeqCst [F→G].
            fence(SeqCst);
        }
        Guard {
            collector: self,
            not_send: PhantomData,
        }
    }

    fn mine(&self) -> (usize, &Local) {
        let index = thread::index();
        (index, &self.locals[index])
    }

    /// Returns the word of a thread. The calling thread's own needs no step of the search.
    fn word(&self, of: usize) -> u64 {
        let (index, local) = self.mine();
        if of == index {
            return local.word.get();
        }
        // Acquire [I→H, R]: what the thread did while it was pinned happens before the free.
        self.words[of].load(Acquire)
    }

    /// Frees the calling thread's garbage that no pinned thread can reference.
    fn collect(&self) {
        // While a failed model unwinds, what is left is leaked.
        if std::thread::panicking() {
            return;
        }
        let garbage = self.mine().1.garbage.take();
        for mut it in garbage {
            it.pinned.retain(|&(of, word)| self.word(of) == word);
            if it.pinned.is_empty() {
                (it.free)();
            } else {
                self.mine().1.garbage.borrow_mut().push(it);
            }
        }
    }
}

impl Guard<'_> {
    /// # Safety
    /// See [`crate::epoch::Guard::defer_free`].
    pub(crate) unsafe fn defer_free<T: Send + 'static>(&self, memory: *mut T) {
        let collector = self.collector;
        // SeqCst [G→F].
        fence(SeqCst);
        let words = (0..collector.words.len()).map(|of| (of, collector.word(of)));
        let garbage = Garbage {
            pinned: words.filter(|(_, word)| word % 2 == 1).collect(),
            // SAFETY: the memory came from `Box::into_raw`, and nothing else frees it.
            free: Box::new(move || freed::free_box(unsafe { Box::from_raw(memory) })),
        };
        collector.mine().1.garbage.borrow_mut().push(garbage);
    }

    pub(crate) fn flush(&self) {
        self.collector.collect();
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let (index, local) = self.collector.mine();
        local.guards.set(local.guards.get() - 1);
        if local.guards.get() == 0 {
            let word = local.word.get() + 1;
            local.word.set(word);
            // Release [H→I]: what the thread did while it was pinned happens before the free.
            self.collector.words[index].store(word, Release);
            self.collector.collect();
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for local in &mut self.locals {
            for garbage in local.garbage.take() {
                (garbage.free)();
            }
        }
    }
}

pub(crate) fn allocate<T>(value: T) -> Box<T> {
    let memory = Box::new(value);
    freed::made(core::slice::from_ref(&*memory));
    memory
}

pub(crate) fn free<T>(memory: Box<T>) {
    freed::forget(&*memory);
    drop(memory);
}
