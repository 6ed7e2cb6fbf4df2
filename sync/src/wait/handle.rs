//! A lock's handle to the table of queues: its counters, and how they follow the queues.

use core::ops::Range;
use core::task::Waker;

use super::Spot;
use super::bucket::{Armed, Bucket, Removed};
use super::waiter::{Batch, for_each_waker};
use crate::barrier::Flag;
use crate::const_if_shipped;
use crate::world::wait as world;

/// The part of a [`WaitQueue`] that does not depend on how threads sleep.
pub(super) struct Handle {
    /// How many waiters queue at the words of this handle. An arrival checks this count before the
    /// bucket's count. This count lies in the lock, next to data that the thread has just read.
    /// Hashing the address to find the bucket would take as long as the rest of the operation.
    ///
    /// Only a hint for arrivals, so it needs no barrier. A [`Flag`] because it must not overflow.
    pub(super) waiters: Flag,
    /// How many queues of this handle are armed. A thread that changes a word checks this count
    /// before the bucket's count.
    pub(super) armed: Flag,
    /// The number that distinguishes this lock from others.
    pub(super) number: world::Number,
    pub(super) table: world::Table,
}

impl Handle {
    const_if_shipped! {
        pub(super) fn new() -> Self {
            Handle {
                waiters: Flag::new(),
                armed: Flag::new(),
                number: world::Number::new(),
                table: world::Table::new(),
            }
        }
    }

    /// Lets [`Flag::register`] decide now.
    pub(super) fn register(&mut self) {
        self.waiters.register();
        self.armed.register();
    }

    /// Updates the counters after a change of a queue. The caller has locked its bucket.
    pub(super) fn count_armed(&self, word: usize, change: Armed) {
        match change {
            Armed::Same => {}
            Armed::More => {
                self.armed.raise();
                self.table.arm(word);
            }
            Armed::Less => {
                // This need not be visible at once: a thread that misses it only searches the queue
                // in vain.
                self.armed.lower();
                self.table.disarm(word);
            }
        }
    }

    /// Takes back the credits of a bucket, because a new generation is at the head of one of its
    /// queues.
    pub(super) fn take_back_credits(&self, bucket: &mut Bucket, word: usize) {
        let credits = self.table.take_back_credits(word);
        if credits > 0 {
            // SAFETY: the bucket is locked; Q-I6.
            unsafe { bucket.count_back(credits) };
        }
    }

    /// Updates the counters after a waiter was removed from this bucket.
    pub(super) fn count_gone(&self, bucket: &mut Bucket, word: usize, removed: &Removed) {
        self.count_armed(word, removed.armed);
        if removed.renews {
            self.take_back_credits(bucket, word);
        }
        self.waiters.lower();
        self.table.lower(word);
    }

    /// Evicts the waiters of this handle at spots for which `gone` returns true, and calls `f` with
    /// the wakers of those that are asleep. The words of these spots lie in `words`.
    pub(super) fn retire(
        &self,
        words: &Range<usize>,
        gone: impl Fn(Spot) -> bool,
        f: impl FnMut(Waker),
    ) {
        // Without a barrier: the caller knows of every waiter that still waits. All others were
        // forgotten.
        if !self.waiters.may_be_raised() {
            return;
        }
        let lock = self.number.get();
        let mut buckets = self.table.buckets(words);
        let mut bucket = buckets.next();
        let refill = |batch: &mut Batch| {
            while let Some(locked) = bucket {
                let mut locked = locked.lock();
                while batch.has_room() {
                    // SAFETY: the bucket is locked; Q-I6.
                    let Some((spot, removed)) = (unsafe { locked.evict_one(lock, &gone) }) else {
                        break;
                    };
                    self.count_gone(&mut locked, spot.word, &removed);
                    removed
                        .waker
                        .into_iter()
                        .for_each(|waker| batch.push(waker));
                }
                if !batch.has_room() {
                    return;
                }
                bucket = buckets.next();
            }
        };
        for_each_waker(refill, f);
    }
}

impl Drop for Handle {
    /// Removes forgotten waiters. No other waiter can be left.
    fn drop(&mut self) {
        if world::OUTLIVES_LOCKS {
            self.retire(&(0..usize::MAX), |_| true, drop);
        }
    }
}
