//! Tickets: which thread writes which prepared buffer of a transaction, and which was the last.
//!
//! # The problem
//! Cui's thesis (see [`raw`](super)), §3.1: while the journal's thread prepares a transaction's buffers one by one, those who wait for the commit write them, in parallel. One counter
//! counts the threads that come to help, another the buffers that are prepared; who comes when there are more threads than buffers goes to sleep.
//!
//! # Differences from the thesis
//! There a ticket *is* a buffer: a thread that dies with one leaves a hole. Here a ticket admits a thread, and buffers are claimed as they are there, by whoever is
//! free. So the journal's thread, which claims too, needs nobody; and a helper that is slow delays one buffer, not its share.
//!
//! # State
//!
//! | word | counts | raised by |
//! |---|---|---|
//! | `threads` | tickets given | who comes to help |
//! | `ready` | buffers prepared, of `total` | the journal's thread, after the buffer is in place |
//! | `next` | buffers claimed, at most `ready` | who takes one |
//! | `done` | buffers written | who wrote one |
//!
//! # Invariants
//! - **T1** Each buffer is claimed once: `next` is raised by one, by compare-exchange, below `ready`.
//! - **T2** Who claims a buffer sees it prepared.
//! - **T3** Exactly one thread completes the last buffer, and it sees all that the others did for theirs.
//! - **T4** A claimed buffer that is not completed (its writer failed or died) leaves `done` below `total` for ever: nobody is the last. The writer poisons the
//!   journal, which is what wakes those who wait.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | `publish` | Release | B | `journal-tickets/hand-over` |
//! | B | the claimer's look at `ready` | Acquire | A | `journal-tickets/hand-over` |
//! | C | `complete` | AcqRel | C of the others | `journal-tickets/hand-over` |

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::injected_bug;

/// The buffers of one transaction, by number.
#[derive(Debug)]
pub struct Tickets {
    total: u32,
    threads: AtomicU32,
    ready: AtomicU32,
    next: AtomicU32,
    done: AtomicU32,
}

impl Tickets {
    /// For so many buffers.
    pub fn new(total: u32) -> Self {
        Tickets {
            total,
            threads: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            next: AtomicU32::new(0),
            done: AtomicU32::new(0),
        }
    }

    /// A ticket, unless as many threads have one as there are buffers: then who asks is not needed.
    pub fn admit(&self) -> bool {
        // Relaxed, both: only the number matters. The look first keeps the counter from running around.
        self.threads.load(Relaxed) < self.total && self.threads.fetch_add(1, Relaxed) < self.total
    }

    /// One more buffer is in place. By the journal's thread only.
    pub fn publish(&self) {
        // Release [A→B]: T2.
        self.ready.fetch_add(1, Release);
    }

    /// Takes a buffer, if one is ready that nobody has taken.
    pub fn claim(&self) -> Option<u32> {
        // Relaxed: the compare-exchange checks it.
        let mut next = self.next.load(Relaxed);
        loop {
            // Acquire [A→B]: T2.
            if next >= self.ready.load(Acquire) {
                return None;
            }
            if injected_bug!(
                "ticket-twice",
                "a ticket is taken by a load and a store, so two threads can take the same one",
                killed_by = "hand-over, hand-over-3"
            ) {
                // Relaxed: wrong on purpose, and not by its ordering.
                self.next.store(next + 1, Relaxed);
                return Some(next);
            }
            // Relaxed, both: T1 is about one word only.
            match (self.next).compare_exchange_weak(next, next + 1, Relaxed, Relaxed) {
                Ok(_) => return Some(next),
                Err(now) => next = now,
            }
        }
    }

    /// Whether more buffers may come that nobody has taken.
    pub fn is_open(&self) -> bool {
        // Relaxed: a hint for who might wait a little.
        self.next.load(Relaxed) < self.total
    }

    /// A claimed buffer is written. True for the last one.
    pub fn complete(&self) -> bool {
        // AcqRel [C→C]: T3, by the release sequence of all completions.
        self.done.fetch_add(1, AcqRel) + 1 == self.total
    }
}

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_has_one_writer_and_one_is_last() {
        for _ in 0..100 {
            let tickets = Tickets::new(64);
            let (tickets, lasts) = (&tickets, &AtomicU32::new(0));
            let written: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
            let written = &written;
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(move || {
                        assert!(tickets.admit());
                        while tickets.is_open() {
                            let Some(buffer) = tickets.claim() else {
                                continue;
                            };
                            // Relaxed, both: counted, and read after the threads have ended.
                            written[buffer as usize].fetch_add(1, Relaxed);
                            lasts.fetch_add(u32::from(tickets.complete()), Relaxed);
                        }
                    });
                }
                assert_eq!(tickets.claim(), None);
                (0..64).for_each(|_| tickets.publish());
            });
            assert!(written.iter().all(|it| it.load(Relaxed) == 1));
            assert_eq!(lasts.load(Relaxed), 1);
        }
    }

    #[test]
    fn surplus_threads_are_sent_away() {
        let tickets = Tickets::new(2);
        assert_eq!(
            [(); 4].map(|()| tickets.admit()),
            [true, true, false, false]
        );
        assert!(!Tickets::new(0).admit());
    }
}
