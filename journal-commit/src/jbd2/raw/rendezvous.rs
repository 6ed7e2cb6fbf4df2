//! Waiting for those who are about to come.
//!
//! # The problem
//! Threads that commit all the time and share commits fall into two halves: while one half waits for its commit the other joins the next transaction, which is
//! shut the moment the first commit ends; so each commit has half of the threads, and each thread waits for two commits. If the next commit lets those join
//! first who have just been woken, all threads share each commit. When they think for a while first, it would wait in vain: so it waits a quarter of a commit
//! at most, counts who came, and tries rarely where few do.
//!
//! # State, under a lock of its own
//!
//! | field | meaning |
//! |---|---|
//! | `here` | threads that wait for the running transaction |
//! | `away` | threads that wait for the one that is being committed |
//! | `expected` | both together, when the last commit ended: how many will wait for the running one, if all come |
//! | `skip` | commits until it is tried again |
//! | `misses` | trials in a row to which too few came |
//!
//! # Invariants
//! - **R1** The commit sleeps for nobody who is here already: the one who makes `here` what is expected calls it, after it is counted.
//! - **R2** It sleeps until a deadline at most: who does not come holds up nobody for longer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_sync::Mutex;

use super::signal::Signal;

/// After so many misses it is tried once in 2 to that power commits.
const MOST_MISSES: u32 = 6;

/// See the [module](self).
#[derive(Debug)]
pub struct Rendezvous {
    counts: Mutex<Counts>,
    /// Where the one sleeps that commits.
    comes: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Counts {
    here: u32,
    away: u32,
    expected: u32,
    skip: u32,
    misses: u32,
}

impl Rendezvous {
    /// Of nobody yet. Who commits sleeps at `comes`.
    pub fn new(comes: Arc<Signal>) -> Self {
        Rendezvous {
            counts: Mutex::default(),
            comes,
        }
    }

    /// A thread waits for the running transaction. True if it is the last one that is expected: then it [calls](Self::call).
    pub fn arrive(&self) -> bool {
        self.counts.lock().arrive()
    }

    /// All are here: the one that commits need not wait any longer (R1).
    pub fn call(&self) {
        self.comes.wake_all();
    }

    /// The running transaction becomes the committing one.
    pub fn shut(&self) {
        let mut counts = self.counts.lock();
        counts.away = std::mem::take(&mut counts.here);
    }

    /// The committing one is committed: those who waited for it are woken.
    pub fn committed(&self) {
        let mut counts = self.counts.lock();
        counts.expected = counts.here + std::mem::take(&mut counts.away);
    }

    /// Lets those join the running transaction who have just been woken: sleeps until they are here, or `is_over` says so, or for a quarter of `commit_takes`. Returns
    /// whether it was worth it, if it has slept.
    pub fn gather(&self, commit_takes: Duration, is_over: impl Fn() -> bool) -> Option<bool> {
        let began_with = {
            let mut counts = self.counts.lock();
            if counts.is_complete() || !counts.is_due() {
                return None;
            }
            counts.here
        };
        let until = Instant::now() + commit_takes / 4;
        self.comes.wait_until_deadline(until, || {
            let is_complete = self.counts.lock().is_complete();
            (is_complete || is_over()).then_some(())
        });
        Some(self.counts.lock().judge(began_with))
    }
}

impl Counts {
    fn arrive(&mut self) -> bool {
        self.here += 1;
        self.here == self.expected
    }

    fn is_complete(&self) -> bool {
        self.here >= self.expected
    }

    fn is_due(&mut self) -> bool {
        let due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        due
    }

    /// Judges a trial that began with so many here: it was worth it if half of the others came.
    fn judge(&mut self, began_with: u32) -> bool {
        let came = self.here.saturating_sub(began_with);
        let others = self.expected.saturating_sub(began_with);
        let was_worth_it = came * 2 >= others;
        if was_worth_it {
            self.misses = 0;
        } else {
            self.misses = (self.misses + 1).min(MOST_MISSES);
            self.skip = 1 << self.misses;
        }
        was_worth_it
    }
}

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    fn rendezvous() -> Rendezvous {
        Rendezvous::new(Arc::new(Signal::new()))
    }

    #[test]
    fn halves_become_one() {
        let gathering = rendezvous();
        (0..4).for_each(|_| assert!(!gathering.arrive()));
        gathering.shut();
        (0..4).for_each(|_| assert!(!gathering.arrive()));
        gathering.committed();
        assert!(!gathering.counts.lock().is_complete());
        assert!(gathering.counts.lock().is_due());
        let last = (0..4).map(|_| gathering.arrive()).collect::<Vec<_>>();
        assert_eq!(last, [false, false, false, true]);
        assert_eq!(gathering.gather(Duration::ZERO, || false), None);
        gathering.counts.lock().judge(4);
        gathering.shut();
        gathering.committed();
        assert_eq!(gathering.counts.lock().expected, 8);
        assert!(gathering.counts.lock().is_due());
    }

    #[test]
    fn it_is_tried_rarely_where_nobody_comes() {
        let gathering = rendezvous();
        let mut trials = 0;
        for _ in 0..1000 {
            (0..4).for_each(|_| _ = gathering.arrive());
            gathering.shut();
            gathering.committed();
            let tried = gathering.gather(Duration::ZERO, || false);
            assert_ne!(tried, Some(true));
            trials += u32::from(tried.is_some());
        }
        assert!((10..=25).contains(&trials), "{trials}");
    }
}
