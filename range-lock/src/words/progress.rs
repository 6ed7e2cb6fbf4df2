//! Requests that wait without a thread: how they take lanes bit by bit, queue, and give up.

use core::task::{Poll, Waker};

use spanlock_sync::wait::{Place, WaitQueue};

use super::{Run, Word, for_each_surely};
use crate::raw::Access;

/// How far a request for lanes has come that waits without a thread. Its default is one that has not begun.
#[derive(Debug, Default)]
pub struct Progress {
    /// Lanes taken so far, of all runs of the request together.
    taken: u64,
    /// Where it stands while it waits for the next.
    place: Option<Place>,
}

impl Progress {
    /// A request that has taken `taken` lanes, and has found the first of `run`, the next, in the hands of others: it stands in that lane's queue.
    pub fn queued<W: Word, P>(
        run: Run<'_, W>,
        taken: u64,
        queue: &WaitQueue<P>,
        waker: &Waker,
    ) -> Self {
        Progress {
            taken,
            place: Some(queue.join(run.first_spot(), waker)),
        }
    }

    /// Lanes taken so far.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Goes on behind the next `lanes` lanes: they were taken by other means, or need not be.
    #[inline]
    pub fn skip(&mut self, lanes: u64) {
        self.taken += lanes;
    }

    /// Goes on with `run`, the rest of the run that the next lane is in: takes it, or stands in the queue of the first lane that it lacks, and
    /// `waker` is woken when it is worth looking again. Ordering: Acquire for every lane taken.
    pub fn poll<W: Word, P>(
        &mut self,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
        waker: &Waker,
    ) -> Poll<()> {
        let take = |run: Run<'_, W>| run.word.take(run.first, run.end, access, 1) > run.first;
        let arrive = |run: Run<'_, W>| run.arrive(access, 1, queue);
        // Behind a reader the next may be a reader too. Behind a writer all wait for its release.
        let wake_next = access != Access::Write;
        self.drive(run, queue, waker, take, arrive, wake_next)
    }

    /// Goes on with `run` as [`poll`](Self::poll) does, but takes nothing: it is ready when every lane was seen free of conflicting holds.
    pub fn poll_free<W: Word, P>(
        &mut self,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
        waker: &Waker,
    ) -> Poll<()> {
        let free = |run: Run<'_, W>| run.is_free(access);
        let look = |run: Run<'_, W>| run.word.admits(run.first, run.end, access) - run.first;
        // It takes nothing away from the next.
        self.drive(run, queue, waker, free, look, true)
    }

    /// Goes on with `run`: as the head of a queue if `admit` says so of its lane, and as an arrival as many lanes as `arrive` says.
    fn drive<'a, W: Word, P>(
        &mut self,
        run: Run<'a, W>,
        queue: &WaitQueue<P>,
        waker: &Waker,
        admit: impl Fn(Run<'a, W>) -> bool,
        arrive: impl Fn(Run<'a, W>) -> u32,
        wake_next: bool,
    ) -> Poll<()> {
        let mut rest = run;
        loop {
            let done = match self.look(rest, queue, waker, &admit) {
                Look::Waits => return Poll::Pending,
                Look::Passed(place) => {
                    queue.leave(place, wake_next);
                    1
                }
                Look::Arrives => {
                    let done = arrive(rest);
                    if done < rest.len() {
                        // And looks again, for the changer who has not seen its place (W-I3).
                        self.place = Some(queue.join(rest.after(done).first_spot(), waker));
                    }
                    done
                }
            };
            self.taken += u64::from(done);
            if done == rest.len() {
                return Poll::Ready(());
            }
            rest = rest.after(done);
        }
    }

    /// What a request can do about the first lane of `run`, at which `admit` says whether a head may go on.
    fn look<'a, W: Word, P>(
        &mut self,
        run: Run<'a, W>,
        queue: &WaitQueue<P>,
        waker: &Waker,
        admit: impl Fn(Run<'a, W>) -> bool,
    ) -> Look {
        // The word may have gone, and the lane be elsewhere now: then it comes anew.
        if self
            .place
            .as_ref()
            .is_some_and(|place| place.spot() != run.first_spot())
        {
            self.leave(queue);
        }
        // Kept where it is meanwhile: the waker's clone is the user's code, and may panic.
        let Some(place) = &mut self.place else {
            return Look::Arrives;
        };
        match queue.is_head(place, waker) {
            // Its word had gone, and is back at the same address.
            None => {
                self.place = None;
                Look::Arrives
            }
            Some(true) if admit(run.up_to(1)) => {
                self.place.take().map_or(Look::Arrives, Look::Passed)
            }
            Some(_) => Look::Waits,
        }
    }

    /// Leaves the queue, if it stands in one; it is not to wait any more. What it took stays taken.
    pub fn leave<P>(&mut self, queue: &WaitQueue<P>) {
        if let Some(place) = self.place.take() {
            // The next may be one whom only this waiter held up.
            queue.leave(place, true);
        }
    }
}

/// What a request finds at a lane.
enum Look {
    /// It is not in the queue.
    Arrives,
    /// It is in the queue, and has to wait on.
    Waits,
    /// It was the head, and was admitted.
    Passed(Place),
}

/// Goes on taking `runs`, all of the request's: see [`Progress::poll`].
pub fn poll_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>>,
    access: Access,
    progress: &mut Progress,
    queue: &WaitQueue<P>,
    waker: &Waker,
) -> Poll<()> {
    let mut before = 0;
    for run in runs {
        let lanes = u64::from(run.len());
        let taken = progress.taken().saturating_sub(before);
        before += lanes;
        if taken < lanes {
            let rest = run.after(taken as u32);
            core::task::ready!(progress.poll(rest, access, queue, waker));
        }
    }
    *progress = Progress::default();
    Poll::Ready(())
}

/// Gives up a request for `runs`: leaves the queue, and gives back what was taken. Ordering: Release.
///
/// # Safety
/// `progress` is of a request for these runs with `access`.
pub unsafe fn cancel_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>>,
    access: Access,
    progress: &mut Progress,
    queue: &WaitQueue<P>,
) {
    let mut progress = core::mem::take(progress);
    progress.leave(queue);
    let mut taken = progress.taken();
    for_each_surely(runs, |run| {
        let lanes = u64::from(run.len()).min(taken);
        taken -= lanes;
        if lanes > 0 {
            // SAFETY: the request has taken its first `taken` lanes, and gives them up.
            unsafe { run.up_to(lanes as u32).unlock(access, queue) }
        }
    });
}
