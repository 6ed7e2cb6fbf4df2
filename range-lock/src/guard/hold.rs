//! [`Hold`]: a held range, implemented once for every access and for borrowed and shared locks.

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Range;

use crate::capabilities::{
    RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockUpgradeWait,
};
use crate::detect::{self, Watch};
use crate::error::{PartError, RangeError, TryLockError};
use crate::raw::{Access, RawRangeLock, Span, Token};

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The pointer by which a hold reaches its lock: `&L`, or `Arc<L>` for an owned hold. The same
/// holds for a [`RangeLock`](crate::RangeLock).
///
/// Sealed: a pointer whose target changed would release a range of a lock that does not hold it.
pub trait LockRef: Clone + Unpin + sealed::Sealed {
    /// The lock's type.
    type Lock: RawRangeLock + ?Sized;

    /// Returns the lock, the same one at each call.
    fn raw(&self) -> &Self::Lock;
}

impl<L: RawRangeLock + ?Sized> sealed::Sealed for &L {}
impl<L: RawRangeLock + ?Sized> LockRef for &L {
    type Lock = L;
    #[inline]
    fn raw(&self) -> &L {
        self
    }
}

impl<L: RawRangeLock + ?Sized> sealed::Sealed for Arc<L> {}
impl<L: RawRangeLock + ?Sized> LockRef for Arc<L> {
    type Lock = L;
    #[inline]
    fn raw(&self) -> &L {
        self
    }
}

/// An [`Access`] as a type, so that a release need not branch on it: [`Shared`], [`Upgradable`] or
/// [`Exclusive`].
pub trait Mode: sealed::Sealed + Send + Sync + Unpin + 'static {
    /// The access that the type stands for.
    const ACCESS: Access;
}

/// A mode that admits readers: [`Shared`] or [`Upgradable`].
pub trait Readable: Mode {}

macro_rules! mode {
    ($name:ident, $access:ident) => {
        #[doc = concat!("[`Access::", stringify!($access), "`] as a type.")]
        #[derive(Debug)]
        pub enum $name {}

        impl sealed::Sealed for $name {}
        impl Mode for $name {
            const ACCESS: Access = Access::$access;
        }
    };
}

mode!(Shared, Read);
mode!(Upgradable, Upgradable);
mode!(Exclusive, Write);

impl Readable for Shared {}
impl Readable for Upgradable {}

/// A hold on a range of the lock that `P` points to. Its aliases are [`ReadHold`],
/// [`UpgradableHold`], [`WriteHold`], and their owned forms. Dropping it releases the range.
///
/// The methods of [`RangeLockExt`](crate::RangeLockExt) are the short way to a borrowed hold. The
/// functions here take any `P`. With an `Arc` they make holds that can be stored, and moved into
/// threads and tasks:
///
/// ```
/// use std::sync::Arc;
/// use spanlock_range_lock::{OwnedWriteHold, RangeLockExt, RwCounter};
///
/// let lock = Arc::new(RwCounter::new());
/// let hold = OwnedWriteHold::lock(lock.clone(), 0..4096)?;
/// let writer = std::thread::spawn(move || drop(hold));
/// writer.join().unwrap();
/// assert!(lock.try_read(0..1).is_ok());
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
#[must_use = "dropping the hold at once releases the range"]
pub struct Hold<P: LockRef, A: Mode> {
    lock: P,
    /// `None` if the range was empty, so that nothing is held. Otherwise only this hold releases
    /// the span.
    held: Option<(Span, Token)>,
    watch: Watch,
    mode: PhantomData<A>,
}

/// A shared hold on a range.
pub type ReadHold<'a, L> = Hold<&'a L, Shared>;
/// A hold on a range that is shared with readers and can become exclusive.
pub type UpgradableHold<'a, L> = Hold<&'a L, Upgradable>;
/// An exclusive hold on a range.
pub type WriteHold<'a, L> = Hold<&'a L, Exclusive>;

/// A [`ReadHold`] that shares ownership of its lock.
pub type OwnedReadHold<L> = Hold<Arc<L>, Shared>;
/// An [`UpgradableHold`] that shares ownership of its lock.
pub type OwnedUpgradableHold<L> = Hold<Arc<L>, Upgradable>;
/// A [`WriteHold`] that shares ownership of its lock.
pub type OwnedWriteHold<L> = Hold<Arc<L>, Exclusive>;

impl<P: LockRef, A: Mode> Hold<P, A> {
    /// Locks `range`; blocks until no conflicting hold is left. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    // Always inlined: returning a hold through memory costs more than locking a free word.
    #[inline(always)]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock(lock: P, range: Range<u64>) -> Result<Self, RangeError> {
        let Some(span) = Span::new(range)? else {
            return Ok(Self::of_nothing(lock));
        };
        detect::before(lock.raw(), &[(span, A::ACCESS)], None);
        let token = lock.raw().lock(span, A::ACCESS)?;
        let watch = Watch::begin(lock.raw(), span, A::ACCESS);
        Ok(Self::of(lock, span, token, watch))
    }

    /// Locks `range` if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; otherwise as for
    /// [`lock`](Self::lock).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock(lock: P, range: Range<u64>) -> Result<Self, TryLockError> {
        let Some(span) = Span::new(range)? else {
            return Ok(Self::of_nothing(lock));
        };
        let token = lock.raw().try_lock(span, A::ACCESS)?;
        let watch = Watch::begin(lock.raw(), span, A::ACCESS);
        Ok(Self::of(lock, span, token, watch))
    }

    /// Returns the held span, or `None` if the range was empty.
    #[inline]
    pub fn span(&self) -> Option<Span> {
        self.held.map(|(span, _)| span)
    }

    /// Returns a hold of an empty range.
    #[inline]
    pub(super) fn of_nothing(lock: P) -> Self {
        Hold {
            lock,
            held: None,
            watch: Watch::none(),
            mode: PhantomData,
        }
    }

    /// Returns the hold that began when `span` was acquired with access `A`, yielding `token`.
    #[inline]
    pub(super) fn of(lock: P, span: Span, token: Token, watch: Watch) -> Self {
        Hold {
            lock,
            held: Some((span, token)),
            watch,
            mode: PhantomData,
        }
    }

    /// Records the hold as acquired by the calling thread.
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub(super) fn watched(mut self) -> Self {
        if let Some((span, _)) = self.held {
            self.watch = Watch::begin(self.lock.raw(), span, A::ACCESS);
        }
        self
    }

    #[inline]
    pub(crate) fn lock_ref(&self) -> &P {
        &self.lock
    }

    /// Changes the access. `change` performs the change and returns the new token.
    fn with<B: Mode>(self, change: impl FnOnce(&P::Lock, Span, Token) -> Token) -> Hold<P, B> {
        let mut hold = ManuallyDrop::new(self);
        let held = hold.held.take();
        // SAFETY: both are moved out once, because `hold` is not dropped; its other fields need no
        // drop.
        let (lock, watch) = unsafe { (core::ptr::read(&hold.lock), core::ptr::read(&hold.watch)) };
        let held = held.map(|(span, token)| {
            let token = change(lock.raw(), span, token);
            watch.change(lock.raw(), span, B::ACCESS);
            (span, token)
        });
        Hold {
            lock,
            held,
            watch,
            mode: PhantomData,
        }
    }
}

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
    /// Becomes exclusive if nobody else holds any part of the range; no writer gets in between.
    /// Never blocks. Ordering: Acquire on success.
    ///
    /// Two plain readers that both retry in a loop block each other for ever. Use upgradable reads
    /// for that.
    ///
    /// # Errors
    /// Returns the hold, unchanged, if another reader holds part of the range.
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
    /// A thread that reads part of the range by another hold waits for itself.
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
    /// `at` lies outside the hold (its end is inside), or both parts would share a unit of the
    /// lock's granularity.
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

    /// Returns the span of `range`, which must lie within the hold. In an empty hold, any empty
    /// range does.
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

impl<P: LockRef, A: Mode> Drop for Hold<P, A> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((span, token)) = self.held {
            self.watch.end();
            // SAFETY: the span is held with this access and token, and nothing else releases it.
            unsafe { self.lock.raw().unlock(span, A::ACCESS, token) }
        }
    }
}

impl<P: LockRef, A: Mode> fmt::Debug for Hold<P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match A::ACCESS {
            Access::Read => "ReadHold",
            Access::Upgradable => "UpgradableHold",
            Access::Write => "WriteHold",
        };
        f.debug_tuple(name).field(&self.span()).finish()
    }
}
