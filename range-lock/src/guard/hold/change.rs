//! Changing a [`Hold`]: downgrades, upgrades, shrinking and splitting.

use core::ops::Range;

use super::{Exclusive, Hold, LockRef, Mode, Readable, Shared, Upgradable};
use crate::capabilities::{
    RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockUpgradeWait,
};
use crate::detect;
use crate::error::PartError;
use crate::raw::{Access, RawRangeLock, Span};

impl<P: LockRef<Lock: RawRangeLockDowngrade>> Hold<P, Exclusive> {
    /// Becomes a reader; no writer gets in between. Never blocks. Ordering: Release.
    pub fn downgrade(self) -> Hold<P, Shared> {
        // SAFETY: the span is held with this access and token.
        self.with(|lock, span, token| unsafe {
            lock.downgrade(span, Access::Write, Access::Read, token)
        })
    }

    /// Becomes an upgradable reader; no writer gets in between. Never blocks. Ordering: Release.
    pub fn downgrade_to_upgradable(self) -> Hold<P, Upgradable> {
        // SAFETY: the span is held with this access and token.
        self.with(|lock, span, token| unsafe {
            lock.downgrade(span, Access::Write, Access::Upgradable, token)
        })
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>> Hold<P, Upgradable> {
    /// Becomes a plain reader. Never blocks.
    pub fn downgrade(self) -> Hold<P, Shared> {
        // SAFETY: the span is held with this access and token.
        self.with(|lock, span, token| unsafe {
            lock.downgrade(span, Access::Upgradable, Access::Read, token)
        })
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgrade>, A: Readable> Hold<P, A> {
    /// Becomes exclusive if no other request holds any part of the range; no writer gets in
    /// between. Never blocks. Ordering: Acquire on success.
    ///
    /// Two plain readers that both retry in a loop block each other for ever. Use upgradable reads
    /// for that.
    ///
    /// # Errors
    /// Returns the hold, unchanged, if another request holds part of the range: a reader or, for
    /// plain readers of `RwDistributed`, perhaps a waiting writer.
    pub fn try_upgrade(mut self) -> Result<Hold<P, Exclusive>, Self> {
        let Some((span, token)) = self.held.take() else {
            return Ok(self.with(|_, _, token| token));
        };
        // SAFETY: the span is held with this access and token.
        let (token, upgraded) = match unsafe { self.lock.raw().try_upgrade(span, A::ACCESS, token) }
        {
            Ok(token) => (token, true),
            Err(token) => (token, false),
        };
        self.held = Some((span, token));
        if upgraded {
            Ok(self.with(|_, _, token| token))
        } else {
            Err(self)
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>> Hold<P, Upgradable> {
    /// Becomes exclusive. Blocks until the readers of every part of the range have left; meanwhile,
    /// new readers are kept out. No writer gets in between. Ordering: Acquire.
    ///
    /// A thread that reads part of the range through another hold waits for itself, for ever.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn upgrade(self) -> Hold<P, Exclusive> {
        if let Some((span, _)) = self.held {
            detect::before(self.lock.raw(), &[(span, Access::Write)], Some(&self.watch));
        }
        // SAFETY: the span is held with this access and token.
        self.with(|lock, span, token| unsafe { lock.upgrade(span, token) })
    }
}

impl<P: LockRef<Lock: RawRangeLockSplit>, A: Mode> Hold<P, A> {
    /// Releases everything but `keep` (positions of the lock), and wakes the waiters that this
    /// unblocks. Never blocks. Ordering: Release.
    ///
    /// The hold keeps `keep` rounded outwards to the lock's granularity, or nothing if `keep` is
    /// empty.
    ///
    /// # Errors
    /// `keep` is reversed, or does not lie within the hold.
    pub fn shrink(&mut self, keep: Range<u64>) -> Result<(), PartError> {
        let kept = self.part(keep)?;
        // Empty `held` while the lock changes the hold. If another request's waker panics, this
        // hold is forgotten instead of being released twice.
        let Some((span, token)) = self.held.take() else {
            return Ok(());
        };
        match kept {
            Some(keep) => {
                self.watch.change(self.lock.raw(), keep, A::ACCESS);
                // SAFETY: the span is held with this access and token, and `part` has checked that
                // `keep` lies within.
                let token = unsafe { self.lock.raw().shrink(span, A::ACCESS, token, keep) };
                self.held = Some((keep, token));
            }
            None => {
                self.watch.end();
                // SAFETY: the span is held with this access and token, and nothing else releases
                // it.
                unsafe { self.lock.raw().unlock(span, A::ACCESS, token) }
            }
        }
        Ok(())
    }

    /// Keeps the part below position `at`, and returns the rest as a hold of its own. Either part
    /// may be empty. Never blocks.
    ///
    /// # Errors
    /// `at` lies before the start or past the end of the hold, or both parts would share a unit of
    /// the lock's granularity.
    pub fn split_off(&mut self, at: u64) -> Result<Self, PartError> {
        self.part(at..at)?;
        let Some((span, token)) = self.held else {
            return Ok(Self::of_nothing(self.lock.clone()));
        };
        let part = |range| Span::new(range).ok().flatten();
        let (low, high) = match (part(span.start()..at), part(at..span.end())) {
            (Some(low), Some(high)) => (low, high),
            (Some(_), None) => return Ok(Self::of_nothing(self.lock.clone())),
            _ => {
                let nothing = Self::of_nothing(self.lock.clone());
                return Ok(core::mem::replace(self, nothing));
            }
        };
        let granularity = self.lock.raw().granularity();
        if !at.is_multiple_of(granularity) {
            return Err(PartError::Unaligned { at, granularity });
        }
        let lock = self.lock.clone();
        self.held = None;
        // SAFETY: the span is held with this access and token; `at` lies strictly within and is a
        // multiple of the granularity.
        let tokens = unsafe { lock.raw().split(span, A::ACCESS, token, at) };
        self.held = Some((low, tokens.0));
        self.watch.change(lock.raw(), low, A::ACCESS);
        let watch = self.watch.split(lock.raw(), high, A::ACCESS);
        Ok(Self::of(lock, high, tokens.1, watch))
    }

    /// Cuts the hold in two at position `at`, like [`split_off`](Self::split_off).
    ///
    /// # Errors
    /// As for [`split_off`](Self::split_off), together with the unchanged hold.
    pub fn split(mut self, at: u64) -> Result<(Self, Self), (Self, PartError)> {
        match self.split_off(at) {
            Ok(above) => Ok((self, above)),
            Err(error) => Err((self, error)),
        }
    }

    /// Returns the span of `range`, which must lie within the hold. Every empty range lies within
    /// an empty hold.
    fn part(&self, range: Range<u64>) -> Result<Option<Span>, PartError> {
        let Range { start, end } = range;
        let part = Span::new(range).map_err(|_| PartError::Reversed { start, end })?;
        let held = self.span().map_or(start..start, Span::range);
        if start < held.start || end > held.end {
            return Err(PartError::Outside {
                start,
                end,
                held_start: held.start,
                held_end: held.end,
            });
        }
        Ok(part)
    }
}
