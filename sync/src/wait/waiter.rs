//! A waiter, as its owner sees it, and how the wakers of many waiters are called.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomPinned;
use core::ptr;
use core::task::{RawWakerVTable, Waker};

use super::Spot;
use super::node::{ASLEEP, EVICTED, Node};
use crate::atomic::Ordering::Relaxed;
use crate::injected_bug;
use crate::unwind::for_each_surely;

/// A waiter: a node that its queue links while the waiter waits.
///
/// It lies on the stack of the waiting thread, or in a future. So it is pinned, and waiting
/// allocates nothing. A waiter can be used again once it has [left](super::WaitQueue::leave).
pub struct Waiter {
    node: UnsafeCell<Node>,
    /// The spot in whose queue the waiter is, or was until it was evicted.
    pub(super) place: Option<Spot>,
    /// Identifies the waker in the node. It is only compared, never used to reach the waker, which
    /// may have been taken by now.
    pub(super) shown: Identity,
    /// Whether the system refused the heavy barrier when the waiter fell asleep.
    pub(super) is_unseen: bool,
    /// Makes the waiter not [`Unpin`], so the compiler does not assume that a `&mut Waiter` is the
    /// only way to access the node.
    _pin: PhantomPinned,
}

// SAFETY: the node is accessed by the owner, who has the waiter, and by threads that have locked
// the bucket. Its waker is `Send` and `Sync`, and `shown` is only compared.
unsafe impl Send for Waiter {}
// SAFETY: `&Waiter` gives access to nothing but the node's state, an atomic.
unsafe impl Sync for Waiter {}

impl Default for Waiter {
    /// Returns a waiter that is in no queue.
    fn default() -> Self {
        Waiter {
            node: UnsafeCell::new(Node::new()),
            place: None,
            shown: Identity::NONE,
            is_unseen: false,
            _pin: PhantomPinned,
        }
    }
}

/// What has become of a [`Waiter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is in no queue.
    Idle,
    /// It is in a queue, and nobody has woken it since it joined or
    /// [rearmed](super::WaitQueue::rearm).
    Asleep,
    /// It is at the head of its queue. A thread has taken its waker, and calls it.
    Woken,
    /// It was [evicted](super::WaitQueue::evict), and no longer waits. It must still
    /// [leave](super::WaitQueue::leave).
    Evicted,
}

impl Waiter {
    /// Returns a waiter that is in no queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns what has become of this waiter. Other threads may change [`Status::Asleep`] at any
    /// time.
    #[inline]
    pub fn status(&self) -> Status {
        if self.place.is_none() {
            return Status::Idle;
        }
        // SAFETY: the node lives as long as this waiter, and its state is never borrowed mutably.
        let state = unsafe { &(*self.node.get()).state };
        // Relaxed: nothing that another thread did before it changed the state is used. See
        // `Queue::wake_one`.
        match state.load(Relaxed) {
            ASLEEP => Status::Asleep,
            EVICTED => Status::Evicted,
            _ => Status::Woken,
        }
    }

    /// Returns the spot in whose queue this waiter is, or was until it was evicted.
    #[inline]
    pub fn spot(&self) -> Option<Spot> {
        self.place
    }

    /// Returns whether a thread that changes the word may overlook this waiter, because the system
    /// refused the heavy barrier when the waiter fell asleep. If so, the waiter must recheck the
    /// word from time to time.
    #[inline]
    pub fn may_be_overlooked(&self) -> bool {
        self.place.is_some()
            && self.is_unseen
            && !injected_bug!(
                "unseen-waiter-sleeps",
                "a waiter whose heavy barrier was refused sleeps until it is woken",
                killed_by = "rw-word/refused-barrier"
            )
    }

    /// Returns whether the waker that the waiter gave last would wake the same task as `waker`.
    ///
    /// The answer means something only while the waiter is [asleep](Status::Asleep): it compares
    /// addresses, and the memory of a waker that was taken may have been used again.
    pub fn shows(&self, waker: &Waker) -> bool {
        self.shown == Identity::of(waker)
    }

    pub(super) fn node(&self) -> *mut Node {
        self.node.get()
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut waiter = f.debug_struct("Waiter");
        waiter.field("place", &self.place).finish_non_exhaustive()
    }
}

/// The two addresses that make up a waker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(*const (), *const RawWakerVTable);

impl Identity {
    const NONE: Identity = Identity(ptr::null(), ptr::null());

    pub(super) fn of(waker: &Waker) -> Self {
        Identity(waker.data(), waker.vtable())
    }
}

/// How many wakers a thread takes while it holds the bucket's lock.
const BATCH: usize = 16;

/// Wakers that a thread has taken under the bucket's lock, to call them without it.
#[derive(Default)]
pub(super) struct Batch {
    wakers: [Option<Waker>; BATCH],
    len: usize,
}

impl Batch {
    pub(super) fn has_room(&self) -> bool {
        self.len < BATCH
    }

    pub(super) fn push(&mut self, waker: Waker) {
        self.wakers[self.len] = Some(waker);
        self.len += 1;
    }
}

/// Calls `f` with every waker that `refill` puts into a batch. Calls `refill` again while it fills
/// batches. A call of `f` that panics does not stop the others.
pub(super) fn for_each_waker(refill: impl FnMut(&mut Batch), f: impl FnMut(Waker)) {
    struct Refilled<F> {
        batch: Batch,
        next: usize,
        refill: F,
    }
    impl<F: FnMut(&mut Batch)> Iterator for Refilled<F> {
        type Item = Waker;

        fn next(&mut self) -> Option<Waker> {
            if self.next == self.batch.len {
                // A batch with room was the last.
                if self.next > 0 && self.batch.has_room() {
                    return None;
                }
                (self.next, self.batch.len) = (0, 0);
                (self.refill)(&mut self.batch);
            }
            let waker = self.batch.wakers.get_mut(self.next)?.take();
            self.next += usize::from(waker.is_some());
            waker
        }
    }
    let wakers = Refilled {
        batch: Batch::default(),
        next: 0,
        refill,
    };
    for_each_surely(wakers, f);
}
