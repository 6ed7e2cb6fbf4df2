//! The queues themselves, which a bucket's lock protects: which waiters are queued, and which are
//! at the head.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use super::{Class, Spot, Wakers};

pub(crate) struct Entry {
    pub(super) id: u64,
    pub(super) class: Class,
    /// How many conflicting arrivals have passed this waiter.
    pub(super) passes: u32,
    pub(super) listener: Arc<Waker>,
}

/// The id that stands for no waiter: greater than the id of any waiter.
pub(super) const NOBODY: u64 = u64::MAX;

/// The queue of a spot, in order of arrival. So ids ascend.
pub(crate) struct Queue {
    /// The number of the lock that owns this queue. The address does not suffice: a lock may move
    /// and leave the entry of a forgotten place behind, and then another lock may take its old
    /// address.
    pub(super) lock: u32,
    pub(super) spot: Spot,
    pub(super) entries: VecDeque<Entry>,
    /// The id of the first upgradable waiter, or [`NOBODY`].
    pub(super) first_upgradable: u64,
    /// The id of the first exclusive waiter, or [`NOBODY`].
    pub(super) first_exclusive: u64,
}

impl Queue {
    /// Returns the id of the first waiter that conflicts with this class.
    pub(super) fn first_against(&self, class: Class) -> u64 {
        match class {
            Class::Shared => self.first_exclusive,
            Class::Upgradable => self.first_exclusive.min(self.first_upgradable),
            Class::Exclusive => self.entries.front().map_or(NOBODY, |entry| entry.id),
        }
    }

    pub(super) fn is_at_head(&self, entry: &Entry) -> bool {
        // The first waiter that conflicts with the entry may be the entry itself.
        self.first_against(entry.class) >= entry.id
    }

    pub(super) fn position(&self, id: u64) -> Option<usize> {
        self.entries
            .binary_search_by_key(&id, |entry| entry.id)
            .ok()
    }

    pub(super) fn push(&mut self, entry: Entry) {
        match entry.class {
            Class::Shared => {}
            Class::Upgradable => self.first_upgradable = self.first_upgradable.min(entry.id),
            Class::Exclusive => self.first_exclusive = self.first_exclusive.min(entry.id),
        }
        self.entries.push_back(entry);
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<Entry> {
        let gone = self.entries.remove(at)?;
        let next = |class| {
            let mut behind = self.entries.range(at..);
            behind
                .find(|entry| entry.class == class)
                .map_or(NOBODY, |entry| entry.id)
        };
        if self.first_upgradable == gone.id {
            self.first_upgradable = next(Class::Upgradable);
        } else if self.first_exclusive == gone.id {
            self.first_exclusive = next(Class::Exclusive);
        }
        Some(gone)
    }

    /// Returns the wakers of the first waiter of each class at the head, from position `from` on.
    pub(super) fn wakers(&self, from: usize) -> Wakers {
        let mut wakers = Wakers::default();
        let mut listed = None;
        for entry in self.entries.range(from..) {
            if !self.is_at_head(entry) {
                // No waiter behind an exclusive one is at the head.
                if self.first_exclusive < entry.id {
                    break;
                }
            } else if listed != Some(entry.class) {
                let slot = usize::from(listed.is_some());
                wakers.0[slot] = Some(entry.listener.clone());
                // Shared and upgradable waiters are at the head together, exclusive ones alone.
                if listed.is_some() || entry.class == Class::Exclusive || self.is_alone(entry) {
                    break;
                }
                listed = Some(entry.class);
            }
        }
        wakers
    }

    /// Returns whether `entry`, a waiter at the head, is shared and no upgradable waiter is queued.
    pub(super) fn is_alone(&self, entry: &Entry) -> bool {
        entry.class == Class::Shared && self.first_upgradable == NOBODY
    }
}

/// The queues whose words hash to the same value. One mutex protects them.
pub(crate) struct Bucket {
    pub(super) queues: Vec<Queue>,
    pub(super) next_id: u64,
    /// The buffers of removed queues, so that a waiter need not allocate each time.
    pub(super) spare: Vec<VecDeque<Entry>>,
}

/// How many empty buffers a bucket keeps.
const SPARE: usize = 4;
/// The largest capacity of a buffer that a bucket keeps, in entries.
const SPARE_ENTRIES: usize = 64;

impl Bucket {
    pub(crate) const fn new() -> Self {
        Bucket {
            queues: Vec::new(),
            next_id: 0,
            spare: Vec::new(),
        }
    }

    pub(super) fn at(&self, lock: u32, spot: Spot) -> Option<usize> {
        self.queues
            .iter()
            .position(|queue| (queue.spot, queue.lock) == (spot, lock))
    }

    /// Returns the first waiter of a spot that conflicts with this class.
    pub(super) fn first_against(
        &mut self,
        lock: u32,
        spot: Spot,
        class: Class,
    ) -> Option<&mut Entry> {
        let queue = self.queue(lock, spot)?;
        let at = queue.position(queue.first_against(class))?;
        queue.entries.get_mut(at)
    }

    pub(super) fn queue(&mut self, lock: u32, spot: Spot) -> Option<&mut Queue> {
        let at = self.at(lock, spot)?;
        self.queues.get_mut(at)
    }

    pub(super) fn queue_or_new(&mut self, lock: u32, spot: Spot) -> &mut Queue {
        let at = self.at(lock, spot).unwrap_or_else(|| {
            self.queues.push(Queue {
                lock,
                spot,
                entries: self.spare.pop().unwrap_or_default(),
                first_upgradable: NOBODY,
                first_exclusive: NOBODY,
            });
            self.queues.len() - 1
        });
        &mut self.queues[at]
    }

    /// Removes an empty queue.
    pub(super) fn retire(&mut self, at: usize) {
        let entries = self.queues.swap_remove(at).entries;
        if self.spare.len() < SPARE && entries.capacity() <= SPARE_ENTRIES {
            self.spare.push(entries);
        }
    }

    /// Removes the queues for which `gone` returns true, and returns their entries.
    pub(super) fn retire_all(&mut self, gone: impl Fn(&Queue) -> bool) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.queues.retain_mut(|queue| {
            let gone = gone(queue);
            if gone {
                entries.extend(core::mem::take(&mut queue.entries));
            }
            !gone
        });
        entries
    }
}
