//! [`RangeLock`]: a range lock with the slice that it protects.

mod batch;
mod guard;
mod mapped;
mod memory;
mod verbs;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

pub use batch::RangeBatchGuard;
pub use guard::{
    OwnedRangeReadGuard, OwnedRangeUpgradableGuard, OwnedRangeWriteGuard, RangeGuard,
    RangeReadGuard, RangeUpgradableGuard, RangeWriteGuard, SliceRef,
};

pub use mapped::{ElementGuard, MappedRangeGuard};
pub use memory::{Elements, Foreign, Memory};

use crate::error::RangeError;
use crate::raw::RawRangeLock;

/// A slice of `T` behind a range lock. A guard is the `&[T]` or `&mut [T]` of the range that it
/// holds.
///
/// Ranges are in elements. The lock may make disjoint ranges conflict, too:
/// [`RwCounter`](crate::RwCounter) treats every range as the whole slice, and a segment lock rounds
/// to its segments.
///
/// ```
/// use spanlock_range_lock::{RangeLock, RwCounter};
///
/// let pixels = RangeLock::with_lock(vec![0u8; 100], RwCounter::new())?;
/// pixels.write(10..20)?.fill(7);
/// assert_eq!(pixels.read(9..11)?[..], [0, 7]);
/// assert_eq!(pixels.into_inner()[19], 7);
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
///
/// # The elements
/// | made by | the elements are in | `M` |
/// |---|---|---|
/// | [`new`](Self::new), [`with_lock`](Self::with_lock), `From` | memory of the lock | `Box<[T]>` |
/// | [`borrowed`](RangeLock::borrowed) | a slice of the caller | `&mut [T]` |
/// | [`from_raw`](RangeLock::from_raw) (unsafe) | mapped, aligned, foreign memory | [`Foreign`] |
///
/// A reference to a slice is not accepted where elements are owned, because the lock would own a
/// copy:
///
/// ```compile_fail,E0277
/// use spanlock_range_lock::{RangeLock, RwCounter};
///
/// let mut plane = [0_u8; 100];
/// let lock = RangeLock::with_lock(&mut plane[..], RwCounter::new());
/// ```
///
/// # After a panic
/// A lock is not poisoned: a guard that a panic drops releases its range, and elements that were
/// half written stay so. If that matters, write under the guard what tells the two apart. All locks
/// are [`UnwindSafe`] and [`RefUnwindSafe`] on these terms.
///
/// # Invariants
/// - **RL-I1** `data` and `len` are those of a leaked `Box<[T]>` that this lock owns, of a slice
///   that it has borrowed mutably, or of memory that the caller of `from_raw` vouches for. With
///   `kept` they are what [`Memory::give_back`] needs.
/// - **RL-I2** A reference into `data` exists only inside a guard, for the span that the guard
///   holds. It is `&mut` only in an exclusive guard, or for a part that a [`RangeBatchGuard`] holds
///   exclusively. So by the exclusion of [`RawRangeLock`] no `&mut [T]` overlaps another reference,
///   and by its visibility each guard sees what earlier guards wrote.
/// - **RL-I3** A `RangeLock<T>` is never used as a `RangeLock<U>`, not even for a `U` with a
///   shorter lifetime. A shared reference to the lock can write elements, so it is invariant in
///   `T`, like a `Mutex`.
/// - **RL-I4** The elements of a guard lie within its hold, at every moment at which foreign code
///   can run. A method that shrinks both shrinks the elements first: a release wakes waiters, and a
///   waker that panics ends the method early.
pub struct RangeLock<T, L: RawRangeLock, M: Memory<T> = Box<[T]>> {
    lock: L,
    data: NonNull<T>,
    len: usize,
    /// Initialized until the lock is dropped or taken apart.
    kept: MaybeUninit<M::Kept>,
    /// Makes the lock invariant in `T` (RL-I3), and says that it drops `T`s and an `M`.
    owns: PhantomData<(Cell<T>, M)>,
}

// SAFETY: the lock owns the elements, and lends them to one thread at a time or shares them. What
// it keeps is `Send`.
unsafe impl<T: Send, L: RawRangeLock, M: Memory<T>> Send for RangeLock<T, L, M> {}
// SAFETY: `&RangeLock` lends `&mut T` (needs `Send`) and `&T` to several threads (needs `Sync`),
// and nothing that it keeps.
unsafe impl<T: Send + Sync, L: RawRangeLock, M: Memory<T>> Sync for RangeLock<T, L, M> {}

impl<T, L: RawRangeLock, M: Memory<T>> UnwindSafe for RangeLock<T, L, M> {}
impl<T, L: RawRangeLock, M: Memory<T>> RefUnwindSafe for RangeLock<T, L, M> {}

/// Says which lock [`RangeLock::new`] uses. `spanlock-interval-lock` names its lock, and nothing
/// else may name another: with two, the compiler could not choose.
#[doc(hidden)]
#[derive(Debug)]
pub enum DefaultLock {}

/// See [`DefaultLock`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`RangeLock::new` makes a lock of exact ranges, an `IntervalLock`, and no other",
    note = "for another lock, call `RangeLock::with_lock`",
    note = "if the program does not use `spanlock-interval-lock`, there is no default lock"
)]
pub trait Names<L> {}

impl<T, L: RawRangeLock + Default> RangeLock<T, L>
where
    DefaultLock: Names<L>,
{
    /// Puts elements behind a lock of exact ranges, the `IntervalLock` of
    /// [`spanlock-interval-lock`](https://docs.rs/spanlock-interval-lock). For another lock, call
    /// [`with_lock`](Self::with_lock).
    pub fn new(data: impl Elements<T>) -> Self {
        Self::by_default(data.into_boxed())
    }
}

impl<T, L: RawRangeLock + Default> RangeLock<T, L> {
    fn by_default(data: Box<[T]>) -> Self {
        match Self::with_lock(data, L::default()) {
            Ok(lock) => lock,
            Err(error) => panic!("the default lock is too small for the elements: {error}"),
        }
    }
}

macro_rules! from {
    ($elements:ty $(, $n:ident)?) => {
        impl<T, L: RawRangeLock + Default $(, const $n: usize)?> From<$elements>
            for RangeLock<T, L>
        {
            /// Puts the elements behind the lock that `L::default` makes.
            ///
            /// # Panics
            /// Panics if that lock covers fewer positions than there are elements. The locks of
            /// Spanlock cover all positions then.
            fn from(data: $elements) -> Self {
                Self::by_default(data.into())
            }
        }
    };
}

from!(Vec<T>);
from!(Box<[T]>);
from!([T; N], N);

impl<T, L: RawRangeLock> RangeLock<T, L> {
    /// Puts elements that the lock then owns behind `lock`.
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if the lock covers fewer positions than there are elements.
    pub fn with_lock(data: impl Elements<T>, lock: L) -> Result<Self, RangeError> {
        let data = data.into_boxed();
        Self::fits(data.len(), &lock)?;
        Ok(Self::from_parts(NonNull::from(Box::leak(data)), (), lock))
    }
}

impl<T, L: RawRangeLock, M: Memory<T>> RangeLock<T, L, M> {
    fn fits(len: usize, lock: &L) -> Result<(), RangeError> {
        let (start, end, capacity) = (0, len as u64, lock.capacity());
        if end <= capacity {
            return Ok(());
        }
        Err(RangeError::PastCapacity {
            start,
            end,
            capacity,
        })
    }

    fn from_parts(data: NonNull<[T]>, kept: M::Kept, lock: L) -> Self {
        RangeLock {
            lock,
            data: data.cast(),
            len: data.len(),
            kept: MaybeUninit::new(kept),
            owns: PhantomData,
        }
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the lock.
    #[inline]
    pub fn raw(&self) -> &L {
        &self.lock
    }

    /// Returns the elements without locking: `&mut` proves that nobody holds any.
    pub fn get_mut(&mut self) -> &mut [T] {
        // SAFETY: RL-I1; `&mut self` excludes every guard, so by RL-I2 no other reference exists.
        unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }

    /// Consumes the lock and returns the elements: the box, the borrowed slice, or the owner of
    /// foreign memory.
    pub fn into_inner(self) -> M {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the lock is moved out once.
        drop(unsafe { core::ptr::read(&this.lock) });
        // SAFETY: `this` is never dropped, so the memory is taken out once.
        unsafe { this.give_back() }
    }

    /// # Safety
    /// Called once, and nobody uses the elements afterwards.
    unsafe fn give_back(&self) -> M {
        let data = NonNull::slice_from_raw_parts(self.data, self.len);
        // SAFETY: RL-I1; the caller's promise.
        unsafe { M::give_back(data, self.kept.assume_init_read()) }
    }
}

impl<T, L: RawRangeLock, M: Memory<T>> Drop for RangeLock<T, L, M> {
    fn drop(&mut self) {
        // SAFETY: `&mut self` excludes every guard, and nothing uses the elements after this.
        drop(unsafe { self.give_back() });
    }
}

impl<T, L: RawRangeLock, M: Memory<T>> fmt::Debug for RangeLock<T, L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeLock")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
