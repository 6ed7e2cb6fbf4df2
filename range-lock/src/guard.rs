//! Guards without data: a hold on a range of something that lives elsewhere.

use core::fmt;
use core::ops::Range;

use crate::error::{RangeError, TryLockError};
use crate::powers::{RawRangeLockDowngrade, RawRangeLockUpgrade};
use crate::raw::{Access, RawRangeLock, Span, Token};

/// `read`, `upgradable_read`, `write`, and their `try_` forms, for every [`RawRangeLock`], `dyn` ones included.
///
/// The guards hold a range of something that the lock does not own: pages of a file, blocks of a
/// device. To lock data that the lock owns, use [`crate::RangeLock`].
///
/// In all of them an empty range holds nothing, never blocks, and is not checked against the capacity.
pub trait RangeLockExt: RawRangeLock {
    /// Holds `range` shared; blocks while a writer holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    #[inline]
    fn read(&self, range: Range<u64>) -> Result<ReadHold<'_, Self>, RangeError> {
        Ok(ReadHold(Hold::take(self, range)?))
    }

    /// Holds `range` shared with readers, with the right to become exclusive later; blocks while a
    /// writer or another upgradable reader holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    #[inline]
    fn upgradable_read(&self, range: Range<u64>) -> Result<UpgradableHold<'_, Self>, RangeError> {
        Ok(UpgradableHold(Hold::take(self, range)?))
    }

    /// Holds `range` exclusively; blocks while anybody holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    #[inline]
    fn write(&self, range: Range<u64>) -> Result<WriteHold<'_, Self>, RangeError> {
        Ok(WriteHold(Hold::take(self, range)?))
    }

    /// Holds `range` shared if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`read`](Self::read).
    #[inline]
    fn try_read(&self, range: Range<u64>) -> Result<ReadHold<'_, Self>, TryLockError> {
        Ok(ReadHold(Hold::try_take(self, range)?))
    }

    /// As [`upgradable_read`](Self::upgradable_read) if that is possible at once; never blocks. Ordering: Acquire
    /// on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`read`](Self::read).
    #[inline]
    fn try_upgradable_read(
        &self,
        range: Range<u64>,
    ) -> Result<UpgradableHold<'_, Self>, TryLockError> {
        Ok(UpgradableHold(Hold::try_take(self, range)?))
    }

    /// Holds `range` exclusively if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`write`](Self::write).
    #[inline]
    fn try_write(&self, range: Range<u64>) -> Result<WriteHold<'_, Self>, TryLockError> {
        Ok(WriteHold(Hold::try_take(self, range)?))
    }
}

impl<L: RawRangeLock + ?Sized> RangeLockExt for L {}

/// A shared hold on a range; dropping it releases the range.
#[must_use = "dropping the hold at once releases the range"]
pub struct ReadHold<'a, L: RawRangeLock + ?Sized>(Hold<'a, L, READ>);

/// A hold on a range that is shared with readers and can become exclusive; dropping it releases the range.
#[must_use = "dropping the hold at once releases the range"]
pub struct UpgradableHold<'a, L: RawRangeLock + ?Sized>(Hold<'a, L, UPGRADABLE>);

/// An exclusive hold on a range; dropping it releases the range.
#[must_use = "dropping the hold at once releases the range"]
pub struct WriteHold<'a, L: RawRangeLock + ?Sized>(Hold<'a, L, WRITE>);

macro_rules! hold {
    ($name:ident) => {
        impl<L: RawRangeLock + ?Sized> $name<'_, L> {
            /// What is held; `None` if the range was empty.
            #[inline]
            pub fn span(&self) -> Option<Span> {
                self.0.held.map(|(span, _)| span)
            }
        }

        impl<L: RawRangeLock + ?Sized> fmt::Debug for $name<'_, L> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name))
                    .field(&self.span())
                    .finish()
            }
        }
    };
}

hold!(ReadHold);
hold!(UpgradableHold);
hold!(WriteHold);

impl<'a, L: RawRangeLockDowngrade + ?Sized> WriteHold<'a, L> {
    /// Goes on as a reader; no writer gets in between. Never blocks. Ordering: Release.
    pub fn downgrade(self) -> ReadHold<'a, L> {
        ReadHold(self.0.downgraded())
    }
}

impl<'a, L: RawRangeLockDowngrade + ?Sized> UpgradableHold<'a, L> {
    /// Goes on as a plain reader. Never blocks.
    pub fn downgrade(self) -> ReadHold<'a, L> {
        ReadHold(self.0.downgraded())
    }
}

impl<'a, L: RawRangeLockUpgrade + ?Sized> UpgradableHold<'a, L> {
    /// Becomes exclusive if nobody else reads any part of it; no writer gets in between. Never blocks.
    /// Ordering: Acquire on success.
    ///
    /// # Errors
    /// Somebody else reads part of it: the hold, unchanged.
    pub fn try_upgrade(self) -> Result<WriteHold<'a, L>, Self> {
        self.0.upgraded().map(WriteHold).map_err(UpgradableHold)
    }
}

impl<'a, L: RawRangeLockUpgrade + ?Sized> ReadHold<'a, L> {
    /// Becomes exclusive if nobody else reads any part of it; no writer gets in between. Never blocks.
    /// Ordering: Acquire on success.
    ///
    /// Two readers that both try in a loop wait for each other for ever: read upgradably instead.
    ///
    /// # Errors
    /// Somebody else reads part of it: the hold, unchanged.
    pub fn try_upgrade(self) -> Result<WriteHold<'a, L>, Self> {
        self.0.upgraded().map(WriteHold).map_err(ReadHold)
    }
}

/// What was taken, and how to give it back. The access is static, so that a release never branches on it.
pub(crate) struct Hold<'a, L: RawRangeLock + ?Sized, const ACCESS: u8> {
    lock: &'a L,
    /// `None`: the range was empty, nothing is held. Otherwise this hold, and nobody else, releases the span.
    held: Option<(Span, Token)>,
}

/// [`Hold`]'s accesses: a const parameter cannot be an [`Access`].
pub(crate) const READ: u8 = 0;
pub(crate) const UPGRADABLE: u8 = 1;
pub(crate) const WRITE: u8 = 2;

impl<'a, L: RawRangeLock + ?Sized, const ACCESS: u8> Hold<'a, L, ACCESS> {
    const ACCESS: Access = match ACCESS {
        READ => Access::Read,
        UPGRADABLE => Access::Upgradable,
        _ => Access::Write,
    };

    #[inline]
    pub(crate) fn take(lock: &'a L, range: Range<u64>) -> Result<Self, RangeError> {
        let held = match Span::new(range)? {
            Some(span) => Some((span, lock.lock(span, Self::ACCESS)?)),
            None => None,
        };
        Ok(Hold { lock, held })
    }

    #[inline]
    pub(crate) fn try_take(lock: &'a L, range: Range<u64>) -> Result<Self, TryLockError> {
        let held = match Span::new(range)? {
            Some(span) => Some((span, lock.try_lock(span, Self::ACCESS)?)),
            None => None,
        };
        Ok(Hold { lock, held })
    }
}

impl<'a, L: RawRangeLock + ?Sized, const ACCESS: u8> Hold<'a, L, ACCESS> {
    /// The lock and what is held, for a hold of another access to go on with.
    fn into_parts(self) -> (&'a L, Option<(Span, Token)>) {
        let hold = core::mem::ManuallyDrop::new(self);
        (hold.lock, hold.held)
    }
}

impl<'a, L: RawRangeLockDowngrade + ?Sized, const ACCESS: u8> Hold<'a, L, ACCESS> {
    fn downgraded(self) -> Hold<'a, L, READ> {
        let (lock, held) = self.into_parts();
        let held = held.map(|(span, token)| {
            // SAFETY: `held` came from `lock` with this access, which is not `Read` in either of the callers.
            (span, unsafe {
                lock.downgrade(span, Self::ACCESS, Access::Read, token)
            })
        });
        Hold { lock, held }
    }
}

impl<'a, L: RawRangeLockUpgrade + ?Sized, const ACCESS: u8> Hold<'a, L, ACCESS> {
    fn upgraded(self) -> Result<Hold<'a, L, WRITE>, Self> {
        let (lock, held) = self.into_parts();
        let Some((span, token)) = held else {
            return Ok(Hold { lock, held });
        };
        // SAFETY: `held` came from `lock` with this access, which is not `Write` in either of the callers.
        match unsafe { lock.try_upgrade(span, Self::ACCESS, token) } {
            Ok(token) => Ok(Hold {
                lock,
                held: Some((span, token)),
            }),
            Err(token) => Err(Hold {
                lock,
                held: Some((span, token)),
            }),
        }
    }
}

impl<L: RawRangeLock + ?Sized, const ACCESS: u8> Drop for Hold<'_, L, ACCESS> {
    #[inline]
    fn drop(&mut self) {
        if let Some((span, token)) = self.held {
            // SAFETY: `held` came from `lock` or `try_lock` with this access, and is released here only.
            unsafe { self.lock.unlock(span, Self::ACCESS, token) }
        }
    }
}
