//! Requests that wait without a thread: how they acquire lanes step by step, queue, and give up.
//!
//! A request moves through three states:
//!
//! | state | [`Progress`] | left by |
//! |---|---|---|
//! | new | nothing taken, no place | a poll: acquires all lanes, or queues for a missing one |
//! | queued | its place in the queue of the next lane | a poll as the head: next lane, or done |
//! | done | as new | |
//!
//! Cancelling leaves the queue and releases the lanes taken so far; then the request is as new.
//!
//! A waker is foreign code and may do anything except re-enter the request. So wakers are cloned
//! before a request makes progress ([`Progress::listen`]) and woken afterwards
//! ([`Progress::wake_others`]): outside RCU read-side critical sections, and after every acquired
//! lane has been counted.

use alloc::vec::Vec;
use core::task::{Poll, Waker};

use spanlock_sync::unwind::and_surely;
use spanlock_sync::wait::{Class, Listener, Place, WaitQueue, Wakers};
use spanlock_sync::{Park, injected_bug};

use super::{Run, Word, for_each_surely};
use crate::raw::Access;

/// The wait state of a request for lanes that waits without a thread. The default is a request that
/// has not begun.
#[derive(Debug, Default)]
pub struct Progress {
    /// The number of lanes acquired so far, over all runs of the request.
    taken: u64,
    /// The request's place in the queue of the next lane, while it waits.
    place: Option<Place>,
    /// The waker that is woken for this request.
    listener: Option<Listener>,
    /// The waiters that this request unblocked by leaving a queue, still to be woken.
    wakers: Vec<Wakers>,
}

impl Progress {
    /// Enqueues a request that holds `taken` lanes and found `run`, its next lane range, busy. The
    /// request joins the queue of that range's first lane.
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
            wakers: Vec::new(),
        }
    }

    /// Returns the number of lanes acquired so far.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Advances past the next `lanes` lanes: they were acquired by other means, or are not needed.
    #[inline]
    pub fn skip(&mut self, lanes: u64) {
        self.taken += lanes;
    }

    /// Starts again from the first lane. The caller has released the lanes acquired so far.
    pub fn restart(&mut self) {
        self.taken = 0;
    }

    /// Makes `waker` the one that is woken from the next poll on. Clones it unless it is already in
    /// use.
    pub fn listen(&mut self, waker: &Waker) {
        if !self.listener.as_ref().is_some_and(|is| is.is(waker)) {
            self.listener = Some(Listener::new(waker));
        }
    }

    /// Wakes the waiters that this request has unblocked. Must follow each poll, and
    /// [`leave`](Self::leave).
    ///
    /// Wakes this request, too, if it [may be overlooked](Self::may_be_overlooked): a future cannot
    /// sleep for a bounded time, so it asks for its next poll at once.
    pub fn wake_others(&mut self) {
        let own = self.may_be_overlooked().then(|| self.listener().clone());
        #[cfg(feature = "std")]
        if own.is_some() {
            spanlock_sync::thread::yield_now();
        }
        and_surely(
            || for_each_surely(core::mem::take(&mut self.wakers).into_iter(), Wakers::wake),
            || own.iter().for_each(Listener::wake),
        );
    }

    /// Returns whether the request waits, and the thread that unblocks it may not see it in the
    /// queue, because the system refused the heavy barrier. Then it must recheck the word from time
    /// to time.
    pub fn may_be_overlooked(&self) -> bool {
        (self.place.as_ref()).is_some_and(|place| !place.is_seen())
    }

    /// Puts the calling thread to sleep until a poll is worthwhile. (The sleep may end spuriously.)
    pub fn park(&self, parker: &impl Park) {
        if self.may_be_overlooked() {
            parker.park_briefly();
        } else {
            parker.park();
        }
    }

    /// Continues with `run`, the rest of the current lane range. Either acquires all of it, or
    /// enqueues on the first missing lane; its [listener](Self::listen) is then woken when a retry
    /// is worthwhile. Ordering: Acquire for every lane acquired.
    ///
    /// # Panics
    /// Panics if the request has no listener.
    pub fn poll<W: Word, P>(
        &mut self,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
    ) -> Poll<()> {
        let take = |run: Run<'_, W>| run.word.take(run.first, run.end, access, 1) > run.first;
        let arrive = |run: Run<'_, W>| run.arrive(access, 1, queue);
        // A reader may be followed by another reader. Behind a writer, all wait for its release.
        let wake_next = access != Access::Write;
        self.drive(run, access, queue, take, arrive, wake_next)
    }

    /// Like [`poll`](Self::poll), but acquires nothing: the request is ready when every lane has
    /// been seen without a conflicting hold.
    ///
    /// # Panics
    /// Panics if the request has no listener.
    pub fn poll_free<W: Word, P>(
        &mut self,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
    ) -> Poll<()> {
        let free = |run: Run<'_, W>| run.is_free(access);
        let look = |run: Run<'_, W>| run.word.free_until(run.first, run.end, access) - run.first;
        // Nothing was acquired, so the next waiter may proceed.
        self.drive(run, access, queue, free, look, true)
    }

    /// Continues with `run`. At the head of a queue, `admit` decides about the head's lane. For an
    /// arrival, `arrive` returns how many lanes it got.
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
                    self.wake_later(queue.leave(place, wake_next));
                    1
                }
                Look::Arrives => {
                    let done = arrive(rest);
                    if done < rest.len() {
                        // The next round rechecks the word: a releasing thread may not have seen
                        // this place in the queue (W-I3).
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

    /// Determines how the request can proceed at the first lane of `run`. `admit` tells whether a
    /// request at the head of the queue may proceed.
    fn look<'a, W: Word, P>(
        &mut self,
        run: Run<'a, W>,
        queue: &WaitQueue<P>,
        admit: impl Fn(Run<'a, W>) -> bool,
    ) -> Look {
        // The word may have been freed and the lane moved to another word: then start as an
        // arrival.
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
            // The word was freed, and another one now has its address.
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
            None => panic!("a request was polled without a listener: call `listen` first"),
        }
    }

    fn wake_later(&mut self, wakers: Wakers) {
        if !wakers.is_empty() {
            self.wakers.push(wakers);
        }
    }

    /// Leaves the queue, if the request stands in one. The lanes it has acquired stay acquired.
    pub fn leave<P>(&mut self, queue: &WaitQueue<P>) {
        if let Some(place) = self.place.take()
            && !injected_bug!(
                "waiter-stays",
                "a request that gives up stays in the queue",
                killed_by = "give-up, give-up-writer"
            )
        {
            // The next waiter may have been blocked by this one alone.
            self.wake_later(queue.leave(place, true));
        }
    }
}

/// Returns which other waiters a request excludes.
pub(super) fn class(access: Access) -> Class {
    match access {
        Access::Read => Class::Shared,
        Access::Upgradable => Class::Upgradable,
        Access::Write => Class::Exclusive,
    }
}

/// The situation of a request at a lane.
enum Look {
    /// The request is not queued.
    Arrives,
    /// The request is queued, and must keep waiting.
    Waits,
    /// The request was the head of the queue, and was admitted.
    Passed(Place),
}

/// Continues to acquire `runs`, all lane ranges of the request: see [`Progress::poll`].
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

/// Gives up a request for `runs`: leaves the queue and releases the lanes acquired so far.
/// Ordering: Release.
///
/// # Safety
/// `progress` belongs to a request for these runs with `access`.
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
    // Wake the waiters behind this request last, even if a waker panics while the lanes are
    // released.
    let steps = held.map(Some).chain(core::iter::once(None));
    for_each_surely(steps, |run| match run {
        // SAFETY: the request has acquired its first `taken` lanes, and gives them up.
        Some(run) => unsafe { run.unlock(access, queue) },
        None => progress.wake_others(),
    });
}
