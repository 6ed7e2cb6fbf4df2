//! The capabilities of an [`IntervalLock`]: downgrade, upgrade, shrink, split, and batches. Each of
//! them changes one request under the mutexes of all shards that it touches, and updates exactly
//! the counts that the change affects (IL-I1 in [`crate::requests`]).

use alloc::vec::Vec;
use core::pin::Pin;
use core::task::{Poll, Waker};

use spanlock_range_lock::{
    Access, NoMemory, RangeError, RawRangeLockBatch, RawRangeLockBatchWait, RawRangeLockDowngrade,
    RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockUpgradeWait, Span, Token, TryLockError,
};
use spanlock_sync::Park;

use crate::lock::{IntervalLock, index, token};
use crate::narrow::finish;
use crate::requests::Wakes;

// SAFETY: the hold keeps its nodes and only its access changes, so no writer is granted in between
// (IL-I2). Every later hold that conflicts with the old one is granted under the mutex of a shard
// that both touch, after this change. That includes the readers that this call admits.
unsafe impl<P: Park> RawRangeLockDowngrade for IntervalLock<P> {
    unsafe fn downgrade(&self, span: Span, _from: Access, to: Access, token: &mut Token) {
        let Some(shard) = self.core.shards.home(span) else {
            return self.core.downgrade_wide(span, to, index(*token));
        };
        let mut wakes = Wakes::default();
        let mut requests = shard.lock();
        requests.downgrade(index(*token), to, &mut wakes);
        finish(requests, wakes);
    }
}

// SAFETY: the hold keeps its nodes and conflicts with every writer, so no writer is granted in
// between (IL-I2). A failed try changes nothing.
unsafe impl<P: Park> RawRangeLockUpgrade for IntervalLock<P> {
    unsafe fn try_upgrade(&self, span: Span, _from: Access, token: Token) -> Result<Token, Token> {
        let upgraded = match self.core.shards.home(span) {
            Some(shard) => {
                let mut requests = shard.lock();
                let alone = requests.other_holders(index(token)) == 0;
                if alone {
                    requests.make_exclusive(index(token));
                }
                alone
            }
            None => self.core.try_upgrade_wide(span, index(token)),
        };
        upgraded.then_some(token).ok_or(token)
    }
}

// SAFETY: as above. The nodes of a waiting upgrade stay and are `Upgrading`, and no grant of a
// conflicting request overtakes it (IL-I3).
unsafe impl<P: Park> RawRangeLockUpgradeWait for IntervalLock<P> {
    unsafe fn upgrade(&self, span: Span, token: Token) -> Token {
        let Some(shard) = self.core.shards.home(span) else {
            self.core.upgrade_wide(span, index(token), Self::SLEEP);
            return token;
        };
        let mut requests = shard.lock();
        if requests.other_holders(index(token)) == 0 {
            requests.make_exclusive(index(token));
        } else {
            requests.queue_upgrade(index(token), false);
            self.core.wait(shard, requests, index(token), Self::SLEEP);
        }
        token
    }

    unsafe fn poll_upgrade(
        &self,
        span: Span,
        token: Token,
        waits: &mut bool,
        waker: &Waker,
    ) -> Poll<Token> {
        let granted = self.core.poll_upgrade(span, index(token), waits, waker);
        granted.map(|()| token)
    }

    unsafe fn cancel_upgrade(&self, span: Span, token: Token) {
        self.core.cancel_upgrade(span, index(token));
    }
}

// SAFETY: the kept part has nodes before and after, and the change happens under the mutexes of all
// shards that the hold touches, so no other thread sees an intermediate state.
unsafe impl<P: Park> RawRangeLockSplit for IntervalLock<P> {
    unsafe fn shrink(&self, span: Span, _access: Access, held: &mut Token, keep: Span) {
        let Some(shard) = self.core.shards.home(span) else {
            return self.core.shrink_wide(span, held, keep);
        };
        let mut wakes = Wakes::default();
        let mut requests = shard.lock();
        requests.shrink(index(*held), keep, &mut wakes);
        finish(requests, wakes);
    }

    unsafe fn split(
        &self,
        span: Span,
        _access: Access,
        held: &mut Token,
        at: u64,
        above: &mut Token,
    ) -> Result<(), NoMemory> {
        let part = |range| match Span::new(range) {
            Ok(Some(part)) => part,
            _ => panic!("{at} does not lie within {span:?}"),
        };
        let (low, high) = (part(span.start()..at), part(at..span.end()));
        let Some(shard) = self.core.shards.home(span) else {
            return self.core.split_wide(held, low, high, above);
        };
        let mut requests = shard.lock();
        requests.reserve(1)?;
        *above = token(requests.split(index(*held), low, high));
        Ok(())
    }
}

// SAFETY: a batch gets its nodes while all shards that it touches are locked. Either all its spans
// are held at once, or it is one request that waits as a whole for requests before it (IL-I2,
// IL-I4).
unsafe impl<P: Park> RawRangeLockBatch for IntervalLock<P> {
    unsafe fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), RangeError> {
        let taken = self.core.take_all(batch, tokens, Self::SLEEP);
        taken.map_err(|error| error.in_batch(batch))
    }

    unsafe fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), TryLockError> {
        match self.core.try_take_all(batch, tokens) {
            Ok(true) => Ok(()),
            Ok(false) => Err(TryLockError::WouldBlock),
            Err(error) => Err(error.in_batch(batch).into()),
        }
    }
}

/// A request for several ranges of an [`IntervalLock`] that has not been granted yet.
#[derive(Debug, Default)]
pub struct IntervalBatchRequest {
    /// The tokens of its nodes, once it has nodes.
    waiting: Vec<Token>,
}

// SAFETY: `Ready` is returned only for a request whose spans are all held, as above. A forgotten
// request keeps its nodes.
unsafe impl<P: Park> RawRangeLockBatchWait for IntervalLock<P> {
    type BatchRequest = IntervalBatchRequest;

    unsafe fn poll_batch(
        &self,
        batch: &[(Span, Access)],
        request: Pin<&mut IntervalBatchRequest>,
        waker: &Waker,
        tokens: &mut [Token],
    ) -> Poll<Result<(), RangeError>> {
        let waiting = &mut request.get_mut().waiting;
        let poll = self.core.poll_all(batch, waiting, tokens, waker);
        poll.map_err(|error| error.in_batch(batch))
    }

    unsafe fn cancel_batch(
        &self,
        batch: &[(Span, Access)],
        request: Pin<&mut IntervalBatchRequest>,
    ) {
        self.core.give_up_all(batch, &mut request.get_mut().waiting);
    }
}

#[cfg(feature = "statistics")]
impl<P: Park> spanlock_range_lock::RawRangeLockStatistics for IntervalLock<P> {
    /// Returns the lock's statistics.
    ///
    /// A request that overtakes waiters counts as one overtake, however many they are. An upgrade
    /// that has to wait counts as a wait.
    fn statistics(&self) -> spanlock_range_lock::Statistics {
        self.core.counters.snapshot()
    }
}
