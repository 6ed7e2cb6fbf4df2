//! Requests that wait without a thread: how they take lanes bit by bit, queue, and give up.
//!
//! Wakers are their authors' code, and may do anything but come back: so they are cloned before a request goes on ([`Progress::listen`]) and woken after it
//! has ([`Progress::wake_others`]), outside of sections, and with everything counted that was taken.

use alloc::vec::Vec;
use core::task::{Poll, Waker};

use spanlock_sync::injected_bug;
use spanlock_sync::wait::{Class, Listener, Place, WaitQueue, Wakers};

use super::{Run, Word, for_each_surely};
use crate::raw::Access;

/// How far a request for lanes has come that waits without a thread. Its default is one that has not begun.
#[derive(Debug, Default)]
pub struct Progress {
    /// Lanes taken so far, of all runs of the request together.
    taken: u64,
    /// Where it stands while it waits for the next.
    place: Option<Place>,
    /// Who is woken for it.
    listener: Option<Listener>,
    /// Whom it has to wake: those that it stood before.
    calls: Vec<Wakers>,
}

impl Progress {
    /// A request that has taken `taken` lanes, and has found the first of `run`, the next, in the hands of others: it stands in that lane's queue.
    pub fn queued<W: Word, P>(
        run: Run<'_, W>,
        taken: u64,
        access: Access,
        queue: &WaitQueue<P>,
        listener: Listener,
    ) -> Self {
        Progress {
            taken,
            place: Some(queue.join(run.first_spot(), class(access), &listener)),
            listener: Some(listener),
            calls: Vec::new(),
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

    /// Begins anew: what was taken has been given back.
    pub fn restart(&mut self) {
        self.taken = 0;
    }

    /// From the next poll on it is `waker` that is woken. Clones it, if it is not the one that it was.
    pub fn listen(&mut self, waker: &Waker) {
        if !self.listener.as_ref().is_some_and(|is| is.is(waker)) {
            self.listener = Some(Listener::new(waker));
        }
    }

    /// Wakes those whom it has let go first. After each poll, and after [`leave`](Self::leave).
    pub fn wake_others(&mut self) {
        for_each_surely(core::mem::take(&mut self.calls).into_iter(), Wakers::wake);
    }

    /// Goes on with `run`, the rest of the run that the next lane is in: takes it, or stands in the queue of the first lane that it lacks, and
    /// its [listener](Self::listen) is woken when it is worth looking again. Ordering: Acquire for every lane taken.
    ///
    /// # Panics
    /// If it has no listener.
    pub fn poll<W: Word, P>(
        &mut self,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
    ) -> Poll<()> {
        let take = |run: Run<'_, W>| run.word.take(run.first, run.end, access, 1) > run.first;
        let arrive = |run: Run<'_, W>| run.arrive(access, 1, queue);
        // Behind a reader the next may be a reader too. Behind a writer all wait for its release.
        let wake_next = access != Access::Write;
        self.drive(run, access, queue, take, arrive, wake_next)
    }

    /// Goes on with `run` as [`poll`](Self::poll) does, but takes nothing: it is ready when every lane was seen free of conflicting holds.
    ///
    /// # Panics
    /// If it has no listener.
    pub fn poll_free<W: Word, P>(
        &mut self,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
    ) -> Poll<()> {
        let free = |run: Run<'_, W>| run.is_free(access);
        let look = |run: Run<'_, W>| run.word.free_until(run.first, run.end, access) - run.first;
        // It takes nothing away from the next.
        self.drive(run, access, queue, free, look, true)
    }

    /// Goes on with `run`: in front of a queue if `admit` says so of its lane, and as an arrival as many lanes as `arrive` says.
    fn drive<'a, W: Word, P>(
        &mut self,
        run: Run<'a, W>,
        access: Access,
        queue: &WaitQueue<P>,
        admit: impl Fn(Run<'a, W>) -> bool,
        arrive: impl Fn(Run<'a, W>) -> u32,
        wake_next: bool,
    ) -> Poll<()> {
        let mut rest = run;
        loop {
            let done = match self.look(rest, queue, &admit) {
                Look::Waits => return Poll::Pending,
                Look::Passed(place) => {
                    self.call(queue.leave(place, wake_next));
                    1
                }
                Look::Arrives => {
                    let done = arrive(rest);
                    if done < rest.len() {
                        // And looks again, for the changer who has not seen its place (W-I3).
                        let spot = rest.after(done).first_spot();
                        let place = queue.join(spot, class(access), self.listener());
                        self.place = Some(place);
                        if injected_bug!(
                            "no-recheck",
                            "a future that has joined the queue returns without rechecking the word",
                            killed_by = "wakeup, poll, give-up, full-count"
                        ) {
                            self.taken += u64::from(done);
                            return Poll::Pending;
                        }
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

    /// What a request can do about the first lane of `run`, at which `admit` says whether one in front may go on.
    fn look<'a, W: Word, P>(
        &mut self,
        run: Run<'a, W>,
        queue: &WaitQueue<P>,
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
        let Some(mut place) = self.place.take() else {
            return Look::Arrives;
        };
        match queue.is_at_head(&mut place, self.listener()) {
            // Its word had gone, and is back at the same address.
            None => Look::Arrives,
            Some(true) if admit(run.up_to(1)) => Look::Passed(place),
            Some(_) => {
                self.place = Some(place);
                Look::Waits
            }
        }
    }

    fn listener(&self) -> &Listener {
        match &self.listener {
            Some(listener) => listener,
            None => panic!("a request that waits was not told whom to wake"),
        }
    }

    fn call(&mut self, calls: Wakers) {
        if !calls.is_empty() {
            self.calls.push(calls);
        }
    }

    /// Leaves the queue, if it stands in one; it is not to wait any more. What it took stays taken.
    pub fn leave<P>(&mut self, queue: &WaitQueue<P>) {
        if let Some(place) = self.place.take()
            && !injected_bug!(
                "waiter-stays",
                "a request that gives up stays in the queue",
                killed_by = "give-up, give-up-writer"
            )
        {
            // The next may be one whom only this waiter held up.
            self.call(queue.leave(place, true));
        }
    }
}

/// Whom a request would exclude.
pub(super) fn class(access: Access) -> Class {
    match access {
        Access::Read => Class::Shared,
        Access::Upgradable => Class::Upgradable,
        Access::Write => Class::Exclusive,
    }
}

/// What a request finds at a lane.
enum Look {
    /// It is not in the queue.
    Arrives,
    /// It is in the queue, and has to wait on.
    Waits,
    /// It was in front, and was admitted.
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
    progress.listen(waker);
    let mut before = 0;
    let mut runs = runs;
    let waits = runs.any(|run| {
        let lanes = u64::from(run.len());
        let taken = progress.taken().saturating_sub(before);
        before += lanes;
        taken < lanes
            && progress
                .poll(run.after(taken as u32), access, queue)
                .is_pending()
    });
    progress.wake_others();
    if waits {
        return Poll::Pending;
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
    let held = runs.map_while(|run| {
        let lanes = u64::from(run.len()).min(taken);
        taken -= lanes;
        (lanes > 0).then(|| run.up_to(lanes as u32))
    });
    // The others last, and whatever the wakers do whom the words wake.
    let steps = held.map(Some).chain(core::iter::once(None));
    for_each_surely(steps, |run| match run {
        // SAFETY: the request has taken its first `taken` lanes, and gives them up.
        Some(run) => unsafe { run.unlock(access, queue) },
        None => progress.wake_others(),
    });
}
