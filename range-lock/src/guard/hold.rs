//! [`Hold`]: one implementation of holding a range, whatever the access, and however the lock is reached.

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Range;

use crate::detect::{self, Watch};
use crate::error::{PartError, RangeError, TryLockError};
use crate::capabilities::{
    RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, RawRangeLockUpgradeWait,
};
use crate::raw::{Access, RawRangeLock, Span, Token};

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// How a hold reaches its lock: by `&L`, or, owned, by `Arc<L>`; and so for a [`RangeLock`](crate::RangeLock).
///
/// Sealed: a pointer that led to another lock from time to time would release what it does not hold.
pub trait LockRef: Clone + Unpin + sealed::Sealed {
    /// The lock.
    type Lock: RawRangeLock + ?Sized;

    /// The lock; always the same one.
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

/// An [`Access`] as a type, so that a release never branches on it: [`Shared`], [`Upgradable`] or [`Exclusive`].
pub trait Mode: sealed::Sealed + Send + Sync + Unpin + 'static {
    /// The access.
    const ACCESS: Access;
}

/// A mode that lets readers in: [`Shared`] or [`Upgradable`].
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

/// A hold on a range of a lock that is reached by `P`: [`ReadHold`], [`UpgradableHold`], [`WriteHold`], and their owned
/// forms. Dropping it releases the range.
///
/// [`RangeLockExt`](crate::RangeLockExt)'s methods are the short way to a borrowed hold. The functions here take
/// any `P`; with an `Arc` they make holds that can be stored, and moved into threads and tasks:
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
    /// `None`: the range was empty, nothing is held. Otherwise this hold, and nobody else, releases the span.
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

/// A [`ReadHold`] that shares in the ownership of its lock.
pub type OwnedReadHold<L> = Hold<Arc<L>, Shared>;
/// An [`UpgradableHold`] that shares in the ownership of its lock.
pub type OwnedUpgradableHold<L> = Hold<Arc<L>, Upgradable>;
/// A [`WriteHold`] that shares in the ownership of its lock.
pub type OwnedWriteHold<L> = Hold<Arc<L>, Exclusive>;

impl<P: LockRef, A: Mode> Hold<P, A> {
    /// Holds `range`; blocks while there is a hold that conflicts. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    // Always: a hold that is handed over in memory costs more than the locking of a free word.
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

    /// Holds `range` if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`lock`](Self::lock).
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

    /// What is held; `None` if the range was empty.
    #[inline]
    pub fn span(&self) -> Option<Span> {
        self.held.map(|(span, _)| span)
    }

    /// A hold of an empty range.
    #[inline]
    pub(super) fn of_nothing(lock: P) -> Self {
        Hold {
            lock,
            held: None,
            watch: Watch::none(),
            mode: PhantomData,
        }
    }

    /// The hold that taking `span` with `A` has begun, by `token`.
    #[inline]
    pub(super) fn of(lock: P, span: Span, token: Token, watch: Watch) -> Self {
        Hold {
            lock,
            held: Some((span, token)),
            watch,
            mode: PhantomData,
        }
    }

    /// Counts as taken by the calling thread.
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

    /// The hold with another access; `change` makes it one, and gives the token for the one that it is now.
    fn with<B: Mode>(self, change: impl FnOnce(&P::Lock, Span, Token) -> Token) -> Hold<P, B> {
        let mut hold = ManuallyDrop::new(self);
        let held = hold.held.take();
        // SAFETY: both are moved out once, for `hold` is not dropped; what is left of it has no destructor.
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
    /// Goes on as a reader; no writer gets in between. Never blocks. Ordering: Release.
    pub fn downgrade(self) -> Hold<P, Shared> {
        // SAFETY: the span is held with this access and token.
        self.with(|lock, span, token| unsafe {
            lock.downgrade(span, Access::Write, Access::Read, token)
        })
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>> Hold<P, Exclusive> {
    /// Goes on as an upgradable reader; no writer gets in between. Never blocks. Ordering: Release.
    pub fn downgrade_to_upgradable(self) -> Hold<P, Upgradable> {
        // SAFETY: the span is held with this access and token.
        self.with(|lock, span, token| unsafe {
            lock.downgrade(span, Access::Write, Access::Upgradable, token)
        })
    }
}

impl<P: LockRef<Lock: RawRangeLockDowngrade>> Hold<P, Upgradable> {
    /// Goes on as a plain reader. Never blocks.
    pub fn downgrade(self) -> Hold<P, Shared> {
        // SAFETY: the span is held with this access and token.
        self.with(|lock, span, token| unsafe {
            lock.downgrade(span, Access::Upgradable, Access::Read, token)
        })
    }
}

impl<P: LockRef<Lock: RawRangeLockUpgrade>, A: Readable> Hold<P, A> {
    /// Becomes exclusive if nobody else reads any part of it; no writer gets in between. Never blocks.
    /// Ordering: Acquire on success.
    ///
    /// Two plain readers that both try in a loop wait for each other for ever: read upgradably instead.
    ///
    /// # Errors
    /// Somebody else reads part of it: the hold, unchanged.
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
    /// Becomes exclusive; blocks until the readers of any part of it have left, while new ones are kept out. No
    /// writer gets in between. Ordering: Acquire.
    ///
    /// A thread that reads part of it by another hold waits for itself.
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
    /// Gives back all but `keep` (positions of the lock), and lets in whom that unblocks. Never blocks. Ordering: Release.
    ///
    /// What stays held is `keep`, rounded outwards to the lock's granularity; nothing, if it is empty.
    ///
    /// # Errors
    /// `keep` is reversed, or does not lie within what is held.
    pub fn shrink(&mut self, keep: Range<u64>) -> Result<(), PartError> {
        let kept = self.part(keep)?;
        // Not ours until the lock has changed it: a waker of another that panics leaves it forgotten, not released twice.
        let Some((span, token)) = self.held.take() else {
            return Ok(());
        };
        match kept {
            Some(keep) => {
                self.watch.change(self.lock.raw(), keep, A::ACCESS);
                // SAFETY: the span is held with this access and token, and `part` found `keep` to lie within.
                let token = unsafe { self.lock.raw().shrink(span, A::ACCESS, token, keep) };
                self.held = Some((keep, token));
            }
            None => {
                self.watch.end();
                // SAFETY: the span is held with this access and token, and nobody else releases it.
                unsafe { self.lock.raw().unlock(span, A::ACCESS, token) }
            }
        }
        Ok(())
    }

    /// Keeps what lies below the position `at`, and returns what lies from there on as a hold of its own. Either may be empty. Never blocks.
    ///
    /// # Errors
    /// `at` does not lie within what is held (its end included), or both parts would share a unit of the lock's granularity.
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
        // SAFETY: the span is held with this access and token; `at` lies strictly within and is a multiple.
        let tokens = unsafe { lock.raw().split(span, A::ACCESS, token, at) };
        self.held = Some((low, tokens.0));
        self.watch.change(lock.raw(), low, A::ACCESS);
        let watch = self.watch.split(lock.raw(), high, A::ACCESS);
        Ok(Self::of(lock, high, tokens.1, watch))
    }

    /// Cuts it in two at the position `at`, as [`split_off`](Self::split_off).
    ///
    /// # Errors
    /// As [`split_off`](Self::split_off), with the hold, unchanged.
    pub fn split(mut self, at: u64) -> Result<(Self, Self), (Self, PartError)> {
        match self.split_off(at) {
            Ok(above) => Ok((self, above)),
            Err(error) => Err((self, error)),
        }
    }

    /// The span of `range`, which must lie within what is held. An empty hold lies nowhere, so any empty range does.
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
            // SAFETY: the span is held with this access and token, and nobody else releases it.
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
