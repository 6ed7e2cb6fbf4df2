//! The queues themselves, which a bucket's lock protects: which waiters are queued, and which are
//! at the head.

use core::ptr;
use core::task::Waker;

use super::node::{ASLEEP, EVICTED, List, Node, RANKS, Rank, WOKEN};
use super::{Class, Patience, Spot};
use crate::atomic::Ordering::Relaxed;
use crate::injected_bug;
use crate::world::wait::Moment;

/// The header of a spot's queue. It lies in the node of one of the queue's waiters, which **leads**
/// the queue. So a queue without waiters takes no memory.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    /// The leaders of the next and the previous queue of the bucket, or null.
    next: *mut Node,
    prev: *mut Node,
    /// The waiters, by [`Rank`].
    lists: [List; RANKS],
    /// How many arrivals may have passed the waiters at the head since the present generation began
    /// (Q-I4).
    passes: u32,
    /// When the first of these passes was counted.
    since: Option<Moment>,
    /// Whether no arrival may pass this generation any more.
    is_shut: bool,
    /// Whether a waiter at the head is asleep, and so the queue is counted as armed (Q-I1).
    is_armed: bool,
}

/// How the number of armed queues changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the counters of armed queues must follow"]
pub(crate) enum Armed {
    Same,
    More,
    Less,
}

/// A waiter that has been removed from its queue.
pub(crate) struct Removed {
    /// Its waker, if it was asleep.
    pub(crate) waker: Option<Waker>,
    /// Whether a waiter behind it is now at the head.
    pub(super) unblocks: bool,
    /// Whether a new generation is at the head of the queue.
    pub(super) renews: bool,
    pub(crate) armed: Armed,
}

/// A waiter that has joined a queue.
pub(super) struct Joined {
    pub(super) is_at_head: bool,
    /// Whether a new generation is at the head of the queue.
    pub(super) renews: bool,
    pub(super) armed: Armed,
}

/// # Safety
/// For all unsafe functions here and in [`Bucket`]: the caller has locked the bucket, and every
/// node that is queued there is alive (Q-I6 of [`crate::wait`]).
impl Queue {
    pub(super) const fn new() -> Self {
        Queue {
            next: ptr::null_mut(),
            prev: ptr::null_mut(),
            lists: [const { List::new() }; RANKS],
            passes: 0,
            since: None,
            is_shut: false,
            is_armed: false,
        }
    }

    fn list(&self, rank: Rank) -> &List {
        &self.lists[rank as usize]
    }

    fn list_mut(&mut self, rank: Rank) -> &mut List {
        &mut self.lists[rank as usize]
    }

    /// Returns whether a waiter conflicts with this class.
    fn conflicts_with(&self, class: Class) -> bool {
        let any = |ranks: &[Rank]| ranks.iter().any(|&rank| !self.list(rank).is_empty());
        match class {
            Class::Shared => any(&[Rank::Exclusive]),
            Class::Upgradable => any(&[Rank::Exclusive, Rank::Upgradable]),
            Class::Exclusive => !self.is_empty(),
        }
    }

    fn is_empty(&self) -> bool {
        self.lists.iter().all(List::is_empty)
    }

    /// Returns a waiter for which `f` returns true.
    unsafe fn find(&self, f: impl Fn(*mut Node) -> bool) -> Option<*mut Node> {
        // SAFETY: as for this function.
        (self.lists.iter()).find_map(|list| unsafe { list.nodes() }.find(|&node| f(node)))
    }

    fn has_shared_heads(&self) -> bool {
        !(self.list(Rank::Head).is_empty() && self.list(Rank::Awake).is_empty())
    }

    /// Returns the upgradable waiter at the head, or null: the first one, if no exclusive waiter
    /// came before it.
    unsafe fn upgradable_head(&self) -> *mut Node {
        let first = self.list(Rank::Upgradable);
        // SAFETY: as for this function.
        let is_head = unsafe { first.first_id() < self.list(Rank::Exclusive).first_id() };
        if is_head {
            first.front()
        } else {
            ptr::null_mut()
        }
    }

    /// Returns the exclusive waiter at the head, or null: the first one, if it came before all
    /// other waiters.
    unsafe fn exclusive_head(&self) -> *mut Node {
        let first = self.list(Rank::Exclusive);
        // SAFETY: as for this function.
        let is_head = !self.has_shared_heads()
            && unsafe { first.first_id() < self.list(Rank::Upgradable).first_id() };
        if is_head {
            first.front()
        } else {
            ptr::null_mut()
        }
    }

    /// Returns the upgradable or the exclusive waiter at the head, if it is asleep, or null. There
    /// are never both.
    unsafe fn single_asleep(&self) -> *mut Node {
        // SAFETY: as for this function; the nodes are alive.
        unsafe {
            let heads = [self.upgradable_head(), self.exclusive_head()];
            let asleep = |&node: &*mut Node| !node.is_null() && (*node).waker.is_some();
            heads.into_iter().find(asleep).unwrap_or(ptr::null_mut())
        }
    }

    /// Returns the number of shared waiters at the head that are asleep.
    pub(super) fn shared_asleep(&self) -> usize {
        self.list(Rank::Head).len()
    }

    /// Counts the queue as armed, or no longer, after a change.
    pub(super) unsafe fn settle(&mut self) -> Armed {
        // SAFETY: as for this function.
        let single = unsafe { self.single_asleep() };
        let is_armed = self.shared_asleep() > 0 || !single.is_null();
        match core::mem::replace(&mut self.is_armed, is_armed) {
            before if before == is_armed => Armed::Same,
            true => Armed::Less,
            false => Armed::More,
        }
    }

    /// Appends a new waiter. Returns whether it is at the head.
    unsafe fn push(&mut self, node: *mut Node) -> bool {
        // SAFETY: as for this function; the node is alive and in no list.
        unsafe {
            let class = (*node).class;
            let is_at_head = !self.conflicts_with(class);
            (*node).rank = match class {
                Class::Shared if is_at_head => Rank::Head,
                Class::Shared => Rank::Behind,
                Class::Upgradable => Rank::Upgradable,
                Class::Exclusive => Rank::Exclusive,
            };
            self.list_mut((*node).rank).push(node);
            is_at_head
        }
    }

    /// Removes a waiter. Returns whether another one is now at the head because of that, and
    /// whether a new generation begins.
    unsafe fn remove(&mut self, node: *mut Node) -> (bool, bool) {
        // SAFETY: as for this function; the node is in this queue.
        unsafe {
            let before = [self.upgradable_head(), self.exclusive_head()];
            self.list_mut((*node).rank).remove(node);
            let mut stays = self.has_shared_heads();
            let mut unblocks = false;
            let first_exclusive = self.list(Rank::Exclusive).first_id();
            while self.list(Rank::Behind).first_id() < first_exclusive {
                let reader = self.list(Rank::Behind).front();
                self.move_to(reader, Rank::Head);
                unblocks = true;
            }
            for (before, now) in before
                .into_iter()
                .zip([self.upgradable_head(), self.exclusive_head()])
            {
                unblocks |= now != before && !now.is_null();
                stays |= now == before && !now.is_null();
            }
            if !stays {
                (self.passes, self.since, self.is_shut) = (0, None, false);
            }
            (unblocks, !stays)
        }
    }

    unsafe fn move_to(&mut self, node: *mut Node, rank: Rank) {
        // SAFETY: as for this function; the node is in this queue.
        unsafe {
            self.list_mut((*node).rank).remove(node);
            (*node).rank = rank;
            self.list_mut(rank).push(node);
        }
    }

    /// Takes the waker of the upgradable or the exclusive waiter at the head, if it is asleep.
    pub(super) unsafe fn wake_single(&mut self) -> Option<Waker> {
        // SAFETY: as for this function.
        unsafe {
            let node = self.single_asleep();
            (!node.is_null()).then(|| Self::wake(node)).flatten()
        }
    }

    /// Takes the waker of the first shared waiter at the head that is asleep, if there is one.
    pub(super) unsafe fn wake_shared(&mut self) -> Option<Waker> {
        let node = self.list(Rank::Head).front();
        if node.is_null() {
            return None;
        }
        // SAFETY: as for this function; the node is alive.
        unsafe {
            self.move_to(node, Rank::Awake);
            Self::wake(node)
        }
    }

    unsafe fn wake(node: *mut Node) -> Option<Waker> {
        // SAFETY: as for this function; the node is alive.
        unsafe {
            if !injected_bug!(
                "woken-flag-not-set",
                "a wake takes the waker, but does not mark the waiter as woken",
                killed_by = "wakeup, poll, give-up, full-count"
            ) {
                // Relaxed: the waiter may act on any of the two values. If it sees the new one, it
                // checks the word; before it sleeps again, it takes the bucket's lock.
                (*node).state.store(WOKEN, Relaxed);
            }
            (*node).waker.take()
        }
    }

    /// Returns whether arrivals that conflict with a waiter may no longer pass.
    fn is_shut(&mut self, patience: Patience) -> bool {
        self.is_shut = self.is_shut
            || self.passes >= patience.passes
                && (self.since).is_none_or(|since| since.is_past(patience.time));
        self.is_shut
    }

    fn count_passes(&mut self, passes: u32) {
        if passes > 0 && self.since.is_none() {
            self.since = Some(Moment::now());
        }
        self.passes = self.passes.saturating_add(passes);
    }
}

/// The queues whose words hash to the same value. One mutex protects them.
pub(crate) struct Bucket {
    /// The leader of the first queue, or null.
    first: *mut Node,
    next_id: u64,
}

// SAFETY: the nodes may be used by any thread that has locked the bucket: wakers are `Send`, and
// everything else in a node is plain data.
unsafe impl Send for Bucket {}

impl Bucket {
    pub(crate) const fn new() -> Self {
        Bucket {
            first: ptr::null_mut(),
            next_id: 0,
        }
    }

    /// Returns the leaders of all queues.
    unsafe fn leaders(&self) -> impl Iterator<Item = *mut Node> + use<> {
        let mut leader = self.first;
        core::iter::from_fn(move || {
            let this = leader;
            if this.is_null() {
                return None;
            }
            // SAFETY: as for this function.
            leader = unsafe { (*this).queue.next };
            Some(this)
        })
    }

    unsafe fn leader(&self, lock: u32, spot: Spot) -> Option<*mut Node> {
        // SAFETY: as for this function; the leaders are alive.
        unsafe { (self.leaders()).find(|&leader| ((*leader).spot, (*leader).lock) == (spot, lock)) }
    }

    /// Returns the queue of a spot, unless it is empty.
    pub(super) unsafe fn queue(&mut self, lock: u32, spot: Spot) -> Option<&mut Queue> {
        // SAFETY: as for this function. Nobody else has a reference to the header, because this
        // bucket is borrowed mutably.
        unsafe { self.leader(lock, spot).map(|leader| &mut (*leader).queue) }
    }

    /// Appends a new waiter, whose lock, spot, class and waker are set, to its queue.
    pub(super) unsafe fn join(&mut self, node: *mut Node) -> Joined {
        // SAFETY: as for this function; the node is alive and in no queue.
        unsafe {
            (*node).id = self.next_id;
            self.next_id += 1;
            // Relaxed: only this waiter's thread and threads that lock the bucket read the state.
            (*node).state.store(ASLEEP, Relaxed);
            let known = self.leader((*node).lock, (*node).spot);
            let leader = known.unwrap_or_else(|| {
                (*node).queue = Queue {
                    next: self.first,
                    ..Queue::new()
                };
                if !self.first.is_null() {
                    (*self.first).queue.prev = node;
                }
                self.first = node;
                node
            });
            let queue = &mut (*leader).queue;
            Joined {
                is_at_head: queue.push(node),
                renews: known.is_none(),
                armed: queue.settle(),
            }
        }
    }

    /// Removes a waiter from its queue.
    pub(super) unsafe fn remove(&mut self, node: *mut Node) -> Option<Removed> {
        // SAFETY: as for this function; the node is alive, and in this bucket unless it was
        // evicted.
        unsafe {
            // Relaxed: the state is written under the bucket's lock.
            if (*node).state.load(Relaxed) == EVICTED {
                return None;
            }
            let leader = self.leader((*node).lock, (*node).spot)?;
            let queue = &mut (*leader).queue;
            let (unblocks, renews) = queue.remove(node);
            let armed = queue.settle();
            if queue.is_empty() {
                self.unlink(leader);
            } else if leader == node {
                self.hand_over(leader);
            }
            Some(Removed {
                waker: (*node).waker.take(),
                unblocks,
                renews,
                armed,
            })
        }
    }

    /// Makes another waiter lead the queue of a leader that was removed.
    unsafe fn hand_over(&mut self, leader: *mut Node) {
        // SAFETY: as for this function; all nodes are alive.
        unsafe {
            let queue = (*leader).queue;
            let fronts = queue.lists.iter().map(List::front);
            let Some(next) = fronts.into_iter().find(|node| !node.is_null()) else {
                return;
            };
            (*next).queue = queue;
            if queue.prev.is_null() {
                self.first = next;
            } else {
                (*queue.prev).queue.next = next;
            }
            if !queue.next.is_null() {
                (*queue.next).queue.prev = next;
            }
        }
    }

    /// Removes an empty queue.
    unsafe fn unlink(&mut self, leader: *mut Node) {
        // SAFETY: as for this function; all nodes are alive.
        unsafe {
            let Queue { next, prev, .. } = (*leader).queue;
            if prev.is_null() {
                self.first = next;
            } else {
                (*prev).queue.next = next;
            }
            if !next.is_null() {
                (*next).queue.prev = prev;
            }
        }
    }

    /// Evicts a waiter of some queue of the lock for which `gone` returns true.
    pub(super) unsafe fn evict_one(
        &mut self,
        lock: u32,
        gone: impl Fn(Spot) -> bool,
    ) -> Option<(Spot, Removed)> {
        // SAFETY: as for this function; all nodes are alive.
        unsafe {
            let node =
                (self.leaders()).find(|&leader| (*leader).lock == lock && gone((*leader).spot))?;
            let removed = self.remove(node)?;
            let spot = (*node).spot;
            // Relaxed: before the waiter reuses the node, it takes the bucket's lock.
            (*node).state.store(EVICTED, Relaxed);
            Some((spot, removed))
        }
    }

    /// Evicts a waiter that another thread has queued, or one that would be unblocked by that.
    ///
    /// If a queue is not armed, and the waiters of other threads are evicted from it, a waiter of
    /// this thread may become the head. It is asleep, and its lock does not count the queue as
    /// armed. So it is evicted, too.
    #[cfg_attr(
        any(
            not(all(target_os = "linux", feature = "std", not(miri))),
            spanlock_explorer,
            spanlock_loom,
            spanlock_shuttle,
            spanlock_simulated
        ),
        allow(dead_code)
    )]
    pub(crate) unsafe fn evict_one_of_others(&mut self, thread: usize) -> Option<Removed> {
        // SAFETY: as for this function; all nodes are alive.
        unsafe {
            let others = |leader: *mut Node| {
                let queue = &(*leader).queue;
                let other = queue.find(|node| (*node).thread != thread)?;
                let mine = queue.find(|node| (*node).thread == thread);
                Some(mine.filter(|_| !queue.is_armed).unwrap_or(other))
            };
            let node = self.leaders().find_map(others)?;
            let removed = self.remove(node)?;
            // Relaxed: as in `evict_one`.
            (*node).state.store(EVICTED, Relaxed);
            Some(removed)
        }
    }

    /// Lets a woken waiter sleep again, with this waker. Gives the waker back if the waiter was
    /// evicted.
    pub(super) unsafe fn rearm(&mut self, node: *mut Node, waker: Waker) -> Result<Armed, Waker> {
        // SAFETY: as for this function; the node is alive, and in this bucket unless it was
        // evicted.
        unsafe {
            // Relaxed, both: the state is written under the bucket's lock.
            if (*node).state.load(Relaxed) != WOKEN {
                return Err(waker);
            }
            let Some(leader) = self.leader((*node).lock, (*node).spot) else {
                return Err(waker);
            };
            (*node).waker = Some(waker);
            (*node).state.store(ASLEEP, Relaxed);
            let queue = &mut (*leader).queue;
            if (*node).rank == Rank::Awake {
                queue.move_to(node, Rank::Head);
            }
            Ok(queue.settle())
        }
    }

    /// Replaces the waker of a waiter that is asleep, and returns the one before. Gives `waker`
    /// back if the waiter is not asleep.
    pub(super) unsafe fn replace(
        &mut self,
        node: *mut Node,
        waker: Waker,
    ) -> Result<Option<Waker>, Waker> {
        // SAFETY: as for this function; the node is alive.
        unsafe {
            // Relaxed: the state is written under the bucket's lock.
            if (*node).state.load(Relaxed) == ASLEEP {
                Ok((*node).waker.replace(waker))
            } else {
                Err(waker)
            }
        }
    }

    /// Returns whether arrivals of this class may not pass the waiters of a spot.
    pub(super) unsafe fn is_shut(
        &mut self,
        lock: u32,
        spot: Spot,
        class: Class,
        patience: Patience,
    ) -> bool {
        // SAFETY: as for this function.
        let queue = unsafe { self.queue(lock, spot) };
        queue.is_some_and(|queue| queue.conflicts_with(class) && queue.is_shut(patience))
    }

    /// Counts an arrival of this class, unless it conflicts with no waiter of the spot. Returns
    /// whether it was counted.
    pub(super) unsafe fn count_pass(&mut self, lock: u32, spot: Spot, class: Class) -> bool {
        // SAFETY: as for this function.
        let queue = unsafe { self.queue(lock, spot) };
        let Some(queue) = queue.filter(|queue| queue.conflicts_with(class)) else {
            return false;
        };
        queue.count_passes(1);
        true
    }

    /// Takes back passes that were counted in advance. They were counted for every queue, except
    /// those whose generation has just begun, and these have no passes.
    pub(super) unsafe fn count_back(&mut self, credits: u32) {
        // SAFETY: as for this function; nobody else has a reference to a header.
        unsafe {
            for leader in self.leaders() {
                let passes = &mut (*leader).queue.passes;
                *passes = passes.saturating_sub(credits);
            }
        }
    }

    /// Counts passes in advance, for every queue of the bucket: as many as each admits, at most
    /// `most`. Returns how many.
    pub(super) unsafe fn count_in_advance(&mut self, most: u32, patience: Patience) -> u32 {
        let mut credits = most;
        // SAFETY: as for this function; nobody else has a reference to a header.
        unsafe {
            for leader in self.leaders() {
                let queue = &mut (*leader).queue;
                if queue.is_shut(patience) {
                    credits = 0;
                } else if queue.passes < patience.passes {
                    credits = credits.min(patience.passes - queue.passes);
                }
            }
            for leader in self.leaders() {
                (*leader).queue.count_passes(credits);
            }
        }
        credits
    }
}
