//! What an [`IntervalLock`] can do with a hold beyond giving it back.
//!
//! Each power changes one request, in one section of the mutex, and with it exactly the counts that this touches (I1 in
//! [`crate::requests`]).

use spanlock::{
    Access, RangeError, RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, RawRangeLockUpgradeWait, Span, Token, TryLockError,
};

use crate::lock::{IntervalLock, index, token};
use crate::requests::{Requests, Wakes};

// SAFETY: the hold stays in the tree and only its access changes, so no writer comes between (I2). Every later hold
// of part of it is granted in a later section of the mutex, the readers that were let in at once included.
unsafe impl RawRangeLockDowngrade for IntervalLock {
    unsafe fn downgrade(&self, _span: Span, _from: Access, to: Access, token: Token) -> Token {
        let mut wakes = Wakes::default();
        let mut requests = self.requests();
        requests.weaken(index(token), to, &mut wakes);
        Self::finish(requests, wakes);
        token
    }
}

// SAFETY: the hold stays in the tree, with an access that every writer conflicts with, so none comes between (I2). A try that
// fails changes nothing.
unsafe impl RawRangeLockUpgrade for IntervalLock {
    unsafe fn try_upgrade(&self, _span: Span, _from: Access, token: Token) -> Result<Token, Token> {
        let upgraded = self.requests().try_upgrade(index(token));
        upgraded.then_some(token).ok_or(token)
    }
}

// SAFETY: as above; while it waits it is in the tree as `Upgrading`, which no grant comes past (I3).
unsafe impl RawRangeLockUpgradeWait for IntervalLock {
    unsafe fn upgrade(&self, _span: Span, token: Token) -> Token {
        let mut requests = self.requests();
        if !requests.upgrade(index(token)) {
            self.wait(requests, index(token));
        }
        token
    }
}

// SAFETY: what is kept is in the tree throughout the section that changes it, and no other section sees the middle of it.
unsafe impl RawRangeLockSplit for IntervalLock {
    unsafe fn shrink(&self, _span: Span, _access: Access, held: Token, keep: Span) -> Token {
        let mut wakes = Wakes::default();
        let mut requests = self.requests();
        let kept = requests.shrink(index(held), keep, &mut wakes);
        Self::finish(requests, wakes);
        token(kept)
    }

    unsafe fn split(&self, span: Span, _access: Access, held: Token, at: u64) -> (Token, Token) {
        let part = |range| match Span::new(range) {
            Ok(Some(part)) => part,
            _ => panic!("{at} does not lie within {span:?}"),
        };
        let (low, high) = (part(span.start()..at), part(at..span.end()));
        let (low, high) = self.requests().split(index(held), low, high);
        (token(low), token(high))
    }
}

// SAFETY: a batch enters the tree in one section of the mutex, and is one request there: held as a whole, or waiting as a whole for
// requests before it (I2, I4).
unsafe impl RawRangeLockBatch for IntervalLock {
    fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), RangeError> {
        // Before anything is taken, so that nothing is taken whose token has no place.
        tokens.reserve(batch.len());
        let mut requests = self.requests();
        if !hold_all(&mut requests, batch, tokens) {
            let mut leader = None;
            requests.queue_all(batch, |index| {
                leader.get_or_insert(index);
                tokens.push(token(index));
            });
            if let Some(leader) = leader {
                self.wait(requests, leader);
            }
        }
        Ok(())
    }

    fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), TryLockError> {
        tokens.reserve(batch.len());
        let held = hold_all(&mut self.requests(), batch, tokens);
        held.then_some(()).ok_or(TryLockError::WouldBlock)
    }
}

/// Holds every span, if nobody is in the way of any.
fn hold_all(requests: &mut Requests, batch: &[(Span, Access)], tokens: &mut Vec<Token>) -> bool {
    let free = (batch.iter()).all(|&(span, access)| requests.admits(span, access));
    if free {
        let held = batch.iter().map(|&(span, how)| requests.hold(span, how));
        tokens.extend(held.map(token));
    }
    free
}
