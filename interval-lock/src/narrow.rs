//! Narrow requests: those with one node, for one span that touches one shard.
//!
//! Each operation locks the mutex of that shard. Requests whose span touches several shards go on
//! to [`crate::wide`].

use core::task::{Poll, Waker, ready};

use spanlock_range_lock::words::for_each_surely;
use spanlock_range_lock::{Access, NoMemory, Span, Token};
use spanlock_sync::hint::{Backoff, scaled};
use spanlock_sync::{Mutex, MutexGuard, injected_bug};

use crate::lock::{Core, IntervalRequest, Sleep, index, token};
use crate::requests::{Requests, Wakes};
use crate::tree::Index;
use crate::wide::Batch;

/// How many rounds a thread spins between two tries.
const ROUNDS_PER_RETRY: u32 = 8;

/// These functions are not inlined, and none is generic. Their results fit in two registers, so the
/// code around the calls stays small.
impl Core {
    pub(crate) fn take(&self, span: Span, access: Access, sleep: Sleep) -> Result<Token, NoMemory> {
        let Some(shard) = self.shards.home(span) else {
            return self.take_wide(span, access, sleep);
        };
        let mut requests = shard.lock();
        if let Some(index) = requests.try_hold(span, access)? {
            self.counters.acquisitions(1);
            return Ok(token(index));
        }
        let taken = self.take_slow(shard, requests, span, access, sleep);
        taken.map(token)
    }

    #[cold]
    fn take_wide(&self, span: Span, access: Access, sleep: Sleep) -> Result<Token, NoMemory> {
        let mut tokens = [Token::NONE];
        self.take_all(&[(span, access)], &mut tokens, sleep)?;
        Ok(tokens[0])
    }

    pub(crate) fn try_take(&self, span: Span, access: Access) -> Result<Option<Index>, NoMemory> {
        let Some(shard) = self.shards.home(span) else {
            let mut tokens = [Token::NONE];
            let taken = self.try_take_all(&[(span, access)], &mut tokens)?;
            return Ok(taken.then_some(crate::lock::index(tokens[0])));
        };
        let mut requests = shard.lock();
        let held = requests.try_hold(span, access)?;
        self.counters.acquisitions(usize::from(held.is_some()));
        Ok(held)
    }

    pub(crate) fn release(&self, span: Span, index: Index) {
        let Some(shard) = self.shards.home(span) else {
            return self.leave_wide(span, index);
        };
        let mut requests = shard.lock();
        if requests.has_no_waiters() {
            requests.remove_hold(index);
        } else {
            leave(requests, index);
        }
    }

    /// Spins, passes waiters, or waits for its turn. There is room for one node.
    #[cold]
    fn take_slow<'a>(
        &'a self,
        shard: &'a Mutex<Requests>,
        mut requests: MutexGuard<'a, Requests>,
        span: Span,
        access: Access,
        sleep: Sleep,
    ) -> Result<Index, NoMemory> {
        let mut spin = Backoff::new();
        let mut spins = scaled(1, 0) == 1;
        loop {
            let mut wakes = Wakes::default();
            if let Some(index) = requests.pass(span, access, &mut wakes) {
                self.counters.acquisitions(1);
                self.counters.overtakes();
                self.or_give_up(&[(span, access)], &[token(index)], || {
                    finish(requests, wakes);
                });
                return Ok(index);
            }
            if !spins {
                break;
            }
            drop(requests);
            // Not after every round: each retry keeps the mutex from the holder's release.
            spins = (0..ROUNDS_PER_RETRY).all(|_| spin.round());
            requests = shard.lock();
            if let Some(index) = requests.try_hold(span, access)? {
                self.counters.acquisitions(1);
                return Ok(index);
            }
        }
        let index = requests.queue(span, access);
        self.or_give_up(&[(span, access)], &[token(index)], || {
            self.wait(shard, requests, index, sleep);
        });
        self.counters.acquisitions(1);
        Ok(index)
    }

    /// Calls `f`, which runs foreign code for a blocking call: a [`Park`](spanlock_sync::Park), or
    /// wakers. If `f` panics, gives up the call's request: nobody would release it.
    pub(crate) fn or_give_up(&self, batch: Batch<'_>, tokens: &[Token], f: impl FnOnce()) {
        struct Attempt<'a>(&'a Core, Batch<'a>, &'a [Token]);
        impl Drop for Attempt<'_> {
            #[cold]
            fn drop(&mut self) {
                let Attempt(core, batch, tokens) = *self;
                if injected_bug!(
                    "unwound-call-waits",
                    "a blocking call that unwinds leaves its requests in the tree",
                    killed_by = "interval-tree/sleep-unwinds, interval-tree-sharded/sleep-unwinds, \
                        interval-tree-sharded/sleep-unwinds-batch, srl-gate/sleep-unwinds-batch"
                ) {
                    return;
                }
                for_each_surely(batch.iter().zip(tokens), |(&(span, _), &token)| {
                    core.give_up(span, index(token));
                });
            }
        }
        let attempt = Attempt(self, batch, tokens);
        f();
        core::mem::forget(attempt);
    }

    /// Removes a request for a span, granted or not.
    pub(crate) fn give_up(&self, span: Span, index: Index) {
        match self.shards.home(span) {
            Some(shard) => leave(shard.lock(), index),
            None => self.leave_wide(span, index),
        }
    }

    /// See [`RawRangeLockWait::poll_lock`].
    pub(crate) fn poll(
        &self,
        span: Span,
        access: Access,
        request: &mut IntervalRequest,
        waker: &Waker,
    ) -> Poll<Result<Token, NoMemory>> {
        let Some(shard) = self.shards.home(span) else {
            return self.poll_wide(span, access, request, waker);
        };
        let mut requests = shard.lock();
        let index = match request.place {
            Some(index) => index,
            None => requests.try_hold(span, access)?.unwrap_or_else(|| {
                self.counters.waits();
                requests.queue(span, access)
            }),
        };
        // Record the index first: the waker's code may panic.
        request.place = Some(index);
        ready!(poll_granted(shard, requests, index, waker));
        request.place = None;
        self.counters.acquisitions(1);
        Poll::Ready(Ok(token(index)))
    }

    /// Advances an upgrade; see
    /// [`poll_upgrade`](spanlock_range_lock::RawRangeLockUpgradeWait::poll_upgrade).
    pub(crate) fn poll_upgrade(
        &self,
        span: Span,
        index: Index,
        waits: &mut bool,
        waker: &Waker,
    ) -> Poll<()> {
        let Some(shard) = self.shards.home(span) else {
            return self.poll_upgrade_wide(span, index, waits, waker);
        };
        let mut requests = shard.lock();
        if !*waits {
            if requests.other_holders(index) == 0 {
                requests.make_exclusive(index);
                return Poll::Ready(());
            }
            self.counters.waits();
            requests.queue_upgrade(index, false);
            *waits = true;
        }
        ready!(poll_granted(shard, requests, index, waker));
        *waits = false;
        Poll::Ready(())
    }

    /// Makes a waiting or granted upgrade an upgradable hold again.
    pub(crate) fn cancel_upgrade(&self, span: Span, index: Index) {
        let Some(shard) = self.shards.home(span) else {
            return self.cancel_upgrade_wide(span, index);
        };
        let mut wakes = Wakes::default();
        let mut requests = shard.lock();
        requests.withdraw_upgrade(index, &mut wakes);
        finish(requests, wakes);
    }

    /// Blocks until the waiting narrow request at `index` is granted. The mutex must have been
    /// locked since the request began to wait.
    pub(crate) fn wait(
        &self,
        shard: &Mutex<Requests>,
        requests: MutexGuard<'_, Requests>,
        index: Index,
        sleep: Sleep,
    ) {
        self.counters.waits();
        let mut queued = Some(requests);
        sleep(&mut |waker| {
            let mut requests = match queued.take() {
                Some(requests) => {
                    if injected_bug!(
                        "no-recheck",
                        "a waiter unlocks its shard between queueing its request and registering \
                         its waker",
                        killed_by = "wakeup, poll"
                    ) {
                        drop(requests);
                        shard.lock()
                    } else {
                        requests
                    }
                }
                None => {
                    // The wake may be spurious, and the grant may have been revoked.
                    let mut requests = shard.lock();
                    if requests.claim_grant(index) {
                        return true;
                    }
                    requests
                }
            };
            // Unlike the waker of a future, this one may be cloned under the mutex: it comes from
            // the lock's `Park`.
            let is_set = requests.will_wake(index, waker);
            let before = (!is_set).then(|| requests.set_waker(index, waker.clone()));
            drop(requests);
            drop(before);
            false
        });
    }
}

/// Claims the grant of the waiting narrow request at `index`, or leaves `waker` there. The mutex
/// must have been locked since the request began to wait.
fn poll_granted<'a>(
    shard: &'a Mutex<Requests>,
    mut requests: MutexGuard<'a, Requests>,
    index: Index,
    waker: &Waker,
) -> Poll<()> {
    let mut clone: Option<Waker> = None;
    loop {
        if requests.claim_grant(index) {
            return Poll::Ready(());
        }
        if requests.will_wake(index, waker) {
            return Poll::Pending;
        }
        if let Some(clone) = clone.take() {
            let before = requests.set_waker(index, clone);
            drop(requests);
            drop(before);
            return Poll::Pending;
        }
        // This waker is foreign code, so it is cloned, dropped and woken outside the mutex. The
        // next iteration checks the request again.
        drop(requests);
        clone = Some(waker.clone());
        requests = shard.lock();
    }
}

/// Removes a narrow request, granted or not.
#[cold]
fn leave(mut requests: MutexGuard<'_, Requests>, index: Index) {
    let mut wakes = Wakes::default();
    requests.leave(index, &mut wakes);
    finish(requests, wakes);
}

/// Unlocks the mutex, then wakes the granted waiters.
#[track_caller]
pub(crate) fn finish(requests: MutexGuard<'_, Requests>, wakes: Wakes) {
    drop(requests);
    wakes.wake();
}
