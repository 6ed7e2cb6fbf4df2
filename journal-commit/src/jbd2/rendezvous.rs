//! Waiting for those who are about to come.
//!
//! # The problem
//! Threads that commit all the time and share commits fall into two halves: while one half waits for its commit the other joins the next transaction, which is
//! shut the moment the first commit ends; so each commit has half of the threads, and each thread waits for two commits. If the next commit lets those join
//! first who have just been woken, all threads share each commit. When they think for a while first, it would wait in vain: so it waits a quarter of a commit
//! at most, counts who came, and tries rarely where few do.
//!
//! # State, under the journal's lock
//!
//! | field | meaning |
//! |---|---|
//! | `here` | threads that wait for the running transaction |
//! | `away` | threads that wait for the one that is being committed |
//! | `expected` | both together, when the last commit ended: how many will wait for the running one, if all come |
//! | `skip` | commits until it is tried again |
//! | `misses` | trials in a row to which too few came |

use std::time::Instant;

use super::journal::Inner;
use super::options::Delay;

/// After so many misses it is tried once in 2 to that power commits.
const MOST_MISSES: u32 = 6;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    here: u32,
    away: u32,
    expected: u32,
    skip: u32,
    misses: u32,
}

impl Rendezvous {
    /// A thread waits for the running transaction. True if it is the last one that is expected.
    pub(crate) fn arrive(&mut self) -> bool {
        self.here += 1;
        self.here == self.expected
    }

    /// The running transaction becomes the committing one.
    pub(crate) fn shut(&mut self) {
        self.away = std::mem::take(&mut self.here);
    }

    /// The committing one is committed: those who waited for it are woken.
    pub(crate) fn committed(&mut self) {
        self.expected = self.here + std::mem::take(&mut self.away);
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
    fn judge(&mut self, began_with: u32) {
        let came = self.here.saturating_sub(began_with);
        let others = self.expected.saturating_sub(began_with);
        if came * 2 >= others {
            self.misses = 0;
        } else {
            self.misses = (self.misses + 1).min(MOST_MISSES);
            self.skip = 1 << self.misses;
        }
    }
}

impl Inner {
    /// Lets those join the running transaction who have just been woken.
    pub(crate) fn rendezvous(&self) {
        if self.options.delay != Delay::Rendezvous {
            return;
        }
        let (began_with, patience) = {
            let mut state = self.state.lock();
            let patience = state.commit_takes / 4;
            let gathering = &mut state.gathering;
            if gathering.is_complete() || !gathering.is_due() {
                return;
            }
            (gathering.here, patience)
        };
        self.work
            .wait_until_deadline(Instant::now() + patience, || {
                let state = self.state.lock();
                let over = state.gathering.is_complete() || state.stopping;
                drop(state);
                (over || self.medium.check().is_err()).then_some(())
            });
        self.state.lock().gathering.judge(began_with);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_one() {
        let mut gathering = Rendezvous::default();
        (0..4).for_each(|_| assert!(!gathering.arrive()));
        gathering.shut();
        (0..4).for_each(|_| assert!(!gathering.arrive()));
        gathering.committed();
        assert!(!gathering.is_complete() && gathering.is_due());
        let last = (0..4).map(|_| gathering.arrive()).collect::<Vec<_>>();
        assert_eq!(last, [false, false, false, true]);
        assert!(gathering.is_complete());
        gathering.judge(4);
        gathering.shut();
        gathering.committed();
        assert_eq!(gathering.expected, 8);
        assert!(gathering.is_due());
    }

    #[test]
    fn it_is_tried_rarely_where_nobody_comes() {
        let mut gathering = Rendezvous::default();
        let mut trials = 0;
        for _ in 0..1000 {
            (0..4).for_each(|_| _ = gathering.arrive());
            gathering.shut();
            gathering.committed();
            if !gathering.is_complete() && gathering.is_due() {
                trials += 1;
                gathering.judge(0);
            }
        }
        assert!((10..=25).contains(&trials), "{trials}");
    }
}
