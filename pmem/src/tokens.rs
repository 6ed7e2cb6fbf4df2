//! The typestates on the way to a publication: [`Written`], [`Flushed`], [`Durable`].
//!
//! A region makes these three proofs. The compiler checks that each is used at most once. `Written`
//! carries the range of bytes it names; the others carry nothing. [`Unflushed`] is a `Written` on
//! the way to another thread. `region.rs` has the invariants
//! PM-I1…PM-I5 that they stand for.
//!
//! Their constructors are public, so that regions can be implemented outside this crate. They are
//! `unsafe`, because a false token makes every promise that relies on it false.

use core::marker::PhantomData;
use core::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The identity of the region that made a [`Written`] token. No two regions of a process have the
/// same.
///
/// It prevents one region from flushing another's token, which would write back the wrong lines and
/// still yield a [`Durable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(u64);

impl RegionId {
    /// Creates an identity that no other region of this process has. Called once for each region,
    /// when it is opened. Locks a mutex for a moment.
    #[allow(
        clippy::new_without_default,
        reason = "every identity differs, so there is no default"
    )]
    pub fn new() -> Self {
        // A std mutex even under a checker: it guards nothing that a checker models, and no thread
        // waits while it holds the mutex.
        static LAST: Mutex<u64> = Mutex::new(0);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        Self(*last)
    }
}

/// Neither `Send` nor `Sync`: flushes and fences count only on the thread that made them (PM-I4).
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
    /// Creates the token of the bytes `range` of `region`. For implementations of
    /// [`Pmem`](crate::Pmem).
    ///
    /// # Safety
    /// PM-I1: `range` is in order and inside the region, and this thread has just stored these
    /// bytes.
    #[inline]
    pub unsafe fn new(region: RegionId, range: Range<u64>) -> Self {
        Self {
            region,
            range,
            _thread: PhantomData,
        }
    }

    /// Returns the bytes that the token names. For implementations of [`Pmem`](crate::Pmem) that
    /// wrap another region and count what it writes back.
    #[inline]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Consumes the token, to flush it, and returns the bytes it names. For implementations of
    /// [`Pmem`](crate::Pmem).
    ///
    /// # Panics
    /// If a region other than `region` made the token.
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

impl Written {
    /// Lets another thread flush the bytes.
    pub fn detach(self) -> Unflushed {
        Unflushed {
            region: self.region,
            range: self.range,
        }
    }
}

/// Bytes that are written and not yet flushed, on the way to the thread that will flush them.
///
/// Whatever brings the token to another thread orders the stores before that thread's flush, and a
/// flush writes back a line with all stores to it that come before, whichever thread made them. So
/// one thread can make durable what several have written:
///
/// ```
/// # use spanlock_pmem::{Durable, Flushed, Pmem, Unflushed};
/// fn persist_all(region: &dyn Pmem, written: Vec<Unflushed>) -> Durable {
///     let flushes = written.into_iter().map(|it| region.flush(it.attach()));
///     region.fence(flushes.fold(Flushed::nothing(), Flushed::and))
/// }
/// ```
#[derive(Debug)]
#[must_use = "written bytes are not durable until flushed and fenced"]
pub struct Unflushed {
    region: RegionId,
    range: Range<u64>,
}

impl Unflushed {
    /// Binds the token to the current thread.
    pub fn attach(self) -> Written {
        Written {
            region: self.region,
            range: self.range,
            _thread: PhantomData,
        }
    }
}

/// Bytes whose write-back has begun. Bound to its thread: one thread's fence does nothing for the
/// flushes of another.
///
/// Several tokens merge into one, under one fence:
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
/// A [`Durable`] may leave its thread:
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
/// A `Flushed` is fenced once:
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
    /// Creates the token of a write-back. For implementations of [`Pmem`](crate::Pmem).
    ///
    /// # Safety
    /// PM-I2: this thread has begun the write-back of every line that the token stands for.
    #[inline]
    pub unsafe fn new() -> Self {
        Self {
            _thread: PhantomData,
        }
    }

    /// Creates the token of no flush at all, from which a loop with [`and`](Flushed::and) starts.
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

    /// Merges two tokens, to be fenced together. Costs nothing.
    #[inline]
    pub fn and(self, _other: Flushed) -> Flushed {
        // PM-I2 holds for both, and both belong to one thread, because tokens do not leave their
        // thread (PM-I4).
        self
    }
}

/// The proof that bytes are durable, which [`Pmem::publish`](crate::Pmem::publish) requires.
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
    /// Creates the token of a fence. For implementations of [`Pmem`](crate::Pmem).
    ///
    /// # Safety
    /// PM-I3: this thread has fenced, after every flush that the token stands for.
    #[inline]
    pub unsafe fn new() -> Self {
        Self { _private: () }
    }

    /// Creates a token for publications that depend on nothing written since the region was opened:
    /// a counter, a flag, a pointer to data that recovery found.
    ///
    /// Opening a region makes its contents durable, because a killed process may have left stores
    /// that were visible and not yet durable. Publications may therefore rely on what recovery
    /// reads.
    #[inline]
    pub fn at_rest() -> Self {
        Self { _private: () }
    }

    /// Merges two proofs, for a publication that relies on both. Costs nothing.
    #[inline]
    pub fn and(self, _other: Durable) -> Durable {
        self
    }

    /// Returns the proof twice, for two publications that rely on it. Costs nothing.
    #[inline]
    pub fn split(self) -> (Durable, Durable) {
        let same = Durable { _private: () };
        (self, same)
    }
}
