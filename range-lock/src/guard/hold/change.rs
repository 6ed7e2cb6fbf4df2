//! Changing a [`Hold`]: downgrades, upgrades, shrinking and splitting.
//!
//! A change may wake waiters, whose wakers may panic. So the hold always says what the lock holds:
//! its span and its access change before the lock is called, and the lock stores the new token
//! before it runs a waker. A failed upgrade leaves both as they were.

use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use spanlock_sync::injected_bug;

#[cfg(feature = "std")]
use super::super::deadline::{Limit, block_on};

use super::{Exclusive, Hold, LockRef, Mode, Readable, Shared, Upgradable};
use crate::capabilities::{
    RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockUpgradeWait,
};
use crate::detect::{self, Call};
use crate::error::PartError;
use crate::positions::{Bounds, IntoRange, in_hold};
use crate::raw::{Access, RawRangeLock, Span, Token};

impl<P: LockRef<Lock: RawRangeLockDowngrade>> Hold<P, Exclusive> {
    /// Becomes a reader; no writer gets in between. Never blocks. Ordering: Release.
    pub fn downgrade(self) -> Hold<P, Shared> {
        self.downgraded(Access::Write)
    }

    /// Becomes an upgradable reader; no writer gets in between. Never blocks. Ordering: Release.
    pub fn downgrade_to_upgradable(self) -> Hold<P, Upgradable> {
        self.downgraded(Access::Write)
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>> Hold<P, Upgradable> {
    /// Becomes a plain reader. Never blocks.
    pub fn downgrade(self) -> Hold<P, Shared> {
        self.downgraded(Access::Upgradable)
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>, A: Mode> Hold<P, A> {
    /// Becomes a hold with `B`, which excludes less than `from`. `from` is the access `A`.
    fn downgraded<B: Readable>(self, from: Access) -> Hold<P, B> {
        debug_assert!(from == A::ACCESS && B::ACCESS < from);
        let mut hold = self.into_mode::<B>();
        if injected_bug!(
            "downgrades-before-it-holds",
            "a hold records its span only after its downgrade has woken waiters",
            killed_by = "downgrade-unwinds"
        ) {
            if let Some((span, mut token)) = hold.held.take() {
                // SAFETY: as below.
                unsafe { (hold.lock.raw()).downgrade(span, from, B::ACCESS, &mut token) };
                hold.held = Some((span, token));
            }
            return hold;
        }
        if let Some((span, token)) = &mut hold.held {
            // SAFETY: the span is held with `from` and this token. Afterwards it is held with `B`,
            // even after a panic.
            unsafe { (hold.lock.raw()).downgrade(*span, from, B::ACCESS, token) };
        }
        hold
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
        let Some((span, token)) = self.held else {
            return Ok(self.into_mode());
        };
        // SAFETY: the span is held with this access and token, also after a panic.
        match unsafe { self.lock.raw().try_upgrade(span, A::ACCESS, token) } {
            Ok(token) => {
                self.held = Some((span, token));
                Ok(self.into_mode())
            }
            Err(token) => {
                self.held = Some((span, token));
                Err(self)
            }
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>> Hold<P, Upgradable> {
    /// Becomes exclusive. Blocks until the readers of every part of the range have left; meanwhile,
    /// new readers are kept out. No writer gets in between. Ordering: Acquire.
    ///
    /// A thread that reads part of the range through another hold waits for itself, for ever.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn upgrade(mut self) -> Hold<P, Exclusive> {
        if let Some((span, token)) = self.held {
            let wanted = [(span, Access::Write)];
            let _waiting = detect::before(self.lock.raw(), &wanted, Call::Upgrade(&self.watch));
            // SAFETY: the span is held with this access and token, also after a panic.
            self.held = Some((span, unsafe { self.lock.raw().upgrade(span, token) }));
        }
        self.into_mode()
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>> Hold<P, Upgradable> {
    /// Becomes exclusive; blocks like [`upgrade`](Self::upgrade), for at most `timeout`. A timeout
    /// too long for the clock never ends. Ordering: Acquire on success.
    ///
    /// # Errors
    /// Returns the hold if the readers have not left in time. It is upgradable as before, and
    /// readers that it kept out meanwhile proceed.
    #[cfg(feature = "std")]
    pub fn try_upgrade_for(self, timeout: Duration) -> Result<Hold<P, Exclusive>, Self> {
        self.upgrade_within(Limit::For(timeout))
    }

    /// Becomes exclusive; blocks like [`upgrade`](Self::upgrade), until `deadline` at the latest. A
    /// deadline in the past makes this a try. Ordering: Acquire on success.
    ///
    /// # Errors
    /// As for [`try_upgrade_for`](Self::try_upgrade_for).
    #[cfg(feature = "std")]
    pub fn try_upgrade_until(self, deadline: Instant) -> Result<Hold<P, Exclusive>, Self> {
        self.upgrade_within(Limit::Until(deadline))
    }

    #[cfg(feature = "std")]
    fn upgrade_within(self, limit: Limit) -> Result<Hold<P, Exclusive>, Self> {
        self.try_upgrade().or_else(|hold| {
            let Ok(deadline) = limit.deadline() else {
                return Err(hold);
            };
            let mut upgrade = hold.upgrade_async();
            match block_on(&mut upgrade, deadline) {
                Some(hold) => Ok(hold),
                None => Err(upgrade.cancel().expect("not completed")),
            }
        })
    }

    /// Returns a future that makes the hold exclusive. It keeps new readers out from its first poll
    /// on, and never blocks a thread. Dropping it gives up the upgrade and releases the hold;
    /// [`UpgradeFuture::cancel`] returns the hold instead.
    pub fn upgrade_async(self) -> UpgradeFuture<P> {
        UpgradeFuture {
            hold: Some(self),
            waits: false,
        }
    }
}

/// A future that resolves to an exclusive hold; see [`Hold::upgrade_async`].
///
/// # Panics
/// Panics when polled after completion.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct UpgradeFuture<P: LockRef<Lock: RawRangeLockUpgradeWait>> {
    /// `None` after completion.
    hold: Option<Hold<P, Upgradable>>,
    /// Whether the hold waits in the lock.
    waits: bool,
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>> UpgradeFuture<P> {
    /// Gives up the upgrade and returns the hold, which is upgradable as before; `None` after
    /// completion. Readers that only the upgrade kept out proceed.
    pub fn cancel(mut self) -> Option<Hold<P, Upgradable>> {
        self.withdraw();
        self.hold.take()
    }

    fn withdraw(&mut self) {
        let held = self
            .hold
            .as_ref()
            .and_then(|hold| Some((hold.lock.raw(), hold.held?)));
        if let (Some((lock, (span, token))), true) = (held, core::mem::take(&mut self.waits)) {
            // SAFETY: the hold waits for this upgrade. It is upgradable again, even after a panic.
            unsafe { lock.cancel_upgrade(span, token) }
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>> Future for UpgradeFuture<P> {
    type Output = Hold<P, Exclusive>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let UpgradeFuture { hold, waits } = &mut *self;
        let waiting = hold
            .as_mut()
            .expect("`UpgradeFuture` polled after completion");
        if let Some((span, token)) = &mut waiting.held {
            let (raw, waker) = (waiting.lock.raw(), context.waker());
            // SAFETY: the span is held with `Upgradable` and this token, and nothing else uses the
            // hold until the upgrade is granted or cancelled.
            *token = ready!(unsafe { raw.poll_upgrade(*span, *token, waits, waker) });
        }
        let hold = hold.take().expect("present at the start of this poll");
        Poll::Ready(hold.into_mode())
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgradeWait>> Drop for UpgradeFuture<P> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl<P: LockRef<Lock: RawRangeLockSplit>, A: Mode> Hold<P, A> {
    /// Releases everything but `keep` (positions of the lock), and wakes the waiters that this
    /// unblocks. Never blocks. Ordering: Release.
    ///
    /// The hold keeps `keep` rounded outwards to the lock's granularity, or nothing if `keep` is
    /// empty. If a waker panics, the hold keeps the same part.
    ///
    /// # Errors
    /// `keep` is reversed, or does not lie within the hold.
    pub fn shrink(&mut self, keep: impl IntoRange) -> Result<(), PartError> {
        let kept = self.part(keep.bounds()?)?;
        self.keep(kept);
        Ok(())
    }

    /// Releases everything but `kept`, which lies within the hold.
    fn keep(&mut self, kept: Option<Span>) {
        // Taken out first: the part that is released below must not be released again.
        let Some((span, token)) = self.held.take() else {
            return;
        };
        match kept {
            Some(keep) => {
                self.watch.change(self.lock.raw(), keep, A::ACCESS, token);
                let (_, token) = self.held.insert((keep, token));
                if injected_bug!(
                    "shrinks-before-it-holds",
                    "a hold records what it keeps only after its shrink has woken waiters",
                    killed_by = "shrink-unwinds"
                ) {
                    let mut token = *token;
                    self.held = None;
                    // SAFETY: as below.
                    unsafe { self.lock.raw().shrink(span, A::ACCESS, &mut token, keep) };
                    self.held = Some((keep, token));
                    return;
                }
                // SAFETY: the span is held with this access and token, and `part` has checked that
                // `keep` lies within. Afterwards `keep` is held by the stored token, even after a
                // panic.
                unsafe { self.lock.raw().shrink(span, A::ACCESS, token, keep) };
                self.watch.change(self.lock.raw(), keep, A::ACCESS, *token);
            }
            None => {
                self.watch.end();
                // SAFETY: the span is held with this access and token, and nothing else releases
                // it.
                unsafe { self.lock.raw().unlock(span, A::ACCESS, token) }
            }
        }
    }

    /// Keeps the part below position `at`, and returns the rest as a hold of its own. Either part
    /// may be empty. Never blocks. If a waker panics, the hold keeps the lower part, and the upper
    /// one is released.
    ///
    /// # Errors
    /// `at` lies before the start or past the end of the hold, both parts would share a unit of the
    /// lock's granularity, or there is no memory. The hold is unchanged.
    pub fn split_off(&mut self, at: u64) -> Result<Self, PartError> {
        self.part((at..at).bounds()?)?;
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
        if at % granularity != 0 {
            return Err(PartError::Unaligned { at, granularity });
        }
        self.watch.change(self.lock.raw(), low, A::ACCESS, token);
        let watch = self.watch.split(self.lock.raw(), high, A::ACCESS);
        let mut above = Self::of(self.lock.clone(), high, Token::NONE, watch);
        let (_, lower) = self.held.insert((low, token));
        let (_, upper) = above.held.insert((high, Token::NONE));
        // SAFETY: the span is held with this access and token; `at` lies strictly within and is a
        // multiple of the granularity. Afterwards each part is held by its stored token, even after
        // a panic.
        let split = unsafe { (self.lock.raw()).split(span, A::ACCESS, lower, at, upper) };
        if split.is_err() {
            // The hold is unchanged.
            above.held = None;
            above.watch.end();
            self.held = Some((span, token));
            self.watch.change(self.lock.raw(), span, A::ACCESS, token);
            return Err(PartError::Memory { at });
        }
        self.watch.change(self.lock.raw(), low, A::ACCESS, *lower);
        (above.watch).change(above.lock.raw(), high, A::ACCESS, *upper);
        Ok(above)
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

    /// Returns the span of `part`, which must lie within the hold. Every empty range lies within an
    /// empty hold.
    fn part(&self, part: Bounds) -> Result<Option<Span>, PartError> {
        let held = self.span().map_or(part.as_empty(), Span::range);
        let Range { start, end } = in_hold(part, held)?;
        Span::new(start..end).map_err(|_| PartError::Reversed { start, end })
    }
}
