//! Several lane ranges at once: all of them, or none.

use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{Park, injected_bug};

use super::{Run, Word, for_each_surely};
use crate::raw::Access;

/// Acquires every run in the order given, waiting for one lane at a time. Ordering: Acquire.
///
/// Requests that name their lanes in one global order never wait for each other in a cycle.
#[inline]
pub fn lock_all<'a, W: Word, P: Park>(
    runs: impl Iterator<Item = Run<'a, W>> + Clone,
    access: Access,
    queue: &WaitQueue<P>,
) {
    /// The runs acquired so far. Dropping it releases them, in case foreign code panics while the
    /// next one is awaited.
    struct Acquired<'a, 'q, W: Word, I: Iterator<Item = Run<'a, W>> + Clone, P> {
        runs: I,
        count: usize,
        access: Access,
        queue: &'q WaitQueue<P>,
    }
    impl<'a, W: Word, I: Iterator<Item = Run<'a, W>> + Clone, P> Drop for Acquired<'a, '_, W, I, P> {
        #[cold]
        fn drop(&mut self) {
            // SAFETY: these were acquired, and are given up.
            unsafe { unlock_all(self.runs.clone().take(self.count), self.access, self.queue) }
        }
    }
    let mut acquired = Acquired {
        runs: runs.clone(),
        count: 0,
        access,
        queue,
    };
    for run in runs {
        run.lock(access, queue);
        acquired.count += 1;
    }
    core::mem::forget(acquired);
}

/// Acquires every run, or none: if a run is busy, releases those before it. Ordering: Acquire on
/// success.
#[inline]
pub fn try_lock_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>> + Clone,
    access: Access,
    queue: &WaitQueue<P>,
) -> bool {
    let busy = runs.clone().position(|run| !run.try_lock(access, queue));
    let Some(busy) = busy else { return true };
    if injected_bug!(
        "try-keeps",
        "a failed try keeps the words it has taken",
        killed_by = "rw-distributed/try-leaves-no-trace"
    ) {
        return false;
    }
    // SAFETY: the runs before the busy one were acquired just now, and are given up.
    unsafe { unlock_all(runs.take(busy), access, queue) }
    false
}

/// Releases every run, and then wakes the waiters that this unblocks. Ordering: Release.
///
/// # Safety
/// The caller holds every run with `access`, and gives up those holds. The words outlive the call.
#[inline]
pub unsafe fn unlock_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>> + Clone,
    access: Access,
    queue: &WaitQueue<P>,
) {
    let mut unblocks = false;
    for run in runs.clone() {
        // SAFETY: the caller's promise, run by run.
        unblocks |= unsafe { run.release_no_wake(access) };
    }
    if unblocks {
        wake_all(runs, queue);
    }
}

/// Wakes the waiters for every run. A waker may block until it gets one of the runs, so the caller
/// has changed all of them.
#[inline]
pub(crate) fn wake_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>>,
    queue: &WaitQueue<P>,
) {
    // Light [D→E]: orders the state changes before the check of the queue.
    if queue.is_any_asleep() {
        for_each_surely(runs, |run| run.wakes().wake_known(queue));
    }
}

/// Turns holds of every run into holds that exclude less, and then wakes the waiters that this
/// unblocks. Ordering: Release.
///
/// # Safety
/// As for [`Run::downgrade`], for every run. The words outlive the call.
pub unsafe fn downgrade_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>> + Clone,
    from: Access,
    to: Access,
    queue: &WaitQueue<P>,
) {
    // SAFETY: the caller's promise, run by run.
    (runs.clone()).for_each(|run| unsafe { run.downgrade_no_wake(from, to) });
    wake_all(runs, queue);
}

/// Turns holds of every run into exclusive ones, or none. Ordering: Acquire on success.
///
/// # Safety
/// As for [`Run::try_upgrade`], for every run.
pub unsafe fn try_upgrade_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>> + Clone,
    from: Access,
    queue: &WaitQueue<P>,
) -> bool {
    // SAFETY: the caller's promise, run by run.
    let shared = runs
        .clone()
        .position(|run| !unsafe { run.try_upgrade(from) });
    let Some(shared) = shared else { return true };
    // SAFETY: the runs before the shared one were upgraded just now.
    unsafe { downgrade_all(runs.take(shared), Access::Write, from, queue) }
    false
}
