//! The queues themselves, under a lock: who stands there, and who of them is in front.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use super::{Calls, Class, Spot};

pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) class: Class,
    /// How many arrivals went past it that it would exclude.
    pub(super) passes: u32,
    pub(super) listener: Arc<Waker>,
}

/// Nobody: later than every id.
pub(super) const NOBODY: u64 = u64::MAX;

/// The queue of a spot, in order of arrival: ids ascend.
pub(super) struct Line {
    /// Which lock's: addresses are not enough, as a lock may move, and leave who has forgotten its place where another lock comes to lie.
    pub(super) lock: u32,
    pub(super) spot: Spot,
    pub(super) entries: VecDeque<Entry>,
    pub(super) first_upgradable: u64,
    pub(super) first_exclusive: u64,
}

impl Line {
    /// The first waiter that would exclude an arrival of this class.
    pub(super) fn first_against(&self, class: Class) -> u64 {
        match class {
            Class::Shared => self.first_exclusive,
            Class::Upgradable => self.first_exclusive.min(self.first_upgradable),
            Class::Exclusive => self.entries.front().map_or(NOBODY, |entry| entry.id),
        }
    }

    pub(super) fn is_in_front(&self, entry: &Entry) -> bool {
        // The first one against it may be itself.
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

    /// Of those in front, from a position on, the first of each class.
    pub(super) fn calls(&self, from: usize) -> Calls {
        let mut calls = Calls::default();
        let mut called = None;
        for entry in self.entries.range(from..) {
            if !self.is_in_front(entry) {
                // Behind an exclusive one nobody is.
                if self.first_exclusive < entry.id {
                    break;
                }
            } else if called != Some(entry.class) {
                let slot = usize::from(called.is_some());
                calls.0[slot] = Some(entry.listener.clone());
                // One more class there can be, or none.
                if called.is_some() || entry.class == Class::Exclusive || self.is_alone(entry) {
                    break;
                }
                called = Some(entry.class);
            }
        }
        calls
    }

    /// Whether nobody of another class can be in front beside this one, who is.
    pub(super) fn is_alone(&self, entry: &Entry) -> bool {
        entry.class == Class::Shared && self.first_upgradable == NOBODY
    }
}

/// Queues that share a lock.
pub(super) struct Bucket {
    pub(super) lines: Vec<Line>,
    pub(super) next_id: u64,
    /// What lines used that are gone: so that waiting does not allocate each time.
    pub(super) spare: Vec<VecDeque<Entry>>,
}

/// A bucket keeps so many empty queues, of so many entries at most.
const SPARE: usize = 4;
const SPARE_ENTRIES: usize = 64;

impl Bucket {
    pub(super) const fn new() -> Self {
        Bucket {
            lines: Vec::new(),
            next_id: 0,
            spare: Vec::new(),
        }
    }

    pub(super) fn at(&self, lock: u32, spot: Spot) -> Option<usize> {
        self.lines
            .iter()
            .position(|line| (line.spot, line.lock) == (spot, lock))
    }

    /// The first waiter of a spot that would exclude an arrival of this class.
    pub(super) fn first_against(
        &mut self,
        lock: u32,
        spot: Spot,
        class: Class,
    ) -> Option<&mut Entry> {
        let line = self.line(lock, spot)?;
        let at = line.position(line.first_against(class))?;
        line.entries.get_mut(at)
    }

    pub(super) fn line(&mut self, lock: u32, spot: Spot) -> Option<&mut Line> {
        let at = self.at(lock, spot)?;
        self.lines.get_mut(at)
    }

    pub(super) fn line_or_new(&mut self, lock: u32, spot: Spot) -> &mut Line {
        let at = self.at(lock, spot).unwrap_or_else(|| {
            self.lines.push(Line {
                lock,
                spot,
                entries: self.spare.pop().unwrap_or_default(),
                first_upgradable: NOBODY,
                first_exclusive: NOBODY,
            });
            self.lines.len() - 1
        });
        &mut self.lines[at]
    }

    /// Takes a line away that nobody stands in.
    pub(super) fn retire(&mut self, at: usize) {
        let entries = self.lines.swap_remove(at).entries;
        if self.spare.len() < SPARE && entries.capacity() <= SPARE_ENTRIES {
            self.spare.push(entries);
        }
    }

    /// Takes all away who stand in lines that `gone` says.
    pub(super) fn retire_all(&mut self, gone: impl Fn(&Line) -> bool) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.lines.retain_mut(|line| {
            let gone = gone(line);
            if gone {
                entries.extend(core::mem::take(&mut line.entries));
            }
            !gone
        });
        entries
    }
}
