//! Waiting for a word: a first-come-first-served queue for each address.
//!
//! # The problem
//! A lock word has 32 or 64 bits and no room for a queue, and there may be millions of them. So waiters
//! stand in a table outside, keyed by the word's address: like a futex, with two differences.
//! The order of the queue is the caller's to use: only the *head* of a queue competes for the word, all others
//! sleep. And a waiter is a [`Waker`]: a thread's ([`crate::Parker`]) or a future's.
//!
//! # Protocol
//! The caller keeps one bit of the word as "somebody is queued".
//!
//! | step | who | what |
//! |---|---|---|
//! | join | waiter | under the table's lock: append to the queue, *set the bit* |
//! | look | waiter | if it is the head and the word admits it: take the word, then leave; else sleep |
//! | leave | waiter | under the table's lock: remove from the queue; if it was the last, *clear the bit* |
//! | wake | whoever changes the word and saw the bit in it | wake the queue's head |
//!
//! # Invariants
//! - **I1** The bit is set exactly while the queue is not empty, as seen under the table's lock.
//! - **I2** No wake is lost. Whoever changes the word does so by a read-modify-write that returns the bit. If that
//!   comes after the waiter's setting of the bit, it sees the bit and wakes the head, whose [`crate::Parker`]
//!   keeps the wake until it sleeps. If it comes before, the waiter's look, which follows its setting
//!   of the bit, reads the changed word. There is no third case, and no fence: it is one word.
//! - **I3** A waiter that stops being the head leaves the queue, and a leaving head that frees the way for the
//!   next wakes it.
//!
//! # Not promised
//! A wake may be spurious, and addresses may be reused: a late wake for a freed lock can reach a waiter of
//! a new one at the same address. Waiters look again after each sleep.

use core::fmt;
use std::collections::VecDeque;
use std::task::Waker;

use crate::Mutex;

/// Where waiters stand: a handle to the process's one table (no size), or, under a checker, a table of
/// its own.
pub struct WaitQueue(world::Table);

/// A place in the queue of one address. It must [`leave`](Waiter::leave).
#[derive(Debug)]
#[must_use = "a waiter that never leaves blocks all behind it"]
pub struct Waiter<'q> {
    queue: &'q WaitQueue,
    key: usize,
    id: u64,
    head: bool,
}

struct Entry {
    key: usize,
    id: u64,
    waker: Waker,
}

/// Queues of several addresses, interleaved in order of arrival.
struct Bucket {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl Bucket {
    const fn new() -> Self {
        Bucket {
            entries: VecDeque::new(),
            next_id: 0,
        }
    }

    fn head(&self, key: usize) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl WaitQueue {
    /// A queue that nobody stands in.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        WaitQueue(world::Table::new())
    }

    /// Joins the queue of `key`, the address of the word waited for. `set_bit` runs under the table's lock
    /// and makes the word say that somebody is queued.
    pub fn join(&self, key: usize, waker: Waker, set_bit: impl FnOnce()) -> Waiter<'_> {
        let mut bucket = self.0.bucket(key).lock();
        let id = bucket.next_id;
        bucket.next_id += 1;
        let head = bucket.head(key).is_none();
        bucket.entries.push_back(Entry { key, id, waker });
        set_bit();
        Waiter {
            queue: self,
            key,
            id,
            head,
        }
    }

    /// Wakes the head of the queue of `key`, if there is one. It stays the head.
    #[cold]
    #[track_caller]
    pub fn wake_head(&self, key: usize) {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        if crate::check::drop_wake(core::panic::Location::caller()) {
            return;
        }
        let waker = self
            .0
            .bucket(key)
            .lock()
            .head(key)
            .map(|entry| entry.waker.clone());
        // Outside the lock: a future's waker runs its executor's code.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueue").finish_non_exhaustive()
    }
}

impl Waiter<'_> {
    /// Whether this is the head: the one that may take the word.
    pub fn is_head(&mut self) -> bool {
        // Nobody is put before a head, so once true it stays true.
        if !self.head {
            let bucket = self.queue.0.bucket(self.key).lock();
            self.head = bucket
                .head(self.key)
                .is_some_and(|entry| entry.id == self.id);
        }
        self.head
    }

    /// Leaves the queue. If nobody else stands in it, `clear_bit` runs under the table's lock; otherwise,
    /// if this was the head and `wake_next` says so, the new head is woken.
    ///
    /// A head that took the word exclusively need not wake anybody: its release will.
    #[track_caller]
    pub fn leave(self, wake_next: bool, clear_bit: impl FnOnce()) {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        let wake_next = wake_next && !crate::check::drop_wake(core::panic::Location::caller());
        let mut bucket = self.queue.0.bucket(self.key).lock();
        let was_head = bucket
            .head(self.key)
            .is_some_and(|entry| entry.id == self.id);
        bucket
            .entries
            .retain(|entry| entry.id != self.id || entry.key != self.key);
        let next = match bucket.head(self.key) {
            None => {
                clear_bit();
                None
            }
            Some(next) if was_head && wake_next => Some(next.waker.clone()),
            Some(_) => None,
        };
        drop(bucket);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
mod world {
    use super::{Bucket, Mutex};

    const BUCKETS: usize = 256;

    /// Two lines apart: x86 fetches lines in pairs.
    #[repr(align(128))]
    struct Padded(Mutex<Bucket>);

    static TABLE: [Padded; BUCKETS] = [const { Padded(Mutex::new(Bucket::new())) }; BUCKETS];

    pub(super) struct Table;

    impl Table {
        pub(super) fn new() -> Self {
            Table
        }

        pub(super) fn bucket(&self, key: usize) -> &'static Mutex<Bucket> {
            // Fibonacci hashing: words are 4 or 8 bytes apart, the high bits of the product are mixed.
            let hash = (key as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            &TABLE[(hash >> 56) as usize].0
        }
    }
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
mod world {
    use super::{Bucket, Mutex};

    /// One bucket for every address: as if all hashes collided.
    pub(super) struct Table(Mutex<Bucket>);

    impl Table {
        pub(super) fn new() -> Self {
            Table(Mutex::new(Bucket::new()))
        }

        pub(super) fn bucket(&self, _key: usize) -> &Mutex<Bucket> {
            &self.0
        }
    }
}
