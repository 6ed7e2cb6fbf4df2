//! [`Hold`]: a held range, implemented once for every access and for borrowed and shared locks.
//!
//! This file has the type and every way to lock a range; `hold/append.rs` locks at a moving end,
//! and `hold/change.rs` changes a hold.
//!
//! ```text
//!                      upgrade, try_upgrade
//!         ┌─────────────────────────────────────────────┐
//!         │           downgrade_to_upgradable           ▼
//!   Hold<P, Upgradable> ◄──────────────────── Hold<P, Exclusive>
//!         │ downgrade                                │  ▲
//!         ▼                       downgrade          │  │
//!   Hold<P, Shared> ◄────────────────────────────────┘  │
//!         └─────────────────────────────────────────────┘
//!                           try_upgrade
//! ```
//!
//! In every state, `shrink` and `split` cut the range, and dropping the hold releases it.

mod append;
mod change;

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

#[cfg(feature = "std")]
use super::deadline::{Limit, block_on};
use super::wait::LockFuture;
use crate::capabilities::RawRangeLockWait;
use crate::detect::{self, Call, Watch};
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{RangeError, TryLockError};
use crate::positions::{IntoRange, span_in};
use crate::raw::{Access, RawRangeLock, Span, Token};

pub use change::UpgradeFuture;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The pointer by which a hold reaches its lock: `&L`; for an owned hold `Arc<L>`, or a
/// [`LockField`](crate::LockField) if the lock is a part of something shared. A pointer to a
/// [`RangeLock`](crate::RangeLock) serves as well.
///
/// Sealed, because a pointer whose target changes would release a range in the wrong lock.
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
/// A change or a release may wake waiters, and wakers are foreign code. If a waker panics, the hold
/// is what it would have been without the panic: [`shrink`](Self::shrink) and
/// [`split_off`](Self::split_off) have cut it. A method that consumes the hold releases it then.
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
    /// A reversed range, one past the lock's capacity, or no memory.
    // Always inlined: returning a hold through memory costs more than locking a free word.
    #[inline(always)]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock(lock: P, range: impl IntoRange) -> Result<Self, RangeError> {
        let span = span_in(range, lock.raw())?;
        Self::lock_span(lock, span)
    }

    #[inline(always)]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn lock_span(lock: P, span: Option<Span>) -> Result<Self, RangeError> {
        let Some(span) = span else {
            return Ok(Self::of_nothing(lock));
        };
        let token = {
            let _waiting = detect::before(lock.raw(), &[(span, A::ACCESS)], Call::Lock);
            lock.raw().lock(span, A::ACCESS)?
        };
        let watch = Watch::begin(lock.raw(), span, A::ACCESS, token);
        Ok(Self::of(lock, span, token, watch))
    }

    /// Locks `range` if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; otherwise as for
    /// [`lock`](Self::lock).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock(lock: P, range: impl IntoRange) -> Result<Self, TryLockError> {
        let span = span_in(range, lock.raw())?;
        Self::try_lock_span(lock, span)
    }

    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_lock_span(lock: P, span: Option<Span>) -> Result<Self, TryLockError> {
        let Some(span) = span else {
            return Ok(Self::of_nothing(lock));
        };
        detect::check_home(lock.raw());
        let token = lock.raw().try_lock(span, A::ACCESS)?;
        let watch = Watch::begin(lock.raw(), span, A::ACCESS, token);
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
    fn watched(mut self) -> Self {
        if let Some((span, token)) = self.held {
            self.watch = Watch::begin(self.lock.raw(), span, A::ACCESS, token);
        }
        self
    }

    #[inline]
    pub(crate) fn lock_ref(&self) -> &P {
        &self.lock
    }

    /// Returns this hold as one with access `B`. The caller ensures that the lock holds the span
    /// with `B` before the result is used or dropped.
    fn into_mode<B: Mode>(self) -> Hold<P, B> {
        let hold = ManuallyDrop::new(self);
        // SAFETY: both are moved out once, because `hold` is not dropped; its other fields need no
        // drop.
        let (lock, watch) = unsafe { (core::ptr::read(&hold.lock), core::ptr::read(&hold.watch)) };
        if let Some((span, token)) = hold.held {
            watch.change(lock.raw(), span, B::ACCESS, token);
        }
        Hold {
            lock,
            held: hold.held,
            watch,
            mode: PhantomData,
        }
    }
}

impl<P: LockRef<Lock: RawRangeLockWait>, A: Mode> Hold<P, A> {
    /// Returns a future that locks `range`. Never blocks.
    pub fn lock_async(lock: P, range: impl IntoRange) -> LockFuture<P, A> {
        let span = span_in(range, lock.raw());
        LockFuture::new(lock, span)
    }

    /// Locks `range`; blocks until no conflicting hold is left, for at most `timeout`. A timeout
    /// too long for the clock never ends. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_for(
        lock: P,
        range: impl IntoRange,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        let span = span_in(range, lock.raw())?;
        Self::wait(lock, span, Limit::For(timeout))
    }

    /// Locks `range`; blocks until no conflicting hold is left or `deadline` has passed. A
    /// deadline in the past makes this a try. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_until(
        lock: P,
        range: impl IntoRange,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        let span = span_in(range, lock.raw())?;
        Self::wait(lock, span, Limit::Until(deadline))
    }

    /// Tries first, and waits until the deadline, if any, only if the try fails. So an uncontended
    /// request does not read the clock.
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn wait(lock: P, span: Option<Span>, limit: Limit) -> Result<Self, TimedLockError> {
        match Self::try_lock_span(lock.clone(), span) {
            Err(TryLockError::WouldBlock) => {}
            done => return Ok(done?),
        }
        let deadline = limit.deadline()?;
        // `block_on` drops the future at the deadline, which gives up the request.
        let request = LockFuture::new(lock, Ok(span));
        let taken = block_on(request, deadline).ok_or(TimedLockError::TimedOut)?;
        Ok(taken?.watched())
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
