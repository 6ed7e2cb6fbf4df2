//! The capabilities of an [`IntervalLock`]: downgrade, upgrade, shrink, split, and batches. Each of
//! them changes one request under the mutex, and updates exactly the counts that the change affects
//! (IL-I1 in [`crate::requests`]).

use alloc::vec::Vec;

use spanlock_range_lock::{
    Access, RangeError, RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, RawRangeLockUpgradeWait, Span, Token, TryLockError,
};
use spanlock_sync::Park;

use crate::lock::{IntervalLock, finish, index, token};
use crate::requests::{Requests, Wakes};

// SAFETY: the hold stays in the tree and only its access changes, so no writer is granted in
// between (IL-I2). Every later hold that conflicts with the old one is granted under the mutex
// after this change. That includes the readers that this call admits.
unsafe impl<P: Park> RawRangeLockDowngrade for IntervalLock<P> {
    unsafe fn downgrade(&self, _span: Span, _from: Access, to: Access, token: &mut Token) {
        let mut wakes = Wakes::default();
        let mut requests = self.core.requests();
        requests.downgrade(index(*token), to, &mut wakes);
        finish(requests, wakes);
    }
}

// SAFETY: the hold stays in the tree and conflicts with every writer, so no writer is granted in
// between (IL-I2). A failed try changes nothing.
unsafe impl<P: Park> RawRangeLockUpgrade for IntervalLock<P> {
    unsafe fn try_upgrade(&self, _span: Span, _from: Access, token: Token) -> Result<Token, Token> {
        let upgraded = self.core.requests().try_upgrade(index(token));
        upgraded.then_some(token).ok_or(token)
    }
}

// SAFETY: as above. A waiting upgrade stays in the tree as `Upgrading`, and no grant of a
// conflicting request overtakes it (IL-I3).
unsafe impl<P: Park> RawRangeLockUpgradeWait for IntervalLock<P> {
    unsafe fn upgrade(&self, _span: Span, token: Token) -> Token {
        let mut requests = self.core.requests();
        if !requests.upgrade(index(token)) {
            Self::WAIT(&self.core, requests, index(token));
        }
        token
    }
}

// SAFETY: the kept part is in the tree before and after, and the change happens under the mutex, so
// no other thread sees an intermediate state.
unsafe impl<P: Park> RawRangeLockSplit for IntervalLock<P> {
    unsafe fn shrink(&self, _span: Span, _access: Access, held: &mut Token, keep: Span) {
        let mut wakes = Wakes::default();
        let mut requests = self.core.requests();
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
    ) {
        let part = |range| match Span::new(range) {
            Ok(Some(part)) => part,
            _ => panic!("{at} does not lie within {span:?}"),
        };
        let (low, high) = (part(span.start()..at), part(at..span.end()));
        *above = token(self.core.requests().split(index(*held), low, high));
    }
}

// SAFETY: a batch enters the tree in one critical section of the mutex. Either all its spans are
// held at once, or it is one request that waits as a whole for requests before it (IL-I2, IL-I4).
unsafe impl<P: Park> RawRangeLockBatch for IntervalLock<P> {
    unsafe fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), RangeError> {
        // Reserve before any hold is taken: if this panicked later, holds would lose their tokens.
        tokens.reserve(batch.len());
        let mut requests = self.core.requests();
        if !hold_all(&mut requests, batch, tokens) {
            let mut leader = None;
            requests.queue_all(batch, |index| {
                leader.get_or_insert(index);
                tokens.push(token(index));
            });
            if let Some(leader) = leader {
                Self::WAIT(&self.core, requests, leader);
            }
        }
        self.core.counters.acquisitions(batch.len());
        Ok(())
    }

    unsafe fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), TryLockError> {
        tokens.reserve(batch.len());
        if !hold_all(&mut self.core.requests(), batch, tokens) {
            return Err(TryLockError::WouldBlock);
        }
        self.core.counters.acquisitions(batch.len());
        Ok(())
    }
}

/// Takes every span if none is blocked. Returns whether it took them.
fn hold_all(requests: &mut Requests, batch: &[(Span, Access)], tokens: &mut Vec<Token>) -> bool {
    let free = (batch.iter()).all(|&(span, access)| requests.admits(span, access));
    if free {
        let held = batch.iter().map(|&(span, how)| requests.hold(span, how));
        tokens.extend(held.map(token));
    }
    free
}

#[cfg(feature = "statistics")]
impl<P: Park> spanlock_range_lock::RawRangeLockStatistics for IntervalLock<P> {
    /// Returns the lock's statistics.
    ///
    /// The number of overtakes is always 0. An upgrade that has to wait counts as a wait.
    fn statistics(&self) -> spanlock_range_lock::Statistics {
        self.core.counters.snapshot()
    }
}
