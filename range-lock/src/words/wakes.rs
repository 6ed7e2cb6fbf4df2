//! Waking after a state change: the queue heads that it may have unblocked.

use core::marker::PhantomData;

use spanlock_sync::wait::{Spot, WaitQueue};

use super::{Word, for_each_surely};

/// The waiters that a state change may have unblocked: the queue heads of adjacent lanes.
///
/// Holds addresses, not references: the words may already have been freed.
#[derive(Debug)]
#[must_use = "a waiter that is not woken sleeps for ever"]
pub struct Wakes<W> {
    /// The address of the first word; `first` and `end` count lanes from its first lane.
    word: usize,
    first: u32,
    end: u64,
    form: PhantomData<fn() -> W>,
}

impl<W: Word> Wakes<W> {
    /// Returns the waiters for lanes of the word at address `word` and of the words after it in
    /// memory. The lanes are numbered consecutively across words.
    #[inline]
    pub fn new(word: usize, first: u32, end: u64) -> Self {
        Wakes {
            word,
            first,
            end,
            form: PhantomData,
        }
    }

    /// Wakes the queue heads of these lanes.
    #[inline]
    pub fn wake<P>(self, queue: &WaitQueue<P>) {
        // Light [D→E]: orders the state change before the check of the queue.
        if queue.is_any_asleep() {
            self.wake_known(queue);
        }
    }

    /// Like [`wake`](Self::wake), after [`WaitQueue::is_any_asleep`] has returned true.
    #[inline]
    pub fn wake_known<P>(self, queue: &WaitQueue<P>) {
        wake_heads::<W, P>(self.word, self.first, self.end, queue);
    }
}

/// A free function so that its arguments stay in registers, like `arrive_among_waiters`.
#[cold]
#[inline(never)]
fn wake_heads<W: Word, P>(word: usize, first: u32, end: u64, queue: &WaitQueue<P>) {
    let spots = (u64::from(first)..end).map(|lane| {
        let (word_of, lane) = (lane / u64::from(W::LANES), lane % u64::from(W::LANES));
        Spot {
            word: word + word_of as usize * size_of::<W>(),
            lane: lane as u32,
        }
    });
    for_each_surely(
        spots.filter(|spot| queue.is_this_asleep(spot.word)),
        |spot| queue.wake(spot),
    );
}

/// Returns the address range of a slice of words. Before the words are freed, their owner must
/// [evict](spanlock_sync::wait::WaitQueue::evict) that range from the queue.
pub fn address_range<T>(words: &[T]) -> core::ops::Range<usize> {
    let words = words.as_ptr_range();
    words.start.addr()..words.end.addr()
}
