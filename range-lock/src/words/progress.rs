//! Requests that wait without a thread: how they acquire lanes step by step, queue, and give up.
//!
//! A request moves through three states:
//!
//! | state | [`Progress`] | left by |
//! |---|---|---|
//! | new | nothing taken, its waiter is idle | a poll: takes all, or queues for a missing lane |
//! | queued | its waiter is in the next lane's queue | a poll as the head: next lane, or done |
//! | done | as new | |
//!
//! Cancelling leaves the queue and releases the lanes taken so far; then the request is as new.
//!
//! A waker is foreign code and may do anything except re-enter the request. So a request runs it
//! only at two points, outside RCU read-side critical sections. Before it makes progress, it clones
//! its waker ([`Progress::listen`]). Afterwards it wakes other waiters and drops wakers
//! ([`Progress::run_foreign`]): every acquired lane has been counted by then, so a panic loses
//! none.

use core::pin::Pin;
use core::task::{Poll, Waker};

use spanlock_sync::hint::Backoff;
use spanlock_sync::unwind::and_surely;
use spanlock_sync::wait::{Class, Spot, Status, WaitQueue, Waiter};
use spanlock_sync::{Park, injected_bug};

use super::{Run, Word, for_each_surely, unlock_all};
use crate::raw::Access;

/// The wait state of a request for lanes that waits without a thread. The default is a request that
/// has not begun.
///
/// It contains the node that the queue links. So it is pinned, and the functions that may queue it
/// are unsafe. Their callers promise two things until the request is ready, has
/// [left](Self::leave), or the lock is dropped: it is passed to the same `queue` only, and its
/// memory is not used for anything else. (So it may be forgotten, but not dropped.)
#[derive(Debug, Default)]
pub struct Progress {
    waiter: Waiter,
    rest: Rest,
}

/// The waiter's status when the request last read it. Since then, other threads may have changed
/// it from asleep to another status.
#[derive(Debug)]
struct Known(Status);

impl Default for Known {
    fn default() -> Self {
        Known(Status::Idle)
    }
}

/// The part of [`Progress`] that may move.
#[derive(Debug, Default)]
struct Rest {
    /// The number of lanes acquired so far, over all runs of the request.
    taken: u64,
    known: Known,
    /// Whether the request has joined a queue at its head, and has not checked the word since.
    must_check: bool,
    /// A clone of the waker of the present poll, for the next sleep.
    spare: Option<Waker>,
    /// A waker that is no longer needed, still to be dropped.
    retired: Option<Waker>,
    /// Where this request unblocked waiters by leaving a queue without acquiring the lane; they are
    /// still to be woken. Between two calls of [`Progress::run_foreign`], a request leaves at most
    /// two queues: the first because its lane has moved, the second because it gives up or has seen
    /// the lane free. If it has seen the lane free, [`Progress::poll_free`] returns at once.
    unblocked: [Option<Spot>; 2],
}

impl Rest {
    fn wake_later(&mut self, spot: Spot) {
        let free = self.unblocked.iter_mut().find(|slot| slot.is_none());
        *free.expect("`run_foreign` follows each poll") = Some(spot);
    }

    /// Keeps a waker that has left the node.
    fn keep(&mut self, waker: Option<Waker>) {
        if self.spare.is_none() {
            self.spare = waker;
        } else if waker.is_some() {
            self.retired = waker;
        }
    }
}

impl Progress {
    fn parts(self: Pin<&mut Self>) -> (Pin<&mut Waiter>, &mut Rest) {
        // SAFETY: the waiter is pinned with the request, and is not moved out of it.
        unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.waiter), &mut this.rest)
        }
    }

    fn rest(self: Pin<&mut Self>) -> &mut Rest {
        self.parts().1
    }

    /// Enqueues a request that found `run`, its next lane range, busy. The request joins the queue
    /// of that range's first lane. The next poll rechecks the word.
    ///
    /// # Panics
    /// Panics if the request has no waker: call [`listen`](Self::listen) first.
    ///
    /// # Safety
    /// The promise of [`Progress`].
    pub unsafe fn enqueue<W: Word, P>(
        mut self: Pin<&mut Self>,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
    ) {
        let waker = self.as_mut().rest().spare.take();
        let waker = waker.expect("a request was enqueued without a waker: call `listen` first");
        // SAFETY: the caller's promise.
        unsafe { self.join(run.first_spot(), access, waker, queue) };
    }

    /// # Safety
    /// The promise of [`Progress`].
    unsafe fn join<P>(
        self: Pin<&mut Self>,
        spot: Spot,
        access: Access,
        waker: Waker,
        queue: &WaitQueue<P>,
    ) {
        let (waiter, rest) = self.parts();
        // SAFETY: the caller's promise.
        rest.must_check = unsafe { queue.join(waiter, spot, class(access), waker) };
        rest.known = Known(Status::Asleep);
        if injected_bug!(
            "no-recheck",
            "a request that has joined the queue sleeps without rechecking the word",
            killed_by = "wakeup, poll, give-up, full-count"
        ) {
            rest.must_check = false;
        }
    }

    /// Returns the number of lanes acquired so far.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.rest.taken
    }

    /// Finds out whether the request was woken. Must precede each poll that does not follow
    /// [`park`](Self::park) or [`enqueue`](Self::enqueue).
    #[inline]
    pub fn refresh(self: Pin<&mut Self>) {
        let (waiter, rest) = self.parts();
        rest.known = Known(waiter.status());
    }

    /// Returns whether the request waits and nobody has woken it since its last poll. A thread
    /// parks only then: its parker may have lost the wake to other code that the thread ran
    /// meanwhile.
    #[inline]
    pub fn is_asleep(mut self: Pin<&mut Self>) -> bool {
        self.as_mut().refresh();
        self.rest.known.0 == Status::Asleep
    }

    /// Returns whether the request waits, and the thread that unblocks it may not see it in the
    /// queue, because the system refused the heavy barrier. Then it must recheck the word from time
    /// to time.
    #[inline]
    pub fn may_be_overlooked(&self) -> bool {
        self.waiter.may_be_overlooked()
    }

    /// Puts the calling thread to sleep until a poll is worthwhile. (The sleep may end spuriously,
    /// and there is none if the request [was woken](Self::is_asleep) already.)
    pub fn park(mut self: Pin<&mut Self>, parker: &impl Park) {
        if self.as_mut().is_asleep() {
            if self.may_be_overlooked() {
                parker.park_briefly();
            } else {
                parker.park();
            }
        }
        self.refresh();
    }

    /// Asks for the next poll of a future that [may be overlooked](Self::may_be_overlooked): it
    /// cannot sleep for a bounded time. Must follow each poll of a future that returns `Pending`,
    /// with the waker of that poll.
    pub fn poll_again(&self, waker: &Waker) {
        if self.may_be_overlooked() {
            #[cfg(feature = "std")]
            spanlock_sync::thread::yield_now();
            waker.wake_by_ref();
        }
    }

    /// Advances past the next `lanes` lanes: they were acquired by other means, or are not needed.
    #[inline]
    pub fn skip(self: Pin<&mut Self>, lanes: u64) {
        self.rest().taken += lanes;
    }

    /// Starts again from the first lane. The caller has released the lanes acquired so far.
    pub fn restart(self: Pin<&mut Self>) {
        self.rest().taken = 0;
    }

    /// Makes `waker` the one that is woken from the next poll on. Clones it unless it is already in
    /// use.
    pub fn listen(self: Pin<&mut Self>, waker: &Waker) {
        let (waiter, rest) = self.parts();
        let is_shown = rest.known.0 == Status::Asleep && waiter.shows(waker);
        if !is_shown
            && !rest
                .spare
                .as_ref()
                .is_some_and(|spare| spare.will_wake(waker))
        {
            rest.spare = Some(waker.clone());
        }
    }

    /// Returns whether [`run_foreign`](Self::run_foreign) has waiters to wake.
    pub fn has_unblocked(&self) -> bool {
        self.rest.unblocked[0].is_some()
    }

    /// Wakes the waiters that this request has unblocked, and drops wakers. Must follow each poll,
    /// and [`leave`](Self::leave).
    pub fn run_foreign<P>(self: Pin<&mut Self>, queue: &WaitQueue<P>) {
        let rest = self.rest();
        let (retired, unblocked) = (rest.retired.take(), core::mem::take(&mut rest.unblocked));
        let wake = || for_each_surely(unblocked.into_iter().flatten(), |spot| queue.wake(spot));
        and_surely(|| drop(retired), wake);
    }

    /// Ends a request that has acquired everything, or has given everything up. It is then as new.
    pub fn finish<P>(mut self: Pin<&mut Self>, queue: &WaitQueue<P>) {
        let spare = self.as_mut().rest().spare.take();
        and_surely(|| drop(spare), || self.as_mut().run_foreign(queue));
        // Last: if foreign code panics, the caller still knows which lanes to release.
        self.rest().taken = 0;
    }

    /// Continues with `run`, the rest of the current lane range. Either acquires all of it, or
    /// enqueues on the first missing lane; the waker given to [`listen`](Self::listen) is then
    /// woken when a retry is worthwhile. Ordering: Acquire for every lane acquired.
    ///
    /// # Safety
    /// The promise of [`Progress`].
    pub unsafe fn poll<W: Word, P>(
        self: Pin<&mut Self>,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
    ) -> Poll<()> {
        let take = |run: Run<'_, W>| run.word.take(run.first, run.end, access, 1) > run.first;
        let arrive = |run: Run<'_, W>| run.arrive(access, 1, queue);
        // SAFETY: the caller's promise.
        unsafe { self.drive(run, access, queue, take, arrive, true) }
    }

    /// Like [`poll`](Self::poll), but acquires nothing: the request is ready when every lane has
    /// been seen without a conflicting hold. Also returns `Ready` if the request [has
    /// unblocked](Self::has_unblocked) waiters. [`taken`](Self::taken) then says how many lanes it
    /// has seen, and the caller runs foreign code before it goes on.
    ///
    /// # Safety
    /// The promise of [`Progress`].
    pub unsafe fn poll_free<W: Word, P>(
        self: Pin<&mut Self>,
        run: Run<'_, W>,
        access: Access,
        queue: &WaitQueue<P>,
    ) -> Poll<()> {
        let free = |run: Run<'_, W>| run.is_free(access);
        let look = |run: Run<'_, W>| run.word.free_until(run.first, run.end, access) - run.first;
        // SAFETY: the caller's promise.
        unsafe { self.drive(run, access, queue, free, look, false) }
    }

    /// Continues with `run`. At the head of a queue, `admit` decides about the head's lane. For an
    /// arrival, `arrive` returns how many lanes it got. `acquires` says whether a lane is acquired
    /// when `admit` returns true.
    ///
    /// # Safety
    /// The promise of [`Progress`].
    unsafe fn drive<'a, W: Word, P>(
        mut self: Pin<&mut Self>,
        run: Run<'a, W>,
        access: Access,
        queue: &WaitQueue<P>,
        admit: impl Fn(Run<'a, W>) -> bool,
        arrive: impl Fn(Run<'a, W>) -> u32,
        acquires: bool,
    ) -> Poll<()> {
        let mut rest = run;
        loop {
            let done = match self.as_mut().look(rest, queue, &admit) {
                Look::Waits => return Poll::Pending,
                Look::Admitted => {
                    // If this request now holds the lane, the waiters that it unblocks wait for
                    // the release.
                    self.as_mut().leave_queue(queue, !acquires);
                    1
                }
                Look::Arrives => {
                    let done = arrive(rest);
                    if done < rest.len() {
                        let Some(waker) = self.as_mut().rest().spare.take() else {
                            // Another thread has taken the waker from the node, and calls it. So
                            // this request is polled again.
                            self.rest().taken += u64::from(done);
                            return Poll::Pending;
                        };
                        // The next round rechecks the word: a releasing thread may not have seen
                        // this waiter (W-I3).
                        let spot = rest.after(done).first_spot();
                        // SAFETY: the caller's promise.
                        unsafe { self.as_mut().join(spot, access, waker, queue) };
                    }
                    done
                }
            };
            self.as_mut().rest().taken += u64::from(done);
            if done == rest.len() || (!acquires && self.has_unblocked()) {
                return Poll::Ready(());
            }
            rest = rest.after(done);
        }
    }

    /// Determines how the request can proceed at the first lane of `run`. `admit` tells whether a
    /// request at the head of the queue may proceed.
    fn look<'a, W: Word, P>(
        mut self: Pin<&mut Self>,
        run: Run<'a, W>,
        queue: &WaitQueue<P>,
        admit: impl Fn(Run<'a, W>) -> bool,
    ) -> Look {
        // The word may have been freed and the lane moved to another word: then start as an
        // arrival.
        if (self.waiter.spot()).is_some_and(|spot| spot != run.first_spot()) {
            self.as_mut().leave(queue);
        }
        let (mut waiter, rest) = self.as_mut().parts();
        let must_check = core::mem::take(&mut rest.must_check) || waiter.may_be_overlooked();
        match rest.known.0 {
            Status::Idle => return Look::Arrives,
            Status::Asleep => {
                let replaced = match rest.spare.take() {
                    None => Ok(None),
                    Some(waker) => queue.replace_waker(waiter.as_mut(), waker),
                };
                match replaced {
                    Ok(before) => {
                        if before.is_some() {
                            rest.retired = before;
                        }
                        return if must_check && admit(run.up_to(1)) {
                            Look::Admitted
                        } else {
                            Look::Waits
                        };
                    }
                    // It was woken or evicted just now.
                    Err(waker) => {
                        rest.spare = Some(waker);
                        rest.known = Known(waiter.status());
                    }
                }
            }
            Status::Woken | Status::Evicted => {}
        }
        self.look_awake(run, queue, admit)
    }

    /// Does what [`look`](Self::look) does, for a waiter that was woken or evicted.
    fn look_awake<'a, W: Word, P>(
        mut self: Pin<&mut Self>,
        run: Run<'a, W>,
        queue: &WaitQueue<P>,
        admit: impl Fn(Run<'a, W>) -> bool,
    ) -> Look {
        if self.rest.known.0 == Status::Woken {
            // Rearming and sleeping cost system calls, which take about as long as this spins.
            let mut spin = Backoff::new();
            loop {
                if admit(run.up_to(1)) {
                    return Look::Admitted;
                }
                if !spin.round() {
                    break;
                }
            }
            let (waiter, rest) = self.as_mut().parts();
            let Some(waker) = rest.spare.take() else {
                // Another thread has taken the waker just now, and calls it. So this request is
                // polled again.
                return Look::Waits;
            };
            match queue.rearm(waiter, waker) {
                Ok(()) => {
                    rest.known = Known(Status::Asleep);
                    let checks = !injected_bug!(
                        "no-recheck-after-rearm",
                        "a request that was woken in vain sleeps again without rechecking the word",
                        killed_by = "wakeup, poll, give-up"
                    );
                    return if checks && admit(run.up_to(1)) {
                        Look::Admitted
                    } else {
                        Look::Waits
                    };
                }
                Err(waker) => rest.spare = Some(waker),
            }
        }
        // It was evicted: the word was freed, and another one now has its address.
        self.leave(queue);
        Look::Arrives
    }

    /// Leaves the queue. The lanes that the request has acquired stay acquired.
    pub fn leave<P>(self: Pin<&mut Self>, queue: &WaitQueue<P>) {
        let wakes = !injected_bug!(
            "leaves-silently",
            "a request that gives up does not wake the waiters that it unblocks",
            killed_by = "give-up-writer"
        );
        self.leave_queue(queue, wakes);
    }

    fn leave_queue<P>(self: Pin<&mut Self>, queue: &WaitQueue<P>, wakes: bool) {
        let (waiter, rest) = self.parts();
        let Some(spot) = waiter.spot() else { return };
        let left = queue.leave(waiter);
        rest.known = Known(Status::Idle);
        rest.keep(left.waker);
        rest.must_check = false;
        if left.unblocks && wakes {
            rest.wake_later(spot);
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
    /// The request is at the head of the queue, and was admitted. It must leave.
    Admitted,
}

/// Continues to acquire `runs`, all lane ranges of a future's request: see [`Progress::poll`].
///
/// # Safety
/// The promise of [`Progress`]. The request was for these runs since it began, with this access.
pub unsafe fn poll_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>>,
    access: Access,
    mut progress: Pin<&mut Progress>,
    queue: &WaitQueue<P>,
    waker: &Waker,
) -> Poll<()> {
    progress.as_mut().refresh();
    // SAFETY: the caller's promise.
    let poll = unsafe { advance_all(runs, access, progress.as_mut(), queue, waker) };
    if poll.is_pending() {
        progress.poll_again(waker);
    }
    poll
}

/// Does what [`poll_all`] does, for a thread that [parks](Progress::park) when it must wait.
///
/// # Safety
/// As for [`poll_all`].
pub(super) unsafe fn advance_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>>,
    access: Access,
    mut progress: Pin<&mut Progress>,
    queue: &WaitQueue<P>,
    waker: &Waker,
) -> Poll<()> {
    progress.as_mut().listen(waker);
    let mut before = 0;
    let mut runs = runs;
    let waits = runs.any(|run| {
        let lanes = u64::from(run.len());
        let taken = progress.taken().saturating_sub(before);
        before += lanes;
        taken < lanes && {
            let run = run.after(taken as u32);
            // SAFETY: the caller's promise.
            unsafe { progress.as_mut().poll(run, access, queue) }.is_pending()
        }
    });
    if waits {
        progress.run_foreign(queue);
        return Poll::Pending;
    }
    progress.finish(queue);
    Poll::Ready(())
}

/// Gives up a request for `runs`: leaves the queue, releases the lanes acquired so far, and then
/// wakes the waiters that this unblocks. Ordering: Release.
///
/// # Safety
/// `progress` belongs to a request for these runs with `access`, in this queue. The words outlive
/// the call.
pub unsafe fn cancel_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>> + Clone,
    access: Access,
    mut progress: Pin<&mut Progress>,
    queue: &WaitQueue<P>,
) {
    progress.as_mut().leave(queue);
    let mut taken = progress.taken();
    progress.as_mut().restart();
    let held = runs.map_while(move |run| {
        let lanes = u64::from(run.len()).min(taken);
        taken -= lanes;
        (lanes > 0).then(|| run.up_to(lanes as u32))
    });
    // The waiters behind this request are woken even if a waker panics before.
    and_surely(
        // SAFETY: the request has acquired its first `taken` lanes, and gives them up.
        || unsafe { unlock_all(held, access, queue) },
        || progress.finish(queue),
    );
}
