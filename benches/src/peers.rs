//! Locks of other projects as locks of a file.
//!
//! Each one is used as its documentation shows. Features that it lacks are replaced by what a user
//! would write: an exclusive lock serves reads exclusively, and a thread that finds a try-only lock
//! taken yields and tries again.
//!
//! The contract of [`RawRangeLock`] passes a single word from acquisition to release, whereas most
//! of these locks release by dropping a guard. So [`Guarded`] stores the guard in memory that the
//! thread reuses. That costs a few loads and stores, and allocates only for a thread's first hold
//! and for nested ones.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use parking_lot::lock_api::{RawRwLock, RawRwLockUpgrade as _};
use range_lock::{VecRangeLock, VecRangeLockGuard};
use range_mutex::{RangeMutex, RangeMutexGuard};
use spanlock_range_lock::{Access, RangeError, RawRangeLock, Span, Token, TryLockError};

/// The marker that parking_lot's raw lock requires as proof of a hold. It is empty.
type Marker = <parking_lot::RawRwLock as RawRwLock>::SharedGuard;

/// `parking_lot::RwLock`: one lock for a whole file.
pub struct ParkingLot(parking_lot::RawRwLock);

impl ParkingLot {
    /// Creates a lock that nobody holds.
    #[expect(clippy::new_without_default, reason = "used only through `new`")]
    pub const fn new() -> Self {
        ParkingLot(parking_lot::RawRwLock::INIT)
    }
}

// SAFETY: Every hold covers everything. The reader-writer lock excludes conflicting holds and
// orders them, and any thread may release a raw hold. A hold that is never released stays held.
unsafe impl RawRangeLock for ParkingLot {
    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn granularity(&self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn lock(&self, _span: Span, access: Access) -> Result<Token, RangeError> {
        let _marker: Marker = match access {
            Access::Read => self.0.lock_shared(),
            Access::Upgradable => self.0.lock_upgradable(),
            Access::Write => self.0.lock_exclusive(),
        };
        Ok(Token::NONE)
    }

    fn try_lock(&self, _span: Span, access: Access) -> Result<Token, TryLockError> {
        let locked: Option<Marker> = match access {
            Access::Read => self.0.try_lock_shared(),
            Access::Upgradable => self.0.try_lock_upgradable(),
            Access::Write => self.0.try_lock_exclusive(),
        };
        locked.map_or(Err(TryLockError::WouldBlock), |_| Ok(Token::NONE))
    }

    #[inline]
    unsafe fn unlock(&self, _span: Span, access: Access, _token: Token) {
        // SAFETY: The caller releases a hold with this access.
        unsafe {
            match access {
                Access::Read => self.0.unlock_shared(Marker::new()),
                Access::Upgradable => self.0.unlock_upgradable(Marker::new()),
                Access::Write => self.0.unlock_exclusive(Marker::new()),
            }
        }
    }
}

/// A lock whose guards release it on drop.
///
/// # Safety
/// Guards exclude each other as holds of [`RawRangeLock`] do: a guard of `write` conflicts with
/// every guard of an overlapping range. Any thread may drop a guard.
pub unsafe trait Guards: Send + Sync {
    /// An exclusive guard.
    type Write<'a>
    where
        Self: 'a;

    /// A shared guard; exclusive if the lock has no others.
    type Read<'a>
    where
        Self: 'a;

    /// Returns one past the last position that the lock covers.
    fn capacity(&self) -> u64 {
        u64::MAX
    }

    /// Returns the granularity: 1, or `u64::MAX` for a lock without ranges.
    fn granularity(&self) -> u64;

    /// Locks `range` exclusively, unless `waits` is false and it is not free.
    fn write(&self, range: Range<u64>, waits: bool) -> Option<Self::Write<'_>>;

    /// Locks `range` for reading, unless `waits` is false and it is not free.
    fn read(&self, range: Range<u64>, waits: bool) -> Option<Self::Read<'_>>;
}

/// Adapts a lock with guards to [`RawRangeLock`]. Upgradable holds are exclusive.
pub struct Guarded<G>(pub G);

impl<G: Guards> Guarded<G> {
    #[inline]
    fn acquire(
        &self,
        span: Span,
        access: Access,
        waits: bool,
    ) -> Result<Option<Token>, RangeError> {
        let (range, capacity) = (span.range(), self.0.capacity());
        if range.end > capacity {
            let Range { start, end } = range;
            return Err(RangeError::PastCapacity {
                start,
                end,
                capacity,
            });
        }
        Ok(match access {
            Access::Read => self.0.read(range, waits).map(keep),
            Access::Upgradable | Access::Write => self.0.write(range, waits).map(keep),
        })
    }
}

// SAFETY: The implementor of `Guards` promises exclusion, and that any thread may drop a guard. A
// guard exists from acquisition to release: `keep` stores it and `kept` returns it. The guard of a
// forgotten hold is never dropped, so the hold lasts.
unsafe impl<G: Guards> RawRangeLock for Guarded<G> {
    fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    fn granularity(&self) -> u64 {
        self.0.granularity()
    }

    #[inline]
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        let token = self.acquire(span, access, true)?;
        Ok(token.expect("a lock that waits is acquired"))
    }

    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        self.acquire(span, access, false)?
            .ok_or(TryLockError::WouldBlock)
    }

    #[inline]
    unsafe fn unlock(&self, _span: Span, access: Access, token: Token) {
        // SAFETY: The caller passes the token of a hold with this access, once, and `acquire`
        // stored a guard of this type for it.
        unsafe {
            match access {
                Access::Read => drop(kept::<G::Read<'_>>(token)),
                Access::Upgradable | Access::Write => drop(kept::<G::Write<'_>>(token)),
            }
        }
    }
}

/// Memory for a guard.
type Place = MaybeUninit<[u64; 6]>;

thread_local! {
    /// The place that this thread freed last.
    static FREE: Cell<Option<Box<Place>>> = const { Cell::new(None) };
}

/// Stores a guard. The token holds its address.
#[inline]
fn keep<T>(guard: T) -> Token {
    const {
        assert!(size_of::<T>() <= size_of::<Place>() && align_of::<T>() <= align_of::<Place>());
    }
    let place = FREE.take().unwrap_or_else(|| Box::new(Place::uninit()));
    let place = Box::into_raw(place);
    // SAFETY: The place is large and aligned enough, and belongs to this hold alone.
    unsafe { place.cast::<T>().write(guard) };
    Token::new(place.expose_provenance())
}

/// Returns a stored guard.
///
/// # Safety
/// The token is from [`keep`] with the same type, up to lifetimes, and has not been used before.
#[inline]
unsafe fn kept<T>(token: Token) -> T {
    let place = ptr::with_exposed_provenance_mut::<Place>(token.into_word());
    // SAFETY: `keep` wrote a guard of this type there, which is read only here.
    let guard = unsafe { place.cast::<T>().read() };
    // SAFETY: `place` is from `Box::into_raw` in `keep`, and nothing else uses it.
    FREE.set(Some(unsafe { Box::from_raw(place) }));
    guard
}

// SAFETY: A reader-writer lock of everything. On Linux its guards may be dropped by any thread;
// they are not `Send` because of systems where std uses pthread's locks.
unsafe impl Guards for RwLock<()> {
    type Write<'a> = RwLockWriteGuard<'a, ()>;
    type Read<'a> = RwLockReadGuard<'a, ()>;

    fn granularity(&self) -> u64 {
        u64::MAX
    }

    #[inline]
    fn write(&self, _range: Range<u64>, waits: bool) -> Option<Self::Write<'_>> {
        if waits {
            Some(self.write().unwrap_or_else(PoisonError::into_inner))
        } else {
            self.try_write().ok()
        }
    }

    #[inline]
    fn read(&self, _range: Range<u64>, waits: bool) -> Option<Self::Read<'_>> {
        if waits {
            Some(self.read().unwrap_or_else(PoisonError::into_inner))
        } else {
            self.try_read().ok()
        }
    }
}

/// `RangeMutex` of crate `range-mutex`. Its elements are zero-sized, so a range can be in bytes
/// without the lock taking memory for its capacity.
pub type SliceMutex = RangeMutex<(), Vec<()>>;

/// Creates a [`SliceMutex`] for positions below `capacity`.
pub fn slice_mutex(capacity: u64) -> Guarded<SliceMutex> {
    Guarded(RangeMutex::new(sizeless(capacity)))
}

/// Returns a vector of `count` zero-sized elements.
fn sizeless(count: u64) -> Vec<()> {
    // SAFETY: Zero-sized elements need no memory and no initialization. `vec!` would loop over them
    // in a build without optimization.
    unsafe { Vec::from_raw_parts(NonNull::dangling().as_ptr(), count as usize, count as usize) }
}

// SAFETY: Every guard is exclusive and `Send`.
unsafe impl Guards for SliceMutex {
    type Write<'a> = RangeMutexGuard<'a, ()>;
    type Read<'a> = RangeMutexGuard<'a, ()>;

    fn capacity(&self) -> u64 {
        self.len() as u64
    }

    fn granularity(&self) -> u64 {
        1
    }

    #[inline]
    fn write(&self, range: Range<u64>, waits: bool) -> Option<Self::Write<'_>> {
        let range = range.start as usize..range.end as usize;
        if waits {
            Some(self.lock(range))
        } else {
            self.try_lock(range)
        }
    }

    #[inline]
    fn read(&self, range: Range<u64>, waits: bool) -> Option<Self::Read<'_>> {
        Guards::write(self, range, waits)
    }
}

/// `VecRangeLock` of crate `range-lock`, with zero-sized elements.
pub type VecRange = VecRangeLock<()>;

/// Creates a [`VecRange`] for positions below `capacity`.
pub fn vec_range(capacity: u64) -> Guarded<VecRange> {
    Guarded(VecRangeLock::new(sizeless(capacity)))
}

// SAFETY: Every guard is exclusive. It holds a reference to the lock, which is `Sync`, and its
// range, so any thread may drop it; it is not `Send` only because of its elements.
unsafe impl Guards for VecRange {
    type Write<'a> = VecRangeLockGuard<'a, ()>;
    type Read<'a> = VecRangeLockGuard<'a, ()>;

    fn capacity(&self) -> u64 {
        self.data_len() as u64
    }

    fn granularity(&self) -> u64 {
        1
    }

    #[inline]
    fn write(&self, range: Range<u64>, waits: bool) -> Option<Self::Write<'_>> {
        let range = range.start as usize..range.end as usize;
        loop {
            match self.try_lock(range.clone()) {
                Ok(guard) => return Some(guard),
                Err(std::sync::TryLockError::Poisoned(_)) => {
                    unreachable!("no thread panics while it searches the ranges")
                }
                Err(std::sync::TryLockError::WouldBlock) if waits => std::thread::yield_now(),
                Err(std::sync::TryLockError::WouldBlock) => return None,
            }
        }
    }

    #[inline]
    fn read(&self, range: Range<u64>, waits: bool) -> Option<Self::Read<'_>> {
        Guards::write(self, range, waits)
    }
}

#[cfg(test)]
mod tests {
    use spanlock_range_lock::{RangeLockExt, TryLockError};

    use crate::locks::{self, Entry, Visitor};
    use crate::measure;

    use super::*;

    struct Each<F>(F);

    impl<F: FnMut(&'static str, bool, &dyn RawRangeLock)> Visitor for Each<F> {
        fn visit<L: RawRangeLock + 'static>(&mut self, entry: Entry<L>) {
            let lock = (entry.make)(1 << 20).unwrap();
            (self.0)(entry.name, entry.whole_file, &lock);
        }
    }

    #[test]
    fn peers_keep_the_contract_of_a_lock() {
        let mut seen = Vec::new();
        locks::visit_peers(&mut Each(
            |name, whole_file: bool, lock: &dyn RawRangeLock| {
                seen.push(name);
                let shares = lock.try_read(0..4096).and_then(|_held| {
                    let second = lock.try_read(0..4096);
                    second.map(drop)
                });
                let exclusive = ["range-mutex", "range-lock"].contains(&name);
                assert_eq!(shares.is_err(), exclusive, "{name}");
                let held = lock.write(0..4096).unwrap();
                assert_eq!(
                    lock.try_write(4095..4097).unwrap_err(),
                    TryLockError::WouldBlock,
                    "{name}"
                );
                assert_eq!(lock.try_write(4096..8192).is_err(), whole_file, "{name}");
                drop(held);
                drop(lock.try_write(0..1 << 20).unwrap());
                assert_eq!(lock.write(0..u64::MAX).is_err(), !whole_file, "{name}");
            },
        ));
        assert_eq!(seen, ["parking_lot", "std", "range-mutex", "range-lock"]);
    }

    /// Steps that are not atomic are lost if two threads are admitted at once.
    #[test]
    fn peers_exclude_other_threads() {
        locks::visit_peers(&mut Each(|name, _, lock: &dyn RawRangeLock| {
            use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
            let (guarded, counted) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for worker in 0..4 {
                    let spawned = measure::spawn(scope, worker, || {
                        for _ in 0..2_000 {
                            let _held = lock.write(0..10).unwrap();
                            let before = guarded.load(Relaxed);
                            std::hint::spin_loop();
                            guarded.store(before + 1, Relaxed);
                            counted.fetch_add(1, Relaxed);
                        }
                    });
                    spawned.unwrap();
                }
            });
            assert_eq!(guarded.into_inner(), counted.into_inner(), "{name}");
        }));
    }
}
