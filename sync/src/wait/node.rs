//! The node of a waiter, and the lists that link nodes.
//!
//! Everything here is protected by the bucket's lock, except [`Node::state`].

use core::ptr;
use core::task::Waker;

use super::bucket::Queue;
use super::{Class, Spot};
use crate::atomic::AtomicU32;

/// The part of a waiter that its queue links and changes.
pub(crate) struct Node {
    /// One of [`ASLEEP`], [`WOKEN`] and [`EVICTED`]. Written under the bucket's lock; the waiter
    /// itself reads it without the lock.
    pub(super) state: AtomicU32,
    /// The number of the lock that the waiter waits for. The address does not suffice: a lock may
    /// move and leave a forgotten waiter behind, and then another lock may take its old address.
    pub(super) lock: u32,
    /// The thread that queued the node.
    pub(super) thread: usize,
    pub(super) spot: Spot,
    pub(super) class: Class,
    /// Ascends in the order of arrival.
    pub(super) id: u64,
    /// The list that the node is in.
    pub(super) rank: Rank,
    /// Present while the waiter is asleep.
    pub(super) waker: Option<Waker>,
    /// The neighbours in the list, which is a ring.
    next: *mut Node,
    prev: *mut Node,
    /// The queue's header, if this node leads its queue.
    pub(super) queue: Queue,
}

/// The waiter has a waker in its node, which no thread has taken yet.
pub(super) const ASLEEP: u32 = 0;
/// A thread has taken the waker, and calls it.
pub(super) const WOKEN: u32 = 1;
/// The waiter was removed from its queue.
pub(super) const EVICTED: u32 = 2;

impl Node {
    pub(super) fn new() -> Self {
        Node {
            state: AtomicU32::new(WOKEN),
            lock: 0,
            thread: 0,
            spot: Spot { word: 0, lane: 0 },
            class: Class::Shared,
            id: 0,
            rank: Rank::Behind,
            waker: None,
            next: ptr::null_mut(),
            prev: ptr::null_mut(),
            queue: Queue::new(),
        }
    }
}

/// The lists of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Shared waiters at the head that are asleep, in the order in which they fell asleep there.
    Head,
    /// Shared waiters at the head that are awake.
    Awake,
    /// Shared waiters behind an exclusive one, all asleep, in order of arrival.
    Behind,
    /// Upgradable waiters, in order of arrival. Only the first can be at the head, or awake.
    Upgradable,
    /// Exclusive waiters, in order of arrival. Only the first can be at the head, or awake.
    Exclusive,
}

/// The number of [`Rank`]s.
pub(super) const RANKS: usize = 5;

/// A doubly linked list of nodes, first in, first out.
#[derive(Clone, Copy)]
pub(crate) struct List {
    /// The first node of the ring, or null.
    front: *mut Node,
    len: usize,
}

/// The id that stands for no waiter: greater than the id of any waiter.
pub(super) const NOBODY: u64 = u64::MAX;

/// # Safety
/// For all unsafe functions: the caller has locked the bucket. All nodes in the list are alive
/// (Q-I6 of [`crate::wait`]), and so is `node`. Nobody has a reference to the links of these nodes.
impl List {
    pub(super) const fn new() -> Self {
        List {
            front: ptr::null_mut(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.front.is_null()
    }

    /// Returns the first node, or null.
    pub(super) fn front(&self) -> *mut Node {
        self.front
    }

    /// Returns all nodes, from the first on.
    pub(super) unsafe fn nodes(&self) -> impl Iterator<Item = *mut Node> + use<> {
        let (mut node, mut left) = (self.front, self.len);
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let this = node;
            // SAFETY: the node is alive.
            node = unsafe { (*this).next };
            Some(this)
        })
    }

    /// Returns the id of the first node, or [`NOBODY`].
    pub(super) unsafe fn first_id(&self) -> u64 {
        if self.is_empty() {
            return NOBODY;
        }
        // SAFETY: the node is alive.
        unsafe { (*self.front).id }
    }

    /// Appends a node that is in no list.
    pub(super) unsafe fn push(&mut self, node: *mut Node) {
        // SAFETY: the nodes are alive.
        unsafe {
            if self.front.is_null() {
                (*node).next = node;
                (*node).prev = node;
                self.front = node;
            } else {
                let (front, back) = (self.front, (*self.front).prev);
                (*node).next = front;
                (*node).prev = back;
                (*back).next = node;
                (*front).prev = node;
            }
        }
        self.len += 1;
    }

    /// Removes a node that is in this list.
    pub(super) unsafe fn remove(&mut self, node: *mut Node) {
        self.len -= 1;
        // SAFETY: the nodes are alive.
        unsafe {
            let (next, prev) = ((*node).next, (*node).prev);
            if next == node {
                self.front = ptr::null_mut();
                return;
            }
            (*prev).next = next;
            (*next).prev = prev;
            if self.front == node {
                self.front = next;
            }
        }
    }
}
