//! The wakers to wake or to drop once the mutexes are unlocked.

use alloc::vec::Vec;
use core::task::Waker;

use spanlock_range_lock::words::for_each_surely;
use spanlock_sync::wait;

/// The number of wakers that [`Wakes`] stores without allocating.
const FEW: usize = 8;

/// The wakers to wake or drop once the mutexes are unlocked. Both run foreign code.
#[derive(Default)]
pub(crate) struct Wakes {
    few: [Option<Waker>; FEW],
    len: usize,
    more: Vec<Waker>,
    pub(super) discarded: Option<Waker>,
}

impl Wakes {
    pub(super) fn push(&mut self, waker: Option<Waker>) {
        let Some(waker) = waker else { return };
        match self.few.get_mut(self.len) {
            Some(place) => *place = Some(waker),
            None if self.more.try_reserve(1).is_ok() => self.more.push(waker),
            // A release never fails. Without memory, the waiter is woken under the mutex.
            None => waker.wake(),
        }
        self.len += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Drops `waker` together with the wakes.
    pub(super) fn discard(&mut self, waker: Option<Waker>) {
        // A request has at most one waker, also if it is wide.
        if waker.is_some() {
            self.discarded = waker;
        }
    }

    /// Wakes all waiters, in the order of their grants, even if one of the wakers panics.
    #[track_caller]
    pub(crate) fn wake(self) {
        if self.len > 0 && wait::is_wake_left_out() {
            return;
        }
        let few = self.few.into_iter().flatten();
        for_each_surely(few.chain(self.more), Waker::wake);
    }
}
