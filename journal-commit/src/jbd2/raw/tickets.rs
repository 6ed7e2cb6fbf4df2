//! Tickets: which thread writes which prepared buffers of a transaction, and which thread completes
//! the last buffer.
//!
//! # The problem
//! Cui's thesis (see [`raw`](super)), §3.1, describes cooperative commit. The journal's thread
//! prepares a transaction's buffers one by one, and the threads that wait for the commit write them
//! in parallel. One counter counts the threads that come to help, and another counts the prepared
//! buffers. If there are more threads than buffers, the surplus threads go to sleep.
//!
//! # Differences from the thesis
//! In the thesis a ticket *is* a buffer, so if a thread dies with a ticket, its buffer is never
//! written. Here a ticket only admits a thread, and any admitted thread claims any buffers that are
//! ready. The journal's thread claims buffers too, so it depends on no helper. A slow helper delays
//! only the buffers that it has claimed.
//!
//! In the thesis each write is one buffer. Here a thread claims a *run* of neighbouring buffers,
//! and writes them together, because a device takes a single long write much faster than as many
//! short ones. All runs but the last have the same length. A run is claimed once all of its buffers
//! are ready.
//!
//! # State
//!
//! | word | counts | raised by |
//! |---|---|---|
//! | `threads` | tickets given | a thread that comes to help |
//! | `ready` | buffers prepared, of `total` | the journal's thread, after the buffer is in place |
//! | `next` | buffers claimed, at most `ready` | the thread that claims one |
//! | `done` | buffers written | the thread that wrote one |
//!
//! # Invariants
//! - **J-T1** Each buffer is claimed once: a compare-exchange raises `next` by a run, up to
//!   `ready`.
//! - **J-T2** A thread that claims buffers sees them prepared.
//! - **J-T3** Exactly one thread completes the last buffer. It sees everything that the other
//!   threads did to complete their buffers.
//! - **J-T4** If a claimed buffer is never completed because its writer failed or died, `done`
//!   stays below `total` for ever, and no thread completes the last buffer. The failed write
//!   poisons the journal, which wakes the waiters.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | `publish` | Release | B | `journal-tickets/hand-over` |
//! | B | the load of `ready` in `claim` | Acquire | A | `journal-tickets/hand-over` |
//! | C | `complete` | AcqRel | C of the other threads | `journal-tickets/hand-over` |

use core::ops::Range;

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::injected_bug;

/// The buffers of one transaction, by number.
#[derive(Debug)]
pub struct Tickets {
    total: u32,
    /// The most buffers of a run; at least 1.
    run: u32,
    threads: AtomicU32,
    ready: AtomicU32,
    next: AtomicU32,
    done: AtomicU32,
}

impl Tickets {
    /// Creates tickets for `total` buffers, in runs of `run` buffers. A `run` of 0 counts as 1.
    pub fn new(total: u32, run: u32) -> Self {
        Tickets {
            total,
            run: run.max(1),
            threads: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            next: AtomicU32::new(0),
            done: AtomicU32::new(0),
        }
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> u32 {
        self.total.div_ceil(self.run)
    }

    /// Takes a ticket. Returns false if all tickets, one for each run, are taken; the caller is
    /// then not needed.
    pub fn admit(&self) -> bool {
        let runs = self.runs();
        // Relaxed, both: only the number matters. The load comes first, so that the counter cannot
        // overflow.
        self.threads.load(Relaxed) < runs && self.threads.fetch_add(1, Relaxed) < runs
    }

    /// Publishes the next buffer. The caller has put the buffer in place. Only the journal's thread
    /// calls this.
    pub fn publish(&self) {
        // Release [A→B]: J-T2.
        self.ready.fetch_add(1, Release);
    }

    /// Claims the next run, if all of its buffers are ready. Returns their numbers.
    pub fn claim(&self) -> Option<Range<u32>> {
        // Relaxed: the compare-exchange checks the value.
        let mut next = self.next.load(Relaxed);
        loop {
            let end = self.total.min(next.saturating_add(self.run));
            // Acquire [B→A]: J-T2.
            if next == end || self.ready.load(Acquire) < end {
                return None;
            }
            if injected_bug!(
                "ticket-twice",
                "a ticket is taken by a load and a store, so two threads can take the same one",
                killed_by = "hand-over, hand-over-3"
            ) {
                // Relaxed: this is the injected bug, and its ordering does not matter.
                self.next.store(end, Relaxed);
                return Some(next..end);
            }
            // Relaxed, both: J-T1 concerns this word only.
            match (self.next).compare_exchange_weak(next, end, Relaxed, Relaxed) {
                Ok(_) => return Some(next..end),
                Err(now) => next = now,
            }
        }
    }

    /// Returns whether there may still be unclaimed buffers.
    pub fn is_open(&self) -> bool {
        // Relaxed: the result is only a hint for a thread that spins.
        self.next.load(Relaxed) < self.total
    }

    /// Marks claimed buffers as written. Returns true if no other buffer is left to write.
    pub fn complete(&self, run: &Range<u32>) -> bool {
        let count = run.end - run.start;
        // AcqRel [C→C]: J-T3, by the release sequence of all completions.
        self.done.fetch_add(count, AcqRel) + count == self.total
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_has_one_writer_and_one_is_last() {
        for run in (1..=7).cycle().take(98) {
            let tickets = Tickets::new(64, run);
            let (tickets, lasts) = (&tickets, &AtomicU32::new(0));
            let written: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
            let written = &written;
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(move || {
                        assert!(tickets.admit());
                        while tickets.is_open() {
                            let Some(run) = tickets.claim() else {
                                continue;
                            };
                            // Relaxed, both: the counts are read after the threads have ended.
                            for buffer in run.clone() {
                                written[buffer as usize].fetch_add(1, Relaxed);
                            }
                            lasts.fetch_add(u32::from(tickets.complete(&run)), Relaxed);
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
        for tickets in [Tickets::new(2, 1), Tickets::new(5, 3)] {
            assert_eq!(
                [(); 4].map(|()| tickets.admit()),
                [true, true, false, false]
            );
        }
        assert!(!Tickets::new(0, 1).admit());
    }

    #[test]
    fn runs_are_claimed_whole() {
        let tickets = Tickets::new(5, 2);
        tickets.publish();
        assert_eq!(tickets.claim(), None);
        tickets.publish();
        assert_eq!(tickets.claim(), Some(0..2));
        (0..3).for_each(|_| tickets.publish());
        assert_eq!(tickets.claim(), Some(2..4));
        assert_eq!(tickets.claim(), Some(4..5));
        assert_eq!(tickets.claim(), None);
        assert!(!tickets.is_open());
    }
}
