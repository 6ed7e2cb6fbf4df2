//! The typestates on the way to a publication: [`Written`], [`Flushed`], [`Durable`].
//!
//! Three zero-cost proofs (`Written` carries the bytes it names; the others carry nothing) that are
//! made by a region, used once, and checked by the compiler. The invariants I1…I5 that they stand
//! for are in `region.rs`.
//!
//! Their constructors are public, so that a region can be implemented outside this crate, and
//! `unsafe`, because a token that is not true makes every promise built upon it false.

use core::marker::PhantomData;
use core::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Which region made a [`Written`] token: one value for each region, never used again in this
/// process.
///
/// It keeps a token of one region from being flushed by another, which would write back the wrong
/// lines and still yield a [`Durable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(u64);

impl RegionId {
    /// An identity that no other region of this process has. Made once for each region, when it is
    /// opened; takes a lock for a moment.
    #[allow(
        clippy::new_without_default,
        reason = "each is another: there is no default"
    )]
    pub fn new() -> Self {
        // A plain lock in every world: it guards no checker's object, and nothing waits while
        // holding it.
        static LAST: Mutex<u64> = Mutex::new(0);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        Self(*last)
    }
}

/// Not `Send`, not `Sync`: flushes and fences count only on the thread that made them (I4).
type BoundToThread = PhantomData<*const ()>;

/// Bytes that are written and not yet flushed. Bound to its thread.
///
/// Used once:
///
/// ```compile_fail,E0382
/// # use spanlock_pmem::{Flushed, Pmem, Written};
/// fn flush_twice(region: &dyn Pmem, written: Written) -> Flushed {
///     region.flush(written).and(region.flush(written))
/// }
/// ```
#[derive(Debug)]
#[must_use = "written bytes are not durable until flushed and fenced"]
pub struct Written {
    region: RegionId,
    range: Range<u64>,
    _thread: BoundToThread,
}

impl Written {
    /// The token of the bytes `range` of `region`. For those who implement [`Pmem`](crate::Pmem).
    ///
    /// # Safety
    /// I1: `range` is in order and inside the region, and this thread has just stored these bytes.
    #[inline]
    pub unsafe fn new(region: RegionId, range: Range<u64>) -> Self {
        Self {
            region,
            range,
            _thread: PhantomData,
        }
    }

    /// Takes the token apart, to flush it: the bytes it names. For those who implement
    /// [`Pmem`](crate::Pmem).
    ///
    /// # Panics
    /// When the token was made by a region other than `region`.
    #[inline]
    #[track_caller]
    pub fn into_range(self, region: RegionId) -> Range<u64> {
        assert!(
            self.region == region,
            "the written bytes {:?} belong to another region",
            self.range
        );
        self.range
    }
}

/// Bytes whose write-back has begun. Bound to its thread: one thread's fence does nothing for the
/// flushes of another.
///
/// Several make one, under one fence:
///
/// ```
/// # use spanlock_pmem::{Durable, Pmem, Written};
/// fn both(region: &dyn Pmem, data: Written, entry: Written) -> Durable {
///     let flushed = region.flush(data).and(region.flush(entry));
///     region.fence(flushed)
/// }
/// ```
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// # use spanlock_pmem::{Flushed, Pmem};
/// fn fence_elsewhere(region: &dyn Pmem, flushed: Flushed) {
///     std::thread::scope(|scope| {
///         scope.spawn(move || region.fence(flushed));
///     });
/// }
/// ```
///
/// where a [`Durable`] may leave it:
///
/// ```
/// # use spanlock_pmem::{Durable, Pmem};
/// fn publish_elsewhere(region: &dyn Pmem, durable: Durable) {
///     std::thread::scope(|scope| {
///         scope.spawn(move || {
///             let mark = region.publish(0, 1, durable);
///             region.persist(mark);
///         });
///     });
/// }
/// ```
///
/// And it is fenced once:
///
/// ```compile_fail,E0382
/// # use spanlock_pmem::{Flushed, Pmem};
/// fn fence_twice(region: &dyn Pmem, flushed: Flushed) {
///     region.fence(flushed);
///     region.fence(flushed);
/// }
/// ```
#[derive(Debug)]
#[must_use = "flushed bytes are not durable until fenced"]
pub struct Flushed {
    _thread: BoundToThread,
}

impl Flushed {
    /// The token of a write-back. For those who implement [`Pmem`](crate::Pmem).
    ///
    /// # Safety
    /// I2: the write-back of every line that the token stands for has begun, on this thread.
    #[inline]
    pub unsafe fn new() -> Self {
        Self {
            _thread: PhantomData,
        }
    }

    /// No flush at all: what [`and`](Flushed::and) starts from in a loop.
    ///
    /// ```
    /// # use spanlock_pmem::{Flushed, Pmem, Written};
    /// fn flush_all(region: &dyn Pmem, all: Vec<Written>) -> Flushed {
    ///     all.into_iter().fold(Flushed::nothing(), |flushed, one| flushed.and(region.flush(one)))
    /// }
    /// ```
    #[inline]
    pub fn nothing() -> Self {
        Self {
            _thread: PhantomData,
        }
    }

    /// Both, to be fenced together. Costs nothing.
    #[inline]
    pub fn and(self, _other: Flushed) -> Flushed {
        // I2 holds for each of the two, and they are of one thread, or they could not meet (I4).
        self
    }
}

/// The proof that bytes are durable, wanted by [`Pmem::publish`](crate::Pmem::publish).
///
/// Used once, for one publication:
///
/// ```compile_fail,E0382
/// # use spanlock_pmem::{Durable, Flushed, Pmem};
/// fn publish_twice(region: &dyn Pmem, durable: Durable) -> Flushed {
///     let first = region.publish(0, 1, durable);
///     let second = region.publish(8, 1, durable);
///     region.flush(first).and(region.flush(second))
/// }
/// ```
#[derive(Debug)]
pub struct Durable {
    _private: (),
}

impl Durable {
    /// The token of a fence. For those who implement [`Pmem`](crate::Pmem).
    ///
    /// # Safety
    /// I3: this thread has fenced, after every flush that the token stands for.
    #[inline]
    pub unsafe fn new() -> Self {
        Self { _private: () }
    }

    /// For publications that depend on nothing written since the region was opened: a counter, a
    /// flag, a pointer to what recovery found in place.
    ///
    /// Opening a region makes durable whatever it finds there (a killed process may have left
    /// stores that were visible and not yet durable), so what recovery reads may be built upon.
    #[inline]
    pub fn at_rest() -> Self {
        Self { _private: () }
    }

    /// Both, for a publication that relies on the two. Costs nothing.
    #[inline]
    pub fn and(self, _other: Durable) -> Durable {
        self
    }
}
